"""`vhd eval-dynamics`: evaluate an inverse dynamics model on held-out data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro
from tyro.conf import Positional

from vhdiffuser.console import err, out, print_json, progress_bar
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.weights.places import Source, find_model

if TYPE_CHECKING:
    from vhdiffuser.control.inverse_dynamics import InverseDynamicsController
    from vhdiffuser.envs.environment import Environment
    from vhdiffuser.types import Episodes

Name = Annotated[str, tyro.conf.arg(metavar="ENV")]


@dataclass(frozen=True)
class EvalDynamics:
    """Evaluate an inverse dynamics model: action error on held-out data, and tracking of held-out paths.

    Windows of recorded episodes are tracked from their start, from a point off the plan, and from behind it. Examples:

        vhd eval-dynamics cube
        vhd eval-dynamics antmaze-medium --n 50 --json
    """

    env: Positional[Name]
    """Environment whose controller is an inverse dynamics model, or an imported dataset with actions."""
    n: int = 200
    """Windows tracked under each condition."""
    steps: int | None = None
    """Control steps per window (default: the environment's; 100, or 30 for the cube's arm)."""
    samples: int = 4096
    """Held-out transitions for the action error."""
    seed: int = 0
    """Seed of windows, transitions and directions."""
    weights: Source = "auto"
    """Models to use: trained (by you), shipped, auto (trained if available), or a folder of weights."""
    workers: int = 0
    """Simulator processes; 0: one per core."""
    json: bool = False
    """Print one JSON object."""
    quiet: bool = False
    """No progress bar and no messages."""

    def run(self) -> None:
        """Evaluate, print."""
        from vhdiffuser.benchmark import dynamics_eval
        from vhdiffuser.control.inverse_dynamics import InverseDynamicsController
        from vhdiffuser.envs.datasets import load_dataset
        from vhdiffuser.weights.format import load_model

        environment = get_environment(self.env)
        spec = environment.spec
        if not environment.learns_control:
            raise VhdError(f"{spec.name}: its controller is '{environment.controller}', which is not trained.")
        path = find_model(spec.name, "dynamics", self.weights)
        by_path = environment.controller == "path_following"
        controller, header = InverseDynamicsController.load(path, by_path=by_path), load_model(path, "dynamics")[1]
        dataset = load_dataset(spec.name)
        same = dataset.fingerprint() == header.data_fingerprint
        if not same and not self.quiet:
            err.print("the model was trained on a different dataset, so it may have seen some of the held-out data")
        actions = dynamics_eval.action_errors(
            controller, dataset.episodes, np.random.default_rng(self.seed), self.samples
        )
        answer: dict[str, Any] = {
            "environment": spec.name,
            "model": str(path),
            "updates": header.updates,
            "held_out_data": same,
            "actions": actions,
        }
        if environment.simulator is not None and environment.restore is not None:
            answer |= self._tracking(environment, controller, dataset.episodes)
        elif not self.quiet:
            err.print("tracking is skipped: no simulator can be set to a recorded state")
        if self.json:
            print_json(answer)
        else:
            _print(answer)

    def _tracking(
        self, environment: Environment, controller: InverseDynamicsController, episodes: Episodes
    ) -> dict[str, Any]:
        """Track held-out paths in the simulator."""
        from vhdiffuser.benchmark import dynamics_eval
        from vhdiffuser.execution.recorded import RecordedStart
        from vhdiffuser.execution.simulators import Simulators

        steps = environment.window_steps if self.steps is None else self.steps
        slots = min(environment.simulators, self.n)
        total = self.n * len(dynamics_eval.CONDITIONS)
        recorded = partial(RecordedStart, environment)
        with (
            Simulators(recorded, slots, self.workers, recorded()) as simulators,
            progress_bar(f"following paths of {environment.name}", "runs", self.quiet) as progress,
        ):
            tracked = dynamics_eval.evaluate_tracking(
                controller,
                environment,
                simulators,
                episodes,
                np.random.default_rng(self.seed),
                self.n,
                steps,
                on_done=lambda done: progress(done, total),
            )
        return {"steps": steps, "tracking": [condition.to_json() for condition in tracked]}


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
    out.print(f"held-out paths of {answer['steps']} steps, {tracking[0]['paths']} under each condition:")
    out.print(
        f"  {'start':14}{'mean dist.':>11}{'95 %':>9}{'at the end':>12}{'within eps':>12}{'reached':>9}{'falls':>8}"
    )
    for row in tracking:
        out.print(
            f"  {row['condition']:14}{row['mean_distance']:11.4f}{row['p95_distance']:9.4f}"
            f"{row['mean_final_distance']:12.4f}{row['within_epsilon']:12.1%}{row['reached']:9.1%}{row['falls']:8.1%}"
        )
