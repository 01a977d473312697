"""Values passed between packages: frozen, and validated on construction."""

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
"""A picture (height, width, 3): red, green and blue, 0 to 255."""


@dataclass(frozen=True)
class EnvSpec:
    """What the planner needs to know about an environment: Table I of the paper, and what it leaves open.

    A *planning state* is a subset of the observation's dimensions; *goal dimensions* are a subset of the
    planning state's. Everything else about an environment is in `vhdiffuser.Environment`.
    """

    name: str
    """Name of the environment, e.g. `maze2d-large`."""
    observation_dim: int
    """Numbers in one observation."""
    action_dim: int
    """Numbers in one action (0 where a user's data has none)."""
    state_dims: tuple[int, ...]
    """Observation dimensions that form the planning state."""
    state_names: tuple[str, ...]
    """Names of the planning state's dimensions, with units where there are any."""
    goal_dims: tuple[int, ...]
    """Planning-state dimensions that decide success."""
    velocity_dims: tuple[int, ...] | None
    """For each goal dimension, the planning-state dimension of its velocity, if the state has velocities."""
    control_dt: float
    """Seconds between two control steps."""
    epsilon: float
    """Goal tolerance: infinity norm on the normalised goal dimensions (Table I)."""
    T_max: int
    """Longest plan, in states; distances are truncated here."""
    L_min: int
    """Shortest plan, in states."""

    def __post_init__(self) -> None:
        # Data, runs and results are stored under this name, and it may come from someone else's file: a reference
        # that `get_environment` would run (`robot.py:make`) is not a valid name.
        checked_name("environment", self.name)
        check_fields(self, DataError)
        if self.observation_dim < 1 or not self.state_dims:
            raise DataError(f"{self.name}: needs at least one observation dimension and one state dimension.")
        if len(self.state_names) != len(self.state_dims):
            raise DataError(f"{self.name}: {len(self.state_dims)} state dimensions but {len(self.state_names)} names.")
        if self.state_dims and not 0 <= min(self.state_dims) <= max(self.state_dims) < self.observation_dim:
            raise DataError(f"{self.name}: state dimensions {self.state_dims} outside 0..{self.observation_dim - 1}.")
        if not self.goal_dims or not 0 <= min(self.goal_dims) <= max(self.goal_dims) < len(self.state_dims):
            raise DataError(f"{self.name}: goal dimensions {self.goal_dims} outside 0..{len(self.state_dims) - 1}.")
        if self.velocity_dims and not 0 <= min(self.velocity_dims) <= max(self.velocity_dims) < len(self.state_dims):
            raise DataError(
                f"{self.name}: velocity dimensions {self.velocity_dims} outside 0..{len(self.state_dims) - 1}."
            )
        for name in ("state_dims", "goal_dims", "velocity_dims"):
            dims = getattr(self, name) or ()
            if len(set(dims)) < len(dims):
                raise DataError(f"{self.name}: {name} {dims} lists a dimension twice.")
        if self.velocity_dims is not None and len(self.velocity_dims) != len(self.goal_dims):
            raise DataError(
                f"{self.name}: velocity dimensions {self.velocity_dims} must be as many as goal dimensions "
                f"{self.goal_dims}."
            )
        for name in ("epsilon", "control_dt"):
            if not 0 < getattr(self, name) < float("inf"):
                raise DataError(f"{self.name}: {name} must be a finite number above 0, got {getattr(self, name)}.")
        if self.action_dim < 0:
            raise DataError(f"{self.name}: action_dim must not be negative, got {self.action_dim}.")
        if not 2 <= self.L_min <= self.T_max:
            raise DataError(f"{self.name}: needs 2 <= L_min <= T_max, got {self.L_min} and {self.T_max}.")

    @property
    def state_dim(self) -> int:
        """d: numbers in a planning state."""
        return len(self.state_dims)

    @property
    def goal_dim(self) -> int:
        """Numbers in a goal."""
        return len(self.goal_dims)

    @property
    def open_dims(self) -> tuple[int, ...]:
        """State dimensions that a goal leaves open and that are no velocities: rest does not say what they are."""
        return tuple(sorted(set(range(self.state_dim)) - {*self.goal_dims, *(self.velocity_dims or ())}))

    def planning_state(self, observation: FloatArray) -> FloatArray:
        """(..., observation_dim) -> (..., d)."""
        return observation[..., list(self.state_dims)]

    def goal_of(self, state: FloatArray) -> FloatArray:
        """(..., d) -> (..., goal_dim)."""
        return state[..., list(self.goal_dims)]

    def start_state(self, start: npt.ArrayLike) -> FloatArray:
        """The planning state (d,) of a start given as (d,), or as goal dimensions (goal_dim,) with the others 0."""
        values = np.asarray(start, np.float32)
        if values.shape == (self.state_dim,):
            return values
        if values.shape != (self.goal_dim,):
            names = ", ".join(self.state_names[dim] for dim in self.goal_dims)
            raise VhdError(
                f"{self.name}: a start needs the {self.state_dim} numbers {', '.join(self.state_names)}, or the "
                f"{self.goal_dim} numbers {names} (the others are then 0); got shape {values.shape}."
            )
        state = np.zeros(self.state_dim, np.float32)
        state[list(self.goal_dims)] = values
        return state

    def place_of(self, start: FloatArray) -> FloatArray:
        """The position (goal_dim,) of a start given as goal dimensions, planning state or observation."""
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
        """The inverse of `to_json`. Further fields in files of version 0.1 are ignored."""
        return from_fields(cls, value, "spec", ignore_unknown=True)


@dataclass(frozen=True)
class Episodes:
    """Concatenated episodes. An episode of T states has T-1 actions and T-1 transitions.

    `actions` has as many rows as `observations`, so that one index serves both; the row at an
    episode's last state belongs to no transition, is zero, and is never used.
    """

    observations: FloatArray
    """(N, observation_dim) float32."""
    actions: FloatArray
    """(N, action_dim) float32; row t leads from state t to state t+1."""
    ends: IntArray
    """(E,) int64: index one past the last state of each episode, increasing, ends[-1] == N."""

    def __post_init__(self) -> None:
        states, actions, ends = self.observations, self.actions, self.ends
        if states.ndim != 2 or actions.ndim != 2 or ends.ndim != 1:
            raise DataError(
                f"episodes need 2-D observations and actions and 1-D ends, got shapes "
                f"{states.shape}, {actions.shape}, {ends.shape}."
            )
        if len(actions) != len(states):
            raise DataError(f"lengths disagree: {len(states)} observations and {len(actions)} actions.")
        if len(ends) == 0 or len(states) == 0:
            raise DataError("no episodes: the data is empty.")
        lengths = np.diff(ends, prepend=0)
        if lengths.min() < 2:
            raise DataError(
                f"episode {int(lengths.argmin())} has {int(lengths.min())} state(s); each needs at least 2 "
                "(one transition). Drop it or join it to its neighbour."
            )
        if ends[-1] != len(states):
            raise DataError(f"the last episode ends at {int(ends[-1])} but there are {len(states)} observations.")
        for field, values in (("observations", states), ("actions", actions)):
            bad = ~np.isfinite(values).all(axis=1)
            if bad.any():
                raise DataError(
                    f"{field} row {int(bad.argmax())} holds NaN or infinity ({int(bad.sum())} such rows). "
                    "Remove or repair those episodes."
                )

    @classmethod
    def from_parts(cls, parts: list[tuple[FloatArray, FloatArray]]) -> Episodes:
        """Concatenate episodes of (T states, T-1 actions)."""
        for number, (states, actions) in enumerate(parts):
            if len(actions) != len(states) - 1:
                raise DataError(
                    f"episode {number}: {len(states)} states need {len(states) - 1} actions, got {len(actions)}."
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
        """Number of (s, a, s') in all episodes."""
        return len(self.observations) - len(self.ends)

    @property
    def starts(self) -> IntArray:
        """(E,) index of the first state of each episode."""
        return np.concatenate([[0], self.ends[:-1]]).astype(np.int64)

    def joined(self, others: Episodes) -> Episodes:
        """These episodes, then the others."""
        return Episodes(
            np.concatenate([self.observations, others.observations]),
            np.concatenate([self.actions, others.actions]),
            np.concatenate([self.ends, self.ends[-1] + others.ends]),
        )

    def split(self, share: float) -> tuple[Episodes, Episodes]:
        """(training, held out): the last episodes are held out, at least one of several.

        A single stream is cut in two instead.
        """
        if len(self) == 1:
            states, actions = self.episode(0)
            cut = len(states) - max(2, round(share * len(states)))
            if cut < 2:
                raise DataError(f"{len(states)} states are too few to hold some out.")
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
        """(T, observation_dim) states and (T-1, action_dim) actions of one episode."""
        begin, end = int(self.starts[number]), int(self.ends[number])
        return self.observations[begin:end], self.actions[begin : end - 1]


@dataclass(frozen=True)
class Instance:
    """A test case: a start and a goal. `seed` fixes what the start state leaves open."""

    start: FloatArray
    """A planning state (d,), its goal dimensions alone (goal_dim,), or a full observation (observation_dim,)."""
    goal: FloatArray
    """(goal_dim,)."""
    seed: int
    """Seed of the simulator's reset (for example of the ant's joints)."""
