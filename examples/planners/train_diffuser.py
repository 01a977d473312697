"""Train a small checkpoint of the original Diffuser (jannerm/diffuser), for `diffuser.py` in this folder.

    python examples/planners/train_diffuser.py maze2d-umaze 10 state_umaze.pt     again, to train it further
    vhd import-diffuser state_umaze.pt --env maze2d-umaze --out diffusers/maze2d-umaze.safetensors

The number is minutes on one core. A real `state_*.pt` of the original needs the second command only. This one has the
original's horizons, loss, batch and parameter names, but half its width and only as many updates as fit into those
minutes, at five times the learning rate, instead of two million. Expect poor plans.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from vhdiffuser import load_dataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from diffuser_checkpoint_with_length_predictor import train_checkpoint

HORIZONS = {"maze2d-umaze": 128, "maze2d-medium": 256, "maze2d-large": 384}

if __name__ == "__main__":
    torch.set_num_threads(1)
    name, minutes, path = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    train_checkpoint(path, load_dataset(name), 2_000_000, HORIZONS[name], steps=64, rate=1e-3, seconds=60 * minutes)
