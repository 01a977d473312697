"""Slips that a newcomer made: each is refused in words, or does what was meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from toy_point import ENVIRONMENT, SPEC

import vhdiffuser
from vhdiffuser.cli import run
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.envs.environment import Environment
from vhdiffuser.errors import VhdError
from vhdiffuser.training.loop import LoopConfig
from vhdiffuser.types import EnvSpec


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"epsilon": float("nan")}, "epsilon must be"),
        ({"control_dt": 0.0}, "control_dt must be"),
        ({"T_max": 96.5}, "whole numbers"),
        ({"action_dim": -1}, "whole numbers"),
        ({"goal_dims": (0, 0)}, "twice"),
        ({"velocity_dims": (1,)}, "as many as goal dimensions"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(change: dict, said: str) -> None:
    with pytest.raises(VhdError, match=said):
        replace(SPEC, **change)
    assert isinstance(replace(SPEC), EnvSpec)


@pytest.mark.parametrize("change", [{"optimizer": "sgdd"}, {"precision": "fp8"}, {"updates": 2.5}, {"seed": 0.5}])
def test_a_training_that_makes_no_sense_is_refused(change: dict) -> None:
    with pytest.raises(VhdError, match=str(next(iter(change)))):
        LoopConfig(**change)


@pytest.mark.parametrize("change", [{"gama": 1}, {"steps": "5"}, {"steps": 2.5}, {"gamma": "a"}, {"candidates": True}])
def test_planning_options_that_make_no_sense_are_refused(change: dict) -> None:
    with pytest.raises(VhdError, match=next(iter(change))):
        PlanningOptions().changed(**change)


@pytest.mark.parametrize("wrong", [{"simulator": 5}, {"controller": 3}])
def test_an_environment_of_the_wrong_parts_is_refused(wrong: dict) -> None:
    with pytest.raises(VhdError, match=next(iter(wrong))):
        Environment(SPEC, **wrong)


@pytest.mark.parametrize("wrong", ["spiral", SPEC, vhdiffuser.make_maze])
def test_only_environments_are_registered(wrong: object) -> None:
    with pytest.raises(VhdError, match=r"takes a vhdiffuser\.Environment"):
        vhdiffuser.register(wrong)  # type: ignore[arg-type]


def test_recipes_by_name_and_parts_within_parts() -> None:
    recipe = vhdiffuser.get_recipe("maze2d-umaze")
    changed = recipe.changed(length={"network": {"width": 8}, "warm_start": {"goals": {"far": 0.3}}})
    assert changed.length.network == replace(recipe.length.network, width=8)
    assert changed.length.warm_start.goals == replace(recipe.length.warm_start.goals, far=0.3)
    with pytest.raises(VhdError, match=r"length: .*'widht'"):
        recipe.changed(length={"network": {"widht": 8}})


def test_a_plan_through_waypoints_knows_its_environment(tmp_path: Path) -> None:
    planner = vhdiffuser.load_planner("maze2d-umaze")
    plan = planner.plan([1, 1, 0, 0], [3, 1], via=[[1, 3]])
    assert plan.spec == planner.spec
    plan.save(tmp_path / "plan.json")
    assert vhdiffuser.Plan.load(tmp_path / "plan.json") == plan


def test_a_misspelt_way_with_the_outside_is_refused() -> None:
    with pytest.raises(VhdError, match="refuse"):
        vhdiffuser.load_planner("maze2d-umaze", outside="error")  # type: ignore[arg-type]


def test_data_of_another_environment_of_that_name_is_refused(vhd_home: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", observations=np.random.default_rng(0).random((40, 3)), episode_ends=[40])
    assert run(["data", "import", "mine", str(tmp_path / "log.npz")]) == 0
    assert vhdiffuser.load_dataset("mine").spec.observation_dim == 3
    vhdiffuser.register(vhdiffuser.make_maze(["####", "#OO#", "####"], name="mine"))
    with pytest.raises(VhdError, match="3 observation and 0 action columns"):
        vhdiffuser.load_dataset("mine")


def test_a_file_without_what_makes_the_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "robot.py").write_text("")
    assert run(["bench", str(tmp_path / "robot.py")]) == 1
    assert "robot.py:make" in capsys.readouterr().err


def test_evaluating_without_a_simulator_says_so() -> None:
    planner = vhdiffuser.load_planner("maze2d-umaze")
    with pytest.raises(VhdError, match="no simulator"):
        vhdiffuser.evaluate(planner, replace(ENVIRONMENT, simulator=None), n=1)


def test_one_protocol_and_one_seed_need_no_tuple() -> None:
    (summary,) = vhdiffuser.evaluate(vhdiffuser.load_planner("maze2d-umaze"), n=2, protocols="rp", seeds=3)
    assert (summary.protocol, summary.n, summary.seeds) == ("rp", 2, (3,))


def test_a_refused_reset_changes_nothing() -> None:
    env = gymnasium.make("vhdiffuser/Maze2d-umaze-v1")
    env.reset(seed=0, options={"start": [1, 1], "goal": [3, 1]})
    with pytest.raises(VhdError):
        env.reset(options={"start": [1, 1, 1]})
    *_, info = env.step(np.zeros(2))
    assert info["goal"].tolist() == [3, 1]
