"""Plans and rollouts: what they say of themselves, when they are equal, how they are drawn and kept."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from pictures import BLUE, RED, WALL, YELLOW, picture, pixels_of
from PIL import Image
from toy_point import SPEC

from vhdiffuser.envs.registry import get_spec
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.trajectories import Plan, Rollout
from vhdiffuser.types import EnvSpec, Episodes, FloatArray

UMAZE = get_spec("maze2d-umaze")


def umaze_plan(length: int = 21, spec: EnvSpec | None = UMAZE) -> Plan:
    """From (1, 1) to (1, 3) at an even pace, with numbers that no short decimal holds."""
    states = np.linspace([1, 1, 0, 2 / 3], [1, 3, 0, 2 / 3], length).astype(np.float32)
    return Plan(states, states[-1, :2], spec=spec)


def own_spec(dims: int) -> EnvSpec:
    """An arm of so many joints, all of them planned and goals."""
    every = tuple(range(dims))
    names = tuple(f"q{dim} [rad]" for dim in every)
    return replace(SPEC, name="arm", observation_dim=dims, state_dims=every, state_names=names, goal_dims=every)


def own_plan(dims: int) -> Plan:
    states = np.linspace(np.zeros(dims), np.arange(1, dims + 1), 11).astype(np.float32)
    return Plan(states, states[-1], spec=own_spec(dims))


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    pyplot.close("all")


def test_a_plan_tells_what_it_is() -> None:
    assert repr(umaze_plan()) == "Plan(maze2d-umaze: 21 states, 0.2 s, (1, 1) -> (1, 3))"
    assert repr(umaze_plan(spec=None)) == "Plan(21 states, (1, 1, 0, 0.6667) -> (1, 3))"
    assert len(umaze_plan()) == umaze_plan().length == 21
    assert umaze_plan().seconds == pytest.approx(0.2)


def test_plans_are_equal_by_their_values() -> None:
    assert umaze_plan() == umaze_plan()
    assert umaze_plan() == umaze_plan(spec=None)
    assert umaze_plan() != umaze_plan(22)
    moved = umaze_plan()
    assert moved != Plan(moved.states, moved.goal + 1)
    assert moved != "a plan"


@pytest.mark.parametrize("suffix", ["npz", "json", "csv"])
def test_a_plan_is_kept_to_the_last_bit(tmp_path: Path, suffix: str) -> None:
    plan = umaze_plan()
    path = plan.save(tmp_path / f"plan.{suffix}")
    found = Plan.load(str(path), UMAZE if suffix == "csv" else None)
    assert found == plan
    assert found.spec == UMAZE
    assert found.states.dtype == np.float32


def test_npz_keeps_the_denoising_and_an_environment_of_one_s_own(tmp_path: Path) -> None:
    plan = replace(own_plan(5), denoising=np.ones((3, 4, 5), np.float32))
    found = Plan.load(plan.save(tmp_path / "plan.npz"))
    assert found == plan
    assert found.spec == plan.spec
    np.testing.assert_array_equal(found.denoising, plan.denoising)
    by_json = Plan.load(plan.save(tmp_path / "plan.json"))
    assert by_json == plan
    assert by_json.spec is None
    assert Plan.load(tmp_path / "plan.json", plan.spec).spec == plan.spec


def test_the_documented_formats(tmp_path: Path) -> None:
    plan = umaze_plan(3)
    value = json.loads(plan.save(tmp_path / "plan.json").read_text())
    assert value == {
        "environment": "maze2d-umaze",
        "length": 3,
        "state_names": ["x", "y", "vx", "vy"],
        "goal": [1.0, 3.0],
        "states": plan.states.tolist(),
    }
    lines = plan.save(tmp_path / "plan.csv").read_text().splitlines()
    assert lines[0] == "step,x,y,vx,vy"
    assert [line.split(",")[0] for line in lines[1:]] == ["0", "1", "2"]


def damage(path: Path, change) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.update(length=4), "but length 4"),
        (lambda v: v["states"][1].pop(), "damaged"),
        (lambda v: v["states"][1].__setitem__(0, float("nan")), "NaN"),
        (lambda v: v.update(goal=[1.0]), "do not match"),
        (lambda v: v.update(state_names=["y", "x", "vx", "vy"]), "maze2d-umaze has"),
        (lambda v: v.pop("states"), "states"),
    ],
)
def test_a_damaged_json_is_refused(tmp_path: Path, change, message: str) -> None:
    path = umaze_plan(3).save(tmp_path / "plan.json")
    damage(path, change)
    with pytest.raises(DataError, match=message):
        Plan.load(path)


def test_loading_a_plan_runs_nothing_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment may be given as `file.py:function`, by a user; never by a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "robot_of_others.py").write_text("from pathlib import Path\nPath('ran').touch()\ndef make(): ...\n")
    path = umaze_plan(3).save(tmp_path / "plan.json")
    damage(path, lambda v: v.update(environment="robot_of_others.py:make"))
    with pytest.raises(DataError, match="cannot name"):
        Plan.load(path)
    assert not (tmp_path / "ran").exists()


def test_a_plan_of_no_environment_is_kept_too(tmp_path: Path) -> None:
    plan = umaze_plan(spec=None)
    for suffix in ("npz", "json"):
        found = Plan.load(plan.save(tmp_path / f"plan.{suffix}"))
        assert found == plan
        assert found.spec is None


def test_what_is_no_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VhdError, match=".npz, .json, .csv"):
        umaze_plan().save(tmp_path / "plan.txt")
    with pytest.raises(DataError, match="no such file"):
        Plan.load(tmp_path / "nothing.npz")
    (tmp_path / "plan.npz").write_bytes(b"PK no zip")
    with pytest.raises(DataError, match="damaged"):
        Plan.load(tmp_path / "plan.npz")
    np.savez(tmp_path / "objects.npz", states=np.array([{}, 1], object), goal=np.zeros(2))
    with pytest.raises(DataError, match="array of numbers"):
        Plan.load(tmp_path / "objects.npz")
    csv = umaze_plan().save(tmp_path / "plan.csv")
    with pytest.raises(VhdError, match="planner.spec"):
        Plan.load(csv)
    with pytest.raises(DataError, match="columns"):
        Plan.load(csv, own_spec(4))
    csv.write_text(csv.read_text().replace("\n3,", "\n2,"))
    with pytest.raises(DataError, match="0, 1, 2"):
        Plan.load(csv, UMAZE)


def test_a_plan_is_drawn_over_its_maze_with_names_and_values(tmp_path: Path) -> None:
    axes = umaze_plan().plot()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x [cells]", "y [cells]")
    (line,) = [item for item in axes.lines if len(item.get_xdata()) == 21]
    np.testing.assert_allclose(line.get_xdata(), umaze_plan().states[:, 0])
    np.testing.assert_allclose(line.get_ydata(), umaze_plan().states[:, 1])
    axes.figure.savefig(tmp_path / "plan.png", dpi=200)
    shown = picture(tmp_path / "plan.png")
    assert all(len(pixels_of(shown, colour)) > 20 for colour in (WALL, YELLOW, RED, BLUE))


def test_axes_of_one_s_own_walls_and_data() -> None:
    figure, axes = pyplot.subplots()
    states = np.linspace([0, 0.5], [1, 0.5], 9).astype(np.float32)
    data = Episodes.from_parts([(np.random.default_rng(0).uniform(size=(50, 2)), np.zeros((49, 2)))])
    plan = Plan(states, states[-1], spec=SPEC)
    assert plan.plot(axes, data=data, walls=[[0, 1, -0.1, 0.0]]) is axes
    assert len(figure.axes) == 1
    backdrop = axes.lines[0]
    np.testing.assert_allclose(np.transpose([backdrop.get_xdata(), backdrop.get_ydata()]), data.observations)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "y")
    assert axes.get_xlim() == (0, 1), "the frame is the maze's"
    with pytest.raises(VhdError, match=r"\(n, 2\) positions"):
        plan.plot(data=[1, 2, 3])


def test_a_plan_that_leaves_the_walls_is_drawn_whole() -> None:
    states = np.zeros((5, SPEC.state_dim), np.float32)
    states[:, SPEC.goal_dims[0]] = np.linspace(-2, 7, 5)
    axes = Plan(states, SPEC.goal_of(states[-1]), spec=SPEC).plot(walls=[[0, 1, -0.1, 0.0]])
    assert axes.get_xlim() == (-2, 7)
    pyplot.close("all")


def test_three_dimensions_are_drawn_in_space() -> None:
    axes = own_plan(3).plot()
    assert axes.name == "3d"
    assert [axes.get_xlabel(), axes.get_ylabel(), axes.get_zlabel()] == ["q0 [rad]", "q1 [rad]", "q2 [rad]"]
    np.testing.assert_allclose(np.transpose(axes.lines[0].get_data_3d()), own_plan(3).states)
    with pytest.raises(VhdError, match="3d"):
        own_plan(3).plot(pyplot.subplots()[1])


@pytest.mark.parametrize("dims", [1, 5])
def test_other_dimensions_are_drawn_over_time(dims: int) -> None:
    axes = own_plan(dims).plot()
    assert axes.get_xlabel() == "time [s]"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [f"q{dim} [rad]" for dim in range(dims)]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), 0.1 * np.arange(11))
    np.testing.assert_allclose(axes.lines[dims - 1].get_ydata(), own_plan(dims).states[:, -1])


def test_a_plan_of_an_unknown_environment_is_drawn_by_its_steps() -> None:
    axes = umaze_plan(spec=None).plot()
    assert axes.get_xlabel() == "control step"
    assert len(axes.get_legend().get_texts()) == 4


def test_without_matplotlib_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(VhdError, match="pip install matplotlib"):
        umaze_plan().plot()


def followed(plan: Plan, observations: FloatArray | None = None) -> Rollout:
    states = plan.states if observations is None else observations
    return Rollout(states, np.zeros((len(states) - 1, 2), np.float32), True, ((0, plan),))


def test_a_rollout_tells_what_it_is_and_what_it_did() -> None:
    plan, again = umaze_plan(), umaze_plan(9)
    rollout = Rollout(plan.states[:13], np.zeros((12, 2)), False, ((0, plan), (4, again)))
    assert repr(rollout) == "Rollout(maze2d-umaze: goal (1, 3) not reached, 12 steps, plans of 21, 9 states)"
    assert (rollout.steps, rollout.replans) == (12, 1)
    first = rollout.until(4)
    assert (first.steps, len(first.observations), len(first.plans)) == (4, 5, 1)
    assert first != rollout
    assert rollout == Rollout(plan.states[:13], np.zeros((12, 2)), False, ((0, umaze_plan()), (4, again)))
    with pytest.raises(VhdError, match="13 observations need 12 actions; got 13"):
        Rollout(plan.states[:13], np.zeros((13, 2)), False, ((0, plan),))


def test_a_rollout_knows_its_duration_where_the_environment_is_known() -> None:
    assert followed(umaze_plan(21)).seconds == pytest.approx(20 * UMAZE.control_dt)
    assert followed(umaze_plan(spec=None)).seconds is None


def test_a_rollout_is_drawn_with_its_plans() -> None:
    plan = umaze_plan()
    beside = plan.states + np.float32([0.1, 0, 0, 0])
    axes = followed(plan, beside).plot()
    planned, path = [line for line in axes.lines if len(line.get_xdata()) == 21]
    np.testing.assert_allclose(planned.get_xdata(), plan.states[:, 0])
    np.testing.assert_allclose(path.get_xdata(), beside[:, 0])
    assert "L = 21; 20 steps, hit" in axes.get_title()


@pytest.mark.parametrize("dims", [3, 5])
def test_a_rollout_of_any_dimension_is_drawn(dims: int) -> None:
    plan = own_plan(dims)
    axes = followed(plan, plan.states + 1).plot()
    curves = [line for line in axes.lines if len(line.get_xdata()) == 11]
    assert len(curves) == (2 if dims == 3 else 2 * dims)


def test_a_rollout_makes_a_video(tmp_path: Path) -> None:
    path = followed(umaze_plan()).video(tmp_path / "film.gif")
    with Image.open(path) as film:
        assert film.n_frames > 10
        assert len(pixels_of(np.asarray(film.convert("RGB")), WALL)) > 100
    with pytest.raises(VhdError, match=".gif"):
        followed(umaze_plan()).video(tmp_path / "film.mp4")
    for plan in (own_plan(5), umaze_plan(spec=None)):
        with pytest.raises(VhdError, match="from above"):
            followed(plan).video(tmp_path / "film.gif")
