"""The reliability diagram and the table of a calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def markdown_table(environment: str, results: Sequence[Mapping[str, Any]]) -> str:
    """`check_calibration` as rows of a Markdown table, in %: a share that misses its promise beyond chance is bold."""
    lines = [
        "| | requested risk | promised | failures (95 % interval) | near | middle | far | coverage (95 %) | SR | AES |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for number, result in enumerate(results):
        risk = f"gamma {result['gamma']:g}" if result["risk"] is None else f"{100 * result['risk']:g}"
        cells = [_cell(share, bold=result["risk"] is not None) for share in (result, *result["bands"].values())]
        promised, coverage = f"{100 * result['promised_failure']:.1f}", _coverage(result)
        ends = f"{coverage} | {100 * (1 - result['failure']):.1f} | {result['average_executed_steps']:.1f}"
        lines.append(f"| {'' if number else environment} | {risk} | {promised} | {' | '.join(cells)} | {ends} |")
    return "\n".join(lines) + "\n"


def _coverage(result: Mapping[str, Any]) -> str:
    if result["interval_coverage"] is None:
        return "-"
    low, high = result["coverage_interval"]
    return f"{100 * result['interval_coverage']:.0f} ({100 * low:.0f} to {100 * high:.0f})"


def _cell(share: Mapping[str, Any], bold: bool) -> str:
    low, high = share["failure_interval"]
    text = f"{100 * share['failure']:.1f} ({100 * low:.1f} to {100 * high:.1f})"
    return f"**{text}**" if bold and not low <= share["promised_failure"] <= high else text


def reliability_diagram(environment: str, results: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Promised against realised failures from `check_calibration`: one panel for all instances, one by distance
    band."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    whole, bands = figure.subplots(1, 2, sharey=True)
    risks = [result for result in results if result["risk"] is not None]
    for axes, title in ((whole, f"{environment}: all instances"), (bands, "by predicted distance")):
        _diagonal(axes, title)
        axes.set_xlabel("promised failure rate")
    whole.set_ylabel("realised failure rate, 95 % interval")
    _bars(whole, risks, "all instances", "C0")
    for number, name in enumerate(risks[0]["bands"] if risks else ()):
        _bars(bands, [result["bands"][name] for result in risks], name, f"C{number + 1}", shift=0.94 + 0.06 * number)
    for axes in (whole, bands):
        axes.legend(loc="upper left", frameon=False)
    figure.savefig(path, format="png", dpi=150)
    return path


def reliability_overview(results: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> Path:
    """Promised against realised failures of several environments, all instances, in a panel each."""
    from matplotlib.figure import Figure

    columns = min(len(results), 5)
    figure = Figure(figsize=(2.4 * columns, 2.3 * -(-len(results) // columns)), layout="constrained")
    panels = figure.subplots(-(-len(results) // columns), columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, (environment, found) in zip(panels, results.items(), strict=False):
        _diagonal(axes, environment)
        axes.title.set_fontsize(9)
        _bars(axes, [result for result in found if result["risk"] is not None], "all instances", "C0")
    for axes in panels[len(results) :]:
        axes.set_axis_off()
    figure.supxlabel("promised failure rate")
    figure.supylabel("realised failure rate, 95 % interval")
    figure.savefig(path, format="png", dpi=110)
    return path


def _diagonal(axes: Any, title: str) -> None:
    """Axes from 0.2 to 50 %, with the line of kept promises; the vertical one is linear below 1 %, to show 0."""
    as_promised = np.geomspace(0.002, 0.4, 100)
    axes.plot(as_promised, as_promised, color="0.6", linewidth=1, label="as promised")
    axes.set(title=title, xscale="log")
    axes.set_yscale("symlog", linthresh=0.01)
    axes.set_ylim(0, 0.5)


def _bars(axes: Any, shares: Sequence[Mapping[str, Any]], label: str, colour: str, shift: float = 1.0) -> None:
    places = [share["promised_failure"] * shift for share in shares]
    values = [share["failure"] for share in shares]
    below = [share["failure"] - share["failure_interval"][0] for share in shares]
    above = [share["failure_interval"][1] - share["failure"] for share in shares]
    axes.errorbar(places, values, yerr=[below, above], fmt="o", markersize=4, capsize=3, color=colour, label=label)
