"""How many steps the ant itself needs: the data's walker, led by OGBench's oracle, on the benchmark's instances.

    python benchmarks/ant_oracle.py                 1,000 instances of seed 0, as `vhd bench antmaze-medium`
    python benchmarks/ant_oracle.py --n 100 --seed 5

AES depends on the walker's speed; this is the yardstick. The walker heads for the centre of the next cell on the
shortest way, and in the goal's cell for the goal. It knows the maze; the planner does not. No noise on its actions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tyro
from rich.progress import track

from vhdiffuser.envs.antmaze.walker import Walker
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.locomaze.maze import MEDIUM, cell_of, map_of
from vhdiffuser.envs.locomaze.oracle import subgoal_table
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.envs.success import reached
from vhdiffuser.normalizer import Normalizer


@dataclass(frozen=True)
class Options:
    """What to run."""

    n: int = 1000
    """Instances."""
    seed: int = 0
    """Seed of the instances."""


def main(options: Options) -> None:
    """Print success rate and average executed steps."""
    environment = get_environment("antmaze-medium")
    env, spec, budget = environment.make(), environment.spec, environment.step_budget
    walker, subgoals = Walker.load(), subgoal_table(map_of(MEDIUM))
    data = load_dataset("antmaze-medium").episodes
    scale = Normalizer.fit(spec.planning_state(data.observations)).scale
    steps, successes = [], 0
    for instance in track(draw_instances(env, options.n, options.seed), "walking"):
        observation = env.reset(instance)
        goal_cell = cell_of(instance.goal)
        for step in range(budget + 1):
            if hit := bool(reached(spec, scale, spec.planning_state(observation), instance.goal)):
                break
            if step == budget:
                break
            here = cell_of(observation[:2])
            way = (instance.goal if here == goal_cell else subgoals[goal_cell][here]) - observation[:2]
            observation = env.step(walker(observation[2:], way / (np.linalg.norm(way) + 1e-6)))
        steps.append(step)
        successes += hit
    deviation = np.std(steps) / np.sqrt(len(steps))
    print(
        f"oracle on {options.n} instances of seed {options.seed}: SR {100 * successes / options.n:.1f} %, "
        f"AES {np.mean(steps):.1f} (+- {1.96 * deviation:.1f})"
    )


if __name__ == "__main__":
    main(tyro.cli(Options))
