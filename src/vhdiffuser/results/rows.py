"""Raw results on disk: one JSON-lines file per environment, method, protocol, distribution and seed.

The first line is the configuration that every row of the file shares; each further line is one
instance. Rows are appended as executions end. A file is continued only under the very same
configuration, and a line cut short by a crash or a full disk is dropped when it is opened again.
Every row is checked when it is written and when it is read, and no instance counts twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TextIO

from vhdiffuser.errors import DataError
from vhdiffuser.files import regular_target
from vhdiffuser.results.checks import SHARED, row_fault
from vhdiffuser.results.configs import differences
from vhdiffuser.results.paths import PAIRS

FORMAT = 1

_MEND = "Delete that line; `vhd bench` makes a missing row again."


@dataclass(frozen=True)
class Row:
    """One instance, executed once."""

    environment: str
    """Name in the registry."""
    method: str
    """`vhd`, `fh-lp`, `fh-h1`, `fh-h2`, `fh-h3`, `vhd-paper`."""
    protocol: str
    """`ss`, `rp`, or a peer's: `d4rl-fixed`, `d4rl-random`, both also with `-rp`, `ogbench`."""
    seed: int
    """Seed of the instances and of all plans."""
    instance: int
    """Number of the instance, the same for all methods."""
    start: list[float]
    """The start: a planning state, its goal dimensions alone or a whole observation."""
    goal: list[float]
    """(goal_dim,)."""
    predicted_length: int | None
    """L_hat of the first plan; None where the horizon is fixed."""
    planned_length: int
    """States of the first plan."""
    plan_lengths: list[int]
    """States of every plan, the first included."""
    replans: int
    """Plans made after the first."""
    success: bool
    """Whether the last state lies in the goal region."""
    steps: int
    """Control actions issued: the paper's l."""
    final_distance: float
    """||s_final - g||_inf, normalised."""
    planning_seconds: float
    """Share of the time spent planning."""
    control_seconds: float
    """Share of the time spent in controller and simulators."""
    geodesic: float | None = None
    """True shortest distance between start and goal in the environment's units, where it is known."""
    score: float | None = None
    """A peer's own score of this episode."""
    task: int | None = None
    """A peer's task number."""


@dataclass(frozen=True)
class ResultFile:
    """What one file holds."""

    path: Path
    """Where it was read."""
    config: dict[str, Any]
    """The configuration all rows share."""
    rows: list[Row]
    """Its instances, in the order in which they ended."""

    @property
    def distribution(self) -> str:
        """How its instances were drawn: `reset`, `uniform`, or `pairs` where they are a user's own."""
        return distribution_of(self.config)

    @property
    def streams(self) -> int:
        """Version of the random streams behind it (see `vhdiffuser.streams`)."""
        return streams_of(self.config)


def distribution_of(config: Mapping[str, Any]) -> str:
    """Distribution of a configuration's instances."""
    return str(config.get("instances", {}).get("distribution", PAIRS))


def streams_of(config: Mapping[str, Any]) -> int:
    """Version of a configuration's random streams; the first release did not write one."""
    return int(config.get("streams", 1))


def read_results(path: Path) -> ResultFile:
    """Read one file and check every row; an unfinished last line is left out."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a readable results file ({error}).") from error
    lines = text.split("\n")[:-1]  # what follows the last line break is unfinished
    if not lines:
        raise DataError(f"{path}: an empty results file. Delete it and run `vhd bench` again.")
    header = _parse(path, 1, lines[0])
    if header.get("format") != FORMAT or "config" not in header:
        raise DataError(f"{path}: not a results file of this version (no format {FORMAT} header in its first line).")
    config = header["config"]
    if lacks := [key for key in SHARED if key not in config]:
        raise DataError(f"{path}: its first line lacks {', '.join(lacks)}. Delete the file and run `vhd bench` again.")
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
                f"{path}, line {number}: instance {row.instance} is in line {seen[row.instance]} already, and would "
                f"count twice. {_MEND}"
            )
        seen[row.instance] = number
        rows.append(row)
    return ResultFile(path, config, rows)


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {number}: damaged ({error}). {_MEND}") from error
    if not isinstance(value, dict):
        raise DataError(f"{path}, line {number}: damaged (not an object). {_MEND}")
    return value


def read_folder(folder: Path) -> list[ResultFile]:
    """All results below a folder, in the order of their paths."""
    files = sorted(folder.rglob("*.jsonl"))
    if not files:
        raise DataError(f"{folder}: no results (*.jsonl) in it. Make some with `vhd bench --out {folder}`.")
    return [read_results(path) for path in files]


class RowWriter:
    """An open results file that takes rows, and knows which instances it has already."""

    def __init__(self, path: Path, file: TextIO, config: Mapping[str, Any], present: dict[int, Row]) -> None:
        self.path, self.config, self.present = path, config, present
        self._file = file

    def write(self, row: Row) -> None:
        """Append one row and hand it to the system at once."""
        if row.instance in self.present:
            raise DataError(f"{self.path}: instance {row.instance} is in the file already.")
        if fault := row_fault(row, self.config):
            raise DataError(f"{self.path}: instance {row.instance} was not written, as {fault}.")
        _write_line(self.path, self._file, asdict(row))
        self.present[row.instance] = row


def _write_line(path: Path, file: TextIO, value: dict[str, Any]) -> None:
    try:
        file.write(json.dumps(value) + "\n")
        file.flush()
    except OSError as error:
        raise DataError(
            f"{path}: a row could not be written ({error}). Rows before it are kept; "
            "make room on the disk and run the same command to continue."
        ) from error


@contextmanager
def open_results(path: Path, config: dict[str, Any]) -> Iterator[RowWriter]:
    """Begin or continue a file under `config`; refuse one that holds another configuration."""
    config = json.loads(json.dumps(config))  # as it will be read back: tuples are lists
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(regular_target(path), "a+", encoding="utf-8", newline="\n")  # noqa: SIM115 - closed below
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error}).") from error
    try:
        _lock(path, file)
        present = _continue(path, file, config)
        yield RowWriter(path, file, config, present)
    finally:
        # What could not be flushed was reported when it was written.
        with suppress(OSError):
            file.close()


def _continue(path: Path, file: TextIO, config: dict[str, Any]) -> dict[int, Row]:
    """Rows already in the file, cut behind its last whole line; writes the header of a new one."""
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
        file.truncate(0)  # begun under another configuration, and nothing came of it
        _write_line(path, file, {"format": FORMAT, "config": config})
    elif differ:
        details = "; ".join(f"{key}: {there} there, {now} now" for key, (there, now) in differ.items())
        raise DataError(
            f"{path}: holds results of another configuration ({details}). "
            "Nothing was mixed: write to another folder, or delete the file to start again."
        )
    return {row.instance: row for row in found.rows}


def _lock(path: Path, file: TextIO) -> None:
    """One writer at a time, where the system can lock files."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DataError(f"{path}: another run is writing to it. Wait for it, or choose another folder.") from None
    except OSError:
        return  # some network file systems cannot lock
