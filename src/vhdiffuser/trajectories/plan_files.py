"""Plans in files: npz, JSON and CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.envs.registry import find_environment
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.files import atomic_path, checked_name
from vhdiffuser.reading import NUMBERS, TEXT, parse_json, read_json, read_npz, reading
from vhdiffuser.trajectories.plan import Plan
from vhdiffuser.types import EnvSpec, FloatArray


def save_plan(plan: Plan, path: Path) -> Path:
    """Write a plan; the suffix selects the format."""
    writer = _format(path, {".npz": _write_npz, ".json": _write_json, ".csv": _write_csv})
    with atomic_path(path) as temporary:
        writer(plan, temporary)
    return path


def load_plan(path: Path, spec: EnvSpec | None = None) -> Plan:
    """Read and validate a plan. `spec` is needed if the file does not determine the environment."""
    reader = _format(path, {".npz": _read_npz, ".json": _read_json, ".csv": _read_csv})
    try:
        with reading(path, "a vhdiffuser plan", "Save it again."):
            plan = reader(path, spec)
    except VhdError as error:
        raise DataError(str(error) if str(error).startswith(str(path)) else f"{path}: {error}") from error
    _check(path, plan)
    return plan


def _format(path: Path, formats: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    if path.suffix not in formats:
        raise VhdError(f"{path}: unknown suffix. A plan can be saved as {', '.join(formats)}.")
    return formats[path.suffix]


def _check(path: Path, plan: Plan) -> None:
    if not np.isfinite(plan.states).all() or not np.isfinite(plan.goal).all():
        raise DataError(f"{path}: contains NaN or infinity. Save the plan again.")
    fits = plan.goal.ndim == 1
    if plan.spec is not None:
        fits = plan.states.shape[1] == plan.spec.state_dim and plan.goal.shape == (plan.spec.goal_dim,)
    if not fits:
        raise DataError(
            f"{path}: states {plan.states.shape} and goal {plan.goal.shape} do not match each other or the "
            "spec. Save the plan again."
        )


def _write_npz(plan: Plan, path: Path) -> None:
    arrays = {"states": plan.states, "goal": plan.goal}
    if plan.denoising is not None:
        arrays["denoising"] = plan.denoising
    if plan.spec is not None:
        arrays["spec"] = np.array(json.dumps(plan.spec.to_json()))
    with open(path, "wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _read_npz(path: Path, spec: EnvSpec | None) -> Plan:
    arrays = read_npz(path, ("states", "goal"), ("denoising", "spec"), NUMBERS + TEXT, "Save it again.")
    kept = EnvSpec.from_json(parse_json(path, str(arrays["spec"]), "Save it again.")) if "spec" in arrays else spec
    return Plan(arrays["states"], arrays["goal"], arrays.get("denoising"), kept)


def _write_json(plan: Plan, path: Path) -> None:
    path.write_text(json.dumps(plan.to_json()), encoding="utf-8")


def _read_json(path: Path, spec: EnvSpec | None) -> Plan:
    value = read_json(path, "Save it again.")
    states, goal = _numbers(value["states"]), _numbers(value["goal"])
    if len(states) != value["length"]:
        raise ValueError(f"{len(states)} states, but length {value['length']}")
    name = value["environment"]
    known = None if name is None else find_environment(checked_name("environment", name))
    spec = spec or (None if known is None else known.spec)
    if spec is not None and value["state_names"] != list(spec.state_names):
        raise ValueError(f"states {value['state_names']}, but {spec.name} has {list(spec.state_names)}")
    return Plan(states, goal, spec=spec)


def _write_csv(plan: Plan, path: Path) -> None:
    names = range(plan.states.shape[1]) if plan.spec is None else plan.spec.state_names
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["step", *names])
        writer.writerows([step, *map(float, state)] for step, state in enumerate(plan.states))


def _read_csv(path: Path, spec: EnvSpec | None) -> Plan:
    if spec is None:
        raise VhdError("a .csv file does not name its environment. Pass the spec: Plan.load(path, planner.spec).")
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    if header != ["step", *spec.state_names]:
        raise ValueError(f"columns {header}, but {spec.name} needs step, {', '.join(spec.state_names)}")
    values = _numbers(rows)
    if not np.array_equal(values[:, 0], np.arange(len(values))):
        raise ValueError("the steps are not 0, 1, 2, ...")
    return Plan(values[:, 1:], spec.goal_of(values[-1, 1:]), spec=spec)


def _numbers(values: Any) -> FloatArray:
    return np.array(values, np.float32)
