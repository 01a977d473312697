"""D4RL's protocols for maze2d, for comparison with published scores.

One plan is tracked and its end held, or the robot replans (`-rp`); each step within 0.5 of the goal counts 1, and the
sum over the episode is normalised by D4RL's reference scores. The goal is the maze's own (`fixed`) or random (`random`,
Diffuser's multi-task column).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.maze2d.maze import Maze
from vhdiffuser.envs.protocols import ExecutionRule, Protocol, euclidean_hit, fixed_episode
from vhdiffuser.types import EnvSpec, FloatArray, Instance

GOAL_RADIUS = 0.5
"""Distance within which D4RL's sparse reward is 1."""
RENEWED_GAMMA = {"fixed": 1.0, "random": 0.85}
"""Margin of published plans with replanning: none, or less."""


def d4rl_protocols(spec: EnvSpec, maze: Maze, steps: int, reference: tuple[float, float]) -> dict[str, Protocol]:
    """The four protocols of one maze: episodes of `steps`, scores of D4RL's random and expert policies as 0 and 100."""
    goal = tuple(float(value) for value in maze.goal_cell)
    return {
        f"d4rl-{kind}{ending}": Protocol(
            instances=partial(d4rl_instances, goal if kind == "fixed" else None),
            rule=partial(d4rl_rule, steps, bool(ending)),
            hit=euclidean_hit(spec, GOAL_RADIUS),
            score=partial(d4rl_score, spec, reference),
            # The score rewards early arrival, and replanning corrects plans that are too short.
            gamma=RENEWED_GAMMA[kind] if ending else None,
        )
        for kind in ("fixed", "random")
        for ending in ("", "-rp")
    }


def d4rl_instances(goal: tuple[float, ...] | None, env: PlanningEnv, n: int, seed: int) -> list[Instance]:
    """D4RL's resets, with the maze's goal or a random one."""
    drawn = draw_instances(env, n, seed)
    return drawn if goal is None else [Instance(item.start, np.array(goal, np.float32), item.seed) for item in drawn]


def d4rl_rule(steps: int, replans: bool, threshold: float, check_every: int) -> ExecutionRule:
    """Episodes of D4RL's length: one plan whose end is held, or replanning."""
    rule = fixed_episode(steps)
    return replace(rule, hold=False, threshold=threshold, check_every=check_every) if replans else rule


def d4rl_score(spec: EnvSpec, reference: tuple[float, float], observations: FloatArray, goal: FloatArray) -> float:
    """Normalised score of one episode: the reward counts the state after each step, not the first state."""
    hit = euclidean_hit(spec, GOAL_RADIUS)
    return d4rl_normalized(reference, float(hit(spec.planning_state(observations[1:]), goal).sum()))


def d4rl_normalized(reference: tuple[float, float], total: float) -> float:
    """D4RL's normalised score of an episode's summed reward."""
    low, high = reference
    return 100.0 * (total - low) / (high - low)
