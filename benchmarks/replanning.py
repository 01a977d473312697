"""Replanning at every control step: latency, deadline misses, success and steps, beside replan-on-deviation.

    python benchmarks/replanning.py                      10,000 control steps of maze2d-large at 100 Hz
    python benchmarks/replanning.py --steps 2000 --reverse 2

Every `Agent.act` replans from the newest observation; its latency counts against the control period. Episodes are
instances of seed 0, each until its goal is reached or its step budget is spent. Beside the latency stands the processor
time of the same calls: a deadline that is missed by the one and met by the other was missed because something else had
the core. The exit code is 1 if a deadline was missed.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time

import numpy as np

import vhdiffuser
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.protocols import ExecutionRule
from vhdiffuser.envs.registry import get_environment


def soak(
    name: str, rule: ExecutionRule, steps: int, reverse: int
) -> tuple[np.ndarray, np.ndarray, list[bool], list[int]]:
    """Latencies and processor times of at least that many `act` calls; success and steps of each finished episode."""
    environment = get_environment(name)
    planner = vhdiffuser.load_planner(name, steps=reverse, outside="ignore")
    agent, env = vhdiffuser.Agent(planner, rule=rule), environment.make()
    agent.warm_up()
    latencies: list[float] = []
    used: list[float] = []
    reached, lengths = [], []
    for instance in draw_instances(env, 1000, seed=0):
        observation = env.reset(instance)
        agent.reset(instance.goal)
        gc.collect()
        gc.disable()  # as a control loop would
        while not agent.done:
            begun = time.thread_time()
            action = agent.act(observation)
            used.append(time.thread_time() - begun)
            observation = env.step(action)
            agent.observe(observation)
        gc.enable()
        latencies += [item.total for item in agent.latencies]
        reached.append(agent.reached)
        lengths.append(agent.steps)
        if len(latencies) >= steps:
            break
    return np.array(latencies), np.array(used), reached, lengths


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="maze2d-large")
    parser.add_argument("--steps", type=int, default=10_000, help="control steps in all")
    parser.add_argument("--reverse", type=int, default=1, help="reverse steps per plan")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    environment = get_environment(options.env)
    period, budget = environment.spec.control_dt, environment.step_budget
    rules = {
        "every step": vhdiffuser.replan_every(1, budget=budget),
        "on deviation": vhdiffuser.replan_on_deviation(budget=budget),
    }
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores; period {1e3 * period:.0f} ms, one thread")
    missed = 0
    for name, rule in rules.items():
        latencies, used, reached, steps = soak(options.env, rule, options.steps, options.reverse)
        late = int((latencies > period).sum())
        missed += late if name == "every step" else 0
        p50, p99, most = 1e3 * np.quantile(latencies, [0.5, 0.99, 1.0])
        print(
            f"replanning {name}: {len(latencies)} steps, p50 {p50:.2f} ms, p99 {p99:.2f} ms, largest {most:.2f} ms, "
            f"{late} deadline misses; processor time p50 {1e3 * np.median(used):.2f} ms, largest "
            f"{1e3 * used.max():.2f} ms, {int((used > period).sum())} beyond the period; "
            f"{sum(reached)} of {len(reached)} episodes reached their goal, "
            f"in {np.mean(steps):.1f} steps"
        )
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
