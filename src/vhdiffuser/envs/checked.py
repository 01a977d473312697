"""Simulators are third-party code: outputs are validated, and exceptions reported as `VhdError`."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np

from vhdiffuser.envs.base import InstanceSource, PlanningEnv, VectorEnv
from vhdiffuser.errors import OtherEnvironmentWarning, VhdError, warn
from vhdiffuser.types import EnvSpec, FloatArray, Instance


@contextmanager
def foreign_code(what: str) -> Iterator[None]:
    """Context for calling third-party code: turns exceptions into a `VhdError` that says what failed and where."""
    try:
        yield
    except VhdError:
        raise
    except Exception as error:
        called = traceback.extract_tb(error.__traceback__)[2:]  # without this function and its caller
        own = [frame for frame in called if "site-packages" not in frame.filename and "<" not in frame.filename]
        where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
        raise VhdError(f"{what} failed with {type(error).__name__}: {error}{where}.") from error


def make_simulator(make: Callable[[], PlanningEnv]) -> PlanningEnv:
    """Create a simulator and check that it is a `PlanningEnv` with a spec."""
    name = getattr(make, "__name__", type(make).__name__)
    with foreign_code(f"creating the simulator with {name}()"):
        env: Any = make()
    if not isinstance(env, PlanningEnv):
        raise VhdError(
            f"{name}() returned {type(env).__name__}. A simulator must be a subclass of vhdiffuser.PlanningEnv, "
            "with the methods reset, step, sample_instance, check and render (docs/extending.md)."
        )
    if not isinstance(getattr(env, "spec", None), EnvSpec):
        raise VhdError(
            f"{name}() returned {type(env).__name__} without `spec`. Set `spec` to the EnvSpec of its "
            "environment (docs/extending.md)."
        )
    return env


def check_trained_for(planned: EnvSpec, spec: EnvSpec) -> None:
    """Raise `VhdError` if observations, states, goals or actions differ from the environment's; warn about other
    differences."""
    differ = [item.name for item in fields(EnvSpec) if getattr(planned, item.name) != getattr(spec, item.name)]
    if not planned.action_dim:  # unknown for data without actions
        differ = [name for name in differ if name != "action_dim"]
    said = "; ".join(f"{name}: {getattr(planned, name)} and {getattr(spec, name)}" for name in differ)
    told = f"the planner was trained for {planned.name}, which differs from {spec.name} ({said})."
    if not {"observation_dim", "state_dims", "goal_dims", "action_dim"}.isdisjoint(differ):
        raise VhdError(f"{told} Train a planner for {spec.name}, or use this one in {planned.name}.")
    if differ:
        warn(f"{told} Its results here say little about its quality.", OtherEnvironmentWarning)


def draw_instance(env: InstanceSource, rng: np.random.Generator, distribution: str = "reset") -> Instance:
    """A start and a goal drawn by a simulator, checked against its spec."""
    with foreign_code(f"{env.spec.name}: sample_instance of {type(env).__name__}"):
        instance: Any = env.sample_instance(rng, distribution)
    if not isinstance(instance, Instance):
        raise VhdError(
            f"{env.spec.name}: sample_instance of {type(env).__name__} must return an Instance (start, goal, "
            f"seed); got {type(instance).__name__}."
        )
    for _ in env.finite_ends(instance):
        pass
    return instance


def observed(env: PlanningEnv, method: str, *arguments: Any) -> FloatArray:
    """(o,) the observation returned by `reset` or `step`, validated."""
    with foreign_code(f"{env.spec.name}: {method} of {type(env).__name__}"):
        observation = getattr(env, method)(*arguments)
    return stacked(env, method, [observation])[0]


def stacked(env: PlanningEnv | VectorEnv, method: str, observations: Sequence[Any] | FloatArray) -> FloatArray:
    """(k, o) from k observations; wrong sizes, types and non-finite values are refused."""
    try:
        together = observations if isinstance(observations, np.ndarray) else np.stack(observations)
    except (TypeError, ValueError):
        together = np.empty(0, object)  # of different shapes
    numbers = together.shape[1:] == (env.spec.observation_dim,) and together.dtype.kind in "fiu"
    if numbers and np.isfinite(together).all():
        return together
    for observation in observations:
        _refuse_observation(env, method, observation)
    raise VhdError(f"{env.spec.name}: {method} of {type(env).__name__} returned observations of different types.")


def _refuse_observation(env: PlanningEnv | VectorEnv, method: str, observation: Any) -> None:
    spec = env.spec
    says = f"{spec.name}: {method} of {type(env).__name__} must return an observation of {spec.observation_dim} numbers"
    if not isinstance(observation, np.ndarray):
        hint = " (Gymnasium's tuple? Return the observation alone)" if isinstance(observation, tuple) else ""
        raise VhdError(f"{says} as a numpy array; got {type(observation).__name__}{hint}.")
    if observation.shape != (spec.observation_dim,):
        raise VhdError(f"{says}; got shape {observation.shape}. Fix the simulator, or `observation_dim` of its spec.")
    if observation.dtype.kind not in "fiu":
        raise VhdError(f"{says}; got dtype {observation.dtype}.")
    if not np.isfinite(observation).all():
        raise VhdError(f"{says}; got NaN or infinity: {observation.tolist()}.")
