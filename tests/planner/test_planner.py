"""Planning: lengths, order, seeds, ends, errors, and a toy world whose plans are known."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.interpolation import knot_count
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.task import PlannerTask
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.registry import get_environment, get_spec
from vhdiffuser.errors import ClippedLengthWarning, DataError, OutsideDataWarning, VhdError, VhdWarning
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner import denoising
from vhdiffuser.planner.planner import Planner
from vhdiffuser.types import EnvSpec, Episodes
from vhdiffuser.weights.format import ModelHeader, load_model, save_model
from vhdiffuser.weights.places import find_model, shipped_environments

SPEC = get_spec("maze2d-umaze")
NORMALIZER = Normalizer(np.array([0.4, 0.4, -5, -5], np.float32), np.array([3.2, 3.2, 5, 5], np.float32))
SMALL = PlannerConfig(dim=8, dim_mults=(1, 2, 4), stride=4, diffusion_steps=32)
FOUR = PlanningOptions(steps=4)


def make_planner(config: PlannerConfig = SMALL, spec: EnvSpec = SPEC, **options) -> Planner:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    network = TemporalUnet(spec.state_dim, config.dim, config.dim_mults)
    return Planner(network, config, spec, NORMALIZER, **{"options": FOUR, **options})


def pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    positions, velocities = rng.uniform(0.5, 3.1, (count, 2)), rng.uniform(-1, 1, (count, 2))
    return np.concatenate([positions, velocities], axis=1), rng.uniform(0.5, 3.1, (count, 2))


@pytest.mark.parametrize("sampler", ["ddpm", "ddim", "dpm++"])
def test_a_batch_of_mixed_lengths_equals_planning_one_by_one(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denoising, "KNOTS_PER_BATCH", 100)  # so that groups are split
    planner = make_planner().with_options(sampler=sampler)
    starts, goals = pairs(24)
    lengths = np.random.default_rng(1).integers(16, 90, 24)
    lengths[:6] = 33
    seeds = np.arange(24) * 7 + 3
    together = planner.plan_batch(starts, goals, lengths, seeds=seeds, keep_denoising=True)
    for number, plan in enumerate(together):
        alone = planner.plan(starts[number], goals[number], int(lengths[number]), seed=int(seeds[number]))
        assert plan.length == lengths[number]
        # Sums are taken in another order in a batch; velocities are derivatives, some tens in size here.
        np.testing.assert_allclose(plan.states, alone.states, rtol=1e-3, atol=1e-3)
        np.testing.assert_array_equal(plan.states[0], starts[number].astype(np.float32))
        np.testing.assert_array_equal(plan.states[-1, :2], goals[number].astype(np.float32))
        np.testing.assert_array_equal(plan.goal, goals[number].astype(np.float32))


@pytest.mark.parametrize("stride", [1, 4])
def test_every_length_from_L_min_to_T_max_is_kept_exactly(stride: int) -> None:
    planner = make_planner(replace(SMALL, stride=stride)).with_options(steps=1)
    lengths = np.arange(SPEC.L_min, SPEC.T_max + 1, 7 if stride == 1 else 1)
    starts, goals = pairs(len(lengths))
    plans = planner.plan_batch(starts, goals, lengths)
    assert [plan.length for plan in plans] == lengths.tolist()
    assert all(np.isfinite(plan.states).all() and plan.states.dtype == np.float32 for plan in plans)


def test_a_stretched_plan_is_the_shorter_one_walked_slowly() -> None:
    spec = get_spec("antmaze-medium")
    normalizer = Normalizer(np.array([-2, -2], np.float32), np.array([22, 22], np.float32))
    options = PlanningOptions(steps=4, smoothing=0.0)
    torch.manual_seed(0)
    network = TemporalUnet(spec.state_dim, SMALL.dim, SMALL.dim_mults)
    plain = Planner(network, SMALL, spec, normalizer, options=options)
    slow = plain.with_options(stretch=2.0)
    start, goal = np.array([0.0, 0.0]), np.array([8.0, 4.0])
    short, long = plain.plan(start, goal, 41), slow.plan(start, goal, 81)
    assert (short.length, long.length) == (41, 81)
    np.testing.assert_allclose(long.states[::2], short.states, atol=1e-5)
    # The noise is never shorter than the shortest plan, and a fixed horizon is drawn whole.
    assert slow.plan(start, goal, spec.L_min).length == spec.L_min
    fixed = Planner(network, replace(SMALL, horizon=41), spec, normalizer, options=slow.options)
    np.testing.assert_array_equal(fixed.plan(start, goal, 41).states, short.states)


class _Identity(torch.nn.Module):
    def forward(self, tau: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return tau


def _configs(name: str) -> tuple[list[PlannerConfig], PlanningOptions]:
    """The environment's shipped recipe and, as its baselines, the same at each fixed horizon; and how it plans."""
    _, header = load_model(find_model(name, "planner", "shipped"), "planner")
    config, horizons = PlannerConfig.from_json(header.config), get_environment(name).horizons
    configs = [config, *(replace(config, directness=None, horizon=horizon) for horizon in horizons)]
    return configs, PlanningOptions.from_json(header.planning).changed(steps=1)


@pytest.mark.parametrize("name", shipped_environments())
def test_a_longer_plan_never_has_fewer_knots(name: str) -> None:
    spec = get_spec(name)
    limits = np.ones(spec.state_dim, np.float32)
    lengths = np.arange(2, max(spec.T_max, *get_environment(name).horizons) + 1)
    ends = np.zeros((len(lengths), spec.state_dim)), np.zeros((len(lengths), spec.goal_dim))
    configs, options = _configs(name)
    for config in configs:
        planner = Planner(
            _Identity(), config, spec, Normalizer(-limits, limits), options=options, lengths=(2, int(lengths[-1]))
        )
        plans = planner.plan_batch(*ends, lengths, keep_denoising=True)
        knots = np.array([plan.denoising.shape[1] for plan in plans if plan.denoising is not None])
        assert len(knots) == len(lengths)
        assert np.diff(knots).min() >= 0, f"horizon {config.horizon}"
        if config.horizon is None:
            assert np.diff(knots).max() <= 1
        else:  # never stretched; padded as in training
            asked = np.array([knot_count(int(length), config.stride) for length in lengths])
            own = knots[lengths == config.horizon]
            assert own == asked[lengths == config.horizon]
            assert np.abs(knots - asked).max() <= 2
            assert not ((knots - own) % 4)[asked > 3].any()


def test_smoothing_can_be_set_when_planning() -> None:
    """0 draws the plan through every knot, as the network made them; what is not given stays."""
    start, goal = (values[0] for values in pairs(1))
    planner = make_planner(options=PlanningOptions(steps=4, smoothing=8.0))
    plan = {
        value: planner.with_options(smoothing=value).plan(start, goal, 41, keep_denoising=True)
        for value in (None, 0.0, 8.0)
    }
    np.testing.assert_array_equal(plan[None].states, plan[8.0].states)
    assert plan[0.0].denoising is not None
    np.testing.assert_allclose(plan[0.0].states[::4, :2], plan[0.0].denoising[-1, :, :2], atol=1e-4)
    assert np.abs(plan[8.0].states[::4, :2] - plan[0.0].states[::4, :2]).max() > 1e-2
    with pytest.raises(VhdError, match="smoothing must be a time"):
        planner.with_options(smoothing=-1.0)


def test_full_state_clamp_fixes_the_goal_s_velocity_and_goal_clamp_does_not() -> None:
    starts, goals = pairs(2)
    full = np.concatenate([goals, [[1.0, -2.0], [0.5, 0.0]]], axis=1)
    clamped = make_planner(replace(SMALL, clamp="state"))
    for plan, goal in zip(clamped.plan_batch(starts, full, 50), full, strict=True):
        np.testing.assert_array_equal(plan.states[-1], goal.astype(np.float32))
    for plan in clamped.plan_batch(starts, goals, 50):
        np.testing.assert_array_equal(plan.states[-1, 2:], 0)
    free = make_planner()
    by_state, by_goal = free.plan_batch(starts, full, 50), free.plan_batch(starts, goals, 50)
    for a, b in zip(by_state, by_goal, strict=True):
        np.testing.assert_array_equal(a.states, b.states)
        assert (a.states[-1, 2:] != 0).all()


def test_seeds_decide_and_one_integer_counts_on() -> None:
    planner = make_planner()
    start, goal = pairs(1)
    same = planner.plan_batch(np.repeat(start, 3, 0), np.repeat(goal, 3, 0), 40, seeds=5)
    for number in range(3):
        alone = planner.plan(start[0], goal[0], 40, seed=5 + number)
        np.testing.assert_allclose(same[number].states, alone.states, atol=2e-4)
    assert np.abs(same[0].states - same[1].states).max() > 0.01


def test_denoising_is_kept_in_units_and_ends_at_the_knots() -> None:
    planner = make_planner().with_options(smoothing=0.0, steps=6)
    starts, goals = pairs(1)
    plan = planner.plan(starts[0], goals[0], 41, keep_denoising=True)
    assert plan.denoising is not None
    assert plan.denoising.shape == (7, 11, 4)
    np.testing.assert_allclose(plan.denoising[-1, :, :2], plan.states[::4, :2], atol=1e-5)
    np.testing.assert_allclose(plan.denoising[:, 0], np.repeat(starts.astype(np.float32), 7, 0), atol=1e-5)
    assert planner.plan(starts[0], goals[0], 41).denoising is None


class Ruler:
    """A Length Predictor that says ten steps per unit of distance."""

    def predict_steps(self, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return 10 * np.abs(starts[:, :2] - goals).max(axis=1)


@pytest.mark.filterwarnings("ignore::vhdiffuser.errors.ClippedLengthWarning")
def test_predicted_lengths_are_scaled_and_clipped() -> None:
    planner = make_planner(length_predictor=Ruler(), lengths=(2, 999))  # may be asked for, are never predicted
    starts = np.array([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0]])
    goals = np.array([[0.625, 0.5], [3.0, 0.5]])  # 1.25 and 25 steps: 2.25 and 26 states
    assert planner.predict_lengths(starts, goals).tolist() == [16, 26]  # no margin unless told
    for gamma, lengths in ((1.3, [16, 34]), (2.0, [16, 52]), (7.5, [17, 195]), (100.0, [225, 256])):  # rounded up
        assert planner.with_options(gamma=gamma).predict_lengths(starts, goals).tolist() == lengths
    assert [plan.length for plan in planner.with_options(gamma=2.0).plan_batch(starts, goals)] == [16, 52]


@pytest.mark.parametrize(("clamp", "asked"), [("state", 4), ("goal", 2)])
def test_whole_goal_states_reach_the_predictor_where_they_are_clamped(clamp: str, asked: int) -> None:
    class Asked(Ruler):
        def predict_steps(self, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
            assert goals.shape[1] == asked
            return np.full(len(starts), 20.0)

    planner = make_planner(replace(SMALL, clamp=clamp), length_predictor=Asked())  # type: ignore[arg-type]
    starts, _ = pairs(2)
    assert [plan.length for plan in planner.plan_batch(starts, starts[::-1])] == [21, 21]


def test_a_fixed_horizon_planner_plans_at_its_horizon_unless_told() -> None:
    planner = make_planner(replace(SMALL, horizon=64))
    starts, goals = pairs(1)
    assert planner.plan(starts[0], goals[0]).length == 64
    assert planner.plan(starts[0], goals[0], 30).length == 30
    planner.length_predictor = Ruler()
    assert planner.with_options(gamma=3.0).plan(starts[0], goals[0]).length < 64  # FH+LP
    with pytest.raises(VhdError, match="no length"):
        make_planner().plan(starts[0], goals[0])


@pytest.mark.parametrize("horizon", [61, 64, 70, 75])
def test_a_fixed_horizon_is_padded_at_any_length_as_in_training(horizon: int) -> None:
    fixed, free = make_planner(replace(SMALL, horizon=horizon)), make_planner()
    assert fixed._denoiser().knot_count(horizon) == free._denoiser().knot_count(horizon)
    for length in range(2, 120):
        asked, used = free._denoiser().knot_count(length), fixed._denoiser().knot_count(length)
        assert used >= 2
        assert abs(used - asked) <= 2, "half of what the U-Net pads to"
        if asked > 3:
            assert (used - fixed._denoiser().knot_count(horizon)) % 4 == 0, "the padding that training saw"


def test_save_and_load_plan_the_same(tmp_path: Path) -> None:
    planner = make_planner()
    header = ModelHeader("planner", SPEC.to_json(), SMALL.to_json(), NORMALIZER.to_json(), "f", planning=FOUR.to_json())
    path = tmp_path / "planner.safetensors"
    save_model(path, planner.network.tensors, header)
    starts, goals = pairs(1)
    loaded = Planner.load(path, Ruler(), outside="refuse")
    np.testing.assert_array_equal(
        loaded.plan(starts[0], goals[0], 40).states, planner.plan(starts[0], goals[0], 40).states
    )
    save_model(path, planner.network.tensors, replace(header, config=replace(SMALL, dim=16).to_json()))
    with pytest.raises(DataError, match="do not match"):
        Planner.load(path)


START, GOAL = np.array([1.0, 1.0, 0.0, 0.0]), np.array([3.0, 3.0])


@pytest.mark.parametrize(
    ("start", "goal", "length", "match"),
    [
        (START[:3], GOAL, 40, "a start needs 4 numbers .x, y, vx, vy"),
        (START, np.zeros(3), 40, "a goal needs 2 numbers .x, y., or a full state of 4"),
        (np.array([1.0, np.nan, 0, 0]), GOAL, 40, "start 0 contains NaN"),
        (START, np.array([np.inf, 1.0]), 40, "goal 0 contains NaN or infinity"),
        (START, GOAL, 15, "plans of 16 to 256"),
        (START, GOAL, 257, "length 257 is out of range"),
        (START, GOAL, 40.5, "whole number"),
    ],
)
def test_bad_requests_say_what_is_wrong(start: np.ndarray, goal: np.ndarray, length: int, match: str) -> None:
    with pytest.raises(VhdError, match=match):
        make_planner().plan(start, goal, length)


def test_bad_batches_say_what_is_wrong() -> None:
    planner = make_planner()
    starts, goals = pairs(3)
    with pytest.raises(VhdError, match="3 starts but 2 goals"):
        planner.plan_batch(starts, goals[:2], 40)
    with pytest.raises(VhdError, match="one per pair"):
        planner.plan_batch(starts, goals, [40, 41])
    with pytest.raises(VhdError, match="seeds must be one integer or 3"):
        planner.plan_batch(starts, goals, 40, seeds=[1, 2])
    with pytest.raises(VhdError, match=r"1\.\.32"):
        planner.with_options(steps=33)
    with pytest.raises(VhdError, match="unknown sampler"):
        planner.with_options(sampler="euler")
    assert planner.plan_batch(starts[:0], goals[:0], 40) == []
    assert planner.with_options(candidates=3).plan_batch(starts[:0], goals[:0], 40) == []


def test_other_lengths_can_be_allowed() -> None:
    planner = make_planner(lengths=(2, 300))
    assert planner.plan(START, GOAL, 2).length == 2
    assert planner.plan(START, GOAL, 300).length == 300
    with pytest.raises(VhdError, match="2 to 300"):
        planner.plan(START, GOAL, 1)


def test_states_outside_the_data_warn_or_are_refused() -> None:
    far = np.array([9.0, 1.0])
    with pytest.warns(OutsideDataWarning, match=r"goal 0: x = 9 is outside the training data's range, 0.4 to 3.2"):
        make_planner().plan(START, far, 40)
    with pytest.raises(VhdError, match="Choose one inside"):
        make_planner(outside="refuse").plan(START, far, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        plan = make_planner(outside="ignore").plan(START, far, 40)
        make_planner().plan(START, np.array([2.0, 2.0, 99.0, 0.0]), 40)  # a velocity that is not clamped
    np.testing.assert_array_equal(plan.states[-1, :2], far.astype(np.float32))


@pytest.mark.slow
def test_a_planner_trained_on_straight_lines_plans_straight_lines() -> None:
    """A one-dimensional world of constant speeds: the only plan between two points is the straight line."""
    spec = EnvSpec(
        name="line", observation_dim=1, action_dim=0, state_dims=(0,), state_names=("x",),
        goal_dims=(0,), velocity_dims=None, control_dt=1.0, epsilon=0.05, T_max=10, L_min=6,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    lines = [np.linspace(*rng.uniform(-1, 1, 2), 10)[:, None] for _ in range(1000)]
    data = Episodes.from_parts([(line, np.zeros((9, 0))) for line in lines])
    normalizer = Normalizer(np.array([-1.0], np.float32), np.array([1.0], np.float32))
    config = PlannerConfig(dim=16, dim_mults=(1, 2), diffusion_steps=64, stride=1, batch_size=32)
    task = PlannerTask(data, spec, config, normalizer, "lines")
    torch.manual_seed(0)
    network = task.make_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    random = torch.Generator().manual_seed(0)
    updates = 300
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 - update / updates)
        loss, _ = task.loss(network, network, random, update)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    planner = Planner(network, config, spec, normalizer, options=PlanningOptions(steps=8))
    starts, goals = rng.uniform(-0.5, 0.5, (40, 1)), rng.uniform(-0.5, 0.5, (40, 1))
    lengths = rng.integers(6, 11, 40)
    errors = [
        np.abs(plan.states[:, 0] - np.linspace(start[0], goal[0], plan.length)).max()
        for plan, start, goal in zip(planner.plan_batch(starts, goals, lengths), starts, goals, strict=True)
    ]
    assert np.median(errors) < 0.08
    assert max(errors) < 0.3


class _Steps:
    """A Length Predictor that knows how far: the goal's x is the number of steps."""

    def predict_steps(self, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return goals[..., 0]


def test_lengths_clipped_at_T_max_are_counted_in_a_warning() -> None:
    planner = make_planner(length_predictor=_Steps(), outside="ignore").with_options(gamma=1.0)
    starts, steps = np.zeros((4, 4)), np.array([100, SPEC.T_max - 1, SPEC.T_max, 10 * SPEC.T_max])
    goals = np.stack([steps, np.zeros(4)], axis=1)
    with pytest.warns(
        ClippedLengthWarning, match=r"2 of 4 predicted lengths clipped at T_max = 256 .*margin 1\)"
    ) as seen:
        lengths = planner.predict_lengths(starts, goals)
    assert len(seen) == 1
    assert lengths.tolist() == [101, 256, 256, 256]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        planner.plan_batch(starts[:2], goals[:2])  # 256 states just fit
        planner.plan_batch(starts, goals, 256)  # nothing was predicted
    with pytest.warns(ClippedLengthWarning, match="1 of 2 .*margin 1.3"):
        planner.with_options(gamma=1.3).plan_batch(starts[:2], goals[:2])


@pytest.mark.parametrize("how", ["plan", "plan_batch", "candidates", "predict_lengths"])
def test_warnings_point_at_the_caller_s_line(how: str) -> None:
    planner = make_planner(length_predictor=_Steps())
    start, goal = START[None], np.array([[900.0, 1.0]])
    calls = {
        "plan": lambda: planner.plan(start[0], goal[0]),
        "plan_batch": lambda: planner.plan_batch(start, goal),
        "candidates": lambda: planner.with_options(candidates=2).plan_batch(start, goal),
        "predict_lengths": lambda: planner.predict_lengths(start, goal),
    }
    with pytest.warns(VhdWarning) as seen:
        calls[how]()
    assert {Path(warning.filename).name for warning in seen} == {Path(__file__).name}
    assert {warning.category for warning in seen} <= {ClippedLengthWarning, OutsideDataWarning}


def test_a_plan_in_a_frame_of_its_own_moves_with_its_start() -> None:
    """A network with a frame knows no absolute place: the same pair elsewhere gets the same plan there, but for what is
    left of it at the noisiest level."""
    (start, *_), (goal, *_) = pairs(1)
    by = np.array([1.0, -1.5, 0.0, 0.0])
    changes = []
    for frame in (2.0, None):
        planner = make_planner(replace(SMALL, frame=frame), outside="ignore")
        here, there = planner.plan(start, goal, 40, seed=3), planner.plan(start + by, goal + by[:2], 40, seed=3)
        changes.append(np.abs(there.states[:, :2] - here.states[:, :2] - by[:2]).max())
    assert changes[0] < 0.02
    assert changes[1] > 10 * changes[0]
