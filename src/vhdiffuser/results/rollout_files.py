"""What figures and videos need besides the rows: saved rollouts and example plans, as npz files."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path
from vhdiffuser.types import FloatArray, Instance


@dataclass(frozen=True)
class KeptRollout:
    """One complete execution."""

    number: int
    """Number of its instance."""
    instance: Instance
    """Start, goal and simulator seed: together with `actions`, enough to repeat it."""
    success: bool
    """Whether it reached the goal."""
    states: FloatArray
    """(steps + 1, d) planning states."""
    actions: FloatArray
    """(steps, m)."""
    plans: tuple[tuple[int, FloatArray], ...]
    """(control step, (L, goal_dim) planned positions) of each plan."""


@dataclass(frozen=True)
class PlanSheet:
    """Plans of one start-goal pair at different lengths (Fig. 1)."""

    environment: str
    """Environment."""
    goal: FloatArray
    """(goal_dim,)."""
    plans: tuple[FloatArray, ...]
    """(L, goal_dim) positions of each plan."""
    walls: FloatArray
    """(n, 4) boxes x_low, x_high, y_low, y_high; empty without walls."""


def save_rollout(path: Path, kept: KeptRollout) -> None:
    """Write one rollout."""
    arrays = {
        "number": np.array(kept.number),
        "start": kept.instance.start,
        "goal": kept.instance.goal,
        "seed": np.array(kept.instance.seed),
        "success": np.array(kept.success),
        "states": kept.states.astype(np.float32),
        "actions": kept.actions.astype(np.float32),
        "plan_steps": np.array([step for step, _ in kept.plans]),
        **{f"plan{order}": places.astype(np.float32) for order, (_, places) in enumerate(kept.plans)},
    }
    _save(path, arrays)


def load_rollout(path: Path) -> KeptRollout:
    """Read one rollout."""
    arrays = _load(path, ("number", "start", "goal", "seed", "success", "states", "actions", "plan_steps"))
    plans = tuple((int(step), arrays[f"plan{order}"]) for order, step in enumerate(arrays["plan_steps"]))
    return KeptRollout(
        number=int(arrays["number"]),
        instance=Instance(arrays["start"], arrays["goal"], int(arrays["seed"])),
        success=bool(arrays["success"]),
        states=arrays["states"],
        actions=arrays["actions"],
        plans=plans,
    )


def save_plans(path: Path, sheet: PlanSheet) -> None:
    """Write the plans of one pair."""
    plans = {f"plan{order}": places for order, places in enumerate(sheet.plans)}
    _save(path, {"environment": np.array(sheet.environment), "goal": sheet.goal, "walls": sheet.walls, **plans})


def load_plans(path: Path) -> PlanSheet:
    """Read the plans of one pair."""
    arrays = _load(path, ("environment", "goal", "walls"))
    count = sum(name.startswith("plan") for name in arrays)
    return PlanSheet(
        environment=str(arrays["environment"]),
        goal=arrays["goal"],
        plans=tuple(arrays[f"plan{order}"] for order in range(count)),
        walls=arrays["walls"],
    )


def _save(path: Path, arrays: dict[str, npt.NDArray[Any]]) -> None:
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _load(path: Path, needed: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path}: damaged or not an npz file ({error}). Delete it and run `vhd bench` again."
        ) from error
    if missing := [name for name in needed if name not in arrays]:
        raise DataError(f"{path}: lacks {', '.join(missing)}; not written by vhdiffuser.")
    return arrays
