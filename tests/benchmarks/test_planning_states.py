"""The script that compares planning states: what they are, what the other models see of them, and that it goes on."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import mujoco
import numpy as np
import pytest
import torch

from vhdiffuser.cli import run
from vhdiffuser.data.store import Dataset, save_dataset
from vhdiffuser.envs.protocols import replan_on_deviation
from vhdiffuser.envs.registry import get_environment, get_spec
from vhdiffuser.errors import VhdError
from vhdiffuser.planner.planner import Planner
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import Episodes

SCRIPTS = Path(__file__).resolve().parents[2] / "benchmarks"
ANT, CUBE = get_spec("antmaze-medium"), get_spec("cube")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        yield importlib.import_module("planning_states")


@pytest.fixture(scope="module")
def ant_home(tmp_path_factory) -> Path:
    """A cache with made-up ants that cross the maze, and models of two updates."""
    home, rng = tmp_path_factory.mktemp("home"), np.random.default_rng(0)
    parts = []
    for _ in range(4):
        observations = rng.normal(size=(700, ANT.observation_dim)).astype(np.float32)
        observations[:, :2] = np.linspace(-3, 23, 700)[:, None] + 0.1 * observations[:, :2]
        parts.append((observations, rng.uniform(-1, 1, (699, ANT.action_dim)).astype(np.float32)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VHD_HOME", str(home))
        save_dataset(Dataset(ANT, Episodes.from_parts(parts), "build"))
        options = ["--updates", "2", "--log-every", "1", "--warmup", "1", "--threads", "1", "--quiet"]
        assert run(["train", "length", "antmaze-medium", *options]) == 0
        assert run(["train", "dynamics", "antmaze-medium", "--rounds", "0", *options]) == 0
    return home


def call(script: ModuleType, monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    monkeypatch.setattr(sys, "argv", [script.__name__, *options])
    script.main()


@pytest.mark.parametrize("spec", [ANT, CUBE], ids=lambda spec: spec.name)
def test_every_state_begins_with_the_goal_and_none_changes_the_task(script, spec) -> None:
    states = script.planning_states(spec)
    observation = np.arange(spec.observation_dim, dtype=np.float32)
    goal = {"antmaze-medium": [0, 1], "cube": [12, 13, 14]}[spec.name]  # the robot's place in an observation
    assert next(iter(states.values())) == spec, "the first is the environment's own"
    assert len(states) > 1
    for state in states.values():
        np.testing.assert_array_equal(state.goal_of(state.planning_state(observation)), goal)
        # Inverse dynamics reads plans with its own goal dimensions.
        np.testing.assert_array_equal(spec.goal_of(state.planning_state(observation)), goal)
        assert len(set(state.state_names)) == state.state_dim
        assert (state.epsilon, state.T_max, state.name) == (spec.epsilon, spec.T_max, spec.name)


def test_the_states_are_what_their_names_say(script) -> None:
    ant, cube = script.planning_states(ANT), script.planning_states(CUBE)
    assert ant["xy-velocity"].state_dims == (0, 1, 15, 16)
    assert ant["xy-velocity"].velocity_dims == (2, 3)
    assert ant["xy-body"].state_dims == tuple(range(15))
    assert ant["xy-body"].velocity_dims is None
    assert cube["effector-joints"].state_dims == (12, 13, 14, 0, 1, 2, 3, 4, 5)
    with pytest.raises(VhdError, match="maze2d-umaze: .* antmaze-medium and cube"):
        script.planning_states(get_spec("maze2d-umaze"))


@pytest.mark.ogbench
def test_velocities_of_a_plan_are_those_of_the_robot() -> None:
    """Observations 15 and 16 are the velocity of 0 and 1, in units a second."""
    env = get_environment("antmaze-medium").make()
    env.reset(env.sample_instance(np.random.default_rng(0)))
    rng, states = np.random.default_rng(1), []
    for _ in range(60):
        states.append(env.step(rng.uniform(-1, 1, 8)))
    moved = np.diff([state[:2] for state in states], axis=0)
    velocity = np.array([state[15:17] for state in states])
    mean = (velocity[1:] + velocity[:-1]) / 2 * ANT.control_dt
    assert np.corrcoef(moved.ravel(), mean.ravel())[0, 1] > 0.9


class SumOfSteps:
    """A predictor that shows what it was asked."""

    def __init__(self, state_dims: tuple[int, ...]) -> None:
        self.spec = SimpleNamespace(state_dims=state_dims)

    def predict_steps(self, starts, goals):
        return np.concatenate([starts, goals], axis=-1)


def test_the_predictor_is_handed_what_it_knows_in_its_own_order(script) -> None:
    state = script.planning_states(CUBE)["effector-joints"]
    part = script.KnownPart(SumOfSteps((14, 12)), state)
    observation = np.arange(28.0)
    start = state.planning_state(observation)[None]
    np.testing.assert_array_equal(part.predict_steps(start, np.array([[7.0]])), [[14, 12, 7]])
    between = part.of_columns(lambda s, end: torch.cat([s, end], dim=1))(torch.tensor(start), torch.tensor(start) + 100)
    np.testing.assert_array_equal(between, [[14, 12, 114, 112]])
    with pytest.raises(VhdError, match=r"lacks \[20\]"):
        script.KnownPart(SumOfSteps((12, 20)), state)


def test_a_straight_line_is_straight_even_and_as_long_as_predicted(script) -> None:
    class Predictor:
        spec, normalizer = get_spec("maze2d-umaze"), None

        def plan_length(self, starts, goals, gamma):
            return np.array([int(3 * gamma), int(5 * gamma)])

    starts, goals = np.array([[0, 0, 9, 9], [1, 1, 8, 8]], np.float32), np.array([[2.0, 4.0], [1.0, 1.0]])
    line = script.StraightLine(Predictor(), 1.0)
    first, second = line.plan_batch(starts, goals, seeds=np.zeros(2, int))
    np.testing.assert_allclose(first.states, [[0, 0, 9, 9], [1, 2, 9, 9], [2, 4, 9, 9]])
    assert second.length == 5
    assert script.StraightLine(Predictor(), 2.0).plan_batch(starts, goals, seeds=np.zeros(2, int))[0].length == 6


@pytest.mark.ogbench
def test_a_plan_through_a_wall_is_counted_whatever_else_is_planned(script) -> None:
    ant = get_environment("antmaze-medium")
    walls = np.array([[2.0, 4.0, -10.0, 10.0], [-10.0, -9.0, -10.0, 10.0], [9.0, 10.0, -10.0, 10.0]])
    across, along = np.zeros((2, 5, 4), np.float32)
    across[:, 0] = np.linspace(0, 6, 5)
    along[:, 1] = np.linspace(0, 6, 5)
    plans = [Plan(across, across[-1, :2]), Plan(along, along[-1, :2])]
    walled = replace(ant, spec=script.planning_states(ANT)["xy-velocity"], geometry=replace(ant.geometry, walls=walls))
    assert script.through_walls(walled, plans) == 0.5
    assert script.through_walls(walled, plans[1:]) == 0
    assert script.through_walls(get_environment("cube"), plans) is None


@pytest.mark.ogbench
def test_bodies_are_as_wide_as_in_their_simulators() -> None:
    ant, ball = (
        get_environment("antmaze-medium").make().physics.model,
        get_environment("maze2d-large").make().physics.model,
    )
    assert get_environment("antmaze-medium").geometry.radius == pytest.approx(float(ant.geom("torso_geom").size[0]))
    (sphere,) = [number for number in range(ball.ngeom) if ball.geom_type[number] == mujoco.mjtGeom.mjGEOM_SPHERE]
    assert get_environment("maze2d-large").geometry.radius == pytest.approx(float(ball.geom_size[sphere, 0])) == 0.1
    assert get_environment("cube").geometry.radius == 0


@pytest.mark.slow
@pytest.mark.ogbench
def test_states_are_trained_judged_and_not_done_twice(script, ant_home, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("VHD_HOME", str(ant_home))
    monkeypatch.setattr(script, "replan_on_deviation", lambda budget: replan_on_deviation(20))
    starts: list[np.ndarray] = []
    plan_batch = Planner.plan_batch

    def spy(self, given, *values, **named):
        starts.append(given)
        return plan_batch(self, given, *values, **named)

    monkeypatch.setattr(Planner, "plan_batch", spy)
    out = tmp_path / "states.json"
    options = ["antmaze-medium", "--updates", "2", "--threads", "1", "--n", "2", "--out", str(out)]
    call(script, monkeypatch, *options, "--only", "xy-velocity", "--evaluate")
    assert not out.exists(), "nothing is trained yet"
    call(script, monkeypatch, *options, "--only", "xy-velocity")
    rows = json.loads(out.read_text())
    assert [(row["state"], row["protocol"], row["updates"], row["n"]) for row in rows] == [
        ("xy-velocity", "ss", 2, 2),
        ("xy-velocity", "rp", 2, 2),
    ]
    assert all(0 <= row["through_walls"] <= 1 for row in rows)
    assert rows[0]["plans"] == 1
    assert rows[1]["average_executed_steps"] <= 20

    env = get_environment("antmaze-medium").make()
    instances = script.draw_instances(env, 2, 5)
    real = np.stack([env.reset(instance) for instance in instances])
    np.testing.assert_array_equal(starts[0], real[:, [0, 1, 15, 16]])
    assert (starts[0][:, 2:] != 0).all(), "velocities of the reset, not zeros"
    text = capsys.readouterr().out
    assert "| xy-velocity | 4 | ss |" in text
    assert "| xy-velocity | 4 | rp |" in out.with_suffix(".md").read_text()

    monkeypatch.setattr(script.Evaluator, "__call__", lambda *values: pytest.fail("judged already"))
    model = (ant_home / "runs/antmaze-medium/state-xy-velocity/model.safetensors").read_bytes()
    call(script, monkeypatch, *options, "--only", "xy-velocity")
    assert (ant_home / "runs/antmaze-medium/state-xy-velocity/model.safetensors").read_bytes() == model
    assert json.loads(out.read_text()) == rows
    monkeypatch.undo()
    monkeypatch.setenv("VHD_HOME", str(ant_home))
    monkeypatch.setattr(script, "PROTOCOLS", ("ss",))
    call(script, monkeypatch, *options, "--only", "straight-line", "xy-velocity", "--evaluate", "--smoothing", "0")
    added = json.loads(out.read_text())[2:]
    assert [(row["state"], row["smoothing"]) for row in added] == [("straight-line", None), ("xy-velocity", 0)]
    assert added[0]["average_planned_length"] == added[1]["average_planned_length"] == rows[0]["average_planned_length"]
    with pytest.raises(SystemExit, match="no planning state nonsense"):
        call(script, monkeypatch, *options, "--only", "nonsense")
