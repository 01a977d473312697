"""The table of recipes: the default planner, one change at a time, and the paper's, each trained for the same time.

    python benchmarks/recipes.py --minutes 10                          all of them on maze2d-umaze, hours
    python benchmarks/recipes.py --minutes 10 --only default paper
    python benchmarks/recipes.py --evaluate                            only those that are trained

Every recipe is a run of its own (`VHD_HOME/runs/ENV/recipe-NAME`) that goes on where it stopped. Minutes are of
training, by the clock: let nothing else run. A recipe is judged single-shot on random instances with the Length
Predictor in use, one plan a pair, at the recipe's own sampler and one gamma for all. The table and its JSON are
written after each recipe; what is in it already and was not trained further is not judged again.

Columns, lengths in the maze's units:

  SR, AES            single-shot success and executed steps, PD tracking
  knot gap, jump     how far knots are from where their neighbours' velocities lead: at both ends, and the worst inside
  gap                the same as the first, of the plan's own first and last control step
  largest step       largest move in one control step of a plan, mean over plans
  dynamics error     largest |p[t+1] - p[t] - v[t] dt| of a plan, mean over plans
  in walls           share of planned states nearer to a wall than the ball's radius less a fifth
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sweep import check_names, comparison_parser, run_comparison, train_run

from vhdiffuser.console import err
from vhdiffuser.control.base import make_controller
from vhdiffuser.data.store import Dataset
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.task import PlannerTask
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.protocols import single_shot
from vhdiffuser.envs.registry import environment_of, get_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.executor import Executor
from vhdiffuser.execution.loop import plan_seed
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.files import sha256
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.planner.planner import Planner
from vhdiffuser.recipes.recipe import get_recipe
from vhdiffuser.report.comparison import Column, Comparison
from vhdiffuser.results.summary import bootstrap_interval, wilson_interval
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.types import EnvSpec, Instance
from vhdiffuser.weights.format import load_model
from vhdiffuser.weights.places import find_model, run_folder

GAMMA = 1.25
"""Margin on predicted lengths: these planners are not calibrated."""
COLUMNS = (
    Column("recipe", "recipe"),
    Column("change", "what differs from the default"),
    Column("parameters", "parameters (M)", ".2f"),
    Column("updates", "updates", ","),
    Column("minutes", "minutes", ".1f"),
    Column("success_rate", "SR", ".1%"),
    Column("average_executed_steps", "AES", ".1f"),
    Column("knot_gap", "knot gap", ".3f"),
    Column("knot_jump", "knot jump", ".3f"),
    Column("gap", "gap", ".5f"),
    Column("largest_step", "largest step", ".3f"),
    Column("dynamics_error", "dynamics error", ".4f"),
    Column("in_walls", "in walls", ".2%"),
)


@dataclass(frozen=True)
class Recipe:
    """One line of the table."""

    change: str
    """What differs from the default, in words."""
    config: PlannerConfig
    """How the planner is built and trained."""
    planning: PlanningOptions
    """How it plans."""
    loop: LoopConfig
    """How the loop trains it; how long is the same for all."""
    trained_as: str | None = None
    """Another recipe whose weights serve this one, which differs in planning alone."""


def recipes(spec: EnvSpec) -> dict[str, Recipe]:
    """All recipes, by name: those that are the default in this environment are left out."""
    ours, papers = (get_recipe(environment_of(spec), name) for name in ("default", "paper"))
    config, planning, loop = ours.planner, ours.planning, ours.planner_loop
    found = {"default": Recipe(_words(config, planning, loop), config, planning, loop)}

    def change(name: str, words: str, **changes: Any) -> None:
        if replace(config, **changes) != config:
            found[name] = Recipe(words, replace(config, **changes), planning, loop)

    change("epsilon", "predicts the noise", prediction="epsilon")
    change("sample", "predicts the clean trajectory", prediction="sample")
    change("v", "predicts v", prediction="v_prediction")
    for stride in (1, 4, 8, 16):
        change(f"stride-{stride}", f"a knot every {stride} steps", stride=stride)
    change("clamp-state", "the whole last state is fixed", clamp="state")
    change("clamp-goal", "the last state's goal dimensions are fixed", clamp="goal")
    for dim, dim_mults in ((16, (1, 2, 4)), (64, (1, 2, 4)), (32, (1, 2, 4, 8)), (32, (1, 4, 8))):
        name = f"net-{dim}-{'-'.join(map(str, dim_mults))}"
        change(name, f"U-Net of {dim} x {dim_mults}", dim=dim, dim_mults=dim_mults)
    change("batch-32", "32 crops an update", batch_size=32)
    found["adamw"] = Recipe("AdamW for all weights", config, planning, replace(loop, optimizer="adamw"))
    slow = replace(loop, optimizer="adamw", learning_rate=2e-4)
    found["adamw-2e-4"] = Recipe("AdamW, Diffuser's learning rate", config, planning, slow)
    through_knots = replace(planning, smoothing=0.0)
    words = "the default's weights; plans through every knot"
    found["no-smoothing"] = Recipe(words, config, through_knots, loop, "default")
    paper = (papers.planner, papers.planning, papers.planner_loop)
    found["paper"] = Recipe(f"the paper's and Diffuser's values: {_words(*paper)}", *paper)
    return found


def _words(config: PlannerConfig, planning: PlanningOptions, loop: LoopConfig) -> str:
    return (
        f"{config.prediction}, stride {config.stride}, clamp {config.clamp}, {config.dim} x {config.dim_mults}, "
        f"batch {config.batch_size}, {loop.optimizer} {loop.learning_rate:g}, {planning.sampler}-{planning.steps}, "
        f"smoothing {planning.smoothing:g}"
    )


def model_path(environment: str, name: str, recipe: Recipe) -> Path:
    """Where the weights of a recipe are."""
    return run_folder(environment, f"recipe-{recipe.trained_as or name}") / "model.safetensors"


def is_done(path: Path, loop: LoopConfig) -> bool:
    """Whether a model has had its time, or its updates."""
    if not path.is_file():
        return False
    header = load_model(path, "planner")[1]
    timed = loop.minutes is not None and header.notes["minutes"] >= loop.minutes - 0.01  # as it is rounded
    return timed or header.updates >= loop.updates


def train_recipe(dataset: Dataset, recipe: Recipe, loop: LoopConfig, path: Path) -> None:
    """Train, or go on, or do nothing where it is done."""
    if is_done(path, loop):
        return
    normalizer, fingerprint = dataset.normalizer(), dataset.fingerprint()
    train_run(
        f"{dataset.spec.name} {path.parent.name}",
        lambda device: PlannerTask(
            dataset.episodes,
            dataset.spec,
            recipe.config,
            normalizer,
            fingerprint,
            device,
            planning=recipe.planning,
        ),
        loop,
        path.parent,
    )


def evaluate(planner: Planner, instances: list[Instance], seed: int) -> dict[str, Any]:
    """Single-shot success and steps, and the quality of the plans that were executed."""
    from plan_quality import quality, share_in_walls  # the script beside this one

    spec = planner.spec
    environment = get_environment(spec.name)
    assert environment.simulator is not None
    controller = make_controller(environment.controller, spec)
    with Simulators(environment.simulator, len(instances), 1) as simulators:
        executor = Executor(planner, controller, simulators, single_shot(), seed=seed)
        outcomes = sorted(executor.run(instances), key=lambda outcome: outcome.number)
    plans = planner.plan_batch(
        np.stack([instance.start for instance in instances]),
        np.stack([instance.goal for instance in instances]),
        [outcome.rollout.plans[0][1].length for outcome in outcomes],
        seeds=[plan_seed(seed, number, 0) for number in range(len(instances))],
        keep_denoising=True,
    )
    knot_gap, knot_jump, gap, error, step, hard = np.mean([quality(plan, spec.control_dt) for plan in plans], axis=0)
    places = np.concatenate([spec.goal_of(plan.states) for plan in plans])
    hits, steps = [item.rollout.success for item in outcomes], [item.rollout.steps for item in outcomes]
    return {
        "success_rate": float(np.mean(hits)),
        "success_rate_interval": wilson_interval(sum(hits), len(hits)),
        "average_executed_steps": float(np.mean(steps)),
        "average_executed_steps_interval": bootstrap_interval(steps),
        "average_planned_length": float(np.mean([plan.length for plan in plans])),
        "knot_gap": float(knot_gap),
        "knot_jump": float(knot_jump),
        "gap": float(gap),
        "largest_step": float(step),
        "dynamics_error": float(error),
        "hard_steps": float(hard),
        "in_walls": share_in_walls(environment.geometry, places),
    }


def evaluate_recipe(
    table: Comparison, environment: str, name: str, recipe: Recipe, options: argparse.Namespace
) -> None:
    """A row for the model that is there, unless the table has it."""
    path = model_path(environment, name, recipe)
    if not path.is_file():
        err.print(f"{name}: not trained yet, left out")
        return
    length = find_model(environment, "length")
    row = {
        "environment": environment,
        "recipe": name,
        "n": options.n,
        "seed": options.seed,
        "model": sha256(path)[:12],
        "length_model": sha256(length)[:12] if length.is_file() else "",
    }
    if table.find(**row) is not None:
        return
    header = load_model(path, "planner")[1]
    planner = Planner.load(path, LengthPredictor.load(length), outside="ignore")
    planner = planner.with_options(**recipe.planning.changed(gamma=GAMMA).to_json())
    row |= {
        "change": recipe.change,
        "parameters": sum(weight.size for weight in planner.network.tensors.values()) / 1e6,
        "updates": header.updates,
        "minutes": header.notes["minutes"],
    }
    instances = draw_instances(get_environment(environment).make(), options.n, options.seed)
    table.put(row | evaluate(planner, instances, options.seed))


def main() -> None:
    parser = comparison_parser(__doc__, "recipes")
    parser.add_argument("--env", default="maze2d-umaze", help="a maze2d environment")
    parser.add_argument("--minutes", type=float, default=10.0, help="training time of every recipe")
    parser.add_argument("--updates", type=int, default=1_000_000, help="end a training here if that comes first")
    parser.add_argument("--n", type=int, default=200, help="instances")
    parser.add_argument("--seed", type=int, default=5, help="of the instances and plans; not the benchmark's")
    parser.add_argument("--out", type=Path, default=Path("results/recipes.json"), help="JSON; a .md is beside it")
    run_comparison(compare, parser)


def compare(options: argparse.Namespace) -> None:
    """Train and evaluate what was asked for, and print the table."""
    dataset = load_dataset(options.env)
    if not get_environment(options.env).geometry.is_maze or dataset.spec.velocity_dims is None:
        raise VhdError(f"{options.env}: plans are judged by walls and velocities, so this is for point mazes alone.")
    known = recipes(dataset.spec)
    check_names(options.only, known, "recipe")
    heading = f"{options.env}: {options.n} instances of seed {options.seed}, single-shot, one plan a pair."
    table = Comparison(options.out, ("environment", "recipe"), COLUMNS, heading)
    for name in options.only or known:
        recipe = known[name]
        if not options.evaluate:
            source = known[recipe.trained_as or name]
            time = {"minutes": options.minutes, "updates": options.updates, "threads": options.threads}
            train_recipe(dataset, source, replace(source.loop, **time), model_path(options.env, name, recipe))
        evaluate_recipe(table, options.env, name, recipe, options)
    print(table.markdown())


if __name__ == "__main__":
    main()
