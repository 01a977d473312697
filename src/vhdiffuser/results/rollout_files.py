"""Saved rollouts and example plans in npz files: what figures and videos need besides the rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path
from vhdiffuser.reading import NUMBERS, TEXT, read_npz, reading
from vhdiffuser.types import FloatArray, Instance

_MEND = "Delete it and run `vhd bench` again."


@dataclass(frozen=True)
class KeptRollout:
    """One complete execution."""

    number: int
    """Instance number."""
    instance: Instance
    """Start, goal and simulator seed; with `actions`, enough to replay the execution."""
    success: bool
    """Whether it reached the goal."""
    states: FloatArray
    """(steps + 1, d) planning states."""
    actions: FloatArray
    """(steps, m) actions."""
    plans: tuple[tuple[int, FloatArray], ...]
    """(control step, (L, goal_dim) planned positions) of each plan."""


@dataclass(frozen=True)
class PlanSheet:
    """Plans of one start-goal pair at different lengths (Fig. 1)."""

    environment: str
    """Environment."""
    goal: FloatArray
    """(goal_dim,) goal."""
    plans: tuple[FloatArray, ...]
    """(L, goal_dim) positions of each plan."""
    walls: FloatArray
    """(n, 4) boxes x_low, x_high, y_low, y_high; empty without walls."""
    planner: str = "VHD"
    """Planner of all plans; empty if each plan is by a planner of its own fixed horizon."""
    rule: str = ""
    """How the pair was chosen."""


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
    names = ("number", "start", "goal", "seed", "success", "states", "actions", "plan_steps")
    arrays = read_npz(path, names, None, mend=_MEND)
    sizes = {"number": 0, "start": 1, "goal": 1, "seed": 0, "success": 0, "states": 2, "actions": 2, "plan_steps": 1}
    _check(path, arrays, sizes)
    with reading(path, "a rollout", _MEND):
        return KeptRollout(
            number=int(arrays["number"]),
            instance=Instance(arrays["start"], arrays["goal"], int(arrays["seed"])),
            success=bool(arrays["success"]),
            states=arrays["states"],
            actions=arrays["actions"],
            plans=tuple((int(step), arrays[f"plan{order}"]) for order, step in enumerate(arrays["plan_steps"])),
        )


def save_plans(path: Path, sheet: PlanSheet) -> None:
    """Write the plans of one pair."""
    plans = {f"plan{order}": places for order, places in enumerate(sheet.plans)}
    texts = {name: np.array(getattr(sheet, name)) for name in ("environment", "planner", "rule")}
    _save(path, {**texts, "goal": sheet.goal, "walls": sheet.walls, **plans})


def load_plans(path: Path) -> PlanSheet:
    """Read the plans of one pair."""
    arrays = read_npz(path, ("environment", "goal", "walls"), None, NUMBERS + TEXT, _MEND)
    text = ("environment", "planner", "rule")
    _check(path, arrays, {"goal": 1, "walls": 2, **dict.fromkeys(text, 0)}, text)
    count = sum(name.removeprefix("plan").isdigit() for name in arrays)
    with reading(path, "a sheet of plans", _MEND):
        return PlanSheet(
            environment=str(arrays["environment"]),
            goal=arrays["goal"],
            plans=tuple(arrays[f"plan{order}"] for order in range(count)),
            walls=arrays["walls"],
            **{name: str(arrays[name]) for name in ("planner", "rule") if name in arrays},  # not in files of 0.2
        )


def _save(path: Path, arrays: dict[str, npt.NDArray[Any]]) -> None:
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _check(path: Path, arrays: dict[str, npt.NDArray[Any]], sizes: dict[str, int], text: tuple[str, ...] = ()) -> None:
    """Check types, numbers of dimensions and finiteness; plans have two dimensions."""
    for name, array in arrays.items():
        dims = sizes.get(name, 2 if name.startswith("plan") else array.ndim)
        if array.ndim != dims or (array.dtype.kind == TEXT) != (name in text):
            raise DataError(f"{path}: '{name}' has {array.dtype} of shape {array.shape}. {_MEND}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise DataError(f"{path}: '{name}' contains NaN or infinity. {_MEND}")
