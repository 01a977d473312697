"""Import of user data, or of local copies of official files, as datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.arguments import as_amount, as_whole, shown
from vhdiffuser.data.csv_log import read_csv
from vhdiffuser.data.readers import read_minari, read_own
from vhdiffuser.data.store import Dataset, require_new, save_dataset, writing_dataset
from vhdiffuser.envs.registry import environments
from vhdiffuser.errors import DataError, UnknownNameError, warn
from vhdiffuser.files import checked_name
from vhdiffuser.types import EnvSpec, Episodes

_ROWS = 200_000
"""Approximate number of rows used to fit a time step, evenly subsampled."""
_LEAST_ROWS = 10
"""Minimum number of moving rows to fit a time step."""
_LARGEST_MISFIT = 0.25
"""Largest fraction of the motion left unexplained by a fitted time step, in the median row."""
_DISAGREEMENT = 0.1
"""Maximum relative difference between a given time step and the fitted one."""


def import_dataset(name: str, file: str | Path, **settings: Any) -> Dataset:
    """Read `file` (a path, or `minari:ID`) under a new name, or under a registered environment's.

    `settings` are those of `own_spec`; a registered environment has its own and accepts none. Raises `DataError` for
    invalid files.
    """
    checked_name("dataset", name)
    if not isinstance(file, str | Path):
        raise DataError(f"pass a file as a path, or as minari:ID; got {shown(file)}.")
    file = str(file)
    details = {"file": Path(file).name if not file.startswith("minari:") else file}
    if name in environments():
        environment = environments()[name]
        spec = environment.spec
        if settings:
            raise DataError(f"{name} has its own settings: leave out {', '.join(settings)}, or choose another name.")
        episodes = environment.reader(Path(file))
        if episodes.observations.shape[1] != spec.observation_dim or episodes.actions.shape[1] != spec.action_dim:
            raise DataError(
                f"{file}: {episodes.observations.shape[1]} observation and {episodes.actions.shape[1]} action columns, "
                f"but {name} has {spec.observation_dim} and {spec.action_dim}. Import it under another name."
            )
        return Dataset(spec, episodes, "import", details)
    if Path(file).suffix.lower() == ".csv" and not file.startswith("minari:"):
        log = read_csv(Path(file))
        settings = {"names": log.names, "control_dt": log.control_dt} | settings
        return Dataset(own_spec(name, log.episodes, **settings), log.episodes, "import", details)
    episodes = read_minari(file.removeprefix("minari:")) if file.startswith("minari:") else read_own(Path(file))
    return Dataset(own_spec(name, episodes, **settings), episodes, "import", details)


def save_import(name: str, file: str | Path, *, replace: bool = False, **settings: Any) -> Dataset:
    """Import `file` as `import_dataset` does, and save it under that name for use in all commands."""
    require_new(name, replace)
    with writing_dataset(name):
        dataset = import_dataset(name, file, **settings)
        save_dataset(dataset)
    return dataset


def own_spec(
    name: str,
    episodes: Episodes,
    state_dims: Sequence[int | str] | None = None,
    goal_dims: Sequence[int | str] | None = None,
    velocity_dims: Sequence[int | str] | None = None,
    control_dt: float | None = None,
    T_max: int | None = None,
    L_min: int | None = None,
    epsilon: float = 0.05,
    names: Sequence[str] | None = None,
) -> EnvSpec:
    """The spec of data without a registered environment; omitted settings are taken from the data.

    Dimensions are given by index or, if the observation's columns have `names`, by name. With velocities, `control_dt`
    (seconds) is checked against positions and velocities, or inferred from them.
    """
    for given, value in (("T_max", T_max), ("L_min", L_min)):
        if value is not None:
            as_whole(given, value, least=1)
    for given, number in (("epsilon", epsilon), ("control_dt", control_dt)):
        if number is not None:
            as_amount(given, number)
    observation_dim, action_dim = episodes.observations.shape[1], episodes.actions.shape[1]
    columns = tuple(f"s{dim}" for dim in range(observation_dim)) if names is None else tuple(names)
    if len(columns) != observation_dim:
        raise DataError(f"{len(columns)} names for {observation_dim} observation columns: pass one name per column.")
    state_dims = _numbers(state_dims, columns) if state_dims is not None else tuple(range(observation_dim))
    state_names = tuple(columns[dim] if 0 <= dim < observation_dim else str(dim) for dim in state_dims)
    goal_dims = _numbers(goal_dims, state_names) if goal_dims is not None else tuple(range(len(state_dims)))
    velocity_dims = None if velocity_dims is None else _numbers(velocity_dims, state_names)
    if velocity_dims is not None and len(velocity_dims) != len(goal_dims):
        raise DataError(f"{velocity_dims} must name one velocity dimension per goal dimension {goal_dims}.")
    longest = int(np.diff(episodes.ends, prepend=0).max())
    T_max = min(longest, 256) if T_max is None else T_max
    if T_max > longest:
        raise DataError(f"T_max {T_max} exceeds the longest episode ({longest} states).")
    L_min = min(8, T_max) if L_min is None else L_min
    spec = EnvSpec(
        name=name,
        observation_dim=observation_dim,
        action_dim=action_dim,
        state_dims=state_dims,
        state_names=state_names,
        goal_dims=goal_dims,
        velocity_dims=velocity_dims,
        control_dt=1.0 if control_dt is None else control_dt,
        epsilon=epsilon,
        T_max=T_max,
        L_min=L_min,
    )
    return replace(spec, control_dt=checked_control_dt(spec, episodes, control_dt))


def _numbers(dims: Sequence[int | str], names: Sequence[str]) -> tuple[int, ...]:
    """Convert dimensions given by index or name to indices."""
    fits = isinstance(dims, Sequence) and not isinstance(dims, str | bytes)
    if not fits or not all(isinstance(dim, int | np.integer | str) and not isinstance(dim, bool) for dim in dims):
        raise DataError(f"pass dimensions as a list of columns, by index or name; got {shown(dims)}.")
    unknown = [str(dim) for dim in dims if isinstance(dim, str) and dim not in names and not dim.isdigit()]
    if unknown:
        raise UnknownNameError("column", unknown[0], list(names))
    return tuple(names.index(dim) if dim in names else int(dim) for dim in dims)


def checked_control_dt(spec: EnvSpec, episodes: Episodes, given: float | None) -> float:
    """Seconds between rows: as given unless the data disagrees, otherwise inferred, otherwise 1 (time in steps)."""
    if given is not None and not 0 < given < np.inf:
        raise DataError(f"control_dt must be a time > 0 (seconds between rows); got {given}.")
    if spec.velocity_dims is None:
        return 1.0 if given is None else given
    fitted, misfit = fit_control_dt(spec, episodes)
    if misfit > _LARGEST_MISFIT:
        best = "nothing moves" if misfit == np.inf else f"the best fit, {fitted:.3g} s, is off by {misfit:.0%}"
        reason = (
            f"{spec.name}: no single control_dt explains the change of position by the velocity ({best}): "
            f"noise, other units, or other dimensions than {spec.velocity_dims}."
        )
        if given is None:
            raise DataError(f"{reason} Set control_dt (--control-dt), or leave out the velocity dimensions.")
        warn(f"{reason} Using control_dt {given:g} s as given.")
        return given
    if given is None:
        return float(f"{fitted:.3g}")
    if abs(given - fitted) > _DISAGREEMENT * fitted:
        raise DataError(
            f"{spec.name}: control_dt is {given:g} s, but positions and velocities give {fitted:.3g} s. Use "
            "that value (or none, to infer it), or correct the units of the velocities."
        )
    return given


def fit_control_dt(spec: EnvSpec, episodes: Episodes) -> tuple[float, float]:
    """The dt that best fits p' - p = v dt, and the unexplained fraction of the motion (infinity: no motion).

    v may be the velocity before the step, after it, or their mean: simulators and filters differ.
    """
    assert spec.velocity_dims is not None
    states = spec.planning_state(episodes.observations).astype(np.float64)
    places, velocity = spec.goal_of(states), states[:, list(spec.velocity_dims)]
    rows = np.setdiff1d(np.arange(len(states)), episodes.ends - 1)  # an episode's last state has no successor
    rows = rows[:: max(1, len(rows) // _ROWS)]
    moved = places[rows + 1] - places[rows]  # (n, goal_dim)
    fits = []
    for v in (velocity[rows], velocity[rows + 1], (velocity[rows] + velocity[rows + 1]) / 2):
        speed = np.linalg.norm(v, axis=1)
        moving = speed > 0.1 * np.quantile(speed, 0.9)
        if moving.sum() < _LEAST_ROWS:
            continue
        v, steps, speed = v[moving], moved[moving], speed[moving]
        dt = float(np.median((steps * v).sum(axis=1) / speed**2))
        if dt > 0:
            fits.append((dt, float(np.median(np.linalg.norm(steps - dt * v, axis=1) / (dt * speed)))))
    return min(fits, key=lambda fit: fit[1], default=(np.nan, np.inf))
