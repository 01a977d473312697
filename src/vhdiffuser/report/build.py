"""`vhd report DIR`: rows in; a Markdown page, an HTML page and figures out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path
from vhdiffuser.report import figures
from vhdiffuser.report.paper import ENVIRONMENTS, METHOD_LABELS, PROTOCOL_LABELS
from vhdiffuser.report.tables import NOTE, Table, main_table, peers_table, time_table
from vhdiffuser.results.rows import ResultFile, Row, read_folder
from vhdiffuser.results.sidefiles import load_plans, load_rollout
from vhdiffuser.results.summary import summarize

CASE_METHODS = ("vhd", "fh-h1", "fh-h2", "fh-h3")
"""Fig. 3's planners."""

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #d0d4dc; padding: .3rem .7rem; text-align: right; white-space: nowrap; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }
img { max-width: 100%; }
"""


def write_report(folder: Path, out: Path | None = None) -> list[Path]:
    """Read all rows below `folder`; write `report.md`, `report.html` and figures to `out` (default: `folder`).

    Main results are the files right below `folder/<environment>`; files further down (a sweep of
    gamma, say) enter the sensitivity figure only.
    """
    out = out or folder
    found = [item for item in read_folder(folder) if item.rows]
    main = sorted((item for item in found if item.path.parent.parent == folder), key=_order)
    if not main:
        raise DataError(f"{folder}: no results right below its environments' folders. Run `vhd bench --out {folder}`.")
    rows = [row for item in main for row in item.rows]
    summaries = summarize(rows)
    sections: list[tuple[str, str | Table | Path]] = [
        ("Table II beside ours", main_table(summaries)),
        ("", NOTE),
        ("How these numbers were made", conditions_table(main)),
    ]
    if (peers := peers_table(summaries)) is not None:
        sections.append(("Peers' protocols", peers))
    sections.append(("Time", time_table(summaries)))
    pictures = []
    for environment in dict.fromkeys(item.config["environment"] for item in main):
        drawn = draw_figures(folder, out / "figures", environment, found, main)
        sections += [(title, path) for title, path in drawn]
        pictures += [path for _, path in drawn]
    pages = [(out / "report.md", _markdown(sections, out)), (out / "report.html", _html(sections, out))]
    for path, text in pages:
        with atomic_path(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return [path for path, _ in pages] + pictures


def _order(item: ResultFile) -> tuple[int, int, int, str]:
    """The paper's order of columns and rows."""
    places = (
        (list(ENVIRONMENTS), item.config["environment"]),
        (list(METHOD_LABELS), item.config["method"]),
        (list(PROTOCOL_LABELS), item.config["protocol"]),
    )
    first, second, third = (known.index(name) if name in known else len(known) for known, name in places)
    return first, second, third, str(item.path)


def conditions_table(files: Sequence[ResultFile]) -> Table:
    """Every choice behind the numbers, the low-level controller among them."""
    lines = []
    for item in files:
        config, controller = item.config, dict(item.config["controller"])
        name = controller.pop("name", "?")
        shown = {
            key: value for key, value in controller.items() if isinstance(value, int | float | str) and value != ""
        }
        settings = ", ".join(f"{key} {value}" for key, value in shown.items())
        rule = config["rule"]
        replan = "-" if rule["threshold"] is None else f"error > {rule['threshold']}, every {rule['check_every']} steps"
        source = config["instances"]
        lines.append(
            (
                config["environment"],
                f"{METHOD_LABELS.get(config['method'], config['method'])} ({config['protocol']})",
                str(len(item.rows)),
                str(config["seed"]),
                source.get("distribution") or f"file {source['file_sha256'][:12]}",
                f"{config['sampler']}, {config['sampler_steps']} steps",
                str(config["candidates"]),
                str(config["gamma"]) if config["horizon"] is None else f"L = {config['horizon']}",
                replan,
                str(rule["budget"] or "the plan"),
                f"{name} ({settings})" if settings else name,
            )
        )
    head = (
        "Environment",
        "Method",
        "n",
        "Seed",
        "Instances",
        "Sampler",
        "Candidates",
        "Gamma",
        "Replan",
        "Budget",
        "Controller",
    )
    return Table(head, tuple(lines))


def draw_figures(
    folder: Path, out: Path, environment: str, found: Sequence[ResultFile], main: Sequence[ResultFile]
) -> list[tuple[str, Path]]:
    """(title, file) of every figure that the results of one environment allow."""
    drawn: list[tuple[str, Path]] = []
    own = [item for item in main if item.config["environment"] == environment]
    rows = [row for item in own for row in item.rows]

    plans = folder / environment / "plans.npz"
    if plans.is_file():
        path = figures.length_mismatch(load_plans(plans), out / f"{environment}-mismatch.png")
        drawn.append((f"{environment}: length mismatch (Fig. 1)", path))
    if (path_or_none := _case(folder, out, environment, own, rows)) is not None:
        drawn.append((f"{environment}: four planners under replanning (Fig. 3)", path_or_none))

    horizons = {item.config["method"]: item.config["horizon"] for item in own}
    if any(horizons.values()):
        target = out / f"{environment}-horizon.png"
        path = figures.horizon_curve(summarize(rows), horizons, rows, target)
        drawn.append((f"{environment}: fixed horizons and VHD", path))

    swept = [
        (item.config, item.rows)
        for item in found
        if item.config["environment"] == environment and item.config["protocol"] in PROTOCOL_LABELS
    ]
    by_gamma = figures.cells_by_gamma(swept)
    if len({gamma for gamma, _ in by_gamma}) > 1:
        path = figures.gamma_sensitivity(by_gamma, out / f"{environment}-gamma.png")
        drawn.append((f"{environment}: sensitivity to gamma", path))

    for protocol, label in PROTOCOL_LABELS.items():
        if sum(row.geodesic is not None and row.protocol == protocol for row in rows) > 1:
            path = figures.geodesic_success(rows, protocol, out / f"{environment}-distance-{protocol}.png")
            drawn.append((f"{environment}: SR by geodesic distance, {label}", path))
    return drawn


def _case(folder: Path, out: Path, environment: str, files: Sequence[ResultFile], rows: Sequence[Row]) -> Path | None:
    """Fig. 3, where the four planners were run under replanning and one instance is kept for all of them."""
    kept: dict[str, dict[int, Path]] = {method: {} for method in CASE_METHODS}
    for path in (folder / environment / "rollouts").glob("*-rp-*.npz"):
        match = re.fullmatch(r"(.+)-rp-(\d+)\.npz", path.name)
        if match is not None and match[1] in kept:
            kept[match[1]][int(match[2])] = path
    shared = sorted(set.intersection(*(set(numbers) for numbers in kept.values())))
    number = figures.choose_case(rows, CASE_METHODS, shared)
    if number is None:
        return None
    config: dict[str, Any] = next(item.config for item in files if item.config["protocol"] == "rp")
    rollouts = {method: load_rollout(kept[method][number]) for method in CASE_METHODS}
    return figures.case_study(rollouts, config, out / f"{environment}-case.png")


def _markdown(sections: Sequence[tuple[str, str | Table | Path]], out: Path) -> str:
    parts = ["# Results\n"]
    for title, content in sections:
        if title:
            parts.append(f"## {title}\n")
        if isinstance(content, Table):
            parts.append(content.markdown())
        elif isinstance(content, Path):
            parts.append(f"![{title}]({content.relative_to(out).as_posix()})\n")
        else:
            parts.append(content + "\n")
    return "\n".join(parts)


def _html(sections: Sequence[tuple[str, str | Table | Path]], out: Path) -> str:
    parts = []
    for title, content in sections:
        if title:
            parts.append(f"<h2>{escape(title)}</h2>")
        if isinstance(content, Table):
            parts.append(f'<div class="wide">\n{content.html()}</div>')
        elif isinstance(content, Path):
            parts.append(f'<img src="{content.relative_to(out).as_posix()}" alt="{escape(title)}">')
        else:
            parts.append(f"<p>{escape(content)}</p>")
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>VH-Diffuser: results</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>Results</h1>\n{body}\n</body>\n</html>\n"
    )
