"""Results of a sweep: a table, and a parallel-coordinates plot."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.drawing import save_figure
from vhdiffuser.files import atomic_path

_GAP = 0.04
"""Margin above and below the values, as a fraction of an axis."""


def columns_of(results: Sequence[dict[str, Any]], protocols: Sequence[str]) -> tuple[list[str], list[list[Any]]]:
    """Headings and rows: environment, fields, seed, then success rate with its interval and steps by protocol."""
    fields = list(results[0]["values"]) if results else []
    heading = ["environment", *fields, "seed"]
    for protocol in protocols:
        heading += [f"SR % {protocol}", f"95 % {protocol}", f"AES {protocol}"]
    rows = []
    for result in results:
        row = [result["environment"], *(result["values"][name] for name in fields), result["seed"]]
        for protocol in protocols:
            cell = result[protocol]
            low, high = (100 * value for value in cell["success_rate_interval"])
            row += [f"{100 * cell['success_rate']:.1f}", f"{low:.1f}..{high:.1f}", f"{cell['steps']:.1f}"]
        rows.append(row)
    return heading, rows


def write_sweep(folder: Path, results: Sequence[dict[str, Any]], protocols: Sequence[str]) -> list[Path]:
    """Write `table.md`, `table.csv` and `parallel.png`; returns their paths."""
    heading, rows = columns_of(results, protocols)
    lines = [heading, ["---"] * len(heading), *rows]
    markdown = "\n".join("| " + " | ".join(str(value) for value in line) + " |" for line in lines) + "\n"
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([heading, *rows])
    for name, content in (("table.md", markdown), ("table.csv", text.getvalue())):
        with atomic_path(folder / name) as temporary:
            temporary.write_text(content, encoding="utf-8")
    draw_parallel(results, protocols[0], folder / "parallel.png")
    return [folder / name for name in ("table.md", "table.csv", "parallel.png")]


def draw_parallel(results: Sequence[dict[str, Any]], protocol: str, path: Path) -> None:
    """Parallel coordinates: each line is a point, its colour the success rate."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    axes = [("environment", [result["environment"] for result in results])]
    axes += [(name, [result["values"][name] for result in results]) for name in results[0]["values"]]
    axes += [("seed", [result["seed"] for result in results])]
    axes = [(name, values) for name, values in axes if len({str(value) for value in values}) > 1]
    rates = np.array([100 * result[protocol]["success_rate"] for result in results])
    varied = len(axes)
    axes += [(f"SR % ({protocol})", rates.tolist())]
    axes += [(f"AES ({protocol})", [result[protocol]["steps"] for result in results])]
    figure = Figure(figsize=(2.2 * max(len(axes), 2) + 1.5, 4.5), layout="constrained")
    plot = figure.add_subplot()
    scale = Normalize(min(rates.min(), rates.max() - 1), rates.max())
    heights = []
    for x, (_, values) in enumerate(axes):
        places, ticks = _axis(values, measured=x >= varied)
        heights.append(places)
        plot.axvline(x, color="0.6", linewidth=1, zorder=1)
        for place, label in ticks:
            plot.annotate(label, (x, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)
    for number, rate in enumerate(rates):
        colour = colormaps["viridis"](scale(rate))
        plot.plot(range(len(axes)), [places[number] for places in heights], color=colour, alpha=0.8, zorder=2)
    plot.set_xticks(range(len(axes)), [name for name, _ in axes], rotation=20, ha="right")
    plot.set_yticks([])
    plot.set_xlim(-0.2, len(axes) - 0.5)
    for side in ("top", "right", "left", "bottom"):
        plot.spines[side].set_visible(False)
    figure.colorbar(ScalarMappable(scale, "viridis"), ax=plot, label=f"success rate in %, {protocol}")
    save_figure(figure, path)


def _axis(values: Sequence[Any], measured: bool = False) -> tuple[list[float], list[tuple[float, str]]]:
    """Heights of values on an axis from 0 to 1, and its ticks. Few values are spaced evenly; many of them, and those
    that were measured, by magnitude."""
    distinct = sorted(
        set(values), key=lambda value: (isinstance(value, str), value if _is_number(value) else str(value))
    )
    if len(distinct) == 1:
        return [0.5] * len(values), [(0.5, _shown(distinct[0]))]
    if not all(_is_number(value) for value in distinct) or (len(distinct) <= 8 and not measured):
        span = len(distinct) - 1
        height = {str(value): _GAP + (1 - 2 * _GAP) * number / span for number, value in enumerate(distinct)}
        return [height[str(value)] for value in values], [(height[str(value)], _shown(value)) for value in distinct]
    low, high = float(distinct[0]), float(distinct[-1])
    heights = [_GAP + (1 - 2 * _GAP) * (float(value) - low) / (high - low) for value in values]
    ticks = [(_GAP + (1 - 2 * _GAP) * share, _shown(low + share * (high - low))) for share in (0, 0.25, 0.5, 0.75, 1)]
    return heights, ticks


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
