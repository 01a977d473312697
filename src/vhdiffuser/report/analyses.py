"""Tables and figures of the analyses (`vhd analyse`), made from `RESULTS/analysis/NAME.json` alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.drawing import new_figure, save_figure
from vhdiffuser.report.comparison import Column, Comparison
from vhdiffuser.report.paper import PROTOCOL_LABELS

FOLDER = "analysis"
"""Subfolder of the analyses in a results folder."""

Rows = Sequence[Mapping[str, Any]]
_WHO = (Column("environment", "environment"), Column("arm", "planner"))
_OUTCOME = (
    Column("n", "n", ","),
    Column("success_rate", "SR", ".1%"),
    Column("low", "95 % from", ".1%"),
    Column("high", "to", ".1%"),
    Column("average_executed_steps", "AES", ".1f"),
    Column("spl", "SPL", ".3f"),
    Column("mean_length", "mean length of first plan", ".0f"),
)


@dataclass(frozen=True)
class Analysis:
    """How one analysis is stored and shown."""

    name: str
    """Name on the command line, and of its file."""
    title: str
    """Heading of its table and figure."""
    says: str
    """What is compared, in one or two sentences."""
    key: tuple[str, ...]
    """Fields that identify a row."""
    columns: tuple[Column, ...]
    """Columns of its table."""
    draw: Callable[[Rows, str, Path], Path] | None = None
    """Draws the rows of one environment: (rows, environment, path) -> path."""

    def table(self, results: Path) -> Comparison:
        """The table in a results folder; `put` adds rows."""
        return Comparison(results / FOLDER / f"{self.name}.json", self.key, self.columns, f"{self.title}. {self.says}")

    def figures(self, results: Path, out: Path) -> list[tuple[str, Path]]:
        """(environment, file) of each figure that the rows allow."""
        rows = self.table(results).rows
        drawn = []
        for environment in dict.fromkeys(str(row["environment"]) for row in rows):
            own = [row for row in rows if row["environment"] == environment]
            if self.draw is not None:
                drawn.append(
                    (environment, self.draw(own, environment, out / f"{environment}-analysis-{self.name}.png"))
                )
        return drawn


def _panels(
    rows: Rows, environment: str, path: Path, x: str, label: str, values: Sequence[tuple[str, str, float]]
) -> Path:
    """One panel per (key, title, factor) that some row has, one line per arm and protocol, over the value `x`; success
    rates with their intervals."""
    known = [value for value in values if any(row.get(value[0]) is not None for row in rows)]
    figure, panels = new_figure(1, len(known))
    arms = list(dict.fromkeys(str(row["arm"]) for row in rows))
    for axes, (key, title, factor) in zip(panels, known, strict=True):
        for number, arm in enumerate(arms):
            for protocol, style in (("ss", "--"), ("rp", "-")):
                own = [row for row in rows if (row["arm"], row["protocol"]) == (arm, protocol)]
                own = sorted((row for row in own if row.get(key) is not None), key=lambda row: row[x])
                if not own:
                    continue
                at = [row[x] for row in own]
                name, colour = f"{arm} ({PROTOCOL_LABELS[protocol]})", f"C{number}"
                axes.plot(at, [factor * row[key] for row in own], style, marker=".", color=colour, label=name)
                if key == "success_rate":
                    low, high = ([factor * row[end] for row in own] for end in ("low", "high"))
                    axes.fill_between(at, low, high, color=colour, alpha=0.12, linewidth=0)
        axes.set_ylim(bottom=0, top=102 if key == "success_rate" else None)
        axes.set_xlabel(label)
        axes.set_ylabel(title)
        axes.grid(alpha=0.3)
    panels[0].legend(fontsize=6)
    figure.suptitle(environment, fontsize=9)
    return save_figure(figure, path)


def _draw_mismatch(rows: Rows, environment: str, path: Path) -> Path:
    values = (("success_rate", "SR [%]", 100.0), ("spl", "SPL", 1.0))
    return _panels(rows, environment, path, "scale", "lambda (times L_hat or H)", values)


def _draw_curve(rows: Rows, environment: str, path: Path) -> Path:
    values = (("success_rate", "SR [%]", 100.0), ("average_executed_steps", "AES [steps]", 1.0))
    return _panels(rows, environment, path, "updates", "updates", values)


def _draw_bars(rows: Rows, environment: str, path: Path, group: str, bar: str, title: str, axis: str = "") -> Path:
    """Grouped bars of the success rate with intervals; hatched where the rows say that training has not seen the
    like."""
    groups, bars = (list(dict.fromkeys(str(row[key]) for row in rows)) for key in (group, bar))
    figure, (axes,) = new_figure(1, 1, size=4.6)
    for number, name in enumerate(bars):
        own = {str(row[group]): row for row in rows if str(row[bar]) == name}
        x = np.array([groups.index(key) for key in own]) + (number - (len(bars) - 1) / 2) * 0.8 / len(bars)
        height = np.array([100 * row["success_rate"] for row in own.values()])
        ends = np.array([[100 * row["low"], 100 * row["high"]] for row in own.values()]).T
        error = np.maximum(np.stack([height - ends[0], ends[1] - height]), 0)
        axes.bar(0, 0, color=f"C{number}", label=name)  # in the legend without hatching
        drawn = axes.bar(x, height, width=0.75 / len(bars), yerr=error, capsize=2, color=f"C{number}")
        for patch, row in zip(drawn, own.values(), strict=True):
            if row.get("seen", "yes") != "yes":
                patch.set(hatch="///", edgecolor="white")
    axes.set_xticks(range(len(groups)), groups, fontsize=7)
    axes.set_xlabel(axis)
    axes.set_ylabel("SR [%]")
    axes.set_title(f"{environment}: {title}", fontsize=9)
    axes.legend(fontsize=7)
    return save_figure(figure, path)


def _draw_crops(rows: Rows, environment: str, path: Path) -> Path:
    labelled = [
        {**row, "under": f"{row['predictor']} predictor,\n{PROTOCOL_LABELS[str(row['protocol'])]}"} for row in rows
    ]
    return _draw_bars(labelled, environment, path, "under", "arm", "crops of random and of fixed length")


def _draw_lengths(rows: Rows, environment: str, path: Path) -> Path:
    title, axis = "lengths not seen in training are hatched", "length of the plan (states)"
    return _draw_bars(rows, environment, path, "band", "arm", title, axis)


def _draw_strides(rows: Rows, environment: str, path: Path) -> Path:
    labelled = [{**row, "under": f"{row['arm']},\n{PROTOCOL_LABELS[str(row['protocol'])]}"} for row in rows]
    named = [{**row, "network": f"stride {row['stride']}"} for row in labelled]
    return _draw_bars(named, environment, path, "under", "network", "fixed crops, by stride")


CROPS = Analysis(
    "crops",
    "Effect of variable-length training",
    "The same Length Predictor sets the length; the planner was trained on crops of random length, or of the "
    "fixed length H2.",
    ("environment", "arm", "predictor", "protocol"),
    (*_WHO, Column("predictor", "predictor"), Column("protocol", "protocol"), *_OUTCOME),
    _draw_crops,
)
MISMATCH = Analysis(
    "mismatch",
    "Robustness to length mismatch",
    "Plans of lambda times their usual length: L_hat where it is predicted (VHD, FH+LP), otherwise the planner's own "
    "horizon.",
    ("environment", "arm", "protocol", "scale"),
    (*_WHO, Column("protocol", "protocol"), Column("scale", "lambda", ".2f"), *_OUTCOME),
    _draw_mismatch,
)
LENGTHS = Analysis(
    "lengths",
    "Length generalisation",
    "Single-shot success by the length of the plan, for planners that saw all lengths, none beyond T_max / 2, none "
    "from T_max / 4 to T_max / 2, or one length only.",
    ("environment", "arm", "band"),
    (
        *_WHO,
        Column("band", "lengths planned (states)"),
        Column("seen", "seen in training"),
        *_OUTCOME,
    ),
    _draw_lengths,
)
STRIDES = Analysis(
    "strides",
    "Fixed crops and the stride",
    "One network per stride (control steps between the knots of a plan), trained on crops of the fixed length H2 "
    "alone: used at predicted lengths (FH+LP), and at H2 itself.",
    ("environment", "arm", "stride", "protocol"),
    (
        *_WHO,
        Column("stride", "stride"),
        Column("protocol", "protocol"),
        Column("updates", "updates", ","),
        Column("batch_size", "batch"),
        *_OUTCOME,
    ),
    _draw_strides,
)
SEEDS = Analysis(
    "seeds",
    "Training seeds",
    "VHD, with planner and Length Predictor trained again from other seeds, on the same instances; seed 0 is the one "
    "that ships.",
    ("environment", "arm", "training_seed", "protocol"),
    (*_WHO, Column("training_seed", "training seed"), Column("protocol", "protocol"), *_OUTCOME),
)
CURVE = Analysis(
    "curve",
    "Learning curves",
    "Success and executed steps against updates, from the snapshots of a training.",
    ("environment", "arm", "protocol", "updates"),
    (*_WHO, Column("protocol", "protocol"), Column("updates", "updates", ","), *_OUTCOME),
    _draw_curve,
)
TERMS = Analysis(
    "terms",
    "Ablation of the Length Predictor",
    "The default and the paper's recipe, without one part at a time, on random pairs that training never saw.",
    ("environment", "arm", "seed"),
    (
        Column("environment", "environment"),
        Column("arm", "variant"),
        Column("change", "what differs"),
        Column("seed", "seed"),
        Column("updates", "updates", ","),
        Column("phase_3_from", "phase III from", ","),
        Column("spearman", "Spearman, all", ".3f"),
        Column("spearman_far", "far pairs", ".3f"),
        Column("mean_abs_error_steps", "mean abs. error (steps)", ".1f"),
        Column("mean_error_steps", "mean error", "+.1f"),
        Column("under_predicted", "under-predicted", ".1%"),
        Column("triangle_violations", "triangle violations", ".1%"),
        Column("mean_f_gg_steps", "f(g, g) (steps)", ".2f"),
    ),
)
ANALYSES = {analysis.name: analysis for analysis in (CROPS, STRIDES, MISMATCH, LENGTHS, TERMS, SEEDS, CURVE)}
"""Analyses by name, in the order of the report."""
