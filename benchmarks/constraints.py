"""Plans through a waypoint and around a forbidden box, single-shot, with the weights that ship.

    python benchmarks/constraints.py maze2d-large --n 200

Instances are of a seed for development. The waypoint is another instance's goal; the plan is tracked to its end, and
the goal counts if it is reached after the waypoint. The box, of --side units, stands around the middle of the plan that
is made without it, so that this plan is always inside. Boxes that contain the start or the goal are left out.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np

import vhdiffuser
from vhdiffuser.control.base import default_controller
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.protocols import ExecutionRule
from vhdiffuser.execution.executor import Executor
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, Instance, IntArray


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


def follow(
    planner: vhdiffuser.Planner, plans: list[Plan], instances: list[Instance], rule: ExecutionRule
) -> list[FloatArray]:
    """The places (T, goal_dim) of each execution."""
    spec = planner.spec
    environment = vhdiffuser.get_environment(spec.name)
    assert environment.simulator is not None
    with Simulators(environment.simulator, len(instances), 1) as simulators:
        made = Made(plans, spec, planner.normalizer)
        controller = default_controller(spec)
        executor = Executor(made, controller, simulators, rule, seed=0)
        outcomes = sorted(executor.run(instances), key=lambda outcome: outcome.number)
    return [spec.goal_of(spec.planning_state(outcome.rollout.observations)) for outcome in outcomes]


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
    drawn = draw_instances(vhdiffuser.get_environment(spec.name).make(), 2 * options.n, options.seed)
    instances, others = drawn[: options.n], drawn[options.n :]

    def reached(places: FloatArray, goal: FloatArray) -> IntArray:
        """Control steps at which a place lies in the goal region."""
        return np.flatnonzero(np.abs((places - goal) / scale).max(axis=1) <= spec.epsilon)

    print(f"{spec.name}: {options.n} instances of seed {options.seed}, single-shot")
    plain = [planner.plan(item.start, item.goal, seed=number) for number, item in enumerate(instances)]
    places = follow(planner, plain, instances, vhdiffuser.single_shot())
    goal = [len(reached(way, item.goal)) > 0 for way, item in zip(places, instances, strict=True)]
    print(f"{'no waypoint, no box':34} goal reached {np.mean(goal):.1%}")
    for candidates in (1, 8):
        several = planner.with_options(candidates=candidates)
        plans = [
            several.plan(item.start, item.goal, via=[other.goal], seed=number)
            for number, (item, other) in enumerate(zip(instances, others, strict=True))
        ]
        places = follow(planner, plans, instances, ExecutionRule(stop_at_hit=False))
        passed = [reached(way, other.goal) for way, other in zip(places, others, strict=True)]
        both = [
            len(first) > 0 and len(reached(way[first[0] :], item.goal)) > 0
            for way, first, item in zip(places, passed, instances, strict=True)
        ]
        label = f"a waypoint, {candidates} candidate(s)"
        share = np.mean([len(first) > 0 for first in passed])
        print(f"{label:34} waypoint passed {share:.1%}, then the goal reached {np.mean(both):.1%}", flush=True)

    middles = [spec.goal_of(plan.states[plan.length // 2]) for plan in plain]
    boxes = [np.stack([middle - options.side / 2, middle + options.side / 2]) for middle in middles]
    ends = [np.stack([spec.goal_of(item.start), item.goal]) for item in instances]
    possible = [number for number in range(options.n) if not inside(ends[number], boxes[number])]
    print(f"{len(possible)} boxes contain neither start nor goal")
    tried = [instances[number] for number in possible]
    for candidates in (1, 8):
        for told in (False, True):
            several = planner.with_options(candidates=candidates)
            plans = [
                several.plan(item.start, item.goal, avoid=[boxes[number]] if told else None, seed=number)
                for number, item in zip(possible, tried, strict=True)
            ]
            places = follow(planner, plans, tried, vhdiffuser.single_shot())
            clear = [
                not inside(spec.goal_of(plan.states), boxes[number])
                for plan, number in zip(plans, possible, strict=True)
            ]
            kept = [not inside(way, boxes[number]) for way, number in zip(places, possible, strict=True)]
            goal = [len(reached(way, item.goal)) > 0 for way, item in zip(places, tried, strict=True)]
            label = f"a box, {candidates} candidate(s), {'avoided' if told else 'not avoided'}"
            print(
                f"{label:34} plans outside {np.mean(clear):.1%}, robot outside {np.mean(kept):.1%}, "
                f"goal reached {np.mean(goal):.1%}, both {np.mean(np.logical_and(goal, kept)):.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
