"""Simulators are anybody's code: what they give is checked, and what they raise is said in words."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np

from vhdiffuser.envs.base import InstanceSource, PlanningEnv
from vhdiffuser.errors import OtherEnvironmentWarning, VhdError, warn
from vhdiffuser.types import EnvSpec, FloatArray, Instance


@contextmanager
def foreign_code(what: str) -> Iterator[None]:
    """Around a call of somebody else's code: what it raises becomes a `VhdError` that says what failed, and where."""
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
    """A simulator, which must have what a `PlanningEnv` has."""
    name = getattr(make, "__name__", type(make).__name__)
    with foreign_code(f"making the simulator with {name}()"):
        env: Any = make()
    if not isinstance(env, PlanningEnv):
        raise VhdError(
            f"{name}() gives {type(env).__name__}. A simulator is a subclass of vhdiffuser.PlanningEnv, with the "
            "methods reset, step, sample_instance, check and render (docs/extending.md)."
        )
    if not isinstance(getattr(env, "spec", None), EnvSpec):
        raise VhdError(
            f"{name}() gives {type(env).__name__} without `spec`. Set `spec` to the EnvSpec of its environment "
            "(docs/extending.md)."
        )
    return env


def check_trained_for(planned: EnvSpec, spec: EnvSpec) -> None:
    """Refuse a planner of other observations, states, goals or actions than the environment's; warn of the rest."""
    differ = [item.name for item in fields(EnvSpec) if getattr(planned, item.name) != getattr(spec, item.name)]
    if not planned.action_dim:  # data without actions says nothing of them
        differ = [name for name in differ if name != "action_dim"]
    said = "; ".join(f"{name}: {getattr(planned, name)} and {getattr(spec, name)}" for name in differ)
    told = f"the planner was trained for {planned.name}, and {spec.name} differs from that ({said})."
    if not {"observation_dim", "state_dims", "goal_dims", "action_dim"}.isdisjoint(differ):
        raise VhdError(f"{told} Train a planner for {spec.name}, or run this one where it belongs.")
    if differ:
        warn(f"{told} What it does there says little of how good it is.", OtherEnvironmentWarning)


def draw_instance(env: InstanceSource, rng: np.random.Generator, distribution: str = "reset") -> Instance:
    """A start and a goal that a simulator draws, of the sizes that its spec allows."""
    with foreign_code(f"{env.spec.name}: sample_instance of {type(env).__name__}"):
        instance: Any = env.sample_instance(rng, distribution)
    if not isinstance(instance, Instance):
        raise VhdError(
            f"{env.spec.name}: sample_instance of {type(env).__name__} must return an Instance (start, goal, seed), "
            f"got {type(instance).__name__}."
        )
    for _ in env.finite_ends(instance):
        pass
    return instance


def observed(env: PlanningEnv, method: str, *arguments: Any) -> FloatArray:
    """(o,) what `reset` or `step` gives, checked."""
    with foreign_code(f"{env.spec.name}: {method} of {type(env).__name__}"):
        observation = getattr(env, method)(*arguments)
    return stacked(env, method, [observation])[0]


def stacked(env: PlanningEnv, method: str, observations: Sequence[Any]) -> FloatArray:
    """(k, o) of k observations; one of another size, of no numbers or not finite is refused."""
    try:
        together = np.stack(observations)
    except (TypeError, ValueError):
        together = np.empty(0, object)  # they are not even alike
    numbers = together.shape[1:] == (env.spec.observation_dim,) and together.dtype.kind in "fiu"
    if numbers and np.isfinite(together).all():
        return together
    for observation in observations:
        _refuse_observation(env, method, observation)
    raise VhdError(f"{env.spec.name}: {method} of {type(env).__name__} gives observations of different types.")


def _refuse_observation(env: PlanningEnv, method: str, observation: Any) -> None:
    spec = env.spec
    says = f"{spec.name}: {method} of {type(env).__name__} must return an observation of {spec.observation_dim} numbers"
    if not isinstance(observation, np.ndarray):
        hint = " (Gymnasium's tuple? Return the observation alone)" if isinstance(observation, tuple) else ""
        raise VhdError(f"{says} as a numpy array, got {type(observation).__name__}{hint}.")
    if observation.shape != (spec.observation_dim,):
        raise VhdError(f"{says}, got shape {observation.shape}. Mend the simulator, or `observation_dim` of its spec.")
    if observation.dtype.kind not in "fiu":
        raise VhdError(f"{says}, got dtype {observation.dtype}.")
    if not np.isfinite(observation).all():
        raise VhdError(f"{says}, got NaN or infinity: {observation.tolist()}.")
