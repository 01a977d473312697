"""Risk, horizons and deadlines by a calibration that is known; and whose calibration it is."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vhdiffuser import Planner, PlanningOptions, execute, load_method, load_planner
from vhdiffuser.envs.registry import get_environment, known_names
from vhdiffuser.errors import CalibrationWarning, DataError, UnknownNameError, VhdError
from vhdiffuser.execution.export_onnx import export_onnx
from vhdiffuser.length.calibration import Calibration
from vhdiffuser.planner.calibrated import (
    DEFAULT_RISK,
    FILE,
    DeadlineError,
    advice,
    at_default_risk,
    calibrated_options,
    planner_digests,
    read_calibration,
    write_calibration,
)
from vhdiffuser.planner.forwarding import BeginsWith
from vhdiffuser.planner.requests import RequestError
from vhdiffuser.recipes.recipe import PAPER_GAMMA, get_recipe

ROOT = Path(__file__).parents[2]
ENV = "maze2d-umaze"
START, GOAL = [1, 1, 0, 0], [1, 2.5]
MULTIPLES = np.array([0.8, 1.0, 1.25, 1.5])
FAILURE = np.array([[0.9, 0.2, 0.05, 0.02]] * 2)


@pytest.fixture(scope="module")
def loaded() -> Planner:
    return load_planner(ENV, gamma=1.25)


@pytest.fixture
def planner(loaded: Planner) -> Planner:
    """A planner that fails at 20, 5 and 2 % of horizons of 1, 1.25 and 1.5 times the predicted length."""
    made = {"models": planner_digests(loaded), "options": calibrated_options(loaded), "protocol": "ss"}
    own = copy(loaded)
    shares = np.full_like(FAILURE, 0.8)
    own.calibration = Calibration(np.array([10.0, 100.0]), MULTIPLES, FAILURE, shares, shares + 0.15, made)
    return own


def predicted(planner: Planner) -> float:
    return float(planner.predict_steps(np.array([START], np.float32), np.array([GOAL], np.float32))[0])


def test_a_calibrated_horizon_includes_the_states_that_wait(planner):
    plain = planner.plan(START, GOAL, risk=0.05)
    planner.calibration.made["options"]["wait"] = 8
    waits = planner.with_options(wait=8).plan(START, GOAL, risk=0.05)
    assert waits.length == plain.length
    np.testing.assert_array_equal(waits.states[-9:, :2], np.tile(np.float32(GOAL), (9, 1)))


def test_a_calibration_made_before_an_option_was_there_stays_valid(planner):
    planner.calibration = replace(planner.calibration, default_risk=DEFAULT_RISK)
    del planner.calibration.made["options"]["wait"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        at_default_risk(planner, {}).plan(START, GOAL)
    with pytest.warns(CalibrationWarning, match="wait 0 there, 8 here"):
        planner.with_options(wait=8).plan(START, GOAL, risk=0.05)


@pytest.mark.parametrize(("risk", "multiple"), [(0.2, 1.0), (0.05, 1.25), (0.02, 1.5)])
def test_a_risk_takes_the_margin_that_keeps_it(planner, risk, multiple):
    length = int(np.ceil(multiple * (predicted(planner) + 1) - 1e-6))
    assert abs(planner.plan(START, GOAL, risk=risk).length - length) <= 1
    same = planner.with_options(gamma=multiple).plan(START, GOAL, length)
    assert planner.plan(START, GOAL, length, risk=risk) == same, "an explicit length wins"
    horizon = planner.with_options(risk=risk).horizon(START, GOAL)
    assert horizon.probability == pytest.approx(1 - risk, abs=0.02)
    assert horizon.shortest == pytest.approx(predicted(planner))
    assert horizon.interval == pytest.approx((0.8 * horizon.length, 0.95 * horizon.length))


def test_a_horizon_tells_a_goal_in_a_wall(planner):
    assert planner.horizon([1, 1, 0, 0], [3, 1]).reachable
    assert planner.horizon([1, 1, 0, 0], [2, 2]).reachable is False  # between the U's arms, within the data's limits


def test_gamma_replaces_a_risk_and_none_changes_nothing(planner):
    risky = planner.with_options(risk=0.05)
    assert risky.with_options(risk=None).options.risk == 0.05
    assert risky.with_options(gamma=1.4).options.risk is None
    assert risky.with_options(gamma=1.4, risk=0.2).options.risk == 0.2
    assert planner.options.risk is None
    assert PlanningOptions.from_json(risky.options.to_json()) == risky.options
    with pytest.raises(VhdError, match="between 0 and 1"):
        planner.with_options(risk=1.0)


def test_waypoints_and_regions_keep_the_risk_too(planner):
    via = planner.plan(START, GOAL, via=[[1, 1.8]], risk=0.02)
    assert via.length > planner.plan(START, GOAL, via=[[1, 1.8]], risk=0.2).length


def test_a_risk_that_cannot_be_kept_warns_and_gets_the_best_horizon(planner):
    with pytest.warns(CalibrationWarning, match=r"risk 0.001 cannot be met for 1 of 1 pairs.*0.02"):
        plan = planner.plan(START, GOAL, risk=0.001)
    assert plan.length == planner.plan(START, GOAL, risk=0.02).length


def test_the_default_risk_is_as_safe_as_can_be_without_a_warning(planner):
    """The tables promise 0.02 at best: a planner whose default is 0.001 takes that, and says what it may expect."""
    own = planner.with_options(risk=0.001)
    own.calibration = replace(planner.calibration, default_risk=0.001)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = own.plan(START, GOAL)
    assert plan.length == planner.plan(START, GOAL, risk=0.02).length
    with pytest.warns(CalibrationWarning, match="cannot be met"):
        own.plan(START, GOAL, risk=0.001)  # the same, but asked for
    with pytest.warns(CalibrationWarning, match="cannot be met"):
        own.plan(START, GOAL, deadline=plan.length, risk=0.001)
    with pytest.raises(DeadlineError, match=r"would be enough with probability 0\.980, the best known"):
        own.plan(START, GOAL, deadline=plan.length - 20)
    assert own.horizon(START, GOAL, plan.length).probability == pytest.approx(0.98, abs=0.005)


def test_a_calibration_of_other_weights_is_refused_and_of_other_options_doubted(planner, loaded):
    with pytest.warns(CalibrationWarning, match="candidates 1 there, 2 here"):
        planner.with_options(candidates=2).plan(START, GOAL, risk=0.2)
    stranger = copy(loaded)
    stranger.calibration = Calibration.from_json({**planner.calibration.to_json(), "made": {"models": {}}})
    with pytest.raises(DataError, match="other weights.*vhd calibrate maze2d-umaze"):
        stranger.plan(START, GOAL, risk=0.05)
    stranger.calibration = None
    with pytest.raises(VhdError, match="not calibrated.*vhd calibrate maze2d-umaze"):
        stranger.plan(START, GOAL, risk=0.05)
    assert stranger.horizon(START, GOAL).probability is None
    assert stranger.plan(START, GOAL).length == loaded.plan(START, GOAL).length, "gamma needs no calibration"


def test_it_is_saved_loaded_and_exported_with_the_weights(planner, tmp_path):
    risky = planner.with_options(risk=0.05)
    wanted = risky.plan(START, GOAL)
    risky.save_pretrained(tmp_path / "mine")
    assert load_planner(tmp_path / "mine").plan(START, GOAL) == wanted
    export_onnx(risky, tmp_path / "onnx")
    assert load_planner(tmp_path / "onnx").plan(START, GOAL).length == wanted.length
    (tmp_path / "onnx" / FILE).write_text("{}")
    with pytest.raises(DataError, match="calibration.json: missing or damaged"):
        load_planner(tmp_path / "onnx")
    bare = copy(planner)
    bare.calibration = None
    bare.save_pretrained(tmp_path / "mine")
    assert not (tmp_path / "mine" / FILE).exists(), "that of other weights is removed"


def test_a_damaged_file_is_refused(planner, tmp_path: Path):
    path = write_calibration(tmp_path / FILE, planner.calibration)
    found = read_calibration(path)
    assert found is not None
    assert found.to_json() == planner.calibration.to_json()
    assert read_calibration(tmp_path / "none.json") is None
    text = path.read_text()
    for damaged in (text.replace("0.02", "0.01"), text[:-20], text.replace('"format": 1', '"format": 2'), "[]"):
        path.write_text(damaged)
        with pytest.raises(DataError, match="vhd calibrate"):
            read_calibration(path)


def test_a_calibrated_planner_is_loaded_with_its_default_risk(planner, loaded, tmp_path):
    shipped = load_planner(ENV)
    assert shipped.options.risk == shipped.calibration.default_risk == DEFAULT_RISK
    assert load_planner(ENV, risk=0.2).options.risk == 0.2
    assert load_planner(ENV, gamma=1.3).options.risk is None, "gamma stays an option"
    assert shipped.options.gamma == 1, "the risk needs no margin"
    two = load_planner(ENV, candidates=2)
    assert two.options.risk == DEFAULT_RISK
    with pytest.warns(CalibrationWarning, match="candidates 1 there, 2 here"):
        two.plan(START, GOAL)
    for name, risk in (("vhd", DEFAULT_RISK), ("fh-lp", None)):
        choice = load_method(name, ENV, ROOT / "weights")
        assert choice.options.risk == risk
        assert ("calibration" in choice.models) == (risk is not None)
    assert choice.options.gamma == PAPER_GAMMA, "FH+LP has no calibration: the paper's rule"
    by_hand = load_method("vhd", ENV, "shipped", gamma=1.25)
    assert (by_hand.options.gamma, by_hand.options.risk) == (1.25, None)
    assert "calibration" not in by_hand.models
    loaded.save_pretrained(tmp_path / "gamma")
    assert load_planner(tmp_path / "gamma").options == loaded.options, "saved with gamma, loaded with gamma"
    shipped.save_pretrained(tmp_path / "risk")
    assert load_planner(tmp_path / "risk").options == shipped.options
    strange = replace(planner.calibration, default_risk=0.2, made={"models": {}})
    own = copy(loaded)
    own.calibration = strange
    assert at_default_risk(own, {}).options == loaded.options, "made with other weights"
    with pytest.raises(DataError, match="default_risk"):
        replace(planner.calibration, default_risk=2.0)


@pytest.mark.parametrize("name", [name for name in known_names() if get_environment(name).simulator is not None])
def test_gamma_is_one_wherever_the_recipe_is_ours(name):
    assert get_recipe(name).planning.gamma == PlanningOptions().gamma == 1
    assert get_recipe(name, "paper").planning.gamma == PAPER_GAMMA


def test_a_planner_without_calibration_and_margin_says_what_to_do(planner, loaded):
    bare = copy(loaded).with_options(gamma=1.0)
    bare.calibration = None
    assert "vhd calibrate maze2d-umaze" in advice(bare)
    assert advice(bare.with_options(gamma=1.3)) is None, "a margin was chosen"
    assert advice(planner.with_options(risk=0.05)) is None
    assert "no risk is chosen" in advice(planner.with_options(gamma=1.0))
    stale = planner.with_options(gamma=1.0)
    stale.calibration = replace(planner.calibration, made={"models": {}})
    assert "belongs to other weights" in advice(stale)


def test_a_risk_and_a_gamma_replace_each_other():
    options = PlanningOptions(gamma=1.25)
    assert (options.changed(risk=0.05).gamma, options.changed(risk=0.05).risk) == (1.0, 0.05)
    assert options.changed(risk=0.05).changed(gamma=1.4).risk is None


def test_a_deadline_is_met_or_refused_with_the_steps_that_would_do(planner):
    needed = planner.with_options(risk=0.05).horizon(START, GOAL).length
    assert planner.plan(START, GOAL, deadline=needed).length == needed
    assert planner.plan(START, GOAL, deadline=needed + 100).length == needed
    with pytest.raises(DeadlineError, match=f"{needed} would be enough") as caught:
        planner.plan(START, GOAL, deadline=needed - 10)
    assert caught.value.steps == needed
    assert 0.5 < caught.value.probability < 0.95
    shorter = planner.plan(START, GOAL, deadline=needed - 10, risk=1 - caught.value.probability + 0.01)
    assert shorter.length <= needed - 10
    for wrong in ({"length": 50}, {"via": [[1, 1.8]]}, {"avoid": [[[0, 0], [0.1, 0.1]]]}):
        with pytest.raises(RequestError, match="pass it alone"):
            planner.plan(START, GOAL, deadline=200, **wrong)
    with pytest.raises(UnknownNameError, match="by, at"):
        planner.plan(START, GOAL, deadline=200, arrive="around")
    with pytest.raises(VhdError, match="whole number"):
        planner.plan(START, GOAL, deadline=0.5)
    with pytest.raises(RequestError, match="needs a deadline"):
        planner.plan(START, GOAL, arrive="at")


def test_a_deadline_shorter_than_every_plan_is_refused_without_a_probability(planner):
    least = planner.lengths[0]
    with pytest.raises(DeadlineError, match=f"plans have at least {least} states") as caught:
        planner.plan(START, np.array(START[:2]) + 0.05, deadline=least - 1, risk=0.5)
    assert caught.value.probability is None
    assert caught.value.steps >= least


def test_a_robot_that_has_arrived_cannot_arrive_at_a_later_step(planner):
    with pytest.raises(RequestError, match="start lies in the goal region"):
        planner.plan(START, START[:2], deadline=200, arrive="at")
    assert planner.plan(START, START[:2], deadline=200).length <= 200


def test_every_other_planning_option_is_noticed(planner):
    with pytest.warns(CalibrationWarning, match=r"retime None there, 1\.3 here"):
        planner.with_options(retime=1.3).horizon(START, GOAL)


@pytest.mark.parametrize(("start", "goal"), [([START, START], GOAL), (START, [np.nan, 1.0]), (START, [1.0])])
def test_horizon_and_plan_name_the_wrong_end(planner, start, goal):
    for ask in (planner.horizon, planner.plan, lambda *pair: planner.plan(*pair, risk=0.05)):
        with pytest.raises(VhdError, match="start needs|goal needs|goal 0"):
            ask(start, goal)


def test_an_end_outside_the_range_of_the_data_is_off_it(planner):
    far = planner.normalizer.high[:2] + 0.5
    assert planner.horizon(START, far).reachable is False
    assert planner.horizon(START, far).probability is None


def test_off_the_data_no_probability_is_promised_and_the_interval_is_wider(planner):
    wall, free = [2.0, 2.0], GOAL
    inside, off = (planner.horizon(START, goal, 100) for goal in (free, wall))
    assert (inside.reachable, off.reachable) == (True, False)
    assert inside.probability is not None
    assert off.probability is None
    assert np.ptp(off.interval) > np.ptp(inside.interval) + 10
    with pytest.warns(CalibrationWarning, match="risk of 0.05 cannot be promised"):
        planner.plan(START, wall, risk=0.05)
    with pytest.warns(CalibrationWarning, match="cannot be promised"):
        planner.plan(START, wall, deadline=400)
    with pytest.raises(DeadlineError, match="probability of arriving is not known") as caught:
        planner.plan(START, wall, deadline=20)
    assert caught.value.probability is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        planner.plan(START, wall)  # no risk, no promise
        default = planner.with_options(risk=0.05)
        default.calibration = replace(planner.calibration, default_risk=0.05)
        default.plan(START, wall)  # nobody asked for this one


@pytest.mark.parametrize("T", [120, 300])
def test_it_arrives_at_a_step_and_hardly_before(planner, T):
    """The last is longer than T_max."""
    plan = planner.plan(START, GOAL, deadline=T, arrive="at")
    rollout = execute(BeginsWith(planner, plan), START, GOAL, "ss")
    assert rollout.plans[0][1] is plan
    assert rollout.success
    assert abs(rollout.steps - T) <= 0.05 * T


def test_the_page_lists_the_environments_that_ship_calibrated():
    root = Path(__file__).resolve().parents[2]
    shipped = {path.parent.name for path in (root / "src/vhdiffuser/weights").glob(f"*/{FILE}")}
    page = (root / "docs/horizon.md").read_text(encoding="utf-8")
    said = next(line for line in page.splitlines() if line.startswith("Calibrations ship for"))
    assert {name for name in known_names() if f"{name} (" in said} == shipped
    assert shipped >= {"maze2d-umaze", "maze2d-medium", "maze2d-large", "cube"}


@pytest.mark.parametrize("name", ["maze2d-umaze", "maze2d-medium", "maze2d-large", "cube"])
def test_shipped_calibrations_are_of_the_shipped_weights_and_options(name: str) -> None:
    shipped = load_planner(name)
    assert shipped.options.risk == DEFAULT_RISK, "a calibration of others would leave gamma"
    assert load_planner(name, gamma=1.3).options.risk is None
