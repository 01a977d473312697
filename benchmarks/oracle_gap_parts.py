"""Where the oracle gap comes from, by the executions that `oracle_gap.py` keeps.

    python benchmarks/oracle_gap_parts.py maze2d-medium

- *optimism*: the oracle is chosen and measured on the same plans. Chosen on half of the plans and measured on the other
  half (lengths with all plans only), it costs more, and the gap is smaller.
- *between pairs*: what a pair needs, against the calibration's expected length, in its log.
- *within a pair*: the spread over plans. Both by a probit regression of each pair's arrivals on log length. Its middle
  is the length that half of the plans need; its scale has a prior (lognormal, median 0.04).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from oracle_gap import RISKS, Outcomes, Setting
from scipy.optimize import minimize
from scipy.special import log_ndtr

from vhdiffuser.length.pairs import Pairs
from vhdiffuser.planner.calibrated import applicable, pairs_of_places
from vhdiffuser.types import FloatArray

NEAREST = 20
"""Pairs of fewer predicted steps are left out of the regressions: the least length of a plan may be all they need."""


def split_gap(outcomes: Outcomes, grid: Sequence[Sequence[int]], own: Sequence[int], risk: float, plans: int) -> float:
    """The gap to oracles chosen on one half of the plans, measured on the other; the mean of both ways round."""
    halves = [Outcomes({key: taken[half::2] for key, taken in outcomes.steps.items()}) for half in (0, 1)]
    gaps = []
    for chosen, measured in (halves, halves[::-1]):
        theirs, ours = np.zeros(3), np.zeros(3)
        for pair, lengths in enumerate(grid):
            whole = [length for length in lengths if outcomes.count(pair, length) >= plans]
            best = chosen.oracle(pair, whole, risk, plans // 2)
            if best is not None:
                theirs += measured.cost(pair, best)
                ours += measured.cost(pair, own[pair])
        gaps.append(ours[0] / ours[1] / (theirs[0] / theirs[1]) - 1)
    return float(np.mean(gaps))


def middle_and_scale(lengths: FloatArray, arrived: FloatArray, failed: FloatArray) -> tuple[float, float]:
    """Probit regression of arrivals on log length: its middle and scale, in logs."""
    x = np.log(lengths)

    def cost(guess: FloatArray) -> float:
        z = (x - guess[0]) / np.exp(guess[1])
        prior = (guess[1] - np.log(0.04)) ** 2 / (2 * 0.6**2)
        return float(-(arrived * log_ndtr(z) + failed * log_ndtr(-z)).sum() + prior)

    middle, scale = minimize(cost, np.array([np.median(x), np.log(0.04)]), method="Nelder-Mead").x
    return float(middle), float(np.exp(scale))


def main() -> None:
    """Print the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--plans", type=int, default=32)
    parser.add_argument("--seed", type=int, default=209)
    parser.add_argument("--weights", default="shipped")
    parser.add_argument("--out", type=Path, default=Path("results/analysis/oracle-gap"))
    options = parser.parse_args()
    setting = Setting.of(options.env, options.weights, options.pairs, options.seed)
    outcomes = Outcomes.load(options.out / f"{options.env}.npz", setting.meta)
    planner, grid = setting.planner, setting.grid
    steps = planner.predict_steps(setting.starts, setting.goals)
    places = pairs_of_places(planner, setting.starts, setting.goals)
    expected = Pairs.of(applicable(planner), steps, places).expected + 1
    off, scales = [], []
    for pair, lengths in enumerate(grid):
        counts = np.array([(length, *outcomes.cost(pair, length)[1:]) for length in lengths], float)
        counts = counts[counts[:, 2] > 0]
        if steps[pair] >= NEAREST and 0 < counts[:, 1].sum() < counts[:, 2].sum():
            middle, scale = middle_and_scale(counts[:, 0], counts[:, 1], counts[:, 2] - counts[:, 1])
            off.append(middle - np.log(expected[pair]))
            scales.append(scale)
    answer = {
        "environment": options.env,
        "seed": options.seed,
        "pairs": len(off),
        "between_pairs": float(np.std(off)),
        "within_a_pair": float(np.sqrt(np.mean(np.square(scales)))),
        "gap_to_split_oracle": {
            f"risk {risk:g}": split_gap(outcomes, grid, setting.own[f"risk {risk:g}"], risk, options.plans)
            for risk in RISKS
        },
    }
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
