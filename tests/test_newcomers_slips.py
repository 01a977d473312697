"""Slips that a newcomer made: each is refused in words, or does what was meant."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from toy_point import ENVIRONMENT, SPEC, ToyController

import vhdiffuser
from vhdiffuser.cli import run
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.envs.environment import Environment
from vhdiffuser.errors import OtherEnvironmentWarning, VhdError
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.format import load_model, save_model
from vhdiffuser.weights.places import shipped_path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"epsilon": float("nan")}, "epsilon must be"),
        ({"control_dt": 0.0}, "control_dt must be"),
        ({"T_max": 96.5}, "T_max must be a whole number"),
        ({"action_dim": -1}, "action_dim must be >= 0"),
        ({"goal_dims": (0, 0)}, "twice"),
        ({"velocity_dims": (1,)}, "one velocity dimension per goal dimension"),
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


@pytest.mark.parametrize(
    "change",
    [
        {"gama": 1},
        {"steps": "5"},
        {"steps": 2.5},
        {"gamma": "a"},
        {"candidates": True},
        {"gamma": True},
        {"sampler": ["ddim"]},
    ],
)
def test_planning_options_that_make_no_sense_are_refused(change: dict) -> None:
    with pytest.raises(VhdError, match=next(iter(change))):
        PlanningOptions().changed(**change)


PLANNER = partial(vhdiffuser.load_planner, "maze2d-umaze")
START, GOAL = [1, 1, 0, 0], [3, 1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"start": "here"}, "a start must be numbers"),
        ({"start": [1, [1], 0, 0]}, "a start must be numbers"),
        ({"goal": {"x": 1}}, "a goal must be numbers"),
        ({"length": "x"}, "whole number of states"),
        ({"length": 60.5}, "whole number of states"),
        ({"seed": -1}, "seed must be a whole number >= 0"),
        ({"seed": 2**63}, "below 2"),
        ({"seed": "a"}, "seed must be a whole number"),
        ({"via": "door"}, "via must be numbers"),
        ({"via": [[1, 2], [1]]}, "via must be numbers"),
        ({"via": [[1, 2, 3]]}, "via needs a list of waypoints"),
        ({"avoid": "box"}, "avoid must be numbers"),
        ({"avoid": [[[1, 1], [2, 2]], [[1, 1]]]}, "avoid must be numbers"),
        ({"avoid": lambda: 1}, "failed with TypeError"),
        ({"avoid": lambda places: 5}, "it returned int"),
        ({"avoid": lambda places: places.sum(-1).detach().numpy()}, "it returned ndarray"),
    ],
)
def test_a_plan_of_odd_arguments_is_refused(wrong: dict, said: str) -> None:
    with pytest.raises(VhdError, match=said):
        PLANNER().plan(**{"start": START, "goal": GOAL, **wrong})


@pytest.mark.parametrize("seeds", [-1, [-1], "a", 0.5])
def test_odd_seeds_of_a_batch_are_refused(seeds: object) -> None:
    with pytest.raises(VhdError, match="seed"):
        PLANNER().plan_batch([START], [GOAL], seeds=seeds)  # type: ignore[arg-type]


def test_an_agent_of_odd_parts_is_refused() -> None:
    planner = PLANNER()
    with pytest.raises(VhdError, match="load_planner"):
        vhdiffuser.Agent("maze2d-umaze")  # type: ignore[arg-type]
    for wrong, said in (
        ({"controller": "pd"}, "a controller needs a method `act`"),
        ({"rule": "rp"}, "a rule comes from"),
        ({"rule": vhdiffuser.single_shot}, "a rule comes from"),
        ({"seed": -1}, "seed must be"),
        ({"seed": 1.5}, "seed must be"),
        ({"length": "x"}, "length must be a whole number >= 2"),
        ({"hit": 5}, "hit must be a function"),
    ):
        with pytest.raises(VhdError, match=said):
            vhdiffuser.Agent(planner, **wrong)
    agent = vhdiffuser.Agent(planner)
    for goal in ("a", {}, [1], None):
        with pytest.raises(VhdError, match="a goal"):
            agent.reset(goal)  # type: ignore[arg-type]
    agent.reset(GOAL)
    for observation in ("a", {"observation": START}, [1, 1, 0, "a"]):
        with pytest.raises(VhdError, match="an observation must be numbers"):
            agent.act(observation)  # type: ignore[arg-type]
    assert agent.act(START).shape == (2,)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"ax": 5}, "matplotlib axes"),
        ({"data": "a"}, "data must be numbers"),
        ({"data": [[1, 2, 3]]}, "data must be episodes"),
        ({"walls": 5}, r"walls must be \(n, 4\)"),
        ({"walls": [[1, 2]]}, r"walls must be \(n, 4\)"),
        ({"walls": "a"}, "walls must be numbers"),
    ],
)
def test_odd_arguments_of_plots_are_refused(wrong: dict, said: str) -> None:
    spec = vhdiffuser.get_environment("maze2d-umaze").spec
    plan = vhdiffuser.Plan(np.linspace([1, 1, 0, 0], [3, 1, 0, 0], 8), GOAL, spec=spec)
    rollout = vhdiffuser.Rollout(plan.states, np.zeros((7, 2)), True, ((0, plan),))
    for drawn in (plan, rollout):
        with pytest.raises(VhdError, match=said):
            drawn.plot(**wrong)


def test_plans_and_rollouts_of_ones_own() -> None:
    assert vhdiffuser.Plan([[1, 2], [3, 4]], [3, 4]) == vhdiffuser.Plan(np.array([[1, 2], [3, 4]]), np.array([3, 4]))
    for states in ("a", [[1, 2]], [1, 2]):
        with pytest.raises(VhdError, match="plan"):
            vhdiffuser.Plan(states, [3, 4])  # type: ignore[arg-type]
    with pytest.raises(VhdError, match="observations need"):
        vhdiffuser.Rollout(np.zeros((2, 2)), np.zeros((2, 2)), True, ())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"planner": "maze2d-umaze"}, "evaluate needs a planner"),
        ({"env": 5}, "an environment's name"),
        ({"n": "a"}, "n .* whole number >= 1"),
        ({"n": 1.5}, "n .* whole number >= 1"),
        ({"seeds": "a"}, "seed must be"),
        ({"seeds": -1}, "seed must be"),
        ({"protocols": ()}, "no protocol given"),
        ({"protocols": 5}, "protocols must be names"),
        ({"workers": -1}, "workers must be"),
        ({"controller": "pd"}, "must be a vhdiffuser Controller"),
    ],
)
def test_an_evaluation_of_odd_arguments_is_refused(wrong: dict, said: str) -> None:
    with pytest.raises(VhdError, match=said):
        vhdiffuser.evaluate(**{"planner": PLANNER(), "n": 1, **wrong})


def test_odd_rules_mazes_and_devices_are_refused() -> None:
    for call, said in (
        (lambda: vhdiffuser.replan_every(1.5), "every .* whole number"),  # type: ignore[arg-type]
        (lambda: vhdiffuser.replan_on_deviation(budget="a"), "budget .* whole number"),  # type: ignore[arg-type]
        (lambda: vhdiffuser.replan_on_deviation(threshold="a"), "threshold"),  # type: ignore[arg-type]
        (lambda: vhdiffuser.make_maze(5), "a maze must be text"),  # type: ignore[arg-type]
        (lambda: vhdiffuser.make_maze("####\n#OO#\n####", T_max="a"), "T_max must be"),  # type: ignore[arg-type]
        (lambda: vhdiffuser.make_maze("####\n#OO#\n####", name=5), "cannot name"),  # type: ignore[arg-type]
        (lambda: PLANNER(device="gpu"), "device 'gpu' is not available"),
        (lambda: vhdiffuser.Planner.from_pretrained(5), "a name or a folder"),  # type: ignore[arg-type]
        (lambda: vhdiffuser.get_environment(5), "an environment's name"),  # type: ignore[arg-type]
    ):
        with pytest.raises(VhdError, match=said):
            call()


def test_numbers_of_numpy_are_numbers() -> None:
    options = PlanningOptions().changed(steps=np.int64(3), gamma=np.float32(1.5))  # type: ignore[arg-type]
    assert options.to_json() == PlanningOptions(steps=3, gamma=1.5).to_json()
    assert type(options.steps) is int


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(VhdError, match="cannot be written"):
        vhdiffuser.Plan([[1, 2], [3, 4]], [3, 4]).save(tmp_path / "file" / "plan.json")


@pytest.mark.parametrize("wrong", [{"simulator": 5}, {"controller": 3}])
def test_an_environment_of_the_wrong_parts_is_refused(wrong: dict) -> None:
    with pytest.raises(VhdError, match=next(iter(wrong))):
        Environment(SPEC, **wrong)


@pytest.mark.parametrize("wrong", ["spiral", SPEC, vhdiffuser.make_maze])
def test_only_environments_are_registered(wrong: object) -> None:
    with pytest.raises(VhdError, match=r"needs a vhdiffuser\.Environment"):
        vhdiffuser.register(wrong)  # type: ignore[arg-type]


def test_recipes_by_name_and_parts_within_parts() -> None:
    recipe = vhdiffuser.get_recipe("maze2d-umaze")
    changed = recipe.changed(length={"network": {"width": 8}, "warm_start": {"goals": {"far": 0.3}}})
    assert changed.length.network == replace(recipe.length.network, width=8)
    assert changed.length.warm_start.goals == replace(recipe.length.warm_start.goals, far=0.3)
    with pytest.raises(VhdError, match=r"length: .*'widht'"):
        recipe.changed(length={"network": {"widht": 8}})


def test_a_plan_through_waypoints_knows_its_environment(tmp_path: Path) -> None:
    planner = vhdiffuser.load_planner("maze2d-umaze", outside="refuse")
    plan = planner.plan([1, 1, 0, 0], [3, 1], via=[[1, 3]])  # faster on the way than any start in the data
    with pytest.raises(VhdError, match="goal 0: y = 9"):
        planner.plan([1, 1, 0, 0], [3, 1], via=[[1, 9]])
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


def test_rows_of_one_planner_are_not_taken_for_another_s(tmp_path: Path) -> None:
    planner = PLANNER()
    vhdiffuser.evaluate(planner, n=1, protocols="ss", folder=tmp_path)
    vhdiffuser.evaluate(planner, n=1, protocols="ss", folder=tmp_path)
    with pytest.raises(VhdError, match=r"stretch: 1\.0 there, 1\.5 now"):
        vhdiffuser.evaluate(planner.with_options(stretch=1.5), n=1, protocols="ss", folder=tmp_path)
    tensors, header = load_model(shipped_path("maze2d-umaze", "planner"), "planner")
    first = next(iter(tensors))
    save_model(tmp_path / "other.safetensors", {**tensors, first: tensors[first] + 0.1}, header)
    other = vhdiffuser.Planner.load(tmp_path / "other.safetensors", planner.length_predictor)
    with pytest.raises(VhdError, match="models"):
        vhdiffuser.evaluate(other, n=1, protocols="ss", folder=tmp_path)


def test_a_refused_reset_changes_nothing() -> None:
    env = gymnasium.make("vhdiffuser/Maze2d-umaze-v1")
    env.reset(seed=0, options={"start": [1, 1], "goal": [3, 1]})
    with pytest.raises(VhdError):
        env.reset(options={"start": [1, 1, 1]})
    *_, info = env.step(np.zeros(2))
    assert info["goal"].tolist() == [3, 1]


ROBOT = """
import vhdiffuser
def make():
    return vhdiffuser.make_maze(["#####", "#OOO#", "###O#", "#OOO#", "#####"], name="%s", epsilon=0.04, T_max=256)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    planner = PLANNER()
    planner.spec = replace(planner.spec, name="walker")
    planner.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def test_a_folder_of_weights_runs_in_an_environment_of_ones_own(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bot_own.py").write_text(ROBOT % "walker")
    (tmp_path / "bot_other.py").write_text(ROBOT % "runner")
    demo = ["demo", str(folder), "--n", "1", "--workers", "1", "--quiet", "--out", str(tmp_path)]
    assert run(demo) == 1
    assert f"vhd demo {folder} --env my_robot.py:make" in capsys.readouterr().err
    assert run([*demo, "--env", f"{tmp_path}/bot_own.py:make"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert run([*demo, "--env", f"{tmp_path}/bot_other.py:make"]) == 0
    told = capsys.readouterr()
    assert "vhd: warning: the planner was trained for walker, which differs from runner" in told.err
    assert "runner: 1 random instances" in told.out
    bench = ["bench", f"{tmp_path}/bot_own.py:make", "--methods", "vhd", "--n", "1", "--workers", "1", "--quiet"]
    assert run([*bench, "--weights", str(folder), "--out", str(tmp_path / "rows")]) == 0


def test_a_planner_of_another_environment_is_told_or_refused() -> None:
    medium = vhdiffuser.get_environment("maze2d-medium")
    with pytest.warns(OtherEnvironmentWarning, match="trained for maze2d-umaze, which differs from maze2d-medium"):
        vhdiffuser.evaluate(PLANNER(), medium, n=1, protocols="ss")
    with pytest.raises(VhdError, match="observation_dim: 4 and 2"):
        vhdiffuser.evaluate(PLANNER(), ENVIRONMENT, n=1, protocols="ss", controller=ToyController())
