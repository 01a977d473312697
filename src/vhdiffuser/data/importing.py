"""A user's file, or an official file at hand, as a dataset of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.data.readers import read_d4rl_maze2d, read_minari, read_ogbench, read_own
from vhdiffuser.data.store import Dataset
from vhdiffuser.envs.registry import SPECS
from vhdiffuser.errors import DataError
from vhdiffuser.types import EnvSpec, Episodes


def import_dataset(name: str, file: str, **settings: Any) -> Dataset:
    """Read `file` (a path, or `minari:ID`) under a new name, or under a registered environment's.

    `settings` are those of `own_spec`; a registered environment brings its own and ignores them.
    """
    if not name or any(part in name for part in ("/", "\\", "..")) or name.startswith("."):
        raise DataError(f"'{name}' cannot name a dataset. Use letters, digits and dashes.")
    details = {"file": Path(file).name if not file.startswith("minari:") else file}
    if name in SPECS:
        spec = SPECS[name]
        episodes = _read_official(spec, file)
        if episodes.observations.shape[1] != spec.observation_dim or episodes.actions.shape[1] != spec.action_dim:
            raise DataError(
                f"{file}: {episodes.observations.shape[1]} observation and {episodes.actions.shape[1]} action columns, "
                f"but {name} has {spec.observation_dim} and {spec.action_dim}. Import it under another name."
            )
        return Dataset(spec, episodes, "import", details)
    episodes = read_minari(file.removeprefix("minari:")) if file.startswith("minari:") else read_own(Path(file))
    return Dataset(own_spec(name, episodes, **settings), episodes, "import", details)


def _read_official(spec: EnvSpec, file: str) -> Episodes:
    path = Path(file)
    if spec.family == "maze2d":
        return read_d4rl_maze2d(path)
    validation = path.with_name(path.stem + "-val" + path.suffix)
    return read_ogbench([path, validation] if validation.exists() else [path])


def own_spec(
    name: str,
    episodes: Episodes,
    state_dims: tuple[int, ...] | None = None,
    goal_dims: tuple[int, ...] | None = None,
    velocity_dims: tuple[int, ...] | None = None,
    control_dt: float = 1.0,
    T_max: int | None = None,
    L_min: int = 8,
    epsilon: float = 0.05,
) -> EnvSpec:
    """Settings for data that has no registered environment; what is not given is taken from the data."""
    observation_dim, action_dim = episodes.observations.shape[1], episodes.actions.shape[1]
    state_dims = tuple(range(observation_dim)) if state_dims is None else state_dims
    goal_dims = tuple(range(len(state_dims))) if goal_dims is None else goal_dims
    if velocity_dims is not None and len(velocity_dims) != len(goal_dims):
        raise DataError(f"velocity dimensions {velocity_dims} must be as many as goal dimensions {goal_dims}.")
    longest = int(np.diff(episodes.ends, prepend=0).max())
    T_max = min(longest, 256) if T_max is None else T_max
    if T_max > longest:
        raise DataError(f"T_max {T_max} is longer than the longest episode ({longest} states).")
    L_min = min(L_min, T_max)
    return EnvSpec(
        name=name,
        family="own",
        observation_dim=observation_dim,
        action_dim=action_dim,
        state_dims=state_dims,
        state_names=tuple(f"s{dim}" for dim in state_dims),
        goal_dims=goal_dims,
        velocity_dims=velocity_dims,
        control_dt=control_dt,
        epsilon=epsilon,
        horizons=(max(L_min, T_max // 4), max(L_min, T_max // 2), T_max),
        T_max=T_max,
        L_min=L_min,
        controller="inverse_dynamics",
        step_budget=4 * T_max,
        transitions=episodes.transitions,
        instances="starts and goals are yours to give",
    )
