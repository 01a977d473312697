from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from toy_point import ENVIRONMENT, ToyEnv

from vhdiffuser.benchmark.methods import PlannerChoice
from vhdiffuser.benchmark.run import run_benchmark
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.control.pd import PDController
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.envs.locomaze.environments import ogbench_instances
from vhdiffuser.envs.maze2d.d4rl import d4rl_normalized
from vhdiffuser.envs.protocols import euclidean_hit
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import UnknownNameError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.results.paths import result_path
from vhdiffuser.results.rows import read_results
from vhdiffuser.trajectories import Plan

UMAZE = get_environment("maze2d-umaze")
SPEC = UMAZE.spec
REFERENCE = (23.85, 161.86)
"""D4RL's reference scores of umaze."""


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
    environment, goal = get_environment(f"maze2d-{maze}"), np.array([1.0, 1.0])
    for protocol in environment.protocols.values():
        near, far = protocol.score(np.ones((301, 4)), goal), protocol.score(np.zeros((301, 4)), goal)
        assert far == pytest.approx(-100 * low / (high - low)), "no step near the goal"
        assert near - far == pytest.approx(100 * 300 / (high - low)), "300 steps near it; the first state is none"
    assert d4rl_normalized((low, high), low) == pytest.approx(0)
    assert d4rl_normalized((low, high), high) == pytest.approx(100)
    assert d4rl_normalized(REFERENCE, 300) == pytest.approx(200.09, abs=0.01)


def test_d4rl_score_counts_every_step_of_the_episode_near_the_goal(tmp_path: Path) -> None:
    config = BenchConfig(UMAZE, ("vhd",), ("d4rl-fixed", "d4rl-random"), n=40, workers=1, keep=0)
    choice = PlannerChoice(StayPlanner(), PlanningOptions(), {})
    controller = PDController(SPEC)
    fixed, random = run_benchmark(config, tmp_path, lambda *_: choice, controller)
    found = read_results(result_path(tmp_path, "maze2d-umaze", "vhd", "d4rl-fixed", 0)).rows
    best, worst = d4rl_normalized(REFERENCE, 300), d4rl_normalized(REFERENCE, 0)
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
    config = BenchConfig(UMAZE, ("vhd",), ("d4rl-fixed-rp",), n=12, workers=1, keep=0)
    choice = PlannerChoice(StayPlanner(), PlanningOptions(), {})
    run_benchmark(config, tmp_path, lambda *_: choice, PDController(SPEC))
    rows = read_results(result_path(tmp_path, "maze2d-umaze", "vhd", "d4rl-fixed-rp", 0)).rows
    plans = -(-300 // SPEC.L_min)  # each plan stays where it is for L_min steps
    assert {(row.steps, row.replans, tuple(row.goal)) for row in rows} == {(300, plans - 1, (1.0, 1.0))}
    best, worst = d4rl_normalized(REFERENCE, 300), d4rl_normalized(REFERENCE, 0)
    for row in rows:
        near = np.linalg.norm(np.array(row.start[:2]) - row.goal) < 0.4
        assert row.score == pytest.approx(best if near else worst)


def test_a_protocol_that_an_environment_does_not_have_is_refused_with_those_it_has(tmp_path: Path) -> None:
    choice = PlannerChoice(StayPlanner(), PlanningOptions(), {})
    d4rl = ["d4rl-fixed", "d4rl-fixed-rp", "d4rl-random", "d4rl-random-rp"]
    for name, theirs in (("maze2d-umaze", d4rl), ("maze2d-medium", d4rl), ("maze2d-large", d4rl)):
        assert list(get_environment(name).protocols) == theirs
    assert list(get_environment("antmaze-medium").protocols) == ["ogbench"]
    assert not get_environment("cube").protocols
    for environment, asked, known in ((UMAZE, "ogbench", "d4rl-fixed"), (ENVIRONMENT, "d4rl-fixed", "ss, rp")):
        with pytest.raises(UnknownNameError, match=f"{environment.name}.*{asked}.*{known}"):
            run_benchmark(
                BenchConfig(environment, ("vhd",), (asked,), n=3), tmp_path, lambda *_: choice, PDController(SPEC)
            )


def test_ogbench_tasks_come_in_turn_with_fresh_noise() -> None:
    class Five(ToyEnv):
        def ogbench_tasks(self, rng: np.random.Generator) -> list:
            return [(task, rng.uniform()) for task in range(5)]

    found = ogbench_instances(Five(), 12, 0)
    assert [task for task, _ in found] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]
    assert len({noise for _, noise in found}) == 12


def test_ogbench_success_is_euclidean() -> None:
    hit = euclidean_hit(SPEC, 0.5)
    states = np.array([[0.3, 0.4, 9, 9], [0.4, 0.4, 0, 0]])
    np.testing.assert_array_equal(hit(states, np.zeros(2)), [True, False])
