"""`vhd data import`: import your own trajectories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.data_info import print_dataset
from vhdiffuser.cli.options import Omittable
from vhdiffuser.console import err
from vhdiffuser.envs.registry import environments
from vhdiffuser.types import EnvSpec

Dimensions = Annotated[tuple[str, ...], tyro.conf.arg(metavar="DIM ...")]
"""Columns by index or name."""


@dataclass(frozen=True)
class Import:
    """Import your own trajectories, or a local copy of an official file.

    NAME is a new name for your own data, or an environment's name for its official file. FILE is a .csv with a header
    row (columns `episode`, `time` and `action...` have a meaning); an .npz or .hdf5 with `observations` (N, o),
    optionally `actions` (N, m), and `episode_ends` (or `terminals`/`timeouts`); or `minari:DATASET_ID`. Examples:

        vhd data import my-robot log.csv --state-dims x y --goal-dims x y
        vhd data import my-robot runs.npz --goal-dims 0 1
        vhd data import my-robot runs.npz --goal-dims 0 1 --velocity-dims 2 3 --control-dt 0.05
        vhd data import maze2d-large maze2d-large-sparse-v1.hdf5
    """

    name: Positional[Annotated[str, tyro.conf.arg(metavar="NAME")]]
    """Name of the dataset."""
    file: Positional[Annotated[str, tyro.conf.arg(metavar="FILE")]]
    """File to read, or minari:DATASET_ID."""
    state_dims: Omittable[Dimensions] = None
    """Observation columns to plan in, by index or name (default: all)."""
    goal_dims: Omittable[Dimensions] = None
    """Planning-state dimensions that a goal specifies (default: all)."""
    velocity_dims: Omittable[Dimensions] = None
    """Planning-state dimensions with the velocity of each goal dimension, in units/s (default: none)."""
    names: Omittable[tuple[str, ...]] = None
    """Names of the observation columns, for messages and figures (default: those in a .csv, or s0, s1, ...)."""
    control_dt: Omittable[float] = None
    """Seconds between rows. With velocities it is checked against the data, or inferred if omitted (default without
    velocities: 1, i.e. time in steps)."""
    t_max: Omittable[int] = None
    """Maximum plan length in states (default: the longest episode, at most 256)."""
    l_min: Omittable[int] = None
    """Minimum plan length in states (default: 8)."""
    epsilon: Omittable[float] = None
    """Goal tolerance on the normalised goal dimensions (default: 0.05)."""
    replace: bool = False
    """Replace an existing dataset with this name."""
    json: bool = False
    """Print a description as one JSON object, as `vhd data info` does."""

    def run(self) -> None:
        """Read, validate and save the data."""
        from vhdiffuser.envs.importing import save_import

        settings = {
            "state_dims": self.state_dims,
            "goal_dims": self.goal_dims,
            "velocity_dims": self.velocity_dims,
            "control_dt": self.control_dt,
            "T_max": self.t_max,
            "L_min": self.l_min,
            "epsilon": self.epsilon,
            "names": self.names,
        }
        given = {key: value for key, value in settings.items() if value is not None}
        dataset = save_import(self.name, self.file, replace=self.replace, **given)
        own = self.name not in environments()
        if self.control_dt is None and own:
            err.print(f"control_dt: {_time_step(dataset.spec)}")
        print_dataset(dataset, self.json)
        if own:
            spec, actions = dataset.spec, dataset.episodes.actions.shape[1]
            goal = " ".join(spec.state_names[dim] for dim in spec.goal_dims)
            err.print(f"planning state {' '.join(spec.state_names)}; goal {goal}; {actions or 'no'} action columns")
            err.print(f"next: `vhd train length {self.name}`, then `vhd train planner {self.name}`")


def _time_step(spec: EnvSpec) -> str:
    """How the time step of an import without --control-dt was determined."""
    if spec.velocity_dims is None:
        return "none given, so time is counted in control steps" if spec.control_dt == 1 else f"{spec.control_dt:g} s"
    return f"{spec.control_dt:g} s, consistent with positions and velocities"
