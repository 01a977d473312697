"""The training log: `log.jsonl`, and the same scalars for TensorBoard."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from vhdiffuser.files import atomic_path, make_folder, writing
from vhdiffuser.training.checkpoint import BEFORE

_KEPT = "The last checkpoint is kept: run the same command to continue."


class TrainingLog:
    """`log.jsonl` and TensorBoard; lines after the checkpoint we resume from are dropped.

    When a run is restarted, lines are buffered until `begin`; until then the old run's log is kept.
    """

    def __init__(self, folder: Path, first: int, restart: bool) -> None:
        self.folder, self.path, self.first = folder, folder / "log.jsonl", first
        self._held: list[tuple[int, float, dict[str, float], float]] = []
        self._board: _Board | None = None
        if not restart:
            self._open()

    def begin(self) -> None:
        """Call after the first checkpoint: deletes the old run's model and logs, and starts the new ones."""
        if self._board is not None:
            return
        names = ("model.safetensors", BEFORE, self.path.name, "tensorboard/events.out.*")
        for old in (path for name in names for path in self.folder.glob(name)):
            with writing(old):
                old.unlink(missing_ok=True)
        self._open()
        for line in self._held:
            self.write(*line)

    def _open(self) -> None:
        make_folder(self.folder)
        if self.path.exists():
            text = self.path.read_text(
                encoding="utf-8", errors="replace"
            )  # the last line of a killed run may be incomplete
            lines = [line for line in text.splitlines() if _update_of(line) <= self.first]
            with atomic_path(self.path) as temporary:
                temporary.write_text("".join(line + "\n" for line in lines))
        self._board = _Board(self.folder / "tensorboard", self.first)

    def write(self, update: int, seconds: float, metrics: dict[str, float], rate: float) -> None:
        """Write one line."""
        if self._board is None:
            self._held.append((update, seconds, metrics, rate))
            return
        entry: dict[str, Any] = {"update": update, "seconds": round(seconds, 1), "learning_rate": rate}
        with writing(self.path, _KEPT), open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({**entry, **metrics}) + "\n")
        self._board.write(update, metrics)


class _Board:
    """Scalars for TensorBoard, written synchronously: its own writer uses a thread whose errors are lost."""

    def __init__(self, folder: Path, first: int) -> None:
        """TensorBoard drops what an earlier session wrote after update `first`."""
        from tensorboard.compat.proto.event_pb2 import SessionLog

        stem = f"events.out.tfevents.{int(time.time()):010d}.{platform.node()}.{os.getpid()}"
        taken = len(list(make_folder(folder).glob(f"{stem}.*")))
        self.path = folder / f"{stem}.{taken}"
        self._add(file_version="brain.Event:2")
        self._add(step=first, session_log=SessionLog(status=SessionLog.START))

    def write(self, update: int, metrics: dict[str, float]) -> None:
        """Write all metrics of one update."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._add(step=update, summary=Summary(value=values))

    def _add(self, **content: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        with writing(self.path, _KEPT), open(self.path, "ab") as file:
            RecordWriter(file).write(Event(wall_time=time.time(), **content).SerializeToString())


def _update_of(line: str) -> float:
    try:
        return float(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError, RecursionError):  # incomplete or damaged
        return float("inf")
