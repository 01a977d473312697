"""`vhd plan`: one plan, as a picture, JSON, CSV or GIF."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro
from tyro.conf import Positional

from vhdiffuser.cli.console import out, print_json
from vhdiffuser.envs.registry import SPECS
from vhdiffuser.errors import VhdError
from vhdiffuser.files import atomic_path
from vhdiffuser.models import Source
from vhdiffuser.types import EnvSpec, Instance, Plan


@dataclass(frozen=True)
class PlanCommand:
    """Plan from a start to a goal; the Length Predictor chooses how long unless --length does.

    The suffix of --out chooses what is written: .png a picture, .json or .csv the states,
    .gif the denoising. Examples:

        vhd plan maze2d-large --start 1 1 --goal 7 9 --out plan.png
        vhd plan maze2d-umaze --start 1 1 0 0 --goal 3 1 --length 192 --out plan.json
    """

    env: Positional[Annotated[str, tyro.conf.arg(metavar="ENV")]]
    """Environment: see `vhd envs`."""
    start: tuple[float, ...]
    """Planning state to start from; velocities may be left out and are then 0."""
    goal: tuple[float, ...]
    """Goal dimensions, or a whole planning state."""
    length: int | None = None
    """States of the plan (default: predicted)."""
    gamma: float | None = None
    """Margin on the predicted length (default: the planner's own)."""
    sampler: Literal["ddpm", "ddim", "dpm++"] | None = None
    """Reverse process (default: the planner's own)."""
    steps: int | None = None
    """Reverse steps (default: the planner's own)."""
    seed: int = 0
    """Seed of the noise."""
    weights: Source = "auto"
    """Models to use: what you trained, what ships, or auto (trained if there)."""
    out: Path | None = None
    """File to write: .png, .json, .csv or .gif."""
    json: bool = False
    """Print the plan as one JSON object."""

    def run(self) -> None:
        """Plan; write and print what was asked for."""
        from vhdiffuser.planner.load import load_planner

        planner = load_planner(self.env, source=self.weights)
        spec = planner.spec
        start = np.zeros(spec.state_dim, np.float32)
        if len(self.start) not in (spec.goal_dim, spec.state_dim):
            raise VhdError(
                f"--start needs {spec.state_dim} numbers ({' '.join(spec.state_names)}), or {spec.goal_dim}."
            )
        start[: len(self.start)] = self.start
        goal = np.asarray(self.goal, np.float32)
        if spec.name in SPECS:
            from vhdiffuser.envs.make import make_env

            make_env(spec.name).check(Instance(start, spec.goal_of(goal) if len(goal) == spec.state_dim else goal, 0))
        keep = self.out is not None and self.out.suffix == ".gif"
        plan = planner.plan(start, goal, self.length, self.steps, self.sampler, self.seed, self.gamma, keep)
        if self.out is not None:
            self._write(plan, spec)
        if self.json:
            print_json(plan_json(plan, spec.name, spec.state_names))
        else:
            written = "" if self.out is None else f", wrote {self.out}"
            out.print(f"{spec.name}: a plan of {plan.length} states ({plan.length - 1} control steps){written}")

    def _write(self, plan: Plan, spec: EnvSpec) -> None:
        assert self.out is not None
        suffix = self.out.suffix
        if suffix == ".json":
            with atomic_path(self.out) as path:
                path.write_text(json.dumps(plan_json(plan, spec.name, spec.state_names)))
        elif suffix == ".csv":
            with atomic_path(self.out) as path, open(path, "w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["step", *spec.state_names])
                writer.writerows([step, *map(float, state)] for step, state in enumerate(plan.states))
        elif suffix == ".png":
            from vhdiffuser.report.plan_figures import draw_plans

            draw_plans(spec, [plan], self.out)
        elif suffix == ".gif":
            from vhdiffuser.report.plan_figures import denoising_frames
            from vhdiffuser.report.video import write_gif

            write_gif(denoising_frames(spec, plan), self.out, fps=8)
        else:
            raise VhdError(f"--out {self.out}: the suffix must be .png, .json, .csv or .gif.")


def plan_json(plan: Plan, environment: str, names: tuple[str, ...]) -> dict[str, object]:
    """A plan as JSON: names, units are the environment's."""
    return {
        "environment": environment,
        "length": plan.length,
        "state_names": list(names),
        "goal": [float(value) for value in plan.goal],
        "states": [[float(value) for value in state] for state in plan.states],
    }
