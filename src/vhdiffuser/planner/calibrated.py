"""A planner's calibration: its file next to the weights, whether it applies, and horizons and deadlines based on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers, as_whole
from vhdiffuser.diffusion.options import OptionChanges, PlanningOptions
from vhdiffuser.envs.registry import reference_of
from vhdiffuser.envs.success import goal_distance
from vhdiffuser.errors import CalibrationWarning, DataError, UnknownNameError, VhdError, warn
from vhdiffuser.length.calibration import Calibration
from vhdiffuser.length.pairs import Pairs
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.planner.requests import EDGE, RequestError, checked_goals, checked_starts
from vhdiffuser.runtime.network import Network, weights_digest
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import BoolArray, FloatArray
from vhdiffuser.weights.sealed import read_sealed, write_sealed

if TYPE_CHECKING:
    from vhdiffuser.planner.planner import Planner

P = TypeVar("P", bound="Planner")
FILE, FORMAT = "calibration.json", 1
DEFAULT_RISK = 0.01
"""Risk that `vhd calibrate` makes the default of a planner that is loaded by name or from its folder."""
DEADLINE_RISK = 0.05
"""Accepted risk of a deadline where the planner's options name none."""
BEYOND = 1.5
"""A warning says that a risk cannot be kept if the least failure known is more than so many times it."""
ROUNDS = 3
"""Number of plans made to arrive exactly at a step; each corrects the length of the previous one."""
LEISURELY = 1.25
"""From so many times the steps needed on, a robot follows a slowed plan without lagging."""
Arrive = Literal["by", "at"]
"""Arrive before a deadline, or exactly at it."""


class DeadlineError(RequestError):
    """The goal cannot be reached by the deadline with the accepted risk."""

    def __init__(self, message: str, steps: int, probability: float | None) -> None:
        super().__init__(message)
        self.steps = steps
        """Number of control steps that would be enough."""
        self.probability = probability
        """Probability of arriving by the deadline nevertheless; None if it is unknown, as off the data."""


@dataclass(frozen=True)
class Horizon:
    """Length of a plan and what to expect from executing it."""

    length: int
    """Number of states in the plan, and the maximum number of control steps to execute it."""
    shortest: float
    """Predicted steps of the shortest path, at the data's pace; a robot may be faster."""
    probability: float | None
    """Probability of arriving within `length` control steps; None without a calibration, and if `reachable` is False:
    nothing was executed there."""
    interval: tuple[float, float] | None
    """10 % and 90 % quantiles of the steps to arrival, if it arrives; None without a calibration. Off the data it is
    wider, by the steps between there and the data on either side."""
    reachable: bool | None
    """Whether the data covers both ends and observed transitions connect them; None if unknown."""


def write_calibration(path: Path, calibration: Calibration) -> Path:
    """Write a calibration atomically."""
    return write_sealed(path, calibration.to_json(), FORMAT)


def save_calibration(folder: Path, calibration: Calibration | None) -> None:
    """Write `calibration.json` beside a planner's weights, or remove that of others.

    Without a default risk: the planner's own options, which are saved with it, say what it plans with.
    """
    if calibration is None:
        (folder / FILE).unlink(missing_ok=True)
    else:
        write_calibration(folder / FILE, replace(calibration, default_risk=None))


def at_default_risk(planner: P, given: OptionChanges) -> P:
    """The planner at the default risk of its calibration, unless the options `given` by its caller, or saved with a
    risk of its own, choose the length, or the calibration belongs to other weights."""
    calibration = planner.calibration
    if calibration is None or calibration.default_risk is None or planner.options.risk is not None:
        return planner
    if given.get("gamma") is not None or not belongs(planner, calibration):
        return planner
    other = planner.with_options(risk=calibration.default_risk)
    other.calibration = calibration  # nobody asked for this risk
    return other


def advice(planner: Planner) -> str | None:
    """What to do about a planner that plans without a risk and without a margin; None for others."""
    options = planner.options
    if options.risk is not None or options.gamma != 1 or planner.config.horizon is not None:
        return None
    why = "not calibrated"
    if planner.calibration is not None:
        own = belongs(planner, planner.calibration)
        why = "no risk is chosen (risk=0.01)" if own else "its calibration belongs to other weights"
    name = planner.spec.name
    return (
        f"{name}: {why}, so plans are as long as predicted, without a margin, and may be too short for the controller. "
        f"Run `vhd calibrate {reference_of(name)}` for these weights, or give a gamma such as 1.3."
    )


def asked(calibration: Calibration | None) -> Calibration | None:
    """The calibration of a planner whose risk somebody asked for: a warning says where it cannot be kept."""
    return None if calibration is None else replace(calibration, default_risk=None)


def read_calibration(path: Path) -> Calibration | None:
    """Read a calibration; None if there is no such file."""
    if not path.is_file():
        return None
    mend = "Create it again with `vhd calibrate`."
    try:
        return Calibration.from_json(read_sealed(path, FORMAT, mend))
    except DataError as error:
        raise DataError(str(error) if str(path) in str(error) else f"{path}: damaged: {error}. {mend}") from error


def planner_digests(planner: Planner) -> dict[str, str]:
    """SHA-256 of the loaded weights, by kind."""
    networks: dict[str, Network] = {"planner": planner.network}
    if isinstance(planner.length_predictor, LengthPredictor):
        networks["length"] = planner.length_predictor.network
    return {kind: weights_digest(network) for kind, network in networks.items()}


def belongs(planner: Planner, calibration: Calibration) -> bool:
    """Whether a calibration was made with the planner's weights."""
    return calibration.made.get("models") == planner_digests(planner)


def relabelled(calibration: Calibration, models: Mapping[str, str]) -> Calibration:
    """The same calibration for the same networks in another format, e.g. ONNX models with these digests."""
    return replace(calibration, made={**calibration.made, "models": dict(models)})


def calibrated_options(planner: Planner) -> dict[str, Any]:
    """The options that a calibration depends on: all except those that choose the length."""
    return _relevant(planner.options)


def _options_of(calibration: Calibration) -> dict[str, Any]:
    """The options that a calibration was made with; those missing in an older file have their defaults."""
    return {**_relevant(PlanningOptions()), **calibration.made.get("options", {})}


def _relevant(options: PlanningOptions) -> dict[str, Any]:
    kept = options.to_json().items()
    return {name: value for name, value in kept if name not in ("gamma", "risk") and value is not None}


def applicable(planner: Planner) -> Calibration:
    """The planner's calibration if it belongs to its weights; warns if it was made with other options."""
    name, calibration = planner.spec.name, planner.calibration
    if calibration is None:
        raise VhdError(
            f"{name}: this planner is not calibrated, so a risk cannot be guaranteed. Run `vhd calibrate "
            f"{name}`, or set planner.calibration = vhdiffuser.calibrate(planner)."
        )
    if not belongs(planner, calibration):
        raise DataError(f"{name}: the calibration belongs to other weights. Run `vhd calibrate {name}` again.")
    made, options = _options_of(calibration), calibrated_options(planner)
    if differ := [key for key in PlanningOptions().to_json() if made.get(key) != options.get(key)]:
        details = ", ".join(f"{key} {made.get(key)} there, {options.get(key)} here" for key in differ)
        warn(
            f"{name}: calibrated with other planning options ({details}), so its guarantee may not hold. "
            "Calibrate again with these options.",
            CalibrationWarning,
        )
    return calibration


def pairs_of_places(planner: Planner, starts: FloatArray, goals: FloatArray) -> FloatArray:
    """(B, d) starts, (B, goal_dim or d) goals -> (B, 2 goal_dim): where they lie, normalised."""
    spec, normalizer = planner.spec, planner.normalizer.select(planner.spec.goal_dims)
    ends = goals if goals.shape[-1] == spec.goal_dim else spec.goal_of(goals)
    both = (normalizer.normalize(places) for places in (spec.goal_of(starts), ends))
    return np.concatenate(list(both), axis=-1).astype(np.float64)


def risk_margins(planner: Planner, starts: FloatArray, goals: FloatArray, steps: FloatArray, risk: float) -> FloatArray:
    """(B,) multiples of the predicted length that keep the risk, or the safest; a warning counts the pairs for which
    none does, unless nobody asked for this risk: `horizon` has the probability."""
    calibration = applicable(planner)
    pairs = Pairs.of(calibration, steps, pairs_of_places(planner, starts, goals))
    margins, failure = pairs.margin(risk)
    if (beyond := int((failure > risk * BEYOND).sum())) and calibration.default_risk is None:
        warn(
            f"{planner.spec.name}: risk {risk:g} cannot be met for {beyond} of {len(margins)} pairs; they get "
            f"the best known horizon, at which up to {failure.max():.2g} do not arrive.",
            CalibrationWarning,
        )
    return margins * (pairs.expected + 1) / (steps.astype(np.float64) + 1)


def horizon(planner: Planner, start: npt.ArrayLike, goal: npt.ArrayLike, length: int | None) -> Horizon:
    """`Planner.horizon`."""
    starts, goals = checked_starts(planner.spec, as_numbers("a start", start)[None]), as_numbers("a goal", goal)[None]
    checked_goals(planner.spec, goals, "goal", 1)
    shortest = planner.predict_steps(starts, goals)
    L = int(planner.predict_lengths(starts, goals)[0]) if length is None else as_whole("length", length, least=2)
    reachable = is_reachable(planner, starts, goals)
    if planner.calibration is None:
        return Horizon(L, float(shortest[0]), None, None, reachable)
    calibration = applicable(planner)
    pairs = Pairs.of(calibration, shortest, pairs_of_places(planner, starts, goals))
    low, high = (float(end) for end in pairs.interval([L])[0])
    if reachable is False:
        assert isinstance(planner.length_predictor, LengthPredictor)
        off = float(planner.length_predictor.steps_off_support(starts, goals)[0])
        return Horizon(L, float(shortest[0]), None, (max(low - off, 1.0), high + off), reachable)
    return Horizon(L, float(shortest[0]), float(pairs.probability([L])[0]), (low, high), reachable)


def is_reachable(planner: Planner, starts: FloatArray, goals: FloatArray) -> bool | None:
    """Whether the data covers all starts (B, d) and goals and observed transitions connect them; None if unknown."""
    predictor = planner.length_predictor
    if not isinstance(predictor, LengthPredictor) or predictor.landmarks is None:
        return None
    within = np.abs(pairs_of_places(planner, starts, goals)) <= 1 + EDGE  # the range of the data
    return bool(within.all() and predictor.reachable(starts, goals).all())


def warn_off_data(planner: Planner, start: FloatArray, goal: FloatArray) -> None:
    """Warn if the risk that somebody asked for means nothing for this pair, since start or goal lies off the data."""
    risk, calibration = planner.options.risk, planner.calibration
    if risk is None or calibration is None or calibration.default_risk is not None:
        return
    if is_reachable(planner, start[None], goal[None]) is False:
        warn(
            f"{planner.spec.name}: start or goal lies off the data, perhaps in a wall, or no observed moves connect "
            f"them. The risk of {risk:g} cannot be promised there: nothing was executed. "
            "planner.length_predictor.support(places) says which end it is.",
            CalibrationWarning,
        )


def known_horizon(planner: Planner, start: npt.ArrayLike, goal: npt.ArrayLike, length: int) -> Horizon | None:
    """What is known of executing a plan of that length; None unless the planner is calibrated with its own weights."""
    if planner.calibration is None or not belongs(planner, planner.calibration):
        return None
    return planner.horizon(start, goal, length)


def plan_until(
    planner: Planner, start: FloatArray, goal: FloatArray, deadline: int, arrive: str, seed: int, keep_denoising: bool
) -> Plan:
    """A plan that arrives by the deadline or at it; raises `DeadlineError` if the risk cannot be met."""
    if arrive not in get_args(Arrive):
        raise UnknownNameError("value of `arrive`", arrive, list(get_args(Arrive)))
    T = as_whole("deadline (control steps)", deadline, least=2)
    risk = DEADLINE_RISK if planner.options.risk is None else planner.options.risk
    planner = planner.with_options(risk=risk)
    needed = planner.horizon(start, goal)
    if planner.lengths[0] > T:
        raise DeadlineError(
            f"{planner.spec.name}: {T} control steps are too few: plans have at least {planner.lengths[0]} states, so "
            f"nothing is known of earlier arrivals. {needed.length} steps would be enough.",
            needed.length,
            None,
        )
    if needed.length > T:
        chance = planner.horizon(start, goal, T).probability
        raise DeadlineError(_too_few(planner.spec.name, T, risk, needed, chance), needed.length, chance)
    warn_off_data(planner, start, goal)
    if arrive == "by":
        return planner.plan(start, goal, needed.length, seed=seed, keep_denoising=keep_denoising)
    if _inside(planner, start[None], goal)[0]:
        raise RequestError(
            f"{planner.spec.name}: the start lies in the goal region, so the robot has arrived before step {T}. Choose "
            'another goal, or arrive="by".'
        )
    return _slowed(planner, start, goal, needed.length, T, seed, keep_denoising)


def _too_few(name: str, T: int, risk: float, needed: Horizon, chance: float | None) -> str:
    """Why a deadline is refused, and what to do."""
    if chance is None or needed.probability is None:
        return (
            f"{name}: {T} control steps are too few: about {needed.length} would be needed. Start or goal lies off the "
            "data, so the probability of arriving is not known. Allow more time, or move it to where there is data."
        )
    kept = 1 - needed.probability <= BEYOND * risk
    promise = f"risk {risk:g}" if kept else f"probability {needed.probability:.3f}, the best known"
    advice = f"{chance:.2f}: accept a risk above {1 - chance:.2f}, or allow" if chance >= 0.01 else "below 0.01: allow"
    return (
        f"{name}: {T} control steps are too few: {needed.length} would be enough with {promise}. The probability of "
        f"arriving by step {T} is {advice} more time."
    )


def _slowed(
    planner: Planner, start: FloatArray, goal: FloatArray, length: int, T: int, seed: int, keep_denoising: bool
) -> Plan:
    """The path of a plan of `length` states, slowed down to enter the goal region at control step T.

    A controller aims one state ahead, so the robot is there one step before its plan, unless the plan is so fast that
    the robot lags by as much.
    """
    ahead = int(length * LEISURELY <= T)
    total = T + ahead
    for _ in range(ROUNDS):  # from the second round on, with the states that the plan spends in the goal region
        slow = planner.with_options(stretch=max(planner.options.stretch * total / length, 1.0), wait=0)
        slow.lengths = (planner.lengths[0], max(planner.lengths[1], total))
        plan = slow.plan(start, goal, total, seed=seed, keep_denoising=keep_denoising)
        total = T + ahead + plan.length - _entry(planner, plan)
    return plan


def _entry(planner: Planner, plan: Plan) -> int:
    """Index of a plan's first state in the goal region."""
    return int(_inside(planner, plan.states, plan.goal).argmax())


def _inside(planner: Planner, states: FloatArray, goal: FloatArray) -> BoolArray:
    """(n, d) states -> (n,) whether each lies in the region of one goal, (goal_dim,) or (d,)."""
    place = goal if len(goal) == planner.spec.goal_dim else planner.spec.goal_of(goal)
    goals = np.broadcast_to(place, (len(states), len(place)))
    return goal_distance(planner.spec, planner.normalizer.scale, states, goals) <= planner.spec.epsilon
