"""`vhd data import`: a user's own trajectories."""

from __future__ import annotations

from dataclasses import dataclass

from tyro.conf import Positional

from vhdiffuser.cli.data_info import print_dataset
from vhdiffuser.console import err
from vhdiffuser.data.store import dataset_path, save_dataset
from vhdiffuser.envs.registry import environments
from vhdiffuser.errors import DataError
from vhdiffuser.types import EnvSpec


@dataclass(frozen=True)
class Import:
    """Import your own trajectories, or an official file that you have.

    NAME is new for your own data, or an environment's name for its official file. FILE is .npz or
    .hdf5 with `observations` (N, o), optionally `actions` (N, m), and `episode_ends` (or `terminals`/
    `timeouts`); or `minari:DATASET_ID`. Examples:

        vhd data import my-robot runs.npz --goal-dims 0 1
        vhd data import my-robot runs.npz --goal-dims 0 1 --velocity-dims 2 3 --control-dt 0.05
        vhd data import maze2d-large maze2d-large-sparse-v1.hdf5
    """

    name: Positional[str]
    """Name to keep it under."""
    file: Positional[str]
    """File to read, or minari:DATASET_ID."""
    state_dims: tuple[int, ...] | None = None
    """Observation dimensions to plan in (default: all)."""
    goal_dims: tuple[int, ...] | None = None
    """Of the planning state, the dimensions that a goal fixes (default: all)."""
    velocity_dims: tuple[int, ...] | None = None
    """Of the planning state, the velocity of each goal dimension, in units per second (default: none)."""
    control_dt: float | None = None
    """Seconds between two rows. With velocities it is checked against the data, and inferred where it is not given
    (default without velocities: 1, so that time is counted in steps)."""
    t_max: int | None = None
    """Longest plan in states (default: the longest episode, 256 at most)."""
    l_min: int | None = None
    """Shortest plan in states (default: 8)."""
    epsilon: float | None = None
    """Goal tolerance on the normalised goal dimensions (default: 0.05)."""
    replace: bool = False
    """Replace a dataset of that name."""
    json: bool = False
    """Print what was imported as one JSON object, as `vhd data info` does."""

    def run(self) -> None:
        """Read, check, save."""
        from vhdiffuser.envs.importing import import_dataset

        if dataset_path(self.name).exists() and not self.replace:
            raise DataError(f"a dataset '{self.name}' is already here. Pass --replace, or choose another name.")
        settings = {
            "state_dims": self.state_dims,
            "goal_dims": self.goal_dims,
            "velocity_dims": self.velocity_dims,
            "control_dt": self.control_dt,
            "T_max": self.t_max,
            "L_min": self.l_min,
            "epsilon": self.epsilon,
        }
        given = {key: value for key, value in settings.items() if value is not None}
        dataset = import_dataset(self.name, self.file, **given)
        save_dataset(dataset)
        if self.control_dt is None and self.name not in environments():
            err.print(f"control_dt: {_time_step(dataset.spec)}")
        print_dataset(dataset, self.json)


def _time_step(spec: EnvSpec) -> str:
    """How an import without --control-dt came by its time step."""
    if spec.velocity_dims is None:
        return "none was given, so time is counted in control steps"
    return f"{spec.control_dt:g} s, inferred from positions and velocities"
