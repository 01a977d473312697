"""Anybody's planner: the ways to be one, and what is said of plans that are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_point import ENVIRONMENT

import vhdiffuser
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.foreign import ForeignPlanner, foreign_planner, success_normalizer

STARTS, GOALS, SEEDS = (
    np.array([[1, 1, 0, 0], [1, 1.1, 0, 0]], np.float32),
    np.array([[3, 1], [1, 2]]),
    np.array([5, 6]),
)


def line(start: np.ndarray, goal: np.ndarray) -> np.ndarray:
    return np.linspace(start, [*goal, 0, 0], 9)


def noisy(start: np.ndarray, goal: np.ndarray, seed: int = 0) -> np.ndarray:
    return np.vstack([line(start, goal), [*goal, 0.01 * seed, 0]])


class Single:
    name, candidates = "single", 3

    def plan(self, start: np.ndarray, goal: np.ndarray, seed: int) -> np.ndarray:
        return noisy(start, goal, seed)

    def describe(self) -> dict[str, Any]:
        return {"noise": 0.01}


class Batch:
    def plan_batch(self, starts: np.ndarray, goals: np.ndarray, seeds: np.ndarray) -> list[np.ndarray]:
        return [noisy(*item) for item in zip(starts, goals, seeds, strict=True)]


def test_a_function_an_object_and_a_batch_planner_make_the_same_plans() -> None:
    made = [
        foreign_planner(item, "maze2d-umaze").plan_batch(STARTS, GOALS, seeds=SEEDS)
        for item in (noisy, Single(), Batch())
    ]
    assert made[0] == made[1] == made[2]
    assert [plan.states[-1, 2] for plan in made[0]] == pytest.approx([0.05, 0.06])
    assert [plan.length for plan in foreign_planner(line, "maze2d-umaze").plan_batch(STARTS, GOALS, seeds=SEEDS)] == [
        9,
        9,
    ]
    assert made[0][0].spec == vhdiffuser.get_environment("maze2d-umaze").spec


def test_a_planner_of_ours_is_one_too() -> None:
    ours = vhdiffuser.load_planner("maze2d-umaze")
    plans = foreign_planner(ours, "maze2d-umaze").plan_batch(STARTS, GOALS, seeds=SEEDS)
    assert plans == ours.plan_batch(STARTS, GOALS, seeds=SEEDS)


def test_what_is_recorded_of_it() -> None:
    planner = foreign_planner(Single(), "maze2d-umaze")
    assert (planner.name, planner.candidates) == ("single", 3)
    described = planner.describe()
    assert described["settings"] == {"noise": 0.01}
    assert len(described["sha256"]) == 64
    assert foreign_planner(line, "maze2d-umaze").name == "line"
    assert foreign_planner(Batch(), "maze2d-umaze").name == "Batch"


FILE = """
import numpy as np
MADE = []

class Needy:
    name = "needy"
    def __init__(self, environment):
        MADE.append(environment.name)
    def plan(self, start, goal):
        return np.linspace(start, [*goal, 0, 0], 9)

def make():
    planner = Needy.__new__(Needy)
    planner.name = "made"
    return planner

def straight(start, goal):
    return np.linspace(start, [*goal, 0, 0], 9)

def two(environment, weights):
    return None

class Greedy(Needy):
    def __init__(self, environment, weights):
        pass

ready = make()
"""


@pytest.mark.parametrize(
    ("attribute", "name"), [("Needy", "needy"), ("make", "made"), ("straight", "straight"), ("ready", "made")]
)
def test_a_reference_names_a_planner_or_what_makes_one(tmp_path: Path, attribute: str, name: str) -> None:
    (tmp_path / "planner_of_this_test.py").write_text(FILE)
    planner = foreign_planner(f"{tmp_path}/planner_of_this_test.py:{attribute}", "maze2d-umaze")
    assert planner.name == name
    assert planner.describe()["reference"] == f"planner_of_this_test.py:{attribute}"
    assert planner.plan_batch(STARTS, GOALS, seeds=SEEDS)[1].length == 9


def test_references_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "planner_of_that_test.py").write_text(FILE)
    place = f"{tmp_path}/planner_of_that_test.py"
    for reference, said in (
        (f"{place}:Nobody", "has no 'Nobody'"),
        (f"{place}:Greedy", "may take the Environment only"),
        (f"{place}:MADE", "a planner needs a method plan_batch"),
        (f"{tmp_path}/none.py:make", "no such file"),
        ("no_such_package:make", "No module named"),
        ("nothing", "write file.py:name"),
    ):
        with pytest.raises(VhdError, match=said):
            foreign_planner(reference, "maze2d-umaze")


def failing(start: np.ndarray, goal: np.ndarray) -> np.ndarray:
    raise KeyError("node 7")


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (lambda s, g: np.linspace(s[:2], g, 9), r"\(L, 4\) array of x, y, vx, vy; got shape \(9, 2\). Positions alone"),
        (lambda s, g: line(s, g)[:1], "with 2 to 65536 states; got 1"),
        (lambda s, g: line(s, g) * [1, 1, np.nan, 1], "finite numbers; state 0 of 9"),
        (lambda s, g: line(s, g) + np.array([9, 0, 0, 0]), r"begins at the start. This one begins at \[10.0, 1.0"),
        (lambda s, g: "up", "got 'up'"),
        (lambda s, g: None, r"return a plan that stays: np.stack\(\[start, start\]\)"),
        (failing, r"failed with KeyError: 'node 7' \(.*test_foreign.py, line"),
    ],
)
def test_what_is_no_plan_is_refused_and_told_what_is(plan: Callable[..., Any], said: str) -> None:
    with pytest.raises(VhdError, match=said):
        foreign_planner(plan, "maze2d-umaze").plan_batch(STARTS, GOALS, seeds=SEEDS)


class Short:
    def plan_batch(self, starts: np.ndarray, goals: np.ndarray, seeds: np.ndarray) -> Any:
        return [line(starts[0], goals[0])]


class Boasting(Single):
    candidates = 0


class Odd(Single):
    def describe(self) -> Any:
        return {"noise": np.zeros(3)}


def test_planners_that_are_none() -> None:
    with pytest.raises(VhdError, match="a list of 2 plans; got 1 of them"):
        foreign_planner(Short(), "maze2d-umaze").plan_batch(STARTS, GOALS, seeds=SEEDS)
    with pytest.raises(VhdError, match="candidates of single must be a whole number >= 1"):
        foreign_planner(Boasting(), "maze2d-umaze")
    with pytest.raises(VhdError, match="must return a dict of plain values"):
        foreign_planner(Odd(), "maze2d-umaze")
    with pytest.raises(VhdError, match="Single is a class"):
        foreign_planner(Single, "maze2d-umaze")
    with pytest.raises(VhdError, match="got 7"):
        foreign_planner(7, "maze2d-umaze")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="cannot name a planner"):
        ForeignPlanner(line, vhdiffuser.get_environment("maze2d-umaze"), name="../x")


def test_success_is_decided_as_for_our_planner_or_by_the_data() -> None:
    ours = vhdiffuser.load_planner("maze2d-umaze").normalizer
    theirs = success_normalizer(vhdiffuser.get_environment("maze2d-umaze"))
    assert isinstance(theirs, Normalizer)
    np.testing.assert_array_equal(theirs.scale, ours.scale)
    with pytest.raises(DataError, match="there is no data"):
        success_normalizer(ENVIRONMENT)


def test_it_drives_an_agent_and_chooses_its_lengths() -> None:
    rollout = vhdiffuser.execute(foreign_planner(line, "maze2d-umaze"), [1, 1, 0, 0], [1, 1.3], "ss")
    assert rollout.plans[0][1].length == 9
    assert rollout.steps <= 9
    with pytest.raises(VhdError, match="chooses the length"):
        foreign_planner(line, "maze2d-umaze").plan_batch(STARTS, GOALS, np.array([9, 9]), seeds=SEEDS)
    with pytest.raises(VhdError, match="foreign_planner"):
        vhdiffuser.execute(line, [1, 1, 0, 0], [1, 1.3])  # type: ignore[arg-type]
