"""A checkpoint of the original Diffuser (jannerm/diffuser), driven by a Length Predictor: the paper's FH+LP.

    python examples/diffuser_checkpoint_with_length_predictor.py

With a checkpoint of your own, from the command line:

    vhd import-diffuser state_1990000.pt --env maze2d-large
    vhd train length maze2d-large
    vhd bench maze2d-large --methods fh-lp

No checkpoint is at hand here, so one is made under the original's names, with random weights: its plans are noise,
and their lengths are what there is to see.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from vhdiffuser import LengthPredictor, Planner
from vhdiffuser.cli import run as vhd
from vhdiffuser.diffusion.import_diffuser import import_checkpoint
from vhdiffuser.diffusion.process import cosine_betas
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.length.config import LengthConfig
from vhdiffuser.length.task import LengthTask
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.training.loop import train

HORIZON, STEPS, ACTION, STATE = 128, 16, 2, 4


def write_checkpoint(path: Path) -> None:
    """As the original saves it: {step, model, ema}, each with the U-Net under `model.` beside buffers.

    Its knots are (action, state).
    """
    torch.manual_seed(0)
    unet = TemporalUnet(ACTION + STATE, dim=16, dim_mults=(1, 4, 8))
    state = {f"model.{name}": value for name, value in unet.state_dict().items()}
    state |= {"betas": torch.from_numpy(cosine_betas(STEPS)), "loss_fn.weights": torch.ones(HORIZON, ACTION + STATE)}
    torch.save({"step": 1_990_000, "model": state, "ema": state}, path)


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    os.environ.setdefault("VHD_HOME", str(folder))  # so that trying this leaves your own cache alone
    checkpoint, model = folder / "state_1990000.pt", folder / "diffuser.safetensors"
    write_checkpoint(checkpoint)

    # Import it. Widths, horizon and diffusion steps are read off the shapes; nothing in the file is run.
    # The normaliser is fitted to the same data as there, which here is a small regeneration.
    vhd(["data", "get", "maze2d-umaze", "--source", "build", "--size", "20000", "--quiet"])
    data = load_dataset("maze2d-umaze")
    header = import_checkpoint(checkpoint, model, data.spec, data.normalizer(), data.fingerprint())
    print(f"imported: horizon {header.config['horizon']}, {header.config['diffusion_steps']} diffusion steps")

    # A Length Predictor, trained on the same data (for some seconds; `vhd train length` does it properly).
    config = replace(LengthConfig(), batch=128)
    length_file = train(
        lambda on: LengthTask(data.episodes, data.spec, config, data.normalizer(), data.fingerprint(), on),
        LoopConfig(updates=300, learning_rate=1e-3, warmup=20, ema=0.98, threads=1),
        folder / "length",
        lambda status: None,
    )

    # The same network without and with it: one horizon for every pair, or each pair its own.
    fixed, varied = Planner.load(model), Planner.load(model, LengthPredictor.load(length_file))
    start = [1.0, 1.0, 0.0, 0.0]
    for name, goal in (("near", [1.3, 1.0]), ("far", [1.0, 3.0])):
        lengths = [planner.plan(start, goal).length for planner in (fixed, varied)]
        print(f"{name}: {lengths[0]} states as trained, {lengths[1]} as predicted")


if __name__ == "__main__":
    main()
