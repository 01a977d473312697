"""Networks that the analyses need besides the usual ones: their recipes by run name, and training what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from vhdiffuser.analysis.arms import Study, horizons, run_model
from vhdiffuser.benchmark.methods import get_method
from vhdiffuser.recipes.recipe import Recipe, get_recipe
from vhdiffuser.recipes.train import train_length, train_planner
from vhdiffuser.training.loop import Status


@dataclass(frozen=True)
class Training:
    """One network to train."""

    recipe: Recipe
    """How."""
    kind: Literal["planner", "length"] = "planner"
    """A planner, or a Length Predictor."""


Needs = dict[str, Training]
"""Trainings by run name."""


def fixed_horizons(study: Study, methods: Sequence[str]) -> Needs:
    """Planners with the fixed horizons of these methods; FH+LP's is H2."""
    horizons(study)  # must exist
    recipe = get_recipe(study.environment)
    found = dict.fromkeys(get_method(name).training_horizon(study.environment) for name in methods)
    return {f"fh-{H}": Training(recipe.fixed_horizon(H)) for H in found if H is not None}


def unseen_lengths(study: Study) -> Needs:
    """Planners trained without some lengths, and the one with the fixed horizon H2."""
    recipe, T_max = get_recipe(study.environment), study.environment.spec.T_max
    half, quarter = T_max // 2, T_max // 4
    return {
        **fixed_horizons(study, ("fh-lp",)),
        "lengths-half": Training(recipe.changed(planner={"longest": half})),
        "lengths-gap": Training(recipe.changed(planner={"gap": (quarter, half)})),
    }


def stride_run(study: Study, stride: int) -> str:
    """Run name of the planner with the fixed horizon H2 and this stride."""
    return f"fh-{horizons(study)[1]}-stride-{stride}"


def of_strides(
    study: Study, strides: Sequence[int], updates: int | None = None, batch_size: int | None = None
) -> Needs:
    """Planners with the fixed horizon H2, one for each stride; without `updates` and `batch_size`, the recipe's."""
    recipe = get_recipe(study.environment).fixed_horizon(horizons(study)[1])
    if updates is not None:
        recipe = recipe.changed(planner_loop={"updates": updates})
    if batch_size is not None:
        recipe = recipe.changed(planner={"batch_size": batch_size})
    return {stride_run(study, stride): Training(recipe.changed(planner={"stride": stride})) for stride in strides}


def seed_runs(seed: int) -> tuple[str, str]:
    """Run names of VHD's planner and Length Predictor trained with this seed; those of seed 0 are the usual ones."""
    return ("vhd", "length") if seed == 0 else (f"vhd-seed-{seed}", f"length-seed-{seed}")


def of_seeds(study: Study, training_seeds: Sequence[int]) -> Needs:
    """VHD's networks for each training seed except 0."""
    recipe, needs = get_recipe(study.environment), Needs()
    for seed in training_seeds:
        if seed != 0:
            planner, length = seed_runs(seed)
            changed = recipe.changed(planner_loop={"seed": seed}, length_loop={"seed": seed})
            needs |= {planner: Training(changed), length: Training(changed, "length")}
    return needs


def missing(study: Study, needs: Mapping[str, Training]) -> Needs:
    """Those that are not trained yet."""
    return {run: training for run, training in needs.items() if not run_model(study, run).is_file()}


def train_missing(
    study: Study,
    needs: Mapping[str, Training],
    threads: int | None = None,
    on_status: Callable[[str, Status], None] | None = None,
) -> None:
    """Train those that are not there; `on_status` receives the run and its status."""
    for run, training in missing(study, needs).items():
        tell = None if on_status is None else partial(on_status, run)
        train = {"planner": train_planner, "length": train_length}[training.kind]
        changed = training.recipe.changed(planner_loop={"threads": threads}, length_loop={"threads": threads})
        train(study.environment.name, changed, name=run, on_status=tell)
