"""`vhd eval-dynamics`: evaluate an inverse dynamics model on held-out data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.options import Omittable
from vhdiffuser.console import err, out, print_json, progress_bar
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.weights.places import Source

Name = Annotated[str, tyro.conf.arg(metavar="ENV")]


@dataclass(frozen=True)
class EvalDynamics:
    """Evaluate an inverse dynamics model: action error on held-out data, and tracking of held-out paths.

    Windows of recorded episodes are tracked from the plan's start, from a point beside it, and from behind
    it. Examples:

        vhd eval-dynamics cube
        vhd eval-dynamics antmaze-medium --n 50 --json
    """

    env: Positional[Name]
    """Environment whose controller is an inverse dynamics model, or an imported dataset with actions."""
    n: int = 200
    """Windows tracked per condition."""
    steps: Omittable[int] = None
    """Control steps per window (default: the environment's; 100, or 30 for the cube's arm)."""
    samples: int = 4096
    """Held-out transitions for the action error."""
    seed: int = 0
    """Seed of windows, transitions and directions."""
    weights: Source = "auto"
    """Models to use: trained (by you), shipped, auto (trained if available), or a folder of weights."""
    workers: int = 0
    """Simulator processes; 0 means one per core."""
    json: bool = False
    """Print one JSON object."""
    quiet: bool = False
    """No progress bar, no messages."""

    def run(self) -> None:
        """Evaluate, print."""
        from vhdiffuser.benchmark.dynamics_eval import evaluate_dynamics

        with progress_bar(f"tracking paths of {self.env}", "runs", self.quiet) as progress:
            answer = evaluate_dynamics(
                get_environment(self.env),
                self.weights,
                n=self.n,
                steps=self.steps,
                samples=self.samples,
                seed=self.seed,
                workers=self.workers,
                on_done=progress,
            )
        if not answer["held_out_data"] and not self.quiet:
            err.print("the model was trained on a different dataset, so it may have seen some of the held-out data")
        if "tracking" not in answer and not self.quiet:
            err.print("tracking is skipped: the simulator cannot be set to a recorded state")
        if self.json:
            print_json(answer)
        else:
            _print(answer)


def _print(answer: dict[str, Any]) -> None:
    actions = answer["actions"]
    out.print(f"{answer['environment']}: {answer['model']} ({answer['updates']:,} updates)")
    out.print(f"held-out actions, {actions['samples']:,} transitions (full range -1 to 1):")
    rows = [("all", actions), *((f"action {dim}", row) for dim, row in enumerate(actions["dimensions"]))]
    for name, row in rows:
        out.print(f"  {name:10} MAE {row['mae']:.4f}   RMS {row['rmse']:.4f}   explained {row['r2']:7.1%}")
    if "tracking" not in answer:
        return
    tracking = answer["tracking"]
    out.print(f"held-out paths of {answer['steps']} steps, {tracking[0]['paths']} per condition:")
    out.print(
        f"  {'start':14}{'mean dist.':>11}{'95 %':>9}{'at the end':>12}{'within eps':>12}{'reached':>9}{'falls':>8}"
    )
    for row in tracking:
        out.print(
            f"  {row['condition']:14}{row['mean_distance']:11.4f}{row['p95_distance']:9.4f}"
            f"{row['mean_final_distance']:12.4f}{row['within_epsilon']:12.1%}{row['reached']:9.1%}{row['falls']:8.1%}"
        )
