"""Simulators stepped together against one by one: physics alone, and the benchmark's whole control loop.

    python benchmarks/simulation_speed.py                                   ants, points and balls
    python benchmarks/simulation_speed.py --env antmaze-medium --n 100      with the control loop

Physics: the same random actions for 64 simulators on one thread, together (`PlanningEnv.vector`) and one by one. The
observations must be equal to the bit. Loop (with --n): single-shot executions of n instances with the shipped weights,
simulators on threads against simulators in worker processes, as many of either as there are cores: control steps per
second and core, planning not counted. The two take turns, and the machine's load is printed: only ratios of one run
mean something on a busy machine.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np
import tyro

from vhdiffuser.benchmark.methods import load_method
from vhdiffuser.control.base import default_controller
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.protocols import single_shot
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.execution.executor import Executor
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.workers import available_cores

SIMULATORS = 64


@dataclass(frozen=True)
class Options:
    """What to measure."""

    env: tuple[str, ...] = ("antmaze-medium", "antmaze-giant-stitch", "pointmaze-giant-stitch", "maze2d-large")
    """Environments."""
    steps: int = 20
    """Control steps of each turn."""
    turns: int = 5
    """Turns; the fastest counts."""
    n: int = 0
    """Instances of the control loop; 0: physics only."""


def physics(environment: Environment, options: Options) -> tuple[float, float]:
    """Seconds per control step, one by one and together."""
    env, rng = environment.make(), np.random.default_rng(0)
    instances = draw_instances(env, SIMULATORS, 0)
    everyone = list(range(SIMULATORS))
    alone = Simulators(environment.require_simulator(), SIMULATORS, 1)
    together = Simulators(environment.require_simulator(), SIMULATORS, 1, environment.make())
    best = [np.inf, np.inf]
    for simulators in (alone, together):
        simulators.reset(everyone, instances)
    for _ in range(options.turns):
        actions = rng.uniform(-1, 1, (options.steps, SIMULATORS, env.spec.action_dim)).astype(np.float32)
        seen = []
        for way, simulators in enumerate((alone, together)):
            begun = time.perf_counter()
            seen.append([simulators.step(everyone, row) for row in actions])
            best[way] = min(best[way], (time.perf_counter() - begun) / options.steps / SIMULATORS)
        np.testing.assert_array_equal(*seen)
    return best[0], best[1]


def control_loop(environment: Environment, n: int) -> tuple[float, float]:
    """Control steps per second and core, in worker processes and together on threads."""
    planner = load_method("vhd", environment.name, source="shipped").planner
    controller = default_controller(environment.spec, "shipped")
    instances = draw_instances(environment.make(), n, 0)
    rates = []
    for first in (None, environment.make()):
        slots = min(n, 128 if first is None else environment.simulators)
        with Simulators(environment.require_simulator(), slots, 0, first) as simulators:
            executor = Executor(planner, controller, simulators, single_shot())
            list(executor.run(instances[: 2 * simulators.workers]))  # workers start, networks warm up
            outcomes = list(executor.run(instances))
        steps = sum(outcome.rollout.steps for outcome in outcomes)
        rates.append(steps / sum(outcome.control_seconds for outcome in outcomes) / available_cores())
    return rates[0], rates[1]


def main(options: Options) -> None:
    """Measure and print."""
    for name in options.env:
        environment = get_environment(name)
        alone, together = physics(environment, options)
        load = f"load {os.getloadavg()[0]:.1f} on {available_cores()} cores"
        print(
            f"{name}: physics {1e6 * alone:.0f} us a step one by one, {1e6 * together:.0f} together "
            f"({alone / together:.2f}x, equal to the bit; {load})",
            flush=True,
        )
        if options.n:
            processes, threads = control_loop(environment, options.n)
            print(
                f"{name}: control loop {processes:,.0f} steps/s a core in processes, {threads:,.0f} on threads "
                f"({threads / processes:.2f}x; load {os.getloadavg()[0]:.1f})",
                flush=True,
            )


if __name__ == "__main__":  # workers import this file anew
    main(tyro.cli(Options))
