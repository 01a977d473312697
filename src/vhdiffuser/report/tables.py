"""Table II next to our results, in Markdown and HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from vhdiffuser.report.paper import ENVIRONMENTS, METHOD_LABELS, PROTOCOL_LABELS, TABLE_II
from vhdiffuser.results.cells import Cell
from vhdiffuser.results.paired import LEVEL, best_steps, best_success, unpaired
from vhdiffuser.results.summary import Summary
from vhdiffuser.streams import STREAMS

BEST, OLD = "★", "†"
NOTE = (
    "SR in % with its 95 % Wilson interval, AES in control steps with its 95 % bootstrap interval, over the instances "
    f"of all seeds. {BEST} best of ours in its column within a protocol, with all that are not significantly worse on "
    f"the same instances (p >= {LEVEL}; McNemar's exact test for SR, a paired bootstrap for AES). The paper's columns "
    "are not marked: it prints no outcomes of single instances."
)
OLD_NOTE = (
    f"{OLD} measured on the first release's instances, which share random streams with the training data; "
    "to be made anew."
)


@dataclass(frozen=True)
class Table:
    """A table of text."""

    head: tuple[str, ...]
    """Column titles."""
    rows: tuple[tuple[str, ...], ...]
    """Cells."""

    def markdown(self) -> str:
        """A pipe table; the first two columns are left-aligned, numbers right-aligned."""
        rule = ["---" if column < 2 else "---:" for column in range(len(self.head))]
        lines = [self.head, tuple(rule), *self.rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"

    def html(self) -> str:
        """A `<table>`."""
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in self.head)
        body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"


@dataclass(frozen=True)
class Marks:
    """The best methods by (environment, protocol), and where that could not be tested."""

    success: Mapping[tuple[str, str], set[str]]
    """Methods with the highest SR."""
    steps: Mapping[tuple[str, str], set[str]]
    """Methods with the lowest AES."""
    untested: Mapping[tuple[str, str], str]
    """Why nothing is marked."""


def mark_best(cells: Sequence[Cell]) -> Marks:
    """The best methods in cells of one distribution and track, by paired tests; needs at least two methods."""
    groups: dict[tuple[str, str], dict[str, Cell]] = {}
    for cell in cells:
        environment, method, protocol, _ = cell.key
        groups.setdefault((environment, protocol), {})[method] = cell
    groups = {key: group for key, group in groups.items() if len(group) > 1}
    reasons = {key: unpaired(list(group.values())) for key, group in groups.items()}
    untested = {key: reason for key, reason in reasons.items() if reason is not None}
    tested = {key: group for key, group in groups.items() if key not in untested}
    return Marks(
        {key: best_success(group) for key, group in tested.items()},
        {key: best_steps(group) for key, group in tested.items()},
        untested,
    )


def main_table(cells: Sequence[Cell]) -> tuple[Table, list[str]]:
    """Our results and the paper's for the environments, methods and protocols that were run, with notes.

    `cells` are of one distribution and one track.
    """
    cells = [cell for cell in cells if cell.key[2] in PROTOCOL_LABELS]
    marks = mark_best(cells)
    ours = {cell.key[:3]: cell.summary() for cell in cells}
    order = [*ENVIRONMENTS, *sorted({key[0] for key in ours} - set(ENVIRONMENTS))]
    environments = [name for name in order if any(key[0] == name for key in ours)]
    # Only the environment's own instances are comparable with the paper's.
    reset = all(cell.key[3] == "reset" for cell in cells)
    beside = set(ENVIRONMENTS) if reset else set()

    head = ["Method", ""]
    for name in environments:
        label = ENVIRONMENTS.get(name, name)
        head += [f"{label} ours", f"{label} paper"] if name in beside else [label]
    labels = METHOD_LABELS | {key[1]: key[1] for key in ours if key[1] not in METHOD_LABELS}
    rows = []
    for protocol, label in PROTOCOL_LABELS.items():
        for method, method_label in labels.items():
            if not any(key[1:] == (method, protocol) for key in ours):
                continue
            rate, steps = [f"{method_label} ({label})", "SR"], ["", "AES"]
            for name in environments:
                key = (name, method, protocol)
                if key in ours:
                    old = OLD if ours[key].streams < STREAMS else ""
                    good = method in marks.success.get((name, protocol), ())
                    quick = method in marks.steps.get((name, protocol), ())
                    rate.append(_rate(ours[key], BEST * good + old))
                    steps.append(_steps(ours[key], BEST * quick + old))
                else:
                    rate.append("-")
                    steps.append("-")
                if name in beside:
                    theirs = TABLE_II.get((name, method.removesuffix("-paper"), protocol))
                    rate.append("-" if theirs is None else f"{theirs[0]:.1f}")
                    steps.append("-" if theirs is None else f"{theirs[1]:.2f}")
            rows += [tuple(rate), tuple(steps)]
    return Table(tuple(head), tuple(rows)), _notes(ours.values(), marks)


def _notes(summaries: Iterable[Summary], marks: Marks) -> list[str]:
    notes = [OLD_NOTE] if any(item.streams < STREAMS for item in summaries) else []
    reasons: dict[str, list[str]] = {}
    for (environment, protocol), reason in marks.untested.items():
        reasons.setdefault(reason, []).append(f"{environment} ({PROTOCOL_LABELS[protocol]})")
    for reason, columns in reasons.items():
        notes.append(
            f"Nothing is marked best in {', '.join(columns)}: its methods were run with {reason}, and only results "
            "on the same instances are compared."
        )
    return notes


def _rate(item: Summary, mark: str) -> str:
    low, high = item.success_rate_interval
    return f"{100 * item.success_rate:.1f}{mark} [{100 * low:.1f}, {100 * high:.1f}]"


def _steps(item: Summary, mark: str) -> str:
    low, high = item.average_executed_steps_interval
    return f"{item.average_executed_steps:.2f}{mark} [{low:.1f}, {high:.1f}]"


def external_table(summaries: Sequence[Summary]) -> Table | None:
    """Results under other benchmarks' protocols, if any."""
    rows = tuple(
        (
            item.environment,
            f"{METHOD_LABELS.get(item.method, item.method)} ({item.protocol})",
            str(item.n),
            _rate(item, OLD if item.streams < STREAMS else ""),
            "-" if item.average_score is None else f"{item.average_score:.1f}",
        )
        for item in summaries
        if item.protocol not in PROTOCOL_LABELS
    )
    return Table(("Environment", "Method (protocol)", "n", "Success", "Score"), rows) if rows else None


def seeds_table(summaries: Sequence[Summary]) -> Table | None:
    """SR by seed where several were pooled, to show the variation."""
    rows = tuple(
        (
            item.environment,
            f"{METHOD_LABELS.get(item.method, item.method)} ({PROTOCOL_LABELS.get(item.protocol, item.protocol)})",
            item.distribution,
            str(item.n),
            f"{100 * item.success_rate:.1f}",
            ", ".join(
                f"{seed}: {100 * rate:.1f}" for seed, rate in zip(item.seeds, item.success_rate_by_seed, strict=True)
            ),
        )
        for item in summaries
        if len(item.seeds) > 1
    )
    return Table(("Environment", "Method", "Instances", "n", "SR", "SR by seed"), rows) if rows else None


def time_table(summaries: Sequence[Summary]) -> Table:
    """Time spent planning and executing."""
    rows = tuple(
        (
            item.environment,
            f"{METHOD_LABELS.get(item.method, item.method)} ({PROTOCOL_LABELS.get(item.protocol, item.protocol)})",
            item.distribution,
            str(item.n),
            f"{item.average_replans:.2f}",
            f"{item.planning_seconds:.1f}",
            f"{item.simulation_seconds:.1f}",
        )
        for item in summaries
    )
    return Table(("Environment", "Method", "Instances", "n", "Replans", "Planning (s)", "Simulation (s)"), rows)
