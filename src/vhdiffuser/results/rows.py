"""Raw results on disk: one JSON-lines file per environment, method, protocol, distribution and seed.

The first line is the configuration shared by all rows; each further line is one instance. Rows are appended as
executions end. A file is continued only under exactly the same configuration, and a line cut short by a crash or a full
disk is dropped when the file is reopened. Rows are validated on writing and on reading, and no instance counts twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TextIO

from vhdiffuser.errors import DataError
from vhdiffuser.files import make_folder, regular_target, writing
from vhdiffuser.locks import try_lock
from vhdiffuser.reading import parse_json, reading
from vhdiffuser.results.checks import config_fault, row_fault
from vhdiffuser.results.configs import differences
from vhdiffuser.results.paths import PAIRS

FORMAT = 1

_MEND = "Delete that line; `vhd bench` recreates missing rows."


@dataclass(frozen=True)
class Row:
    """One instance, executed once."""

    environment: str
    """Name of the environment."""
    method: str
    """`vhd`, `fh-lp`, `fh-h1`, `fh-h2`, `fh-h3`, `vhd-paper`, or the name of a third-party planner."""
    protocol: str
    """`ss`, `rp`, or a protocol of another benchmark: `d4rl-fixed`, `d4rl-random` (both also with `-rp`), `ogbench`."""
    seed: int
    """Seed of the instances and of all plans."""
    instance: int
    """Instance number, the same for all methods."""
    start: list[float]
    """Start: a planning state, goal dimensions only, or a full observation."""
    goal: list[float]
    """(goal_dim,) goal."""
    predicted_length: int | None
    """L_hat of the first plan; None if it was not predicted."""
    planned_length: int
    """Number of states in the first plan."""
    plan_lengths: list[int]
    """Number of states in each plan, including the first."""
    replans: int
    """Number of plans made after the first."""
    success: bool
    """Whether the last state lies in the goal region."""
    steps: int
    """Control steps executed (l in the paper)."""
    final_distance: float
    """||s_final - g||_inf, normalised."""
    planning_seconds: float
    """This instance's share of the planning time, in seconds."""
    control_seconds: float
    """This instance's share of the time in controller and simulators, in seconds."""
    geodesic: float | None = None
    """True shortest distance between start and goal in the environment's units, if known."""
    path: float | None = None
    """Length of the executed path in the environment's units; None in rows of version 0.2."""
    start_gap: float | None = None
    """Largest normalised distance between a plan's first state and the state it was made at; None in older rows."""
    score: float | None = None
    """Another benchmark's score of this episode."""
    task: int | None = None
    """Another benchmark's task number."""


@dataclass(frozen=True)
class ResultFile:
    """Contents of one results file."""

    path: Path
    """Its path."""
    config: dict[str, Any]
    """Configuration shared by all rows."""
    rows: list[Row]
    """Rows, in the order in which executions ended."""

    @property
    def distribution(self) -> str:
        """How the instances were drawn: `reset`, `uniform`, or `pairs` for the user's own."""
        return distribution_of(self.config)

    @property
    def streams(self) -> int:
        """Version of the random streams (see `vhdiffuser.streams`)."""
        return streams_of(self.config)


def distribution_of(config: Mapping[str, Any]) -> str:
    """Distribution of a configuration's instances."""
    return str(config.get("instances", {}).get("distribution", PAIRS))


def streams_of(config: Mapping[str, Any]) -> int:
    """Version of a configuration's random streams; the first release did not record it."""
    return int(config.get("streams", 1))


def read_results(path: Path) -> ResultFile:
    """Read and validate one file; an incomplete last line is ignored."""
    with reading(path, "a results file", "Delete it and run `vhd bench` again."):
        text = path.read_text(encoding="utf-8")
    lines = text.split("\n")[:-1]  # anything after the last line break is incomplete
    if not lines:
        raise DataError(f"{path}: empty results file. Delete it and run `vhd bench` again.")
    header = _parse(path, 1, lines[0])
    if header.get("format") != FORMAT or not isinstance(header.get("config"), dict):
        raise DataError(f"{path}: not a results file of this version (its first line is not a format {FORMAT} header).")
    config = header["config"]
    if fault := config_fault(config):
        raise DataError(f"{path}: {fault}. Delete the file and run `vhd bench` again.")
    known = {field.name for field in fields(Row)}
    rows: list[Row] = []
    seen: dict[int, int] = {}
    for number, line in enumerate(lines[1:], start=2):
        values = _parse(path, number, line)
        try:
            row = Row(**{key: value for key, value in values.items() if key in known})
        except TypeError as error:
            raise DataError(f"{path}, line {number}: not a result row ({error}). {_MEND}") from error
        if fault := row_fault(row, config):
            raise DataError(f"{path}, line {number}: {fault}. {_MEND}")
        if row.instance in seen:
            raise DataError(
                f"{path}, line {number}: instance {row.instance} is already in line {seen[row.instance]} and "
                f"would count twice. {_MEND}"
            )
        seen[row.instance] = number
        rows.append(row)
    return ResultFile(path, config, rows)


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    return parse_json(path, line, _MEND, f", line {number}")


def read_folder(folder: Path) -> list[ResultFile]:
    """All results in a folder and its subfolders, sorted by path."""
    files = sorted(folder.rglob("*.jsonl"))
    if not files:
        raise DataError(f"{folder}: no results (*.jsonl). Create some with `vhd bench --out {folder}`.")
    return [read_results(path) for path in files]


class RowWriter:
    """An open results file that knows which instances it already has."""

    def __init__(self, path: Path, file: TextIO, config: Mapping[str, Any], present: dict[int, Row]) -> None:
        self.path, self.config, self.present = path, config, present
        self._file = file

    def write(self, row: Row) -> None:
        """Append one row and flush it."""
        if row.instance in self.present:
            raise DataError(f"{self.path}: instance {row.instance} is already in the file.")
        if fault := row_fault(row, self.config):
            raise DataError(f"{self.path}: instance {row.instance} was not written: {fault}.")
        _write_line(self.path, self._file, asdict(row))
        self.present[row.instance] = row


def _write_line(path: Path, file: TextIO, value: dict[str, Any]) -> None:
    with writing(path, "Earlier rows are kept: run the same command to continue."):
        file.write(json.dumps(value) + "\n")
        file.flush()


@contextmanager
def open_results(path: Path, config: dict[str, Any]) -> Iterator[RowWriter]:
    """Create a file, or continue it under the same `config`; raises `DataError` if its configuration differs."""
    config = json.loads(json.dumps(config))  # as it will be read back: JSON has no tuples
    make_folder(path.parent)
    with writing(path):
        file = open(regular_target(path), "a+", encoding="utf-8", newline="\n")  # noqa: SIM115 - closed below
    try:
        if not try_lock(file.fileno()):
            raise DataError(f"{path}: another run is writing to it. Wait for it to finish, or choose another folder.")
        present = _continue(path, file, config)
        yield RowWriter(path, file, config, present)
    finally:
        # A failed flush was already reported by `write`.
        with suppress(OSError):
            file.close()


def _continue(path: Path, file: TextIO, config: dict[str, Any]) -> dict[int, Row]:
    """Read the rows of an existing file and truncate it after its last complete line; write the header of a new one."""
    file.seek(0)
    text = file.read()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        file.truncate(len(whole.encode("utf-8")))
    if not whole:
        _write_line(path, file, {"format": FORMAT, "config": config})
        return {}
    found = read_results(path)
    differ = differences(found.config, config)
    if differ and not found.rows:
        file.truncate(0)  # started under another configuration, but without rows
        _write_line(path, file, {"format": FORMAT, "config": config})
    elif differ:
        details = "; ".join(f"{key}: {there} there, {now} now" for key, (there, now) in differ.items())
        raise DataError(
            f"{path}: contains results of another configuration ({details}). Nothing was changed: write to "
            "another folder, or delete the file to start over."
        )
    return {row.instance: row for row in found.rows}
