"""The original Diffuser: its network at its fixed horizon, with its own sampler (DDPM, every step of the schedule).

    python examples/planners/train_diffuser.py maze2d-umaze 10 state_umaze.pt     or a `state_*.pt` of the original
    vhd import-diffuser state_umaze.pt --env maze2d-umaze --out diffusers/maze2d-umaze.safetensors
    vhd bench maze2d-umaze --planner examples/planners/diffuser.py:Diffuser

Checkpoints are searched in the folder `diffusers`, or in the one that the environment variable DIFFUSERS names.
"""

from __future__ import annotations

import os
from pathlib import Path

from vhdiffuser import Planner
from vhdiffuser.files import sha256
from vhdiffuser.weights.format import load_model


class Diffuser:
    name = "diffuser"

    def __init__(self, environment):
        self.path = Path(os.environ.get("DIFFUSERS", "diffusers")) / f"{environment.name}.safetensors"
        self.planner = Planner.load(self.path, outside="ignore")

    def plan_batch(self, starts, goals, seeds):
        return self.planner.plan_batch(starts, goals, self.planner.config.horizon, seeds=seeds)

    def describe(self):
        config = self.planner.config
        return {
            "weights": sha256(self.path),
            "updates": load_model(self.path, "planner")[1].updates,
            "width": config.dim,
            "horizon": config.horizon,
            "sampler": self.planner.options.sampler,
            "steps": self.planner.options.steps,
        }
