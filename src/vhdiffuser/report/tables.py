"""Table II beside ours, as Markdown and as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from vhdiffuser.report.paper import ENVIRONMENTS, METHOD_LABELS, PROTOCOL_LABELS, TABLE_II
from vhdiffuser.results.summary import Summary

BEST, SECOND = "†", "‡"
NOTE = (
    f"SR in % with its 95 % Wilson interval, AES in control steps with its 95 % bootstrap interval. {BEST} best and "
    f"{SECOND} second best of its column within a protocol, ties included; the paper's columns are marked by the "
    "same rule."
)

Cell = tuple[str, str, str]
"""(environment, method, protocol)."""


@dataclass(frozen=True)
class Table:
    """Text in a grid."""

    head: tuple[str, ...]
    """Column titles."""
    rows: tuple[tuple[str, ...], ...]
    """Cells."""

    def markdown(self) -> str:
        """A pipe table; the first two columns to the left, numbers to the right."""
        rule = ["---" if column < 2 else "---:" for column in range(len(self.head))]
        lines = [self.head, tuple(rule), *self.rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"

    def html(self) -> str:
        """A `<table>`."""
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in self.head)
        body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"


def marks(values: Mapping[str, float], highest: bool) -> dict[str, str]:
    """Best and second-best values, by key; equal values share a mark. Nothing is marked among fewer than two."""
    if len(values) < 2:
        return dict.fromkeys(values, "")
    ranked = sorted(set(values.values()), reverse=highest)
    signs = dict(zip(ranked[:2], (BEST, SECOND), strict=False))
    return {key: signs.get(value, "") for key, value in values.items()}


def _marked(values: Mapping[Cell, float], highest: bool) -> dict[Cell, str]:
    """Marks within each environment and protocol."""
    result: dict[Cell, str] = {}
    for environment, protocol in {(cell[0], cell[2]) for cell in values}:
        group = {cell[1]: value for cell, value in values.items() if (cell[0], cell[2]) == (environment, protocol)}
        for method, mark in marks(group, highest).items():
            result[environment, method, protocol] = mark
    return result


def main_table(summaries: Sequence[Summary]) -> Table:
    """Ours and the paper's, for the environments, methods and protocols that were run."""
    ours = {(item.environment, item.method, item.protocol): item for item in summaries}
    ours = {cell: item for cell, item in ours.items() if cell[2] in PROTOCOL_LABELS}
    order = [*ENVIRONMENTS, *sorted({cell[0] for cell in ours} - set(ENVIRONMENTS))]
    environments = [name for name in order if any(cell[0] == name for cell in ours)]
    # Values are compared as they are printed, as a reader would.
    our_sr = _marked({cell: round(100 * item.success_rate, 1) for cell, item in ours.items()}, highest=True)
    our_aes = _marked({cell: round(item.average_executed_steps, 2) for cell, item in ours.items()}, highest=False)
    paper_sr = _marked({cell: value[0] for cell, value in TABLE_II.items()}, highest=True)
    paper_aes = _marked({cell: value[1] for cell, value in TABLE_II.items()}, highest=False)

    head = ["Method", ""]
    for name in environments:
        head += [f"{ENVIRONMENTS.get(name, name)} ours", f"{ENVIRONMENTS.get(name, name)} paper"]
    rows = []
    for protocol, label in PROTOCOL_LABELS.items():
        for method, method_label in METHOD_LABELS.items():
            if not any(cell[1:] == (method, protocol) for cell in ours):
                continue
            rate, steps = [f"{method_label} ({label})", "SR"], ["", "AES"]
            for name in environments:
                cell = (name, method, protocol)
                rate.append(_rate(ours[cell], our_sr[cell]) if cell in ours else "-")
                steps.append(_steps(ours[cell], our_aes[cell]) if cell in ours else "-")
                known = cell in TABLE_II
                rate.append(f"{TABLE_II[cell][0]:.1f}{paper_sr[cell]}" if known else "-")
                steps.append(f"{TABLE_II[cell][1]:.2f}{paper_aes[cell]}" if known else "-")
            rows += [tuple(rate), tuple(steps)]
    return Table(tuple(head), tuple(rows))


def _rate(item: Summary, mark: str) -> str:
    low, high = item.success_rate_interval
    return f"{100 * item.success_rate:.1f}{mark} [{100 * low:.1f}, {100 * high:.1f}]"


def _steps(item: Summary, mark: str) -> str:
    low, high = item.average_executed_steps_interval
    return f"{item.average_executed_steps:.2f}{mark} [{low:.1f}, {high:.1f}]"


def peers_table(summaries: Sequence[Summary]) -> Table | None:
    """Results under peers' protocols, if there are any."""
    rows = tuple(
        (
            item.environment,
            f"{METHOD_LABELS.get(item.method, item.method)} ({item.protocol})",
            str(item.n),
            _rate(item, ""),
            "-" if item.average_score is None else f"{item.average_score:.1f}",
        )
        for item in summaries
        if item.protocol not in PROTOCOL_LABELS
    )
    return Table(("Environment", "Method (protocol)", "n", "Success", "Score"), rows) if rows else None


def time_table(summaries: Sequence[Summary]) -> Table:
    """Where the time went."""
    rows = tuple(
        (
            item.environment,
            f"{METHOD_LABELS.get(item.method, item.method)} ({PROTOCOL_LABELS.get(item.protocol, item.protocol)})",
            str(item.n),
            f"{item.average_replans:.2f}",
            f"{item.planning_seconds:.1f}",
            f"{item.simulation_seconds:.1f}",
        )
        for item in summaries
    )
    return Table(("Environment", "Method", "n", "Replans", "Planning (s)", "Simulation (s)"), rows)
