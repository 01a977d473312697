"""`vhd export onnx`: models for computers without torch or Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.options import Omittable
from vhdiffuser.console import out, print_json
from vhdiffuser.weights.places import Source


@dataclass(frozen=True)
class Export:
    """Export planner, Length Predictor and controller as ONNX models, with a `config.json` that describes them.

    The folder holds everything an onboard computer needs: `vhdiffuser.load_planner(FOLDER)` plans with it, and
    examples/plan.cpp does so in C++. Examples:

        vhd export onnx maze2d-umaze
        vhd export onnx maze2d-umaze --piece 0 --gamma 1.25        for examples/plan.cpp
        vhd export onnx antmaze-medium --weights trained --out robot/models
    """

    format: Positional[Literal["onnx"]]
    """Format: onnx."""
    env: Positional[Annotated[str, tyro.conf.arg(metavar="ENV")]]
    """Environment: see `vhd envs`."""
    weights: Source = "auto"
    """Models to use: trained (by you), shipped, auto (trained if available), or a folder of weights."""
    steps: Omittable[int] = None
    """Reverse steps (default: the planner's)."""
    gamma: Omittable[float] = None
    """Margin on the predicted length, instead of a risk (default: the risk 0.01 of calibrated planners);
    examples/plan.cpp, which does not read the calibration, needs one."""
    piece: Omittable[int] = None
    """States per piece of a composed plan; 0 plans in one piece, as examples/plan.cpp does (default: the planner's)."""
    out: Omittable[Path] = None
    """Folder to write (default: out/onnx/ENV)."""
    json: bool = False
    """Print the files as one JSON object."""

    def run(self) -> None:
        """Load, write, print."""
        from vhdiffuser.execution.export_onnx import export_environment

        planner, written = export_environment(
            self.env, self.out, self.weights, steps=self.steps, gamma=self.gamma, piece=self.piece
        )
        if self.json:
            print_json({name: str(path) for name, path in written.items()})
            return
        sizes = ", ".join(f"{name} {path.stat().st_size / 1e6:.1f} MB" for name, path in written.items())
        folder = next(iter(written.values())).parent
        out.print(f"{planner.spec.name}: wrote {folder}: {sizes}")
