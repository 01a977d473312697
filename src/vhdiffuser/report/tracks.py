"""Tracks of the report: networks of the recipe `default` (ours), of `paper`, and third-party planners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from vhdiffuser.envs.registry import find_environment
from vhdiffuser.report.tables import Table
from vhdiffuser.results.cells import Cell
from vhdiffuser.results.configs import FOREIGN

if TYPE_CHECKING:
    from vhdiffuser.recipes.recipe import Recipe

TRACKS = {
    "default": "Track default: our recipe",
    "paper": "Track paper: the paper's recipe, nothing of ours",
    "foreign": "Other planners",
}
"""Recipe -> heading of its results; third-party planners have their own."""


RECIPES = ("default", "paper")
"""Tracks that are recipes."""


def track_of(cell: Cell) -> str:
    """Recipe of a method's networks; `foreign` for third-party planners."""
    if FOREIGN in cell.config:
        return "foreign"
    return "paper" if cell.key[1].endswith("-paper") else "default"


def differences_table(environments: Sequence[str]) -> Table:
    """Differences between the recipes of these environments, one row per setting.

    Empty without torch, which recipes import; the rest of a report does not need it.
    """
    try:
        from vhdiffuser.recipes.recipe import get_recipe
    except ModuleNotFoundError:
        return Table(("Setting", "paper", "default"), ())
    known = [environment for name in environments if (environment := find_environment(name)) is not None]
    lines = []
    for title, text in _SETTINGS:
        values = {track: _in_words({item.name: text(get_recipe(item, track)) for item in known}) for track in RECIPES}
        if values["default"] != values["paper"]:
            lines.append((title, values["paper"], values["default"]))
    return Table(("Setting", "paper", "default"), tuple(lines))


def _in_words(values: Mapping[str, str]) -> str:
    """The most common value, then the others with their environments."""
    if not values:
        return ""
    most, _ = Counter(values.values()).most_common(1)[0]
    others = (f"{name} {value}" for name, value in values.items() if value != most)
    return "; ".join([most, *others])


def _or_none(value: object) -> str:
    return "none" if value in (None, 0, 0.0, False) else f"{value:,}" if isinstance(value, int) else f"{value}"


_SETTINGS: tuple[tuple[str, Callable[[Recipe], str]], ...] = (
    ("planner predicts", lambda r: r.planner.prediction),
    ("control steps between knots", lambda r: str(r.planner.stride)),
    ("training crops", lambda r: "a demonstration, then a crop" if r.planner.demonstration_first else "any crop alike"),
    ("crops only if direct", lambda r: _or_none(r.planner.directness)),
    ("last state clamped", lambda r: {"state": "whole", "goal": "goal dimensions"}[r.planner.clamp]),
    ("U-Net", lambda r: f"{r.planner.dim} x {r.planner.dim_mults}"),
    ("levels of noise", lambda r: str(r.planner.diffusion_steps)),
    ("crops per update", lambda r: f"{r.planner_loop.accumulate} x {r.planner.batch_size}"),
    ("optimiser", lambda r: _optimiser(r)),
    ("gradient clipping", lambda r: _or_none(r.planner_loop.clip)),
    ("EMA", lambda r: f"{r.planner_loop.ema}, every {r.planner_loop.ema_every}, from {r.planner_loop.ema_from:,}"),
    ("planner's updates", lambda r: f"{r.planner_loop.updates:,}"),
    ("sampler", lambda r: f"{r.planning.sampler}, {r.planning.steps} steps"),
    ("smoothing (control steps)", lambda r: _or_none(r.planning.smoothing)),
    ("stretch", lambda r: f"{r.planning.stretch:g}"),
    ("states that wait at the goal", lambda r: f"{r.planning.wait}"),
    ("gamma", lambda r: f"{r.planning.gamma:g}"),
    ("pieces (states)", lambda r: _or_none(r.planning.piece)),
    ("Length Predictor's goals", lambda r: "whole states, one encoder" if r.length.full_state_goals else "places"),
    ("its regression", lambda r: "Huber" if r.length.quantiles == (0.5,) else f"quantiles {r.length.quantiles}"),
    ("f_bar(s_k, g) at a hit", lambda r: "the network's" if r.length.bootstrap_at_hit else "0"),
    (
        "relay graph",
        lambda r: "none" if r.length.relay_graph is None else f"{r.length.relay_graph.landmarks} landmarks",
    ),
    ("drawn evenly over places", lambda r: _or_none(r.length.strengthening.even)),
    ("link set K", lambda r: str(r.length.strengthening.links)),
    ("lambda_triangle, relay share in phase III", lambda r: _relays(r)),
    ("phases I and II end", lambda r: f"by {r.length.warm_start.longest:,} and {r.length.expansion.longest:,} updates"),
    ("predictor's updates", lambda r: f"{r.length_loop.updates:,}"),
)


def _optimiser(recipe: Recipe) -> str:
    loop = recipe.planner_loop
    name = "Adam" if (loop.optimizer, loop.weight_decay) == ("adamw", 0.0) else loop.optimizer
    return f"{name}, {loop.learning_rate:g}" + (" constant" if loop.final_rate == 1 else ", cosine")


def _relays(recipe: Recipe) -> str:
    phase = recipe.length.strengthening
    return f"{phase.lambda_triangle:g}, {phase.relay_share:g}"
