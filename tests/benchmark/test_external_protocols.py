from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from toy_point import ToyEnv

from vhdiffuser.benchmark import external_protocols
from vhdiffuser.benchmark.methods import PlannerChoice
from vhdiffuser.benchmark.run import run_benchmark
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.control.pd import PDController
from vhdiffuser.envs.maze2d import Maze2dEnv
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.errors import VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.results.paths import result_path
from vhdiffuser.results.rows import read_results
from vhdiffuser.trajectories import Plan

SPEC = get_spec("maze2d-umaze")


class StayPlanner:
    """Plans to stay where it is: the score is then known from the start alone."""

    spec = SPEC
    normalizer = Normalizer(-np.ones(4, np.float32), np.ones(4, np.float32))

    def predict_lengths(self, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return np.full(len(starts), SPEC.L_min)

    def plan_batch(self, starts, goals, lengths=None, *, seeds) -> list[Plan]:
        still = starts * np.array([1, 1, 0, 0])
        return [Plan(np.repeat(s[None], n, axis=0), g) for s, g, n in zip(still, goals, lengths, strict=True)]


@pytest.mark.parametrize(
    ("maze", "low", "high"), [("umaze", 23.85, 161.86), ("medium", 13.13, 277.39), ("large", 6.7, 273.99)]
)
def test_d4rls_reference_scores_map_to_0_and_100(maze: str, low: float, high: float) -> None:
    assert external_protocols.d4rl_normalized(maze, low) == pytest.approx(0)
    assert external_protocols.d4rl_normalized(maze, high) == pytest.approx(100)
    assert external_protocols.d4rl_normalized("umaze", 300) == pytest.approx(200.09, abs=0.01)


def test_d4rl_score_counts_every_step_of_the_episode_near_the_goal(tmp_path: Path) -> None:
    config = BenchConfig("maze2d-umaze", ("vhd",), ("d4rl-fixed", "d4rl-random"), n=40, workers=1, keep=0)
    choice = PlannerChoice(StayPlanner(), "none", 1, 1.0, 1, {})
    controller = PDController(SPEC)
    fixed, random = run_benchmark(config, tmp_path, partial(Maze2dEnv, "umaze"), lambda *_: choice, controller)
    found = read_results(result_path(tmp_path, "maze2d-umaze", "vhd", "d4rl-fixed", 0)).rows
    best, worst = external_protocols.d4rl_normalized("umaze", 300), external_protocols.d4rl_normalized("umaze", 0)
    for row in found:
        assert row.goal == [1.0, 1.0]
        assert row.steps == 300
        near = np.linalg.norm(np.array(row.start[:2]) - row.goal) < 0.4
        assert row.score == pytest.approx(best if near else worst)
    assert {row.success for row in found} == {True, False}
    assert fixed.average_score == pytest.approx(np.mean([row.score for row in found]))
    other = read_results(result_path(tmp_path, "maze2d-umaze", "vhd", "d4rl-random", 0)).rows
    assert len({tuple(row.goal) for row in other}) == 40
    assert random.n == 40


def test_d4rl_with_replanning_plans_again_until_the_episode_ends(tmp_path: Path) -> None:
    config = BenchConfig("maze2d-umaze", ("vhd",), ("d4rl-fixed-rp",), n=12, workers=1, keep=0)
    choice = PlannerChoice(StayPlanner(), "none", 1, 1.0, 1, {})
    run_benchmark(config, tmp_path, partial(Maze2dEnv, "umaze"), lambda *_: choice, PDController(SPEC))
    rows = read_results(result_path(tmp_path, "maze2d-umaze", "vhd", "d4rl-fixed-rp", 0)).rows
    plans = -(-300 // SPEC.L_min)  # each plan stays where it is for L_min steps
    assert {(row.steps, row.replans, tuple(row.goal)) for row in rows} == {(300, plans - 1, (1.0, 1.0))}
    best, worst = external_protocols.d4rl_normalized("umaze", 300), external_protocols.d4rl_normalized("umaze", 0)
    for row in rows:
        near = np.linalg.norm(np.array(row.start[:2]) - row.goal) < 0.4
        assert row.score == pytest.approx(best if near else worst)


def test_peers_protocols_say_where_they_exist() -> None:
    with pytest.raises(VhdError, match="maze2d-umaze"):
        external_protocols.d4rl_instances(ToyEnv(), 3, 0, random_goal=False)
    with pytest.raises(VhdError, match="antmaze-medium"):
        external_protocols.ogbench_instances(ToyEnv(), 3, 0)


def test_ogbench_tasks_come_in_turn_with_fresh_noise() -> None:
    class Five(ToyEnv):
        def ogbench_tasks(self, rng: np.random.Generator) -> list:
            return [(task, rng.uniform()) for task in range(5)]

    found = external_protocols.ogbench_instances(Five(), 12, 0)
    assert [task for task, _ in found] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]
    assert len({noise for _, noise in found}) == 12


def test_ogbench_success_is_euclidean() -> None:
    hit = external_protocols.euclidean_hit(SPEC, 0.5)
    states = np.array([[0.3, 0.4, 9, 9], [0.4, 0.4, 0, 0]])
    np.testing.assert_array_equal(hit(states, np.zeros(2)), [True, False])
