"""The leaderboard in Markdown, HTML and CSV: one table per environment, protocol and distribution."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.files import atomic_path
from vhdiffuser.report.build import page
from vhdiffuser.report.paper import ENVIRONMENTS, METHOD_LABELS, PROTOCOL_LABELS
from vhdiffuser.report.tables import BEST, Table
from vhdiffuser.results.boards import Entry
from vhdiffuser.results.paired import LEVEL

OFF = "‡"
FORMATS = (".md", ".csv", ".html", ".json")
BEGIN, END = "<!-- leaderboard begins -->", "<!-- leaderboard ends -->"
"""The table replaces the text between these lines of a Markdown page."""
NOTE = (
    "SR in % with its 95 % Wilson interval, AES in control steps (failures included) with its 95 % bootstrap interval. "
    f"{BEST} the best, and all that are not significantly worse on the instances that both have (p >= {LEVEL}; "
    "McNemar's exact test for SR; for AES, among those, a paired bootstrap). *Against the best*: the difference in SR "
    "on those instances. Planning is the mean time of one plan as recorded by whoever ran it: machines differ, and "
    "plans made in batches share their time."
)


HEAD = ("Rank", "Planner", "SR", "Against the best", "AES", "Planning (ms)", "Replans", "Candidates", "n", "Seeds")


def board_table(entries: Sequence[Entry]) -> tuple[Table, list[str]]:
    """The table of one board, with notes on irregularities."""
    lines, notes, unranked = [], [], dict[str, list[str]]()
    scored = any(item.average_score is not None for item in entries)
    for item in entries:
        low, high = (100 * value for value in item.success_rate_interval)
        few, many = item.average_executed_steps_interval
        name = METHOD_LABELS.get(item.planner, item.planner)
        off = OFF if item.start_gap is not None and item.start_gap > item.tolerance else ""
        against = "-"
        if item.success_difference is not None and item.p is not None:
            against = f"{100 * item.success_difference:+.1f} on {item.shared} ({_p(item.p)})"
        elif item.rank is not None and item.rank > 1:
            against = f"{item.shared} shared"
        lines.append(
            (
                "-" if item.rank is None else str(item.rank),
                name + off,
                f"{100 * item.success_rate:.1f}{BEST * item.best_success} [{low:.1f}, {high:.1f}]",
                against,
                f"{item.average_executed_steps:.1f}{BEST * item.best_steps} [{few:.1f}, {many:.1f}]",
                *([] if not scored else ["-" if item.average_score is None else f"{item.average_score:.1f}"]),
                _ms(item.planning_seconds),
                f"{item.average_replans:.2f}",
                str(item.candidates),
                str(item.n),
                ", ".join(map(str, item.seeds)),
            )
        )
        if item.differs:
            unranked.setdefault(item.differs, []).append(name)
        if off:
            notes.append(
                f"{OFF} {name}: plans begin up to {item.start_gap:.2g} (normalised) from where they were made."
            )
    notes += [f"Not ranked ({reason}): {', '.join(names)}." for reason, names in unranked.items()]
    head = HEAD if not scored else (*HEAD[:5], "Score", *HEAD[5:])
    return Table(head, tuple(lines)), notes


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.2g}" if seconds < 0.01 else f"{1000 * seconds:.0f}"


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def _sections(entries: Sequence[Entry]) -> list[tuple[str, Table, list[str]]]:
    boards: dict[tuple[str, str, str], list[Entry]] = {}
    for item in entries:
        boards.setdefault(item.board, []).append(item)
    made = []
    for (environment, protocol, distribution), items in sorted(boards.items(), key=_order):
        controllers = ", ".join(dict.fromkeys(item.controller for item in items))
        table, notes = board_table(items)
        title = f"{environment}, {PROTOCOL_LABELS.get(protocol, protocol)}"
        title += "" if distribution == "reset" else f", {distribution} instances"
        made.append((title, table, [f"Controller: {controllers}.", *notes]))
    return made


def _order(board: tuple[tuple[str, str, str], Sequence[Entry]]) -> tuple[int, str, int, str]:
    """Sort key: the paper's environments and protocols first."""
    environment, protocol, _ = board[0]
    return _place(ENVIRONMENTS, environment), environment, _place(PROTOCOL_LABELS, protocol), protocol


def _place(known: Mapping[str, str], name: str) -> int:
    names = list(known)
    return names.index(name) if name in names else len(names)


def markdown(entries: Sequence[Entry]) -> str:
    """All boards as Markdown, without a title."""
    parts = [f"{NOTE}\n"]
    for title, table, notes in _sections(entries):
        parts += [f"### {title}\n", table.markdown(), " ".join(notes) + "\n"]
    return "\n".join(parts)


def html(entries: Sequence[Entry]) -> str:
    """All boards as an HTML page."""
    parts = [f"<p>{escape(NOTE)}</p>"]
    for title, table, notes in _sections(entries):
        parts += [f"<h2>{escape(title)}</h2>", f'<div class="wide">\n{table.html()}</div>']
        parts.append(f"<p>{escape(' '.join(notes))}</p>")
    return page("Leaderboard", "\n".join(parts))


def as_csv(entries: Sequence[Entry]) -> str:
    """One line per entry; intervals take two columns, seeds are separated by spaces."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, item in enumerate(entries):
        values: dict[str, Any] = {}
        for key, value in item.to_json().items():
            if key.endswith("_interval"):
                values |= {f"{key}_low": value[0], f"{key}_high": value[1]}
            else:
                values[key] = " ".join(map(str, value)) if isinstance(value, tuple) else value
        if not number:
            writer.writerow(values)
        writer.writerow(["" if value is None else value for value in values.values()])
    return text.getvalue()


def check_format(path: Path) -> None:
    """Raise `VhdError` if boards cannot be written to a file with this name."""
    if path.suffix not in FORMATS:
        raise VhdError(f"{path}: the table can be written as {', '.join(FORMATS)}.")


def write_boards(path: Path, entries: Sequence[Entry]) -> None:
    """Write all boards; the suffix selects the format. In an existing Markdown page, only the text between its marks is
    replaced."""
    check_format(path)
    if path.suffix == ".md":
        text = markdown(entries)
        if path.exists():
            text = into_page(path.read_text(encoding="utf-8"), text, path)
    elif path.suffix == ".csv":
        text = as_csv(entries)
    elif path.suffix == ".html":
        text = html(entries)
    else:
        text = json.dumps([item.to_json() for item in entries], indent=1) + "\n"
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def into_page(text: str, made: str, path: Path) -> str:
    """A Markdown page with the boards between its two marks; the rest is kept."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise DataError(
            f"{path}: lacks the lines {BEGIN} and {END} that mark the table's place. Add them, or choose a new file."
        )
    return f"{before}{BEGIN}\n\n{made}\n{END}{after}"
