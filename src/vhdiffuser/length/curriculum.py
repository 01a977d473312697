"""The three-phase curriculum of Sec. V-B: anchor warm-start, DP expansion, relay/triangle strengthening."""

from __future__ import annotations

from typing import Any

import torch

from vhdiffuser.length.config import PhaseConfig, PlateauConfig


class Curriculum:
    """Tracks the training phase from each update's anchor error."""

    def __init__(self, phases: tuple[PhaseConfig, ...], plateau: PlateauConfig, ramp: int) -> None:
        """`ramp`: number of updates over which the loss weights change from one phase's to the next."""
        self.phases = phases
        self.plateau = plateau
        self.ramp = ramp
        self.phase = 0
        self.starts = [0]  # first update of each phase so far
        self.error = float("inf")  # last reading, normalised
        self._best = float("inf")
        self._stale = 0  # readings since the best
        self._sum: torch.Tensor | float = 0.0
        self._count = 0

    @property
    def began(self) -> int:
        """First update of the current phase."""
        return self.starts[-1]

    @property
    def current(self) -> PhaseConfig:
        """Settings of the current phase."""
        return self.phases[self.phase]

    def weights(self, update: int) -> tuple[float, float]:
        """lambda_cons and lambda_triangle, ramped linearly from the previous phase's."""
        now = self.current
        before = self.phases[max(self.phase - 1, 0)]
        share = min((update - self.began) / max(self.ramp, 1), 1.0)
        return (
            before.lambda_cons + share * (now.lambda_cons - before.lambda_cons),
            before.lambda_triangle + share * (now.lambda_triangle - before.lambda_triangle),
        )

    def observe(self, anchor_error: torch.Tensor, update: int) -> None:
        """Record one update's mean |f - y| over anchors; enter the next phase once it has plateaued.

        The error stays a tensor until a window is full: reading it at every update would stall a GPU.
        """
        self._sum = self._sum + anchor_error.detach()
        self._count += 1
        if self._count < self.plateau.window:
            return
        self.error = float(self._sum) / self._count
        self._sum, self._count = 0.0, 0
        if self.error < self._best * (1 - self.plateau.improvement):
            self._best, self._stale = self.error, 0
        else:
            self._stale += 1
        spent = update + 1 - self.began
        flat = self._stale >= self.plateau.patience and spent >= self.current.shortest
        if self.phase < len(self.phases) - 1 and (flat or spent >= self.current.longest):
            self.phase += 1
            self.starts.append(update + 1)
            # The new phase draws different pairs, so its errors are not comparable with earlier ones.
            self._best, self._stale = float("inf"), 0

    def state(self) -> dict[str, Any]:
        """JSON-serialisable state from which training resumes exactly."""
        return {
            "phase": self.phase,
            "starts": self.starts,
            "error": _finite(self.error),
            "best": _finite(self._best),
            "stale": self._stale,
            "sum": float(self._sum),
            "count": self._count,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Inverse of `state`."""
        self.phase = int(state["phase"])
        # Up to version 0.3 only the start of the current phase was stored.
        self.starts = [*state["starts"]] if "starts" in state else [0, *[int(state["began"])] * self.phase]
        self.error, self._best = (float("inf") if state[key] is None else state[key] for key in ("error", "best"))
        self._stale, self._sum, self._count = int(state["stale"]), float(state["sum"]), int(state["count"])


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None  # JSON has no infinity
