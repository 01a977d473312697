"""The training log: `log.jsonl`, and the same for TensorBoard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vhdiffuser.files import atomic_path


class TrainingLog:
    """`log.jsonl` and TensorBoard; lines after the checkpoint we resume from are dropped.

    When a run is restarted, lines are held back until `begin`; until then the old run's log stays.
    """

    def __init__(self, folder: Path, first: int, restart: bool) -> None:
        self.folder, self.path, self.first = folder, folder / "log.jsonl", first
        self._held: list[tuple[int, float, dict[str, float], float]] = []
        self._board: Any = None
        if not restart:
            self._open()

    def begin(self) -> None:
        """Call after the first checkpoint: deletes the old run's model and logs and starts the new ones."""
        if self._board is not None:
            return
        for old in (self.folder / "model.safetensors", self.path, *self.folder.glob("tensorboard/events.out.*")):
            old.unlink(missing_ok=True)
        self._open()
        for line in self._held:
            self.write(*line)

    def _open(self) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.folder.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            lines = [line for line in self.path.read_text().splitlines() if _update_of(line) <= self.first]
            with atomic_path(self.path) as temporary:
                temporary.write_text("".join(line + "\n" for line in lines))
        self._board = SummaryWriter(str(self.folder / "tensorboard"), purge_step=self.first)

    def write(self, update: int, seconds: float, metrics: dict[str, float], rate: float) -> None:
        """One line."""
        if self._board is None:
            self._held.append((update, seconds, metrics, rate))
            return
        entry: dict[str, Any] = {"update": update, "seconds": round(seconds, 1), "learning_rate": rate}
        with open(self.path, "a") as file:
            file.write(json.dumps({**entry, **metrics}) + "\n")
        for name, value in metrics.items():
            self._board.add_scalar(name, value, update)


def _update_of(line: str) -> float:
    try:
        return json.loads(line)["update"]
    except (ValueError, KeyError):  # the last line of a killed run may be incomplete
        return float("inf")
