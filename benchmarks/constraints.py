"""Plans through a waypoint and around a forbidden box, single-shot, with the weights that ship.

    python benchmarks/constraints.py maze2d-large --n 200

Instances are of a seed for development. The waypoint is another instance's goal. The box, of --side units, stands
around the middle of the plan that is made without it, so that this plan is always inside.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from vhdiffuser.benchmark.instances import draw_instances
from vhdiffuser.envs.make import make_env
from vhdiffuser.execution.rules import single_shot

import vhdiffuser
from vhdiffuser.control.base import make_controller
from vhdiffuser.execution.executor import Executor
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import EnvSpec, FloatArray, Instance, IntArray, Plan


@dataclass(frozen=True)
class Made:
    """A planner whose plans are made already: one for each instance, in order."""

    plans: list[Plan]
    spec: EnvSpec
    normalizer: Normalizer

    def predict_lengths(self, starts: FloatArray, goals: FloatArray) -> IntArray:
        return np.array([plan.length for plan in self.plans])

    def plan_batch(
        self, starts: FloatArray, goals: FloatArray, lengths: IntArray | None = None, *, seeds: IntArray
    ) -> list[Plan]:
        return self.plans


def follow(planner: vhdiffuser.Planner, plans: list[Plan], instances: list[Instance]) -> tuple[list[bool], list]:
    """Success, and the places (T, goal_dim) of each execution."""
    spec = planner.spec
    with Simulators(partial(make_env, spec.name), len(instances), 1) as simulators:
        made = Made(plans, spec, planner.normalizer)
        executor = Executor(made, make_controller(spec), simulators, single_shot(), seed=0)
        outcomes = sorted(executor.run(instances), key=lambda outcome: outcome.number)
    places = [spec.goal_of(spec.planning_state(outcome.rollout.observations)) for outcome in outcomes]
    return [outcome.rollout.success for outcome in outcomes], places


def inside(places: FloatArray, box: FloatArray) -> bool:
    """Whether any of (T, goal_dim) places lies in a box (2, goal_dim)."""
    return bool(((places >= box[0]) & (places <= box[1])).all(axis=1).any())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment")
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--side", type=float, default=0.3, help="of the box, in the environment's units")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    planner = vhdiffuser.load_planner(options.environment, outside="ignore")
    spec, scale = planner.spec, planner.spec.goal_of(planner.normalizer.scale)
    drawn = draw_instances(make_env(spec.name), 2 * options.n, options.seed)
    instances, others = drawn[: options.n], drawn[options.n :]

    def all_plans(make: Callable[[int, Instance], Plan]) -> tuple[list[Plan], list[bool], list]:
        plans = [make(number, instance) for number, instance in enumerate(instances)]
        return plans, *follow(planner, plans, instances)

    def near(places: FloatArray, waypoint: FloatArray) -> bool:
        return bool((np.abs((places - waypoint) / scale).max(axis=1) <= spec.epsilon).any())

    print(f"{spec.name}: {options.n} instances of seed {options.seed}, single-shot")
    plain, reached, _ = all_plans(lambda number, item: planner.plan(item.start, item.goal, seed=number))
    print(f"{'no waypoint, no box':34} goal reached {np.mean(reached):.1%}")
    for candidates in (1, 8):
        several = planner.with_options(candidates=candidates)
        _, goal, places = all_plans(
            lambda number, item, several=several: several.plan(
                item.start, item.goal, via=[others[number].goal], seed=number
            )
        )
        passed = [near(way, other.goal) for way, other in zip(places, others, strict=True)]
        both = np.mean(np.logical_and(goal, passed))
        label = f"a waypoint, {candidates} candidate(s)"
        print(f"{label:34} goal reached {np.mean(goal):.1%}, waypoint passed {np.mean(passed):.1%}, both {both:.1%}")
    middles = [spec.goal_of(plan.states[plan.length // 2]) for plan in plain]
    boxes = [np.stack([middle - options.side / 2, middle + options.side / 2]) for middle in middles]
    for candidates in (1, 8):
        for guided in (False, True):
            several = planner.with_options(candidates=candidates)
            plans, goal, places = all_plans(
                lambda number, item, several=several, guided=guided: several.plan(
                    item.start, item.goal, avoid=[boxes[number]] if guided else None, seed=number
                )
            )
            clear = [not inside(spec.goal_of(plan.states), box) for plan, box in zip(plans, boxes, strict=True)]
            kept = [not inside(way, box) for way, box in zip(places, boxes, strict=True)]
            label = f"a box, {candidates} candidate(s), {'guided' if guided else 'not guided'}"
            print(
                f"{label:34} plans outside {np.mean(clear):.1%}, robot outside {np.mean(kept):.1%}, "
                f"goal reached {np.mean(goal):.1%}, both {np.mean(np.logical_and(goal, kept)):.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
