"""Peers' own protocols, so that numbers can be compared with theirs.

D4RL maze2d: one plan, tracked, its end held; every step within 0.5 of the goal counts 1; the sum
over the episode is normalised by D4RL's reference scores. The goal is the maze's own (`fixed`) or
drawn (`random`, Diffuser's multi-task column).

OGBench: five tasks per maze, success within 0.5 m (Euclidean) in 1000 steps; executed with
replan-on-deviation, since OGBench leaves control to the method.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vhdiffuser.benchmark.instances import draw_instances
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.executor import Outcome
from vhdiffuser.execution.rules import ExecutionRule, HitTest, fixed_episode
from vhdiffuser.streams import stream
from vhdiffuser.types import EnvSpec, FloatArray, Instance

D4RL_REFERENCE = {"umaze": (23.85, 161.86), "medium": (13.13, 277.39), "large": (6.7, 273.99)}
"""Scores of D4RL's random and expert policies, which map to 0 and 100."""

OGBENCH_TASKS = 5
OGBENCH_STEPS = 1000


def d4rl_normalized(maze: str, total: float) -> float:
    """D4RL's normalised score of an episode's summed reward."""
    low, high = D4RL_REFERENCE[maze]
    return 100.0 * (total - low) / (high - low)


def d4rl_instances(env: PlanningEnv, n: int, seed: int, random_goal: bool) -> list[Instance]:
    """D4RL's own resets, with the maze's goal or a drawn one."""
    from vhdiffuser.envs.maze2d import goal_cell

    maze = _maze(env)
    fixed = goal_cell(maze).astype(np.float32)
    drawn = draw_instances(env, n, seed)
    return drawn if random_goal else [Instance(item.start, fixed, item.seed) for item in drawn]


def d4rl_rule(env: PlanningEnv) -> ExecutionRule:
    """Episodes of D4RL's length."""
    from vhdiffuser.envs.maze2d import EPISODE_STEPS

    return fixed_episode(EPISODE_STEPS[_maze(env)])


def d4rl_hit(env: PlanningEnv) -> HitTest:
    """Within 0.5 of the goal: what D4RL rewards."""
    from vhdiffuser.envs.maze2d import GOAL_RADIUS

    return euclidean_hit(env.spec, GOAL_RADIUS)


def d4rl_scorer(env: PlanningEnv) -> Callable[[Outcome], float]:
    """Normalised score of one episode: the reward counts the states after each step, not the first."""
    maze, spec, hit = _maze(env), env.spec, d4rl_hit(env)

    def score(outcome: Outcome) -> float:
        states = spec.planning_state(outcome.rollout.observations[1:])
        return d4rl_normalized(maze, float(hit(states, outcome.instance.goal).sum()))

    return score


def ogbench_instances(env: PlanningEnv, n: int, seed: int) -> list[Instance]:
    """Tasks 1 to 5 in turn, each time with fresh noise."""
    tasks = getattr(env, "ogbench_tasks", None)
    if tasks is None:
        raise VhdError(f"{env.spec.name}: OGBench's five tasks exist for antmaze-medium only.")
    streams = (stream("ogbench tasks", seed, number) for number in range(-(-n // OGBENCH_TASKS)))
    rounds = [tasks(np.random.default_rng(each)) for each in streams]
    return [instance for tasks_once in rounds for instance in tasks_once][:n]


def ogbench_hit(env: PlanningEnv) -> HitTest:
    """Within 0.5 m of the goal."""
    from vhdiffuser.envs.antmaze import OGBENCH_TOLERANCE

    return euclidean_hit(env.spec, OGBENCH_TOLERANCE)


def euclidean_hit(spec: EnvSpec, radius: float) -> HitTest:
    """Euclidean distance over the goal dimensions, in the environment's units."""

    def hit(states: FloatArray, goals: FloatArray) -> np.ndarray:
        return np.linalg.norm(spec.goal_of(states) - goals, axis=-1) <= radius

    return hit


def _maze(env: PlanningEnv) -> str:
    maze = getattr(env, "maze", None)
    if maze not in D4RL_REFERENCE:
        raise VhdError(f"{env.spec.name}: D4RL's score exists for maze2d-umaze, maze2d-medium and maze2d-large only.")
    return str(maze)
