"""Evaluation of a Length Predictor: against geodesics in mazes, straight lines for the arm, recorded steps otherwise.

The truth is distance divided by a *stated* speed, so its scale is a convention (default: the speed observed in the
data); rank correlation does not depend on it. Without a simulator, the truth is the number of steps between states of
held-out episodes, an upper bound on the shortest path. Training uses none of this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from vhdiffuser.benchmark.geodesic import Geodesic
from vhdiffuser.data.motion import observed_speeds
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.errors import VhdError
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.streams import stream
from vhdiffuser.types import EnvSpec, Episodes, FloatArray

FAR_STEPS = 300
"""Pairs of at least this many true steps also get their own rank correlation."""
PAIRS = 2000
PAIRS_SEED = 20_000
"""Seed of the pairs behind reported figures. Use another one for tuning."""
_CALIBRATION_BINS = 12
_TRIES = 20
"""Maximum draws per requested pair, if a draw may fail."""


@dataclass(frozen=True)
class LengthEvaluation:
    """Predictions, truth, and summary figures."""

    truth: FloatArray
    """(n,) true steps, at most T_max."""
    predicted: FloatArray
    """(n,) predicted steps."""
    spread: FloatArray | None
    """(n,) predicted spread in steps, if the model predicts one."""
    figures: dict[str, float | None]
    """Figures by name; None if one cannot be computed (e.g. no far pairs in a small maze)."""


def observed_speed(episodes: Episodes, spec: EnvSpec) -> float:
    """Mean speed of the goal dimensions in the data, in units per control step."""
    return float(np.nanmean(observed_speeds(episodes, spec), dtype=np.float64))


def draw_pairs(env: PlanningEnv, n: int = PAIRS, seed: int = PAIRS_SEED) -> tuple[FloatArray, FloatArray]:
    """n random starts at rest (n, d) and goals (n, goal_dim), from the environment's reset."""
    instances = draw_instances(env, n, seed)
    starts, goals = (np.stack([getattr(instance, name) for instance in instances]) for name in ("start", "goal"))
    return at_rest(env.spec, starts), goals


def recorded_pairs(
    episodes: Episodes, spec: EnvSpec, n: int = PAIRS, seed: int = PAIRS_SEED
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """n states (n, d) of episodes, later positions in the same episodes (n, goal_dim), and the steps between them
    (n,)."""
    rng = np.random.default_rng(stream("recorded pairs", seed))
    lengths = np.diff(episodes.ends, prepend=0)
    states = spec.planning_state(episodes.observations)
    chosen = rng.choice(len(episodes), size=n, p=(lengths - 1) / (lengths - 1).sum())
    steps = rng.integers(1, np.minimum(lengths[chosen] - 1, spec.T_max - 1) + 1)
    begins = episodes.starts[chosen] + rng.integers(0, lengths[chosen] - steps)
    return states[begins], spec.goal_of(states[begins + steps]), steps.astype(np.float64)


def arrival_pairs(
    episodes: Episodes, spec: EnvSpec, normalizer: Normalizer, within: int, n: int = PAIRS, seed: int = PAIRS_SEED
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """States (n, d), positions (n, goal_dim) that their episodes pass within `within` steps, and the steps (n,) until
    they first come within epsilon of them: the behaviour's own time, including detours."""
    rng = np.random.default_rng(stream("arrival pairs", seed))
    states = spec.planning_state(episodes.observations)
    places = spec.goal_of(normalizer.normalize(states))
    last = np.repeat(episodes.ends - 1, np.diff(episodes.ends, prepend=0))
    begins: list[int] = []
    goals: list[int] = []
    steps: list[int] = []
    drawn = rng.integers(len(states), size=_TRIES * n), rng.integers(1, within + 1, size=_TRIES * n)
    for t, ahead in zip(*drawn, strict=True):
        u = min(t + ahead, last[t])
        arrived = int((np.abs(places[t : u + 1] - places[u]).max(axis=1) <= spec.epsilon).argmax())
        if arrived and len(begins) < n:  # a start within epsilon of its goal has already arrived
            begins.append(t)
            goals.append(u)
            steps.append(arrived)
    if len(begins) < n:
        raise VhdError(f"{spec.name}: found only {len(begins)} of {n} pairs. Request fewer pairs, or allow more steps.")
    return states[begins], spec.goal_of(states[goals]), np.array(steps, np.float64)


def at_rest(spec: EnvSpec, states: FloatArray) -> FloatArray:
    """(..., d) states with zero velocities."""
    still = states.copy()
    if spec.velocity_dims is not None:
        still[..., list(spec.velocity_dims)] = 0.0
    return still


def true_steps(
    spec: EnvSpec, geodesic: Geodesic | None, starts: FloatArray, goals: FloatArray, speed: float
) -> FloatArray:
    """(n,) shortest distance divided by the stated speed, truncated at T_max."""
    if not speed > 0:
        raise VhdError(f"the stated speed must be > 0 units per step; got {speed}.")
    places = spec.goal_of(starts)
    distance = np.linalg.norm(places - goals, axis=1) if geodesic is None else geodesic.distance(places, goals)
    return np.minimum(distance / speed, spec.T_max)


def evaluate_length(
    predictor: LengthPredictor,
    starts: FloatArray,
    goals: FloatArray,
    truth: FloatArray,
    seed: int = 0,
) -> LengthEvaluation:
    """Compare a predictor with (n,) true steps on pairs (n, d), (n, goal_dim). `seed` draws the relays."""
    spec = predictor.spec
    spread = None
    if len(predictor.config.quantiles) > 1:
        predicted, spread = predictor.predict_spread(starts, goals)
    else:
        predicted = predictor.predict_steps(starts, goals)
    far = truth >= FAR_STEPS
    rng = np.random.default_rng(seed)
    relays = starts[rng.permutation(len(starts))]
    by_relay = predictor.predict_steps(starts, spec.goal_of(relays)) + predictor.predict_steps(relays, goals)
    arrived = at_rest(spec, np.zeros_like(starts))
    arrived[..., list(spec.goal_dims)] = goals
    error = predicted - truth
    return LengthEvaluation(
        truth=truth,
        predicted=predicted,
        spread=spread,
        figures={
            "pairs": len(truth),
            "spearman": _rank_correlation(predicted, truth),
            "far_pairs": int(far.sum()),
            "spearman_far": _rank_correlation(predicted[far], truth[far]),
            "mean_abs_error_steps": float(np.abs(error).mean()),
            "mean_error_steps": float(error.mean()),
            "under_predicted": float((error < 0).mean()),
            # One step of slack, since rounding is not a violation.
            "triangle_violations": float((predicted > by_relay + 1).mean()),
            "mean_f_gg_steps": float(predictor.predict_steps(arrived, goals).mean()),
            "mean_spread_steps": None if spread is None else float(spread.mean()),
        },
    )


def _rank_correlation(predicted: FloatArray, truth: FloatArray) -> float | None:
    if len(truth) < 3 or np.ptp(predicted) == 0 or np.ptp(truth) == 0:
        return None
    return float(spearmanr(predicted, truth).statistic)


def calibration(truth: FloatArray, predicted: FloatArray) -> FloatArray:
    """(bins, 4): mean truth, and mean, 10 % and 90 % quantile of the prediction, in bins of equal count."""
    order = np.argsort(truth, kind="stable")
    bins = [part for part in np.array_split(order, _CALIBRATION_BINS) if len(part)]
    rows = [(truth[part].mean(), predicted[part].mean(), *np.quantile(predicted[part], (0.1, 0.9))) for part in bins]
    return np.array(rows)


def distance_field(predictor: LengthPredictor, geodesic: Geodesic, goal: FloatArray) -> FloatArray:
    """(n, m) predicted steps to a goal (2,) from rest at each point of the geodesic's grid; NaN in walls."""
    spec = predictor.spec
    x, y = np.meshgrid(geodesic.x, geodesic.y, indexing="ij")
    starts = np.zeros((int(geodesic.free.sum()), spec.state_dim), np.float32)
    starts[:, list(spec.goal_dims)] = np.stack([x[geodesic.free], y[geodesic.free]], axis=1)
    steps = np.full(geodesic.free.shape, np.nan)
    steps[geodesic.free] = predictor.predict_steps(starts, goal)
    return steps
