"""Replanning every N control steps on OGBench's tasks: every plan anew, against a warm start that keeps the rest.

    python benchmarks/warm_start.py pointmaze-giant-stitch --n 25
    python benchmarks/warm_start.py antmaze-giant-stitch --n 10

Prints success, steps and planning time per episode of both, and the median time of a first plan and of a replan.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import vhdiffuser
from vhdiffuser.control.base import default_controller
from vhdiffuser.envs.protocols import replan_every
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.execution.executor import Executor
from vhdiffuser.execution.simulators import Simulators


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env")
    parser.add_argument("--n", type=int, default=25, help="episodes")
    parser.add_argument("--every", type=int, default=50, help="control steps between two plans")
    parser.add_argument("--seed", type=int, default=10)
    options = parser.parse_args()
    environment = get_environment(options.env)
    planner = vhdiffuser.load_planner(options.env, source="shipped")
    controller = default_controller(environment.spec, "shipped")
    protocol = environment.protocols["ogbench"]
    instances = protocol.instances(environment.make(), options.n, options.seed)
    for warm in (False, True):
        rule = replan_every(options.every, environment.step_budget, warm_start=warm)
        simulators = Simulators(environment.make, options.n)
        outcomes = list(Executor(planner, controller, simulators, rule, hit=protocol.hit).run(instances))
        success = np.mean([item.rollout.success for item in outcomes])
        steps, replans = (np.mean([getattr(item.rollout, name) for item in outcomes]) for name in ("steps", "replans"))
        seconds = np.mean([item.planning_seconds for item in outcomes])
        print(
            f"{'warm start' if warm else 'plans anew':11} SR {100 * success:5.1f} %, {steps:.0f} steps, "
            f"{replans:.1f} replans, {seconds:.2f} s of planning per episode"
        )
    first, again = [], []
    for instance in instances:
        state = planner.spec.planning_state(environment.make().reset(instance))
        begun = time.process_time()
        plan = planner.plan(state, instance.goal)
        first.append(time.process_time() - begun)
        beside, goals = plan.states[[plan.length // 4]], instance.goal[None]
        begun = time.process_time()
        planner.replan_batch([plan], beside, goals, seeds=[1])
        again.append(time.process_time() - begun)
    ms, share = 1e3 * np.median(again), np.median(again) / np.median(first)
    print(f"first plan {1e3 * np.median(first):.1f} ms, replan {ms:.1f} ms of CPU ({share:.2f} of it)")


if __name__ == "__main__":
    main()
