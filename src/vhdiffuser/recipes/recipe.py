"""Recipes: one value per environment and recipe name with networks, training and planning options.

`default` performed best on two CPU cores; `paper` follows the paper, with Diffuser's published values where the paper
gives none. Differences between environments are in `Environment.recipes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from vhdiffuser.control.inverse_dynamics import DynamicsConfig
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.length.config import LengthConfig
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.format import load_model

RecipeName = Literal["default", "paper"]
PAPER_GAMMA = 1.3
"""gamma of the paper's rule for plan lengths, which the paper leaves to the user."""
KNOTS = 40
"""Approximate number of knots in the longest plan. More knots cost time and did not help: between knots, the data is
mostly noise."""


@dataclass(frozen=True)
class Recipe:
    """How the networks of one environment are built, trained and used."""

    name: str
    """`default`, `paper`, or a name of your own."""
    planner: PlannerConfig
    """Network and training data of the planner."""
    planning: PlanningOptions
    """Planning options."""
    planner_loop: LoopConfig
    """Training loop of the planner."""
    length: LengthConfig
    """Network, losses and curriculum of the Length Predictor."""
    length_loop: LoopConfig
    """Training loop of the Length Predictor."""
    dynamics: DynamicsConfig
    """Inverse dynamics model, if the environment's controller uses one."""
    dynamics_loop: LoopConfig
    """Training loop of the inverse dynamics model."""

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict."""
        return asdict(self)

    def changed(self, **parts: Mapping[str, Any]) -> Recipe:
        """Return a copy with some values changed: `changed(planner={"stride": 4}, length={"batch": 256})`.

        Nested parts work alike: `length={"network": {"width": 512}}`. Raises `VhdError` for unknown parts or fields.
        """
        if unknown := set(parts) - set(PARTS):
            raise UnknownNameError("part of a recipe", sorted(unknown)[0], list(PARTS))
        changed: dict[str, Any] = {}
        for part, values in parts.items():
            try:
                changed[part] = _changed(getattr(self, part), values)
            except TypeError as error:  # unknown field
                known = ", ".join(asdict(getattr(self, part)))
                raise VhdError(f"recipe '{self.name}', {part}: {error}. Its fields: {known}.") from None
        return replace(self, **changed)

    def fixed_horizon(self, horizon: int) -> Recipe:
        """The recipe of a baseline that plans at one horizon.

        It must serve every distance, so it sees every crop. It has no routes, so it must know the walls: no `frame`.
        """
        return self.changed(planner={"horizon": horizon, "directness": None, "longest": None, "frame": None})


def _changed(part: Any, values: Mapping[str, Any]) -> Any:
    """Copy a dataclass with some values changed; nested parts may be mappings."""
    nested = {
        name: _changed(getattr(part, name), value)
        for name, value in values.items()
        if isinstance(value, Mapping) and is_dataclass(getattr(part, name, None))
    }
    return replace(part, **{**values, **nested})


PARTS = ("planner", "planning", "planner_loop", "length", "length_loop", "dynamics", "dynamics_loop")


def _default(spec: EnvSpec) -> Recipe:
    return Recipe(
        name="default",
        planner=PlannerConfig(stride=2 ** max(0, round(math.log2(spec.T_max / KNOTS)))),
        planning=PlanningOptions(),
        planner_loop=LoopConfig(updates=8_000, optimizer="muon", learning_rate=1e-3),
        length=LengthConfig(),
        length_loop=LoopConfig(updates=4_000, learning_rate=1e-3),
        dynamics=DynamicsConfig(),
        dynamics_loop=LoopConfig(updates=20_000, learning_rate=5e-4),
    )


def _paper(spec: EnvSpec) -> Recipe:
    """Diffuser's settings: 2 million updates, Adam without decay at a constant rate, two batches per update, no
    gradient clipping, and an EMA of every tenth update's weights from update 2,000 on."""
    levels = 256
    return replace(
        _default(spec),
        name="paper",
        planner=PlannerConfig(
            dim_mults=(1, 4, 8),
            prediction="epsilon",
            diffusion_steps=levels,
            stride=1,
            clamp="state",
            demonstration_first=True,
            batch_size=32,
        ),
        planning=PlanningOptions(sampler="ddpm", steps=levels, smoothing=0.0, gamma=PAPER_GAMMA),
        planner_loop=LoopConfig(
            updates=2_000_000,
            optimizer="adamw",
            learning_rate=2e-4,
            weight_decay=0.0,
            final_rate=1.0,
            warmup=1,
            accumulate=2,
            clip=None,
            ema=0.995,
            ema_every=10,
            ema_from=2000,
        ),
        length=LengthConfig.paper(updates=10_000),
        length_loop=LoopConfig(updates=10_000, learning_rate=1e-3),
    )


_RECIPES: dict[str, Callable[[EnvSpec], Recipe]] = {"default": _default, "paper": _paper}
assert tuple(_RECIPES) == get_args(RecipeName)


def recipe_names() -> list[str]:
    """Names of all recipes."""
    return list(_RECIPES)


def get_recipe(environment: Environment | str, name: str = "default") -> Recipe:
    """Return the recipe of this name for an environment; raises `UnknownNameError`."""
    environment = environment if isinstance(environment, Environment) else get_environment(environment)
    if not isinstance(name, str) or name not in _RECIPES:
        raise UnknownNameError("recipe", str(name), list(_RECIPES))
    return _RECIPES[name](environment.spec).changed(**environment.recipes.get(name, {}))


def saved_recipe(model: Path) -> dict[str, Any]:
    """How a model file was made: its kind, config, planning options and training."""
    _, header = load_model(model)
    facts = {
        "kind": header.kind,
        "environment": header.spec["name"],
        "updates": header.updates,
        "config": header.config,
    }
    if header.planning:
        facts["planning"] = header.planning
    return {**facts, **{key: header.notes[key] for key in ("loop", "began_with") if key in header.notes}}
