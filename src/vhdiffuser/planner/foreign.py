"""Third-party planners under our protocols: anything that computes a sequence of states from a start and a goal.

A planner is one of these:

  an object with   plan_batch(starts, goals, seeds)   (B, d), (B, goal_dim), (B,) -> B plans
  an object with   plan(start, goal)                  (d,), (goal_dim,) -> a plan; may also take `seed`
  a function       with the same arguments as `plan`

A plan is an (L, d) array of planning states in the environment's units, one control step apart, or a `Plan`. It begins
at the start; the planner chooses L. Optional attributes: `name`, `candidates` (number of plans sampled per returned
plan) and `describe()`, a dict of settings. All three are recorded with every result.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_whole, shown
from vhdiffuser.data.motion import FastestMotion
from vhdiffuser.data.store import dataset_path
from vhdiffuser.envs.checked import foreign_code
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.references import load_attribute
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.envs.success import goal_distance
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.files import checked_name, sha256
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.planner import LONGEST
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, IntArray
from vhdiffuser.weights.format import ModelHeader, load_model
from vhdiffuser.weights.places import find_model

States = Plan | npt.ArrayLike
"""A plan: (L, d) planning states, or a `Plan`."""
Numbers = npt.NDArray[Any]
"""Arguments of a planner: float32 arrays, and int64 for seeds. Planners may annotate them differently."""
FARTHEST = 1.0
"""Maximum distance of a plan's first state from the start, in normalised units (half of the data's range). A plan
that begins farther away is in other units or for another pair; a nearer one is executed as it is, and rows record
the gap."""


class BatchPlans(Protocol):
    """A planner for many pairs at once."""

    def plan_batch(self, starts: Numbers, goals: Numbers, seeds: Numbers) -> Sequence[States]:
        """B plans, in order, for (B, d) starts, (B, goal_dim) goals and (B,) seeds."""
        ...


class SinglePlans(Protocol):
    """A planner for one pair at a time; `plan` may also take a keyword `seed`."""

    def plan(self, start: Numbers, goal: Numbers) -> States:
        """A plan from a (d,) start to a (goal_dim,) goal."""
        ...


AnyPlanner = BatchPlans | SinglePlans | Callable[..., States]
"""Planners accepted by `vhd bench --planner` and `evaluate`."""


class ForeignPlanner:
    """A third-party planner with the interface of execution and benchmarks: plans are validated, exceptions
    reported."""

    def __init__(self, planner: AnyPlanner, environment: Environment, *, name: str = "", reference: str = "") -> None:
        """`name` is used if the planner has none; `reference` says where it came from."""
        self._make = _batch_of(planner)
        own = getattr(planner, "name", "") or name or getattr(planner, "__name__", type(planner).__name__).strip("<>")
        self.name = checked_name("planner", own)
        self.environment, self.reference, self.digest = environment, reference, _source_digest(planner)
        self.candidates = as_whole(f"candidates of {self.name}", getattr(planner, "candidates", 1), least=1)
        self.normalizer = success_normalizer(environment)
        self._settings = _settings_of(planner, self.name)

    @property
    def motion(self) -> FastestMotion | None:
        """The data's maximum speed and acceleration, if a planner of ours ships for the environment."""
        header = _shipped_header(self.environment)
        return None if header is None else FastestMotion.from_notes(header.notes)

    @property
    def spec(self) -> EnvSpec:
        """The environment's spec."""
        return self.environment.spec

    def describe(self) -> dict[str, Any]:
        """What results record: origin, digest of the source file, and the planner's settings."""
        return {"reference": self.reference, "sha256": self.digest, **self._settings}

    def predict_lengths(self, starts: FloatArray, goals: FloatArray) -> None:
        """None: the planner chooses the length of each plan."""

    def plan_batch(
        self, starts: FloatArray, goals: FloatArray, lengths: IntArray | None = None, *, seeds: IntArray
    ) -> list[Plan]:
        """The planner's plans, validated: finite numbers of the right shape, beginning near the start."""
        if lengths is not None:
            raise VhdError(f"planner '{self.name}' chooses the length of its plans itself.")
        with foreign_code(f"planner '{self.name}'"):
            made = self._make(np.array(starts), np.array(goals), np.array(seeds))
        if not isinstance(made, list | tuple | np.ndarray) or len(made) != len(starts):
            got = f"{len(made)} of them" if isinstance(made, list | tuple | np.ndarray) else shown(made)
            raise VhdError(f"planner '{self.name}': plan_batch must return a list of {len(starts)} plans; got {got}.")
        return [self._checked(*item) for item in zip(made, starts, goals, strict=True)]

    def _checked(self, made: States, start: FloatArray, goal: FloatArray) -> Plan:
        spec = self.spec
        says = f"planner '{self.name}': a plan must be an (L, {spec.state_dim}) array of {', '.join(spec.state_names)}"
        if made is None:
            raise VhdError(
                f"{says}; got None. If there is no path, return a plan that stays: np.stack([start, start])."
            )
        try:
            states = np.asarray(made.states if isinstance(made, Plan) else made, np.float32)
        except (TypeError, ValueError):
            raise VhdError(f"{says}, got {shown(made)}.") from None
        if states.ndim != 2 or states.shape[1] != spec.state_dim:
            hint = " Positions alone do not define the speed." if states.shape[1:] == (spec.goal_dim,) else ""
            raise VhdError(f"{says}; got shape {states.shape}.{hint}")
        if not 2 <= len(states) <= LONGEST:
            raise VhdError(f"{says} with 2 to {LONGEST} states; got {len(states)}.")
        if not np.isfinite(states).all():
            row = int((~np.isfinite(states).all(axis=1)).argmax())
            raise VhdError(f"{says} of finite numbers; state {row} of {len(states)} is {states[row].tolist()}.")
        gap = float(goal_distance(spec, self.normalizer.scale, states[0], spec.goal_of(start)))
        if gap > FARTHEST:
            raise VhdError(
                f"{says} that begins at the start. This one begins at {states[0].tolist()}, but the start is "
                f"{np.asarray(start).tolist()}. Is it in the environment's units, and for this pair?"
            )
        return Plan(states, np.asarray(goal, np.float32), spec=spec)


def foreign_planner(planner: AnyPlanner | str, env: Environment | str) -> ForeignPlanner:
    """Wrap a third-party planner for `evaluate`, `execute`, `Agent` and the benchmark.

    `planner` is an object with `plan_batch(starts, goals, seeds)` or `plan(start, goal)`, a function of start and goal,
    or a reference to one: `my_planner.py:MyPlanner`, `my_package.planners:make`. A reference may also name a class, or
    a function of at most one argument (the `Environment`), that creates the planner. Raises `VhdError` if it is not a
    planner.

    >>> straight = foreign_planner(lambda start, goal: np.linspace(start, [*goal, 0, 0], 100), "maze2d-umaze")
    >>> straight.plan_batch([[1, 1, 0, 0]], [[2, 1]], seeds=[0])[0].length
    100
    """
    environment = env if isinstance(env, Environment) else get_environment(env)
    if not isinstance(planner, str):
        return ForeignPlanner(planner, environment)
    place, _, attribute = planner.rpartition(":")
    value = load_attribute("planner", planner)
    made = _made(value, planner, environment)
    # A file's folder is not recorded: it is the same planner wherever it is stored.
    reference = f"{Path(place).name if place.endswith('.py') else place}:{attribute}"
    return ForeignPlanner(made, environment, name=attribute, reference=reference)


def success_normalizer(environment: Environment) -> Normalizer:
    """The normaliser in which success is evaluated: the shipped planner's or, without one, the data's."""
    header = _shipped_header(environment)
    if header is not None:
        return Normalizer.from_json(header.normalizer)
    if not dataset_path(environment.name).is_file():
        raise DataError(
            f"{environment.name}: success is evaluated relative to the data's range, but there is no data. Get "
            f"it with `vhd data get {environment.name}` or `vhd data import {environment.name}`."
        )
    return load_dataset(environment.name).normalizer()


def _shipped_header(environment: Environment) -> ModelHeader | None:
    path = find_model(environment.name, "planner", "shipped")
    return load_model(path, "planner")[1] if path.is_file() else None


def _made(value: Any, reference: str, environment: Environment) -> Any:
    """The planner named by a reference, or created by the class or function it names."""
    if not callable(value) or (not inspect.isclass(value) and _has_plans(value)):
        return value
    needed = _positional(value)
    if not inspect.isclass(value) and len(needed) >= 2:
        return value  # a function of start and goal
    if len(needed) >= 2:
        raise VhdError(
            f"planner '{reference}': the class needs {', '.join(needed)}, but may take the Environment only."
        )
    with foreign_code(f"planner '{reference}'"):
        return value(environment) if needed else value()


def _positional(function: Callable[..., Any]) -> list[str]:
    """Names of its required positional parameters or, if none are required, of the first one."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins have no signature
        return ["start", "goal"]
    own = [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    return [item.name for item in own if item.default is item.empty] or [item.name for item in own[:1]]


def is_planner(planner: object) -> bool:
    """Whether it has one of the planning interfaces."""
    return not inspect.isclass(planner) and (callable(planner) or _has_plans(planner))


def _has_plans(planner: object) -> bool:
    return callable(getattr(planner, "plan_batch", None)) or callable(getattr(planner, "plan", None))


def _batch_of(planner: Any) -> Callable[[FloatArray, FloatArray, IntArray], Any]:
    """(starts, goals, seeds) -> plans, by the first planning interface it has."""
    if inspect.isclass(planner):
        raise VhdError(f"{planner.__name__} is a class: pass an instance, {planner.__name__}(...).")
    if callable(batch := getattr(planner, "plan_batch", None)):
        return lambda starts, goals, seeds: batch(starts, goals, seeds=seeds)
    plan = getattr(planner, "plan", planner)
    if not callable(plan):
        raise VhdError(
            "a planner needs a method plan_batch(starts, goals, seeds) or plan(start, goal), or must be a "
            f"function of start and goal; got {shown(planner)}."
        )
    return partial(_one_by_one, plan, _takes_seed(plan))


def _takes_seed(plan: Callable[..., Any]) -> bool:
    try:
        return "seed" in inspect.signature(plan).parameters
    except (TypeError, ValueError):
        return False


def _one_by_one(
    plan: Callable[..., States], seeded: bool, starts: FloatArray, goals: FloatArray, seeds: IntArray
) -> list[States]:
    return [
        plan(start, goal, seed=int(seed)) if seeded else plan(start, goal)
        for start, goal, seed in zip(starts, goals, seeds, strict=True)
    ]


def _source_digest(planner: Any) -> str:
    """SHA-256 of the file that defines it; empty if there is none, as in a notebook."""
    try:
        file = inspect.getsourcefile(planner if inspect.isroutine(planner) else type(planner))
    except TypeError:
        return ""
    return sha256(Path(file)) if file and Path(file).is_file() else ""


def _settings_of(planner: Any, name: str) -> dict[str, Any]:
    """The result of `describe`, under `settings`."""
    describe = getattr(planner, "describe", None)
    if not callable(describe):
        return {}
    with foreign_code(f"planner '{name}': describe()"):
        settings = describe()
    try:
        whole = json.loads(json.dumps(settings, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise VhdError(f"planner '{name}': describe() must return a dict of plain values ({error}).") from None
    if not isinstance(whole, dict):
        raise VhdError(f"planner '{name}': describe() must return a dict; got {shown(settings)}.")
    return {"settings": whole}
