"""Values exchanged between packages: frozen, and validated on construction."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import check_fields, from_fields
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.files import checked_name

FloatArray = npt.NDArray[np.floating[Any]]
"""Floating-point numbers; float32 unless stated otherwise."""
IntArray = npt.NDArray[np.integer[Any]]
BoolArray = npt.NDArray[np.bool_]
ImageArray = npt.NDArray[np.uint8]
"""An RGB image (height, width, 3), 0 to 255."""


@dataclass(frozen=True)
class EnvSpec:
    """What the planner needs to know about an environment: Table I of the paper and a few details it leaves open.

    A *planning state* is a subset of the observation's dimensions; *goal dimensions* are a subset of the planning
    state's. Everything else about an environment is in `vhdiffuser.Environment`. Raises `VhdError` if the fields are
    inconsistent.
    """

    name: str
    """Name of the environment, e.g. `maze2d-large`."""
    observation_dim: int
    """Dimension of an observation."""
    action_dim: int
    """Dimension of an action (0 for data without actions)."""
    state_dims: tuple[int, ...]
    """Observation dimensions that form the planning state."""
    state_names: tuple[str, ...]
    """Names of the planning state's dimensions, with units if known."""
    goal_dims: tuple[int, ...]
    """Planning-state dimensions that define success."""
    velocity_dims: tuple[int, ...] | None
    """For each goal dimension, the planning-state dimension of its velocity; None without velocities."""
    control_dt: float
    """Control period in seconds."""
    epsilon: float
    """Goal tolerance: infinity norm on the normalised goal dimensions (Table I)."""
    T_max: int
    """Maximum plan length in states; distances are truncated at this value."""
    L_min: int
    """Minimum plan length in states."""

    def __post_init__(self) -> None:
        # Data, runs and results are stored under this name, which may come from an untrusted file. A reference that
        # `get_environment` would execute (`robot.py:make`) is therefore not a valid name.
        checked_name("environment", self.name)
        check_fields(self, DataError)
        if self.observation_dim < 1 or not self.state_dims:
            raise DataError(f"{self.name}: at least one observation dimension and one state dimension are required.")
        if len(self.state_names) != len(self.state_dims):
            raise DataError(f"{self.name}: {len(self.state_dims)} state dimensions, but {len(self.state_names)} names.")
        if self.state_dims and not 0 <= min(self.state_dims) <= max(self.state_dims) < self.observation_dim:
            raise DataError(
                f"{self.name}: state dimensions {self.state_dims} must be in 0..{self.observation_dim - 1}."
            )
        if not self.goal_dims or not 0 <= min(self.goal_dims) <= max(self.goal_dims) < len(self.state_dims):
            raise DataError(f"{self.name}: goal dimensions {self.goal_dims} must be in 0..{len(self.state_dims) - 1}.")
        if self.velocity_dims and not 0 <= min(self.velocity_dims) <= max(self.velocity_dims) < len(self.state_dims):
            raise DataError(
                f"{self.name}: velocity dimensions {self.velocity_dims} must be in 0..{len(self.state_dims) - 1}."
            )
        for name in ("state_dims", "goal_dims", "velocity_dims"):
            dims = getattr(self, name) or ()
            if len(set(dims)) < len(dims):
                raise DataError(f"{self.name}: {name} {dims} lists a dimension twice.")
        if self.velocity_dims is not None and len(self.velocity_dims) != len(self.goal_dims):
            raise DataError(
                f"{self.name}: {self.velocity_dims} must name one velocity dimension per goal dimension "
                f"{self.goal_dims}."
            )
        for name in ("epsilon", "control_dt"):
            if not 0 < getattr(self, name) < float("inf"):
                raise DataError(f"{self.name}: {name} must be a finite number > 0; got {getattr(self, name)}.")
        if self.action_dim < 0:
            raise DataError(f"{self.name}: action_dim must be >= 0; got {self.action_dim}.")
        if not 2 <= self.L_min <= self.T_max:
            raise DataError(f"{self.name}: 2 <= L_min <= T_max is required; got {self.L_min} and {self.T_max}.")

    @property
    def state_dim(self) -> int:
        """d, the dimension of a planning state."""
        return len(self.state_dims)

    @property
    def goal_dim(self) -> int:
        """Dimension of a goal."""
        return len(self.goal_dims)

    @property
    def open_dims(self) -> tuple[int, ...]:
        """State dimensions that are neither goal dimensions nor velocities, so a goal at rest leaves them undefined."""
        return tuple(sorted(set(range(self.state_dim)) - {*self.goal_dims, *(self.velocity_dims or ())}))

    def planning_state(self, observation: FloatArray) -> FloatArray:
        """Planning states of observations: (..., observation_dim) -> (..., d)."""
        return observation[..., list(self.state_dims)]

    def goal_of(self, state: FloatArray) -> FloatArray:
        """Goal dimensions of planning states: (..., d) -> (..., goal_dim)."""
        return state[..., list(self.goal_dims)]

    def start_state(self, start: npt.ArrayLike) -> FloatArray:
        """The planning state (d,) of a start given as (d,), or as goal dimensions (goal_dim,) with zeros elsewhere."""
        values = np.asarray(start, np.float32)
        if values.shape == (self.state_dim,):
            return values
        if values.shape != (self.goal_dim,):
            names = ", ".join(self.state_names[dim] for dim in self.goal_dims)
            raise VhdError(
                f"{self.name}: a start needs {self.state_dim} numbers ({', '.join(self.state_names)}), or "
                f"{self.goal_dim} ({names}; the others are then 0); got shape {values.shape}."
            )
        state = np.zeros(self.state_dim, np.float32)
        state[list(self.goal_dims)] = values
        return state

    def place_of(self, start: FloatArray) -> FloatArray:
        """The goal dimensions (goal_dim,) of a start given as goal dimensions, planning state or observation."""
        start = np.asarray(start)
        if len(start) == self.goal_dim:
            return start
        return self.goal_of(start if len(start) == self.state_dim else self.planning_state(start))

    def is_observation(self, start: FloatArray) -> bool:
        """Whether a start is a full observation rather than a planning state."""
        return len(start) == self.observation_dim != self.state_dim

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> EnvSpec:
        """Inverse of `to_json`. Extra fields in files of version 0.1 are ignored."""
        return from_fields(cls, value, "spec", ignore_unknown=True)


@dataclass(frozen=True)
class Episodes:
    """Concatenated episodes. An episode of T states has T-1 actions and T-1 transitions.

    `actions` has as many rows as `observations`, so that both share an index; the row at an episode's last state is
    zero and never used. Raises `DataError` for inconsistent shapes, NaN or infinity.
    """

    observations: FloatArray
    """(N, observation_dim) float32."""
    actions: FloatArray
    """(N, action_dim) float32; row t leads from state t to state t+1."""
    ends: IntArray
    """(E,) int64: index one past each episode's last state, increasing, with ends[-1] == N."""

    def __post_init__(self) -> None:
        states, actions, ends = self.observations, self.actions, self.ends
        if states.ndim != 2 or actions.ndim != 2 or ends.ndim != 1:
            raise DataError(
                f"episodes need 2-D observations and actions and 1-D ends; got shapes {states.shape}, "
                f"{actions.shape}, {ends.shape}."
            )
        if len(actions) != len(states):
            raise DataError(f"observations and actions must have equal length; got {len(states)} and {len(actions)}.")
        if len(ends) == 0 or len(states) == 0:
            raise DataError("no episodes: the data is empty.")
        lengths = np.diff(ends, prepend=0)
        if lengths.min() < 2:
            raise DataError(
                f"episode {int(lengths.argmin())} has {int(lengths.min())} state(s); at least 2 (one "
                "transition) are required. Drop it or join it to its neighbour."
            )
        if ends[-1] != len(states):
            raise DataError(f"the last episode ends at {int(ends[-1])}, but there are {len(states)} observations.")
        for field, values in (("observations", states), ("actions", actions)):
            bad = ~np.isfinite(values).all(axis=1)
            if bad.any():
                raise DataError(
                    f"{field}: row {int(bad.argmax())} contains NaN or infinity ({int(bad.sum())} such rows). "
                    "Remove or repair these episodes."
                )

    @classmethod
    def from_parts(cls, parts: list[tuple[FloatArray, FloatArray]]) -> Episodes:
        """Concatenate episodes given as (T states, T-1 actions)."""
        for number, (states, actions) in enumerate(parts):
            if len(actions) != len(states) - 1:
                raise DataError(
                    f"episode {number}: {len(states)} states need {len(states) - 1} actions; got {len(actions)}."
                )
        if not parts:
            raise DataError("no episodes: the data is empty.")
        blank = np.zeros((1, parts[0][1].shape[1]), np.float32)
        return cls(
            observations=np.concatenate([states for states, _ in parts]).astype(np.float32, copy=False),
            actions=np.concatenate([row for _, actions in parts for row in (actions, blank)]).astype(
                np.float32, copy=False
            ),
            ends=np.cumsum([len(states) for states, _ in parts], dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def transitions(self) -> int:
        """Number of transitions (s, a, s') in all episodes."""
        return len(self.observations) - len(self.ends)

    @property
    def starts(self) -> IntArray:
        """(E,) index of each episode's first state."""
        return np.concatenate([[0], self.ends[:-1]]).astype(np.int64)

    def joined(self, others: Episodes) -> Episodes:
        """Append other episodes."""
        return Episodes(
            np.concatenate([self.observations, others.observations]),
            np.concatenate([self.actions, others.actions]),
            np.concatenate([self.ends, self.ends[-1] + others.ends]),
        )

    def split(self, share: float) -> tuple[Episodes, Episodes]:
        """Split into (training, held out): the last episodes are held out, at least one if there are several.

        A single episode is cut in two.
        """
        if len(self) == 1:
            states, actions = self.episode(0)
            cut = len(states) - max(2, round(share * len(states)))
            if cut < 2:
                raise DataError(f"{len(states)} states are too few to hold out a part.")
            return Episodes.from_parts([(states[:cut], actions[: cut - 1])]), Episodes.from_parts(
                [(states[cut:], actions[cut:])]
            )
        first = min(len(self) - 1, len(self) - round(share * len(self)))
        cut = int(self.ends[first - 1])
        return (
            Episodes(self.observations[:cut], self.actions[:cut], self.ends[:first]),
            Episodes(self.observations[cut:], self.actions[cut:], self.ends[first:] - cut),
        )

    def episode(self, number: int) -> tuple[FloatArray, FloatArray]:
        """Return one episode: (T, observation_dim) states and (T-1, action_dim) actions."""
        begin, end = int(self.starts[number]), int(self.ends[number])
        return self.observations[begin:end], self.actions[begin : end - 1]


@dataclass(frozen=True)
class Instance:
    """A test case: a start and a goal. `seed` determines what the start state leaves open."""

    start: FloatArray
    """A planning state (d,), its goal dimensions alone (goal_dim,), or a full observation (observation_dim,)."""
    goal: FloatArray
    """(goal_dim,) goal."""
    seed: int
    """Seed for resetting the simulator (e.g. the ant's joints)."""
