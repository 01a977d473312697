"""`vhd eval-plans`: compare plans with held-out episodes; needs no simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.options import Omittable
from vhdiffuser.console import err, out, print_json
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.weights.places import Source

WORDS = {
    "pairs": "pairs of states, one plan per pair",
    "on_data": "plans that stay within epsilon of the training data",
    "distance_mean": "largest distance of a plan from the data, mean (normalised)",
    "distance_p95": "the same, 95 % quantile",
    "recorded_distance_p95": "reference: distance of held-out states, 95 % quantile",
    "too_fast_steps": "steps faster than any in the data",
    "length_ratio_p10": "planned / recorded steps, 10 % quantile",
    "length_ratio_median": "the same, median",
    "length_ratio_p90": "the same, 90 % quantile",
}


@dataclass(frozen=True)
class EvalPlans:
    """Plan between states of held-out episodes and compare the plans with the data; needs no simulator.

    Without a simulator, training holds out the last episodes (5 %), which are used here. With a simulator, training has
    seen all episodes: use `vhd bench` instead. Examples:

        vhd eval-plans my-robot
        vhd eval-plans my-robot --n 500 --json
    """

    env: Positional[Annotated[str, tyro.conf.arg(metavar="ENV")]]
    """Environment, or the name of an imported dataset."""
    n: int = 200
    """Number of plans, each between two states of a held-out episode."""
    seed: Omittable[int] = None
    """Seed of pairs and plans (default: the one reserved for reporting)."""
    weights: Source = "auto"
    """Models to use: trained (by you), shipped, auto (trained if available), or a folder of weights."""
    json: bool = False
    """Print one JSON object."""
    quiet: bool = False
    """No messages."""

    def run(self) -> None:
        """Plan, compare, print."""
        from vhdiffuser.benchmark.length_eval import PAIRS_SEED
        from vhdiffuser.benchmark.plan_eval import evaluate_held_out

        seed = PAIRS_SEED if self.seed is None else self.seed
        answer = evaluate_held_out(get_environment(self.env), self.weights, self.n, seed)
        if not answer["held_out"] and not self.quiet:
            err.print("training has seen these episodes, so the figures below are optimistic")
        if self.json:
            print_json(answer)
            return
        for key, words in WORDS.items():
            value = answer[key]
            text = f"{value:.1%}" if key in ("on_data", "too_fast_steps") else f"{value:.4g}"
            out.print(f"{words:62}{text:>9}", markup=False, highlight=False)
