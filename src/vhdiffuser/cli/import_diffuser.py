"""`vhd import-diffuser`: import a checkpoint of the original Diffuser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from vhdiffuser.cli.options import Omittable
from vhdiffuser.console import out, print_json


@dataclass(frozen=True)
class ImportDiffuser:
    """Convert a checkpoint of the original Diffuser into a fixed-horizon planner.

    No code in the file is executed. The result is a run `fh-H`, which `vhd bench` uses for fh-h1..3 and, with a Length
    Predictor, for fh-lp. Example:

        vhd import-diffuser state_1990000.pt --env maze2d-large
    """

    file: tyro.conf.Positional[Path]
    """`state_*.pt`, or a state dict."""
    env: str
    """Environment it was trained for."""
    which: Literal["ema", "model"] = "ema"
    """Weights to take from a `state_*.pt`."""
    prediction: Literal["sample", "epsilon"] = "sample"
    """What the network predicts; the public maze2d models predict the clean trajectory."""
    horizon: Omittable[int] = None
    """Horizon, if the file does not contain it."""
    diffusion_steps: Omittable[int] = None
    """Number of diffusion steps, if the file does not contain it."""
    out: Omittable[Path] = None
    """Model file to write (default: the run `fh-H` of the environment)."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        """Read, check and write the model."""
        from vhdiffuser.diffusion.import_diffuser import import_run

        path, header = import_run(
            self.file,
            self.env,
            self.out,
            weights=self.which,
            prediction=self.prediction,
            horizon=self.horizon,
            diffusion_steps=self.diffusion_steps,
        )
        if self.json:
            print_json({"model": str(path), "updates": header.updates, "config": header.config})
        else:
            out.print(f"planner of horizon {header.config['horizon']}: {path}")
