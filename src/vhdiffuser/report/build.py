"""`vhd report DIR`: a Markdown page, an HTML page and figures from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path
from vhdiffuser.report import figures
from vhdiffuser.report.analyses import ANALYSES, FOLDER
from vhdiffuser.report.paper import ENVIRONMENTS, METHOD_LABELS, PROTOCOL_LABELS
from vhdiffuser.report.pipeline import pipeline
from vhdiffuser.report.tables import NOTE, OLD, OLD_NOTE, Table, external_table, main_table, seeds_table, time_table
from vhdiffuser.report.tracks import TRACKS, differences_table, track_of
from vhdiffuser.results.cells import FIRST_TEST_SEED, Cell, published
from vhdiffuser.results.checks import missing_facts
from vhdiffuser.results.configs import FOREIGN
from vhdiffuser.results.paired import unpaired
from vhdiffuser.results.paths import PAIRS, plans_path, rollout_path
from vhdiffuser.results.rollout_files import load_plans, load_rollout
from vhdiffuser.results.rows import ResultFile, read_folder
from vhdiffuser.results.summary import Summary
from vhdiffuser.streams import STREAMS

CASE_METHODS = ("vhd", "fh-h1", "fh-h2", "fh-h3")
"""Planners in Fig. 3."""

TITLES = {
    "reset": "Table II beside ours",
    "uniform": "Uniform instances",
    PAIRS: "Pairs of your own",
}
"""Table titles by distribution of the instances."""

NO_PAPER = (
    "No rows: no planner of this recipe has been trained far enough to publish. Train one with `vhd train planner ENV "
    "--recipe paper` and `vhd train length ENV --recipe paper`, and run `vhd bench ENV --methods vhd-paper`."
)
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #d0d4dc; padding: .3rem .7rem; text-align: right; white-space: nowrap; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }
img { max-width: 100%; }
"""


def write_report(folder: Path, out: Path | None = None) -> list[Path]:
    """Read all rows in `folder`; write `report.md`, `report.html` and figures to `out` (default: `folder`).

    Main results are the files directly in `folder/<environment>`; files in subfolders (e.g. a sweep of gamma) are used
    for the sensitivity figure only, and those of the analyses in their own sections.
    """
    out = out or folder
    found = [item for item in read_folder(folder) if item.rows and FOLDER not in item.path.relative_to(folder).parts]
    main = sorted((item for item in found if item.path.parent.parent == folder), key=_order)
    if not main:
        raise DataError(f"{folder}: no results directly in its environments' folders. Run `vhd bench --out {folder}`.")
    _require_conditions(main)
    cells, left_out = published(main)
    summaries = [cell.summary() for cell in cells]
    environments = list(dict.fromkeys(cell.key[0] for cell in cells))
    sections: list[tuple[str, str | Table | Path]] = []
    for track, heading in TRACKS.items():
        for distribution, title in TITLES.items():
            drawn = [
                cell
                for cell in cells
                if cell.key[3] == distribution and cell.key[2] in PROTOCOL_LABELS and track_of(cell) == track
            ]
            if drawn:
                table, notes = main_table(drawn)
                said = notes if sections else [NOTE, *notes]  # explain only once how to read a table
                sections += [(_title(track, heading, distribution, title), table), *(("", note) for note in said)]
    if not any(track_of(cell) == "paper" for cell in cells):
        sections.append((TRACKS["paper"], NO_PAPER))
    differing = differences_table(environments)
    if differing.rows:
        sections.append(("What differs between the tracks", differing))
    if (seeds := seeds_table(summaries)) is not None:
        sections.append(("Seeds", seeds))
    sections.append(("How these numbers were made", conditions_table(cells)))
    if left_out:
        sections.append(("", _left_out(left_out, folder)))
    if (external := external_table(summaries)) is not None:
        sections.append(("Protocols of other benchmarks", external))
        if any(item.protocol not in PROTOCOL_LABELS and item.streams < STREAMS for item in summaries):
            sections.append(("", OLD_NOTE))
    sections.append(("Time", time_table(summaries)))
    pictures = [pipeline(out / "figures" / "pipeline.png")]
    sections.append(("The pipeline (Fig. 2)", pictures[0]))
    for analysis in ANALYSES.values():
        if (table_file := analysis.table(folder)).rows:
            sections += [(analysis.title, table_file.table()), ("", analysis.says)]
            for environment, path in analysis.figures(folder, out / "figures"):
                sections.append((f"{environment}: {analysis.title.lower()}", path))
                pictures.append(path)
    for environment in environments:
        figures_drawn = draw_figures(folder, out / "figures", environment, found, cells)
        sections += figures_drawn
        pictures += [path for _, path in figures_drawn]
    pages = [(out / "report.md", _markdown(sections, out)), (out / "report.html", _html(sections, out))]
    for path, text in pages:
        with atomic_path(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return [path for path, _ in pages] + pictures


def _title(track: str, heading: str, distribution: str, title: str) -> str:
    """Titles of third-party planners' tables do not mention the paper, which has no numbers for them."""
    return heading if (track, distribution) == ("foreign", "reset") else f"{heading}. {title}"


def _left_out(files: Sequence[ResultFile], folder: Path) -> str:
    names = ", ".join(str(item.path.relative_to(folder)) for item in files)
    return (
        "Left out, since the same cells were also run with the present random streams, or with test seeds where these "
        f"are development seeds (below {FIRST_TEST_SEED}): {names}."
    )


def _order(item: ResultFile) -> tuple[int, int, int, str]:
    """The paper's order of columns and rows."""
    places = (
        (list(ENVIRONMENTS), item.config["environment"]),
        (list(METHOD_LABELS), item.config["method"]),
        (list(PROTOCOL_LABELS), item.config["protocol"]),
    )
    first, second, third = (known.index(name) if name in known else len(known) for known, name in places)
    return first, second, third, str(item.path)


def _require_conditions(files: Sequence[ResultFile]) -> None:
    for item in files:
        if lacks := missing_facts(item.config):
            raise DataError(
                f"{item.path}: its first line lacks {', '.join(lacks)}, which a report needs. Delete the file and run "
                "`vhd bench` again."
            )


def conditions_table(cells: Sequence[Cell]) -> Table:
    """All settings behind the numbers, including the low-level controller."""
    lines = []
    for cell in cells:
        config, controller = cell.config, dict(cell.config["controller"])
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
                str(len(cell.rows)),
                ", ".join(map(str, cell.seeds)) + (OLD if cell.streams < STREAMS else ""),
                source.get("distribution") or f"file {source['file_sha256'][:12]}",
                "its own" if FOREIGN in config else f"{config['sampler']}, {config['sampler_steps']} steps",
                str(config["candidates"]),
                _margin(config),
                replan,
                str(rule["budget"] or "the plan"),
                f"{name} ({settings})" if settings else name,
            )
        )
    head = (
        "Environment",
        "Method",
        "n",
        "Seeds",
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
    folder: Path, out: Path, environment: str, found: Sequence[ResultFile], cells: Sequence[Cell]
) -> list[tuple[str, Path]]:
    """(title, file) of each figure that the results of one environment allow, on the environment's own instances."""
    drawn: list[tuple[str, Path]] = []
    own = [cell for cell in cells if (cell.key[0], cell.key[3]) == (environment, "reset")]
    # Figures compare methods, so they use cells with the same (newest) random streams.
    own = [cell for cell in own if cell.streams == max(item.streams for item in own)]
    rows = [row for cell in own for row in cell.rows]

    plans = plans_path(folder, environment)
    sheet = load_plans(plans) if plans.is_file() else None
    if sheet is not None and len({len(places) for places in sheet.plans}) > 1:
        path = figures.length_mismatch(sheet, out / f"{environment}-mismatch.png")
        drawn.append((f"{environment}: length mismatch (Fig. 1)", path))
    if (path_or_none := _case(out, environment, own)) is not None:
        rule = "the farthest of the saved instances"
        drawn.append((f"{environment}: four planners under replanning, {rule} (Fig. 3)", path_or_none))

    horizons = {cell.key[1]: cell.config["horizon"] for cell in own}
    if len(set(horizons.values()) - {None}) > 1:
        target = out / f"{environment}-horizon.png"
        path = figures.horizon_curve([cell.summary() for cell in own], horizons, rows, target)
        drawn.append((f"{environment}: fixed horizons and VHD", path))

    by_gamma = _by_gamma(found, environment)
    if len({gamma for gamma, _ in by_gamma}) > 1:
        path = figures.gamma_sensitivity(by_gamma, out / f"{environment}-gamma.png")
        drawn.append((f"{environment}: sensitivity to gamma", path))

    for protocol, label in PROTOCOL_LABELS.items():
        if sum(row.geodesic is not None and row.protocol == protocol for row in rows) > 1:
            path = figures.geodesic_success(rows, protocol, out / f"{environment}-distance-{protocol}.png")
            drawn.append((f"{environment}: SR by geodesic distance, {label}", path))
    return drawn


def _margin(config: Mapping[str, Any]) -> str:
    """What sets plan lengths: gamma or a risk, and a wait, or a fixed horizon; third-party planners have none."""
    if config["horizon"] is not None:
        return f"L = {config['horizon']}"
    margin = str(config.get("gamma", "-")) if config.get("risk") is None else f"risk {config['risk']:g}"
    return f"{margin}, wait {config['wait']}" if config.get("wait") else margin


def _by_gamma(found: Sequence[ResultFile], environment: str) -> list[tuple[float, Summary]]:
    """(gamma, summary) of VHD in the main folder and in a sweep: newest streams, pieces of one size, one wait, one
    number of reverse steps, not retimed."""
    alike: dict[tuple[int, int, int, int], dict[Path, list[ResultFile]]] = {}
    for item in found:
        names = (item.config["environment"], item.config["method"], item.distribution)
        of_gamma = item.config.get("risk") is None and item.config.get("retime") is None
        if of_gamma and names == (environment, "vhd", "reset") and item.config["protocol"] in PROTOCOL_LABELS:
            piece, wait, steps = (int(item.config.get(name) or 0) for name in ("piece", "wait", "sampler_steps"))
            folders = alike.setdefault((item.streams, piece, wait, steps), {})
            folders.setdefault(item.path.parent, []).append(item)
    for _, folders in sorted(alike.items(), reverse=True):
        cells = [cell for files in folders.values() for cell in published(files)[0]]
        swept = [(float(cell.config["gamma"]), cell.summary()) for cell in cells]
        if len({gamma for gamma, _ in swept}) > 1:
            return swept
    return []


def _case(out: Path, environment: str, cells: Sequence[Cell]) -> Path | None:
    """Fig. 3, if all four planners were run with replanning and share a saved instance."""
    replanned = {cell.key[1]: cell for cell in cells if cell.key[2] == "rp" and cell.key[1] in CASE_METHODS}
    if len(replanned) < len(CASE_METHODS) or unpaired(list(replanned.values())) is not None:
        return None
    # First seed only: rollouts are saved next to each seed's rows.
    files = {method: replanned[method].files[0] for method in CASE_METHODS}
    shared = [
        row.instance
        for row in files[CASE_METHODS[0]].rows
        if all(rollout_path(item.path, row.instance).is_file() for item in files.values())
    ]
    rows = [row for item in files.values() for row in item.rows]
    number = figures.choose_case(rows, CASE_METHODS, sorted(shared))
    if number is None:
        return None
    rollouts = {method: load_rollout(rollout_path(item.path, number)) for method, item in files.items()}
    return figures.case_study(rollouts, replanned[CASE_METHODS[0]].config, out / f"{environment}-case.png")


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
    return page("Results", "\n".join(parts))


def page(title: str, body: str) -> str:
    """A complete, styled HTML page."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>VH-Diffuser: {title.lower()}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )
