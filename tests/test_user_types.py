"""The package ships `py.typed`: what the README shows passes a user's strict type checker, and keeps its types."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def check_types(file: Path, code: str, cache: Path) -> str:
    """What `mypy --strict` says of a user's file; errors inside of the package are not the user's."""
    file.write_text(code)
    options = ["--strict", "--follow-imports", "silent", "--no-error-summary", "--cache-dir", str(cache)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", os.devnull, *options, file.name],
        cwd=file.parent,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.slow
def test_the_readme_s_python_passes_a_strict_type_checker(tmp_path: Path, cache: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for number, block in enumerate(blocks):
        assert check_types(tmp_path / f"readme_{number}.py", block, cache) == ""


USER = """
from collections.abc import Callable

import gymnasium
import numpy as np
import numpy.typing as npt

import vhdiffuser
from vhdiffuser.control.pd import PDController

planner = vhdiffuser.load_planner("maze2d-large", gamma=1.2, sampler="ddpm", candidates=4)
reveal_type(planner)
reveal_type(planner.with_options(steps=64, stretch=1.5))
reveal_type(vhdiffuser.Planner.from_pretrained("someone/planner", local_files_only=False, smoothing=0.0))
reveal_type(planner.options)
options: vhdiffuser.PlanningOptions = vhdiffuser.PlanningOptions(gamma=1.1)
plans = planner.plan_batch([[1, 1, 0, 0], (1, 2, 0, 0)], np.zeros((2, 2)), lengths=[40, 50])
reveal_type(plans)
reveal_type(plans[0].states)
reveal_type(planner.predict_lengths([[1, 1, 0, 0]], [[7, 9]]))
reveal_type(vhdiffuser.execute(planner, (1, 1, 0, 0), (7, 9)).success)
reveal_type(vhdiffuser.LengthPredictor.load("length.safetensors").predict_steps([1, 1, 0, 0], [7, 9]))
agent = vhdiffuser.Agent(planner, rule=vhdiffuser.replan_every(20))
agent.warm_up()
agent.reset([7, 9])
reveal_type(agent.act([1, 1, 0, 0]))
agent.goal = (1, 10)
reveal_type(agent.latencies[0].total)
rollout = vhdiffuser.drive(planner, gymnasium.make("vhdiffuser/Maze2d-large-v1"), [7, 9], max_steps=300)
reveal_type(rollout.actions)
reveal_type(rollout.plot())
reveal_type(rollout.video("rollout.gif"))
reveal_type(agent.plan)
reveal_type(plans[0].plot(data=[[1, 1], [2, 2]]))


Numbers = npt.NDArray[np.floating]


def jump(
    tau: Numbers, tau0: Numbers, older: Numbers, a: list[float], n: int, draw: Callable[[], Numbers]
) -> Numbers:
    return tau0


vhdiffuser.register_sampler("jump", jump)
vhdiffuser.register_controller("mine", lambda spec, model: PDController(spec))
reveal_type(planner.with_options(sampler="jump"))
reveal_type(vhdiffuser.Plan.load(plans[0].save("plan.npz")) == plans[0])
"""


@pytest.mark.slow
def test_public_names_have_precise_types(tmp_path: Path, cache: Path) -> None:
    told = check_types(tmp_path / "user.py", USER, cache)
    assert "error" not in told
    revealed = re.findall(r'Revealed type is "(.+)"', told)
    for text, expected in zip(
        revealed,
        (
            r"vhdiffuser\.planner\.planner\.Planner",
            r"vhdiffuser\.planner\.planner\.Planner",
            r"vhdiffuser\.planner\.planner\.Planner",
            r"vhdiffuser\.diffusion\.options\.PlanningOptions",
            r".*list\[vhdiffuser\.trajectories\.plan\.Plan\]",
            "floating",
            "integer",
            ".*bool",
            "floating",
            "floating",
            ".*float",
            "floating",
            r"matplotlib\.axes\._axes\.Axes",
            r"pathlib\.Path",
            r"vhdiffuser\.trajectories\.plan\.Plan \| None|Union\[vhdiffuser\.trajectories\.plan\.Plan, None\]",
            r"matplotlib\.axes\._axes\.Axes",
            r"vhdiffuser\.planner\.planner\.Planner",
            ".*bool",
        ),
        strict=True,
    ):
        pattern = rf"numpy\.ndarray\[.*numpy\.{expected}.*" if expected in ("floating", "integer") else expected
        assert re.fullmatch(pattern, text), text
    calls = ("load_planner(1)", "load_planner('a', gama=1.0)", "load_planner('a', steps='five')")
    calls += ("load_planner('a').with_options(sampler=5)", "load_planner('a').plan([1], [2], steps=3)")
    calls += ("register_sampler('a', 3)", "register_sampler('a', lambda tau: tau)", "register_controller('a', len)")
    code = "import vhdiffuser\n" + "".join(f"\nvhdiffuser.{call}" for call in calls) + "\n"
    wrong = check_types(tmp_path / "wrong.py", code, cache)
    assert wrong.count("error") == len(calls), "every wrong call is found"


PLANNER = """
import numpy as np
import numpy.typing as npt

import vhdiffuser

Floats = npt.NDArray[np.floating]


def straight(start: Floats, goal: Floats) -> Floats:
    return np.linspace(start, np.concatenate([goal, [0, 0]]), 100)


class Mine:
    def plan_batch(self, starts: Floats, goals: Floats, seeds: npt.NDArray[np.int64]) -> list[Floats]:
        return [straight(start, goal) for start, goal in zip(starts, goals)]


planner = vhdiffuser.foreign_planner(Mine(), "maze2d-umaze")
print(vhdiffuser.execute(planner, [1, 1, 0, 0], [3, 1]).success)
print([summary.success_rate for summary in vhdiffuser.evaluate(straight, "maze2d-umaze", 5)])
vhdiffuser.foreign_planner("my_planner.py:make", vhdiffuser.get_environment("maze2d-umaze"))
"""


@pytest.mark.slow
def test_a_planner_of_one_s_own_passes_too(tmp_path: Path, cache: Path) -> None:
    assert check_types(tmp_path / "planner.py", PLANNER, cache) == ""
