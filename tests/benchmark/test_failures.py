"""Kinds of failure, on plans made to fail in known ways; and failed rows executed again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from toy_point import ENVIRONMENT, SPEC, SPEED, ToyController, ToyEnv, ToyPlanner, make_stuck_env

from vhdiffuser.benchmark.failures import (
    KINDS,
    Facts,
    Failure,
    count_kinds,
    evaluate_failure,
    failed_rows,
    instances_of,
    pick,
    run_again,
    share_in_walls,
    steps_to_go,
)
from vhdiffuser.benchmark.geodesic import Geodesic
from vhdiffuser.benchmark.methods import PlannerChoice
from vhdiffuser.benchmark.run import run_benchmark
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.envs.environment import Geometry
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.protocols import Protocol, single_shot
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.executor import Outcome
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.report.failure_figures import draw_failures
from vhdiffuser.results.paths import result_path
from vhdiffuser.results.rows import Row, read_results
from vhdiffuser.trajectories import Plan, Rollout
from vhdiffuser.types import Instance

OPEN = replace(ENVIRONMENT, geometry=Geometry())
FACTS = Facts(OPEN, np.ones(2), fastest=SPEED, acceleration=np.inf)
WALL = np.array([[0.4, 0.5, -0.5, 0.6]])
ROOM = np.array([[-0.5, -0.4, -0.5, 1.5], [1.4, 1.5, -0.5, 1.5], [-0.5, 1.5, 1.4, 1.5], [-0.5, 1.5, -0.5, -0.4]])
WALLS = np.concatenate([ROOM, WALL])
"""A room, and a wall that reaches into it from below."""
WALLED = replace(FACTS, environment=replace(OPEN, geometry=Geometry(walls=WALLS, radius=0.05)))


def line(start: tuple[float, float], goal: tuple[float, float], length: int) -> np.ndarray:
    return np.linspace(start, goal, length).astype(np.float32)


def evaluated(states: np.ndarray, goal: tuple[float, float], facts: Facts = FACTS, **changes) -> Failure:
    """A plan that nobody followed."""
    plan = Plan(states, np.float32(goal))
    instance = Instance(states[0], plan.goal, 0)
    observations = np.repeat(states[:1], plan.length + 1, axis=0)
    rollout = Rollout(observations, np.zeros((len(observations) - 1, 2)), changes.get("success", False), ((0, plan),))
    outcome = Outcome(7, instance, rollout, plan.length, 0.5, 0.0, 0.0)
    row = Row("toy", "vhd", "ss", 0, 7, [], [], plan.length, plan.length, [plan.length], 0, False, 1, 0.5, 0.0, 0.0)
    return evaluate_failure(outcome, row, facts, predicted=changes.get("predicted", True))


def test_a_plan_with_fewer_steps_than_the_way_takes_is_a_horizon_too_short() -> None:
    enough, short = evaluated(line((0, 0), (1, 0), 11), (1, 0)), evaluated(line((0, 0), (1, 0), 10), (1, 0))
    # The goal region's corner is 0.07 off: 0.93 at 0.1 a step takes 10 steps, so 11 states.
    assert (enough.needed, enough.kind) == (11, "tracking")
    assert short.kind == "horizon"
    assert enough.tracking_error == pytest.approx(1.0)


def test_a_length_clipped_at_t_max_is_one_too_unless_it_was_given() -> None:
    states = line((0, 0), (1, 0), SPEC.T_max)
    assert evaluated(states, (1, 0)).kind == "horizon"
    assert evaluated(states, (1, 0), predicted=False).kind == "tracking"


def test_the_way_round_a_wall_needs_more_steps_than_the_straight_one() -> None:
    geodesic = Geodesic(WALLS, spacing=0.05, clearance=0.05)
    maze = replace(WALLED, geodesic=geodesic)
    straight, round_it = (evaluated(line((0, 0), (1, 0), 13), (1, 0), facts) for facts in (FACTS, maze))
    assert straight.needed == 11
    assert 15 <= round_it.needed <= 19, "0, 0 to the corner at 0.6 and down again: about 1.6 to 1.8"
    assert round_it.kind == "horizon"


def test_getting_going_takes_time() -> None:
    assert steps_to_go(1.0, 0.0, 0.1, np.inf) == pytest.approx(10)
    assert steps_to_go(1.0, 0.0, 0.1, 0.01) == pytest.approx(15), "10 steps for the first 0.5, then 5"
    assert steps_to_go(0.125, 0.0, 0.1, 0.01) == pytest.approx(5)
    assert steps_to_go(1.0, 0.1, 0.1, 0.01) == pytest.approx(10)
    assert evaluated(line((0, 0), (1, 0), 14), (1, 0), replace(FACTS, acceleration=0.01)).kind == "horizon"


def test_a_plan_through_a_wall_is_found_even_where_it_jumps_over_it() -> None:
    through = evaluated(line((0, 0), (1, 0), 21), (1, 0), WALLED)
    assert through.kind == "plan"
    assert through.in_walls == pytest.approx(0.18, abs=0.06), "0.1 of wall and 0.04 on each side"
    jump = np.concatenate([line((0, 0), (0.3, 0), 7), line((0.6, 0), (1, 0), 7)])
    assert evaluated(jump, (1, 0), WALLED).in_walls > 0
    above = np.concatenate([line((0, 0), (0, 0.7), 12), line((0.05, 0.7), (1, 0.7), 12), line((1, 0.6), (1, 0), 12)])
    assert evaluated(above, (1, 0), WALLED).kind == "tracking"
    touching = line((0.3, 0.645), (0.6, 0.645), 12)  # 0.045 off: nearer than the radius, farther than 0.8 of it
    assert share_in_walls(Plan(touching, touching[-1]), WALLED) == 0.0


def test_a_point_without_a_radius_cannot_pass_a_wall_either() -> None:
    facts = replace(FACTS, environment=replace(OPEN, geometry=Geometry(walls=WALLS)))
    through = evaluated(line((0, 0), (1, 0), 21), (1, 0), facts)
    assert (through.kind, through.in_walls) == ("plan", pytest.approx(0.1, abs=0.06))
    jump = np.concatenate([line((0, 0), (0.35, 0), 8), line((0.55, 0), (1, 0), 8)])
    assert evaluated(jump, (1, 0), facts).in_walls > 0
    assert evaluated(line((0, 0.7), (1, 0.7), 21), (1, 0.7), facts).in_walls == 0


def test_a_plan_that_ends_elsewhere_or_jumps_to_its_end_misses_its_endpoint() -> None:
    assert evaluated(line((0, 0), (0.9, 0), 12), (1, 0)).kind == "endpoint"
    jump = line((0, 0), (0.8, 0), 12)
    jump[-1] = (1, 0)
    result = evaluated(jump, (1, 0))
    assert result.kind == "endpoint"
    assert result.end_gap == pytest.approx(1 - 0.8 * 10 / 11 - SPEED, abs=1e-5)
    assert evaluated(line((0, 0), (0.96, 0), 12), (1, 0)).kind == "tracking"


def test_an_ant_on_its_back_has_fallen() -> None:
    ant = replace(get_environment("antmaze-medium"), geometry=Geometry())
    assert ant.spec.epsilon == 0.05
    facts = Facts(ant, np.ones(2), fastest=0.2, acceleration=np.inf)
    states = line((0, 0), (1, 0), 20)
    for turned, kind in (((1, 0, 0, 0), "tracking"), ((0, 1, 0, 0), "fall")):
        observations = np.zeros((21, 29), np.float32)
        observations[:, 3:7] = turned
        rollout = Rollout(observations, np.zeros((len(observations) - 1, 8)), False, ((0, Plan(states, states[-1])),))
        outcome = Outcome(0, Instance(states[0], states[-1], 0), rollout, 20, 1.0, 0.0, 0.0)
        row = Row("ant", "vhd", "ss", 0, 0, [], [], 20, 20, [20], 0, False, 20, 1.0, 0.0, 0.0)
        assert evaluate_failure(outcome, row, facts, predicted=True).kind == kind


def test_a_robot_on_its_way_when_time_is_up_was_too_slow_and_one_that_stands_was_held_up() -> None:
    states = line((0, 0), (1, 0), 40)
    plan, row = Plan(states, states[-1]), Row("toy", "vhd", "rp", 0, 7, [], [], 40, 40, [40], 0, False, 1, 0, 0, 0)
    for speed, budget, kind in ((0.02, 30, "time"), (0.0, 30, "tracking"), (0.02, 45, "tracking")):
        walked = np.stack([speed * np.arange(budget + 1), np.zeros(budget + 1)], axis=1).astype(np.float32)
        rollout = Rollout(walked, np.zeros((budget, 2)), False, ((0, plan),))
        outcome = Outcome(7, Instance(states[0], plan.goal, 0), rollout, 40, 0.5, 0.0, 0.0)
        assert evaluate_failure(outcome, row, FACTS, True, budget).kind == kind


def test_kinds_are_counted_and_shown_in_turn() -> None:
    short = evaluated(line((0, 0), (1, 0), 5), (1, 0))
    lost, repaired = (
        evaluated(line((0, 0), (1, 0), 20), (1, 0)),
        evaluated(line((0, 0), (1, 0), 20), (1, 0), success=True),
    )
    assert repaired.kind is None
    failures = [lost, lost, lost, short, repaired]
    assert count_kinds(failures) == {"horizon": 1, "plan": 0, "endpoint": 0, "fall": 0, "time": 0, "tracking": 3}
    assert [item.kind for item in pick(failures, 2)] == ["horizon", "tracking"]
    assert len(pick(failures, 99)) == 4
    assert pick([repaired], 3) == []
    assert set(count_kinds([])) == set(KINDS)


CONFIG = BenchConfig(OPEN, methods=("vhd",), n=12, seeds=(4,), keep=0, workers=1, simulators=5)


def bench(folder: Path, planner: ToyPlanner, make_env=ToyEnv):
    choice = PlannerChoice(planner, PlanningOptions(gamma=1.0), {"planner": "digest"})
    config = replace(CONFIG, environment=replace(OPEN, simulator=make_env))
    run_benchmark(config, folder, lambda method, environment: choice, ToyController())
    return [read_results(result_path(folder, "toy", "vhd", protocol, 4)) for protocol in CONFIG.protocols]


@pytest.mark.parametrize(("make_env", "kind"), [(make_stuck_env, "tracking"), (ToyEnv, "endpoint")])
def test_failed_rows_fail_again_in_the_same_way(tmp_path: Path, make_env, kind: str) -> None:
    planner = partial(ToyPlanner, noise=0.004, miss=np.float32([0.0, 0.0 if make_env is make_stuck_env else 0.12]))
    for results in bench(tmp_path, planner(), make_env):
        failed = failed_rows(results)
        assert len(failed) >= 9
        with Simulators(make_env, 3) as simulators:
            found = list(run_again(results, planner(), ToyController(), simulators, ToyEnv(), FACTS))
        by_number = {row.instance: row for row in failed}
        assert sorted(failure.kept.number for failure in found) == sorted(by_number)
        for failure in found:
            row = by_number[failure.kept.number]
            assert failure.same_plan
            assert failure.final_distance == pytest.approx(row.final_distance)
            assert len(failure.kept.actions) == row.steps
            assert failure.kind in (kind, "horizon")
        assert any(failure.kind == kind for failure in found)


def test_those_that_do_not_fail_again_are_told_apart(tmp_path: Path) -> None:
    results, _ = bench(tmp_path, ToyPlanner(miss=np.float32([0.0, 0.12])))
    with Simulators(ToyEnv, 3) as simulators:
        found = list(run_again(results, ToyPlanner(), ToyController(), simulators, ToyEnv(), FACTS))
    assert {failure.kind for failure in found} == {None}
    assert sum(count_kinds(found).values()) == 0


def test_instances_are_drawn_again_or_taken_from_the_rows(tmp_path: Path) -> None:
    results, _ = bench(tmp_path, ToyPlanner(miss=np.float32([0.0, 0.12])))
    rows = failed_rows(results)
    drawn = draw_instances(ToyEnv(), 12, 4)
    assert [item.seed for item in instances_of(results, rows, ToyEnv())] == [drawn[row.instance].seed for row in rows]
    own = replace(results, config={**results.config, "instances": {"file_sha256": "00"}})
    assert [item.seed for item in instances_of(own, rows, ToyEnv())] == [row.instance for row in rows]
    with pytest.raises(VhdError, match="another version"):
        instances_of(replace(results, config={**results.config, "seed": 5}), rows, ToyEnv())
    first_release = {key: value for key, value in results.config.items() if key != "streams"}
    with pytest.raises(VhdError, match=r"random streams 1,.*vhd bench"):
        instances_of(replace(results, config=first_release), rows, ToyEnv())
    rule = {**results.config["rule"], "stop_at_hit": False}
    with pytest.raises(VhdError, match="d4rl-fixed"):
        failed_rows(replace(results, config={**results.config, "protocol": "d4rl-fixed", "rule": rule}))
    theirs = Protocol(lambda env, n, seed: drawn[::-1], lambda *_: single_shot(), lambda states, goals: states > 0)
    other = replace(rows[0], start=[float(x) for x in drawn[-1 - rows[0].instance].start])
    (own_draw,) = instances_of(results, [other], ToyEnv(), theirs)
    assert own_draw is drawn[-1 - rows[0].instance]


@pytest.mark.parametrize("dims", [2, 3])
def test_the_sheet_has_a_panel_or_two_a_failure(tmp_path: Path, dims: int) -> None:
    from matplotlib.image import imread

    kept = evaluated(line((0, 0), (1, 0), 20), (1, 0)).kept
    if dims == 3:
        plans = tuple((step, np.pad(places, ((0, 0), (0, 1)))) for step, places in kept.plans)
        instance = replace(kept.instance, goal=np.zeros(3))
        kept = replace(kept, states=np.pad(kept.states, ((0, 0), (0, 1))), plans=plans, instance=instance)
    config = {
        "environment": "toy" if dims == 2 else "space",
        "goal_dims": list(range(dims)),
        "epsilon": 0.05,
        "scale": [1.0] * dims,
        "walls": WALL.tolist() if dims == 2 else [],
    }
    picture = imread(draw_failures([("a", kept), ("b", kept)], config, tmp_path / "sheet.png", columns=4))
    assert picture.shape[1] / picture.shape[0] == pytest.approx(2 * (dims - 1))
