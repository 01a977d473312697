"""Which planning state is best: planners that plan more or less of the robot, trained alike and judged alike.

    python benchmarks/planning_states.py antmaze-medium                    all of them, hours
    python benchmarks/planning_states.py cube --only effector --updates 4000
    python benchmarks/planning_states.py cube --evaluate --gamma 1.3 1.6   only those that are trained
    python benchmarks/planning_states.py cube --evaluate --smoothing 0     plans as the network drew them

Every planning state is a run of its own (`VHD_HOME/runs/ENV/state-NAME`) with the environment's default recipe and the
same number of updates, that goes on where it stopped. All are judged on the same instances, single-shot and with
replan-on-deviation, one plan a pair, with the Length Predictor and the inverse dynamics model in use: these know the
environment's own planning state and are handed that part of a larger one. A plan starts at the state that the
simulator shows, joints and velocities and all. The table and its JSON are written after each protocol; what is in it
already and was not trained further is not judged again. Columns:

  SR, 95 %             success on the goal dimensions, as everywhere, and its Wilson interval
  AES                  executed steps, failures included
  plans                plans made in one execution
  through walls        share of plans that come nearer to a wall than 0.8 of the body's radius

`straight-line` is no planner: straight to the goal in as many steps, and what a planner must beat to tell us anything.
Where it succeeds as often as the rest, judge without smoothing, which bends short plans into nearly that line: in the
cube's box a planner of 10 updates reached 64 goals of 64 with the recipe's 12 steps of it, and 1 of 64 without.

The arm's observation has no velocity of the effector, so there is no such state for it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sweep import check_names, comparison_parser, run_comparison, train_run

from vhdiffuser.benchmark.failures import Facts, share_in_walls
from vhdiffuser.console import err, progress_bar
from vhdiffuser.control.base import make_controller
from vhdiffuser.data.store import Dataset
from vhdiffuser.diffusion.task import PlannerTask, StepsBetween
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.protocols import replan_on_deviation, single_shot
from vhdiffuser.envs.registry import environment_of, get_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.executor import Executor, Outcome
from vhdiffuser.execution.loop import BatchPlanner
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.files import sha256
from vhdiffuser.length.network import steps_between as load_steps_between
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.planner.planner import Planner
from vhdiffuser.recipes.recipe import PAPER_GAMMA, get_recipe
from vhdiffuser.report.comparison import Column, Comparison
from vhdiffuser.results.summary import bootstrap_interval, wilson_interval
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, Instance, IntArray
from vhdiffuser.weights.format import load_model
from vhdiffuser.weights.places import find_model, run_folder

PROTOCOLS = ("ss", "rp")
STRAIGHT = "straight-line"

COLUMNS = (
    Column("state", "planning state"),
    Column("dimensions", "d"),
    Column("protocol", "protocol"),
    Column("gamma", "gamma", "g"),
    Column("smoothing", "smoothing", "g"),
    Column("success_rate", "SR", ".1%"),
    Column("interval", "95 %"),
    Column("average_executed_steps", "AES", ".1f"),
    Column("plans", "plans", ".1f"),
    Column("through_walls", "through walls", ".1%"),
    Column("updates", "updates", ","),
    Column("minutes", "minutes", ".1f"),
)


@dataclass(frozen=True)
class Addition:
    """What a planning state has beside the goal's own dimensions, which come first."""

    dims: tuple[int, ...] = ()
    """Observation dimensions."""
    names: tuple[str, ...] = ()
    """Their names."""
    velocities: bool = False
    """Whether they are the velocities of the goal dimensions. A plan's curve then moves at the planned velocities."""


STATES: dict[str, dict[str, Addition]] = {
    "antmaze-medium": {
        "xy": Addition(),
        "xy-velocity": Addition((15, 16), ("vx", "vy"), velocities=True),
        "xy-body": Addition(
            tuple(range(2, 15)), ("z", "qw", "qx", "qy", "qz", *(f"joint {number}" for number in range(1, 9)))
        ),
    },
    "cube": {
        "effector": Addition(),
        "effector-joints": Addition(tuple(range(6)), tuple(f"joint {number}" for number in range(1, 7))),
    },
}


def planning_states(spec: EnvSpec) -> dict[str, EnvSpec]:
    """The environment with each of its planning states, by name; goal dimensions are always the first."""
    if spec.name not in STATES:
        raise VhdError(f"{spec.name}: planning states are compared in {' and '.join(STATES)} only.")
    places = tuple(spec.state_dims[dim] for dim in spec.goal_dims)
    place_names = tuple(spec.state_names[dim] for dim in spec.goal_dims)
    goal_dims = tuple(range(spec.goal_dim))
    return {
        name: replace(
            spec,
            state_dims=places + addition.dims,
            state_names=place_names + addition.names,
            goal_dims=goal_dims,
            velocity_dims=tuple(spec.goal_dim + dim for dim in goal_dims) if addition.velocities else None,
        )
        for name, addition in STATES[spec.name].items()
    }


class KnownPart:
    """A Length Predictor asked about larger planning states than its own: it is handed the dimensions it knows."""

    def __init__(self, predictor: LengthPredictor, spec: EnvSpec) -> None:
        """`spec` has the larger planning state."""
        known = predictor.spec.state_dims
        if missing := set(known) - set(spec.state_dims):
            raise VhdError(
                f"{spec.name}: the Length Predictor reads the observation's dimensions {known}, and the planning state "
                f"{spec.state_dims} lacks {sorted(missing)}."
            )
        self.predictor = predictor
        self._columns = [spec.state_dims.index(dim) for dim in known]

    def predict_steps(self, starts: FloatArray, goals: FloatArray) -> FloatArray:
        """(..., d) and (..., goal_dim) -> (...)."""
        return self.predictor.predict_steps(np.asarray(starts)[..., self._columns], goals)

    def of_columns(self, between: StepsBetween) -> StepsBetween:
        """`between` for normalised states (n, d) and (n, d) that have more columns than it knows."""
        return lambda s, end: between(s[:, self._columns], end[:, self._columns])


class StraightLine:
    """No planner at all: evenly along the straight line, in as many steps as the Length Predictor says."""

    def __init__(self, predictor: LengthPredictor, gamma: float) -> None:
        self.predictor, self.gamma = predictor, gamma
        self.spec, self.normalizer = predictor.spec, predictor.normalizer

    def predict_lengths(self, starts: FloatArray, goals: FloatArray) -> IntArray:
        """L_hat of each pair."""
        return self.predictor.plan_length(starts, goals, self.gamma)

    def plan_batch(
        self, starts: FloatArray, goals: FloatArray, lengths: IntArray | None = None, *, seeds: IntArray
    ) -> list[Plan]:
        """The lines; there is nothing to seed. What a goal leaves open stays as it is at the start."""
        lengths = self.predict_lengths(starts, goals) if lengths is None else lengths
        ends = np.array(starts)
        ends[:, list(self.spec.goal_dims)] = goals
        return [
            Plan(np.linspace(start, end, int(length), dtype=np.float32), goal)
            for start, end, goal, length in zip(starts, ends, goals, lengths, strict=True)
        ]


def model_path(environment: str, name: str) -> Path:
    """Where the planner of a planning state is."""
    return run_folder(environment, f"state-{name}") / "model.safetensors"


def make_task(dataset: Dataset, device: torch.device) -> PlannerTask:
    """The default recipe on the dataset's planning state."""
    spec, normalizer = dataset.spec, dataset.normalizer()
    recipe = get_recipe(environment_of(spec))
    config = recipe.planner
    steps_between = None
    if config.directness is not None:
        path = find_model(spec.name, "length")
        predictor, (between, _) = LengthPredictor.load(path), load_steps_between(path, device)
        part = tuple(spec.state_dims.index(dim) for dim in predictor.spec.state_dims)
        if predictor.normalizer.to_json() != normalizer.select(part).to_json():
            raise VhdError(f"the Length Predictor of {spec.name} was trained on other data. Train it again.")
        steps_between = KnownPart(predictor, spec).of_columns(between)
    fingerprint = dataset.fingerprint()
    return PlannerTask(
        dataset.episodes, spec, config, normalizer, fingerprint, device, steps_between, planning=recipe.planning
    )


class Evaluator:
    """Instances, simulators, Length Predictor and controller of one environment: the same for all planning states."""

    def __init__(self, environment: Environment, n: int, seed: int, simulators: Simulators) -> None:
        """Inverse dynamics knows the environment's own planning state."""
        self.environment, self.seed, self.simulators = environment, seed, simulators
        self.spec = environment.spec
        self.instances: list[Instance] = draw_instances(environment.make(), n, seed)
        length, dynamics = (find_model(self.spec.name, kind) for kind in ("length", "dynamics"))
        self.predictor = LengthPredictor.load(length)
        self.controller = make_controller(environment.controller, self.spec, dynamics)
        self.models = {"length_model": sha256(length)[:12], "dynamics_model": sha256(dynamics)[:12]}

    def __call__(self, planner: BatchPlanner, protocol: str) -> dict[str, Any]:
        """The figures of one planner under one protocol."""
        rule = single_shot() if protocol == "ss" else replan_on_deviation(self.environment.step_budget)
        executor = Executor(planner, self.controller, self.simulators, rule, seed=self.seed)
        outcomes: list[Outcome] = []
        with progress_bar(f"{self.spec.name} {protocol}", "instances") as progress:
            for outcome in executor.run(self.instances):
                outcomes.append(outcome)
                progress(len(outcomes), len(self.instances))
        hits, steps = [item.rollout.success for item in outcomes], [item.rollout.steps for item in outcomes]
        low, high = wilson_interval(sum(hits), len(hits))
        plans = [plan for item in outcomes for _, plan in item.rollout.plans]
        return {
            "success_rate": float(np.mean(hits)),
            "success_rate_interval": (low, high),
            "interval": f"{low:.1%} to {high:.1%}",
            "average_executed_steps": float(np.mean(steps)),
            "average_executed_steps_interval": bootstrap_interval(steps),
            "average_planned_length": float(np.mean([item.rollout.plans[0][1].length for item in outcomes])),
            "plans": len(plans) / len(outcomes),
            "through_walls": through_walls(replace(self.environment, spec=planner.spec), plans),
        }


def through_walls(environment: Environment, plans: Sequence[Plan]) -> float | None:
    """Share of plans that no body can follow to their end; none where there are no walls."""
    if not environment.geometry.is_maze:
        return None
    # Scale and speeds play no part in where a plan's way lies.
    facts = Facts(environment, np.ones(environment.spec.state_dim), np.inf, np.inf)
    return float(np.mean([share_in_walls(plan, facts) > 0 for plan in plans]))


def evaluate_state(table: Comparison, name: str, evaluator: Evaluator, options: argparse.Namespace) -> None:
    """Rows for the planner that is there."""
    path = model_path(evaluator.spec.name, name)
    if not path.is_file():
        err.print(f"{evaluator.spec.name} {name}: not trained yet, left out")
        return
    header = load_model(path, "planner")[1]
    planner = Planner.load(path, outside="ignore").with_options(smoothing=options.smoothing)
    planner.length_predictor = KnownPart(evaluator.predictor, planner.spec)
    which = {"state": name, "smoothing": planner.options.smoothing, "model": sha256(path)[:12]}
    about = {
        "dimensions": planner.spec.state_dim,
        "state_names": list(planner.spec.state_names),
        "updates": header.updates,
        "minutes": header.notes["minutes"],
    }
    for gamma in options.gamma or (PAPER_GAMMA,):
        with_margin = partial(planner.with_options, gamma=gamma, wait=0)  # a straight line does not wait either
        put_rows(table, evaluator, {**which, "gamma": gamma}, about, with_margin)


def evaluate_straight_line(table: Comparison, evaluator: Evaluator, gammas: Sequence[float] | None) -> None:
    """Rows for no planner."""
    which = {"state": STRAIGHT, "smoothing": None, "model": ""}
    about = {"dimensions": evaluator.spec.state_dim}
    for gamma in gammas or (PAPER_GAMMA,):
        put_rows(table, evaluator, {**which, "gamma": gamma}, about, partial(StraightLine, evaluator.predictor, gamma))


def put_rows(
    table: Comparison,
    evaluator: Evaluator,
    which: dict[str, Any],
    about: dict[str, Any],
    make: Callable[[], BatchPlanner],
) -> None:
    """A row for each protocol, but for those that the table has; `which` tells planners apart, `about` does not."""
    for protocol in PROTOCOLS:
        row = {
            "environment": evaluator.spec.name,
            "protocol": protocol,
            "n": len(evaluator.instances),
            "seed": evaluator.seed,
            **evaluator.models,
            **which,
        }
        if table.find(**row) is None:
            table.put(row | about | evaluator(make(), protocol))


def main() -> None:
    parser = comparison_parser(__doc__, "planning states")
    parser.add_argument("env", help="antmaze-medium or cube")
    parser.add_argument("--updates", type=int, default=8000, help="updates of every planner (default 8000)")
    parser.add_argument("--n", type=int, default=128, help="instances")
    parser.add_argument("--seed", type=int, default=5, help="of the instances and plans; not the benchmark's")
    parser.add_argument("--gamma", type=float, nargs="+", help="margins to evaluate at (default: 1.3)")
    parser.add_argument("--smoothing", type=float, help="of the plans, in control steps (default: the recipe's)")
    parser.add_argument("--out", type=Path, help="JSON; a .md is beside it (default: results/planning-states-ENV.json)")
    run_comparison(compare, parser)


def compare(options: argparse.Namespace) -> None:
    """Train and evaluate what was asked for, and print the table."""
    dataset = load_dataset(options.env)
    spec, known = dataset.spec, planning_states(dataset.spec)
    names = (STRAIGHT, *known)
    check_names(options.only, names, "planning state")
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    loop = replace(get_recipe(environment_of(spec)).planner_loop, updates=options.updates, threads=options.threads)
    table = Comparison(
        options.out or Path(f"results/planning-states-{spec.name}.json"),
        ("environment", "state", "gamma", "smoothing", "protocol"),
        COLUMNS,
        f"{spec.name}: planning states on {options.n} instances of seed {options.seed}, one plan a pair.",
    )
    environment = get_environment(spec.name)
    assert environment.simulator is not None
    with Simulators(environment.simulator, min(environment.simulators, options.n)) as simulators:
        evaluator = Evaluator(environment, options.n, options.seed, simulators)
        for name in options.only or names:
            if name == STRAIGHT:
                evaluate_straight_line(table, evaluator, options.gamma)
                continue
            if not options.evaluate:
                make = partial(make_task, replace(dataset, spec=known[name]))
                train_run(f"{spec.name} {name}", make, loop, model_path(spec.name, name).parent)
            evaluate_state(table, name, evaluator, options)
    print(table.markdown())


if __name__ == "__main__":
    main()
