"""A planner's calibration: its file beside the weights, whether it applies, and horizons and deadlines by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers, as_whole
from vhdiffuser.envs.success import goal_distance
from vhdiffuser.errors import CalibrationWarning, DataError, UnknownNameError, VhdError, warn
from vhdiffuser.length.calibration import Calibration
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.planner.requests import RequestError
from vhdiffuser.runtime.network import Network, weights_digest
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import FloatArray
from vhdiffuser.weights.sealed import read_sealed, write_sealed

if TYPE_CHECKING:
    from vhdiffuser.planner.planner import Planner

FILE, FORMAT = "calibration.json", 1
DEADLINE_RISK = 0.05
"""Accepted risk of a deadline where the planner's options name none."""
ROUNDS = 3
"""Plans made to arrive at a step: each corrects the length of the one before it."""
Arrive = Literal["by", "at"]
"""Before a deadline, or at it."""


class DeadlineError(RequestError):
    """The goal cannot be reached in time with the accepted risk."""

    def __init__(self, message: str, steps: int, probability: float) -> None:
        super().__init__(message)
        self.steps = steps
        """Control steps that would do."""
        self.probability = probability
        """Probability of arriving by the deadline all the same."""


@dataclass(frozen=True)
class Horizon:
    """How long a plan is, and what comes of executing it."""

    length: int
    """States of the plan, and the control steps in which it is executed at most."""
    shortest: float
    """Predicted steps of the shortest way."""
    probability: float | None
    """Probability of arriving within `length` control steps; None without a calibration."""
    interval: tuple[float, float] | None
    """Control steps after which it arrives, if it does: 10 and 90 % quantile; None without a calibration."""
    reachable: bool | None
    """Whether both ends lie where the data is and observed moves connect them; None if the predictor cannot tell."""


def write_calibration(path: Path, calibration: Calibration) -> Path:
    """Write a calibration's file, whole or not at all."""
    return write_sealed(path, calibration.to_json(), FORMAT)


def save_calibration(folder: Path, calibration: Calibration | None) -> None:
    """Write `calibration.json` beside a planner's weights, or remove that of others."""
    if calibration is None:
        (folder / FILE).unlink(missing_ok=True)
    else:
        write_calibration(folder / FILE, calibration)


def read_calibration(path: Path) -> Calibration | None:
    """The calibration in a file; None if there is no such file."""
    if not path.is_file():
        return None
    mend = "Make it again with `vhd calibrate`."
    try:
        return Calibration.from_json(read_sealed(path, FORMAT, mend))
    except DataError as error:
        raise DataError(str(error) if str(path) in str(error) else f"{path}: damaged: {error}. {mend}") from error


def planner_digests(planner: Planner) -> dict[str, str]:
    """SHA-256 of the weights in memory, by kind."""
    networks: dict[str, Network] = {"planner": planner.network}
    if isinstance(planner.length_predictor, LengthPredictor):
        networks["length"] = planner.length_predictor.network
    return {kind: weights_digest(network) for kind, network in networks.items()}


def belongs(planner: Planner, calibration: Calibration) -> bool:
    """Whether a calibration was made with the planner's weights."""
    return calibration.made.get("models") == planner_digests(planner)


def relabelled(calibration: Calibration, models: Mapping[str, str]) -> Calibration:
    """The same calibration for the same networks in another form, such as ONNX models of these digests."""
    return replace(calibration, made={**calibration.made, "models": dict(models)})


def calibrated_options(planner: Planner) -> dict[str, Any]:
    """The options on which a calibration depends: all but those that choose the length."""
    return {name: value for name, value in planner.options.to_json().items() if name not in ("gamma", "risk")}


def applicable(planner: Planner) -> Calibration:
    """The planner's calibration, if it was made with its weights; a warning says if with other options."""
    name, calibration = planner.spec.name, planner.calibration
    if calibration is None:
        raise VhdError(
            f"{name}: this planner is not calibrated, so it promises no risk. Run `vhd calibrate {name}`, or set "
            "planner.calibration = vhdiffuser.calibrate(planner)."
        )
    if not belongs(planner, calibration):
        raise DataError(
            f"{name}: the calibration was made with other weights than the planner's. Run `vhd calibrate {name}` again."
        )
    made, options = calibration.made.get("options", {}), calibrated_options(planner)
    if differ := [key for key, value in options.items() if key in made and made[key] != value]:
        details = ", ".join(f"{key} {made[key]} there, {options[key]} here" for key in differ)
        warn(
            f"{name}: calibrated with other planning options ({details}): its promise may not hold. Calibrate again "
            "with these.",
            CalibrationWarning,
        )
    return calibration


def risk_margins(planner: Planner, steps: npt.ArrayLike, risk: float) -> FloatArray:
    """(B,) multiples of the predicted length that keep the risk; a warning counts the pairs for which none does."""
    margins, failure = applicable(planner).margin(steps, risk)
    if beyond := int((failure > risk * (1 + 1e-9)).sum()):
        warn(
            f"{planner.spec.name}: risk {risk:g} cannot be kept for {beyond} of {len(margins)} pairs; they get the "
            f"best horizon known, at which up to {failure.max():.2g} do not arrive.",
            CalibrationWarning,
        )
    return margins


def horizon(planner: Planner, start: npt.ArrayLike, goal: npt.ArrayLike, length: int | None) -> Horizon:
    """`Planner.horizon`."""
    starts, goals = as_numbers("a start", start)[None], as_numbers("a goal", goal)[None]
    shortest = planner.predict_steps(starts, goals)
    L = int(planner.predict_lengths(starts, goals)[0]) if length is None else as_whole("length", length, least=2)
    predictor, reachable = planner.length_predictor, None
    if isinstance(predictor, LengthPredictor) and predictor.landmarks is not None:
        reachable = bool(predictor.reachable(starts, goals)[0])
    if planner.calibration is None:
        return Horizon(L, float(shortest[0]), None, None, reachable)
    calibration = applicable(planner)
    low, high = calibration.interval(shortest, [L])[0]
    probability = float(calibration.probability(shortest, [L])[0])
    return Horizon(L, float(shortest[0]), probability, (float(low), float(high)), reachable)


def plan_until(
    planner: Planner, start: FloatArray, goal: FloatArray, deadline: int, arrive: str, seed: int, keep_denoising: bool
) -> Plan:
    """A plan that arrives by the deadline, or at it; `DeadlineError` if the risk cannot be kept."""
    if arrive not in get_args(Arrive):
        raise UnknownNameError("value of `arrive`", arrive, list(get_args(Arrive)))
    T = as_whole("deadline (control steps)", deadline, least=2)
    risk = DEADLINE_RISK if planner.options.risk is None else planner.options.risk
    planner = planner.with_options(risk=risk)
    needed = planner.horizon(start, goal)
    if needed.length > T:
        chance = planner.horizon(start, goal, T).probability or 0.0
        raise DeadlineError(
            f"{planner.spec.name}: {T} control steps are too few: {needed.length} would do with risk {risk:g}. By "
            f"step {T} it arrives with probability {chance:.2f}: accept that with a risk above {1 - chance:.2f}, or "
            "give more time.",
            needed.length,
            chance,
        )
    if arrive == "by":
        return planner.plan(start, goal, needed.length, seed=seed, keep_denoising=keep_denoising)
    return _slowed(planner, start, goal, needed.length, T, seed, keep_denoising)


def _slowed(
    planner: Planner, start: FloatArray, goal: FloatArray, length: int, T: int, seed: int, keep_denoising: bool
) -> Plan:
    """The way of a plan of `length` states, run so slowly that it enters the goal region at control step T.

    A controller aims one state ahead, so the robot is there one step before its plan.
    """
    total = T + 1
    for _ in range(ROUNDS):  # from the second on with the states that the plan spends in the goal region
        slow = planner.with_options(stretch=max(planner.options.stretch * total / length, 1.0))
        slow.lengths = (planner.lengths[0], max(planner.lengths[1], total))
        plan = slow.plan(start, goal, total, seed=seed, keep_denoising=keep_denoising)
        total = T + 1 + plan.length - _entry(planner, plan)
    return plan


def _entry(planner: Planner, plan: Plan) -> int:
    """Index of a plan's first state in the goal region."""
    goals = np.broadcast_to(plan.goal, (plan.length, len(plan.goal)))
    inside = goal_distance(planner.spec, planner.normalizer.scale, plan.states, goals) <= planner.spec.epsilon
    return int(inside.argmax())
