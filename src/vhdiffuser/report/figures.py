"""Figures of the report, made from rows and saved rollouts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.drawing import (
    FIXED_COLOUR,
    METHOD_COLOURS,
    PLAN_COLOUR,
    add_legend,
    axis_labels,
    draw_ends,
    draw_maze,
    draw_path,
    new_figure,
    save_figure,
)
from vhdiffuser.report.paper import METHOD_LABELS, PROTOCOL_LABELS
from vhdiffuser.results.rollout_files import KeptRollout, PlanSheet
from vhdiffuser.results.rows import Row
from vhdiffuser.results.summary import Summary, wilson_interval


def length_mismatch(sheet: PlanSheet, path: Path) -> Path:
    """Fig. 1: plans of one pair at different lengths, by planners of these horizons or by one planner."""
    figure, panels = new_figure(1, len(sheet.plans))
    for axes, places in zip(panels, sheet.plans, strict=True):
        draw_maze(axes, sheet.walls, axis_labels(sheet.environment))
        draw_path(axes, places, marker=".", markersize=2, linewidth=1, label="plan")
        draw_ends(axes, places[0], sheet.goal)
        axes.set_title(f"{sheet.planner} at L = {len(places)}" if sheet.planner else f"FH-{len(places)}", fontsize=9)
    add_legend(figure, panels)
    title = f"{sheet.environment}: one start-goal pair at different lengths"
    figure.suptitle(f"{title}; {sheet.rule}" if sheet.rule else title, fontsize=8)
    return save_figure(figure, path)


def case_study(rollouts: Mapping[str, KeptRollout], config: Mapping[str, Any], path: Path) -> Path:
    """Fig. 3: one pair with replanning, one panel per method; plans in grey, the executed path in colour."""
    figure, panels = new_figure(2, 2)
    environment, goal_dims = config["environment"], list(config["goal_dims"])
    labels, tolerance = axis_labels(environment), config["epsilon"] * np.asarray(config["scale"])[:2]
    for axes in panels[len(rollouts) :]:
        axes.set_axis_off()
    for axes, (method, kept) in zip(panels, rollouts.items(), strict=False):
        draw_maze(axes, config["walls"], labels)
        for _, places in kept.plans:
            draw_path(axes, places, color=PLAN_COLOUR, linewidth=0.6, alpha=0.7, label="plan")
        executed = kept.states[:, goal_dims]
        draw_path(axes, executed, color=METHOD_COLOURS.get(method, "black"), label="executed")
        draw_ends(axes, executed[0], kept.instance.goal, tolerance)
        steps, replans = len(kept.states) - 1, len(kept.plans) - 1
        label = METHOD_LABELS.get(method, method)
        if method.startswith("fh-h"):
            label = f"FH-{len(kept.plans[0][1])}"
        outcome = "hit" if kept.success else "missed"
        axes.set_title(f"{label}: {steps} steps, {replans} replan{'s' * (replans != 1)}, {outcome}", fontsize=9)
    add_legend(figure, panels)
    return save_figure(figure, path)


def horizon_curve(
    summaries: Sequence[Summary], horizons: Mapping[str, int | None], rows: Sequence[Row], path: Path
) -> Path:
    """SR and AES of the fixed horizons, with VHD at its mean first length.

    `horizons` maps methods to fixed horizons; `summaries` and `rows` are of one environment.
    """
    figure, panels = new_figure(1, 2)
    for protocol, style in (("ss", "--"), ("rp", "-")):
        cells = {item.method: item for item in summaries if item.protocol == protocol}
        fixed = sorted((horizon, cells[method]) for method, horizon in horizons.items() if horizon and method in cells)
        label = PROTOCOL_LABELS[protocol]
        for axes, value in zip(panels, (_sr_bar, _aes_bar), strict=True):
            if fixed:
                _errorbar(
                    axes,
                    [h for h, _ in fixed],
                    [value(item) for _, item in fixed],
                    f"FH ({label})",
                    style,
                    colour=FIXED_COLOUR,
                )
            if "vhd" in cells:
                lengths = [row.planned_length for row in rows if (row.method, row.protocol) == ("vhd", protocol)]
                marker, point = "*" if protocol == "rp" else "D", [value(cells["vhd"])]
                _errorbar(axes, [float(np.mean(lengths))], point, f"VHD ({label})", "", marker, METHOD_COLOURS["vhd"])
    _label_panels(panels, "length of the first plan (VHD: mean)")
    return save_figure(figure, path)


def gamma_sensitivity(cells: Sequence[tuple[float, Summary]], path: Path) -> Path:
    """SR and AES of VHD against gamma: (gamma, summary) pairs of one environment."""
    figure, panels = new_figure(1, 2)
    for protocol, style in (("ss", "--"), ("rp", "-")):
        points = sorted(((gamma, item) for gamma, item in cells if item.protocol == protocol), key=lambda p: p[0])
        if not points:
            continue
        for axes, value in zip(panels, (_sr_bar, _aes_bar), strict=True):
            bars = [value(item) for _, item in points]
            label = f"VHD ({PROTOCOL_LABELS[protocol]})"
            marker = "o" if protocol == "rp" else "s"
            _errorbar(axes, [gamma for gamma, _ in points], bars, label, style, marker, METHOD_COLOURS["vhd"])
    _label_panels(panels, "gamma")
    return save_figure(figure, path)


def geodesic_success(rows: Sequence[Row], protocol: str, path: Path, bins: int = 6) -> Path:
    """SR by true distance between start and goal, one line per method; bins of equal count."""
    known = [row for row in rows if row.geodesic is not None and row.protocol == protocol]
    distances = np.array([row.geodesic for row in known], float)
    edges = np.unique(np.quantile(distances, np.linspace(0, 1, bins + 1)))
    member = np.clip(np.searchsorted(edges, distances, side="right") - 1, 0, max(len(edges) - 2, 0))
    methods, hits = np.array([row.method for row in known]), np.array([row.success for row in known])
    figure, (axes,) = new_figure(1, 1, size=4.6)
    labels = METHOD_LABELS | {name: name for name in dict.fromkeys(methods.tolist()) if name not in METHOD_LABELS}
    drawn = [name for name in labels if name in methods]
    for order, method in enumerate(drawn):
        # Offset, so that the intervals do not overlap.
        aside = (order - (len(drawn) - 1) / 2) * 0.012 * float(np.ptp(distances))
        x, bars = [], []
        for number in np.unique(member):
            chosen = (methods == method) & (member == number)
            if chosen.any():
                low, high = wilson_interval(int(hits[chosen].sum()), int(chosen.sum()))
                x.append(float(distances[chosen].mean()) + aside)
                bars.append((100 * float(hits[chosen].mean()), 100 * low, 100 * high))
        _errorbar(axes, x, bars, labels[method], "-", colour=METHOD_COLOURS.get(method))
    (label,) = axis_labels(known[0].environment if known else "", ("geodesic distance",))
    axes.set_xlabel(label)
    axes.set_ylabel(f"SR ({PROTOCOL_LABELS.get(protocol, protocol)}) [%]")
    axes.set_ylim(-3, 103)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    return save_figure(figure, path)


def choose_case(rows: Sequence[Row], methods: Sequence[str], numbers: Sequence[int]) -> int | None:
    """The saved instance with the longest geodesic distance among those that all methods have run (the first of
    equals).

    The pair must not be chosen by the methods' outcomes. Without geodesics, VHD's L_hat is used.
    """
    found = {(row.method, row.instance): row for row in rows if row.protocol == "rp"}
    shared = [number for number in numbers if all((method, number) in found for method in methods)]
    own = [found[methods[0], number] for number in shared]
    far = [row.predicted_length or 0 if row.geodesic is None else row.geodesic for row in own]
    return shared[int(np.argmax(far))] if shared else None


def _sr_bar(item: Summary) -> tuple[float, float, float]:
    low, high = item.success_rate_interval
    return 100 * item.success_rate, 100 * low, 100 * high


def _aes_bar(item: Summary) -> tuple[float, float, float]:
    return (item.average_executed_steps, *item.average_executed_steps_interval)


def _label_panels(panels: Sequence[Any], x: str) -> None:
    """Labels of a panel with SR and one with AES."""
    for axes, y in zip(panels, ("SR [%]", "AES [steps]"), strict=True):
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, handlelength=4)


def _errorbar(
    axes: Any,
    x: Sequence[float],
    bars: Sequence[tuple[float, float, float]],
    label: str,
    style: str,
    marker: str = "o",
    colour: str | None = None,
) -> None:
    """Draw values with (value, low, high) intervals."""
    value, low, high = np.array(bars).T
    below, above = np.maximum(value - low, 0), np.maximum(high - value, 0)
    axes.errorbar(
        x,
        value,
        yerr=[below, above],
        label=label,
        linestyle=style,
        marker=marker,
        color=colour,
        capsize=2,
        markersize=6,
    )
