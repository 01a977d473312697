"""A checkpoint of the original Diffuser (jannerm/diffuser) with a Length Predictor: the paper's FH+LP.

    python examples/diffuser_checkpoint_with_length_predictor.py
    python examples/diffuser_checkpoint_with_length_predictor.py 20000                train it for longer: hours
    python examples/diffuser_checkpoint_with_length_predictor.py model.safetensors    a planner of yours, as one

With your own checkpoint, from the command line:

    vhd import-diffuser state_1990000.pt --env maze2d-large
    vhd train length maze2d-large
    vhd bench maze2d-large --methods fh-h2 fh-lp

This script trains and saves one as the original does (action and state in each knot, clean-trajectory prediction,
crops of one length, EMA of the weights). A few updates show how it works, not what such a planner can do.

A planner of yours with stride 1 (`vhd train planner ENV --horizon 128 --stride 1 --prediction sample --clamp state`) is
written in the original's format, imported again and driven by the Length Predictor that ships. Plans with and without
it are drawn in `diffuser_with_length_predictor.png`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from vhdiffuser import LengthPredictor, Planner, evaluate
from vhdiffuser.cli import run as vhd
from vhdiffuser.data.crops import Crops
from vhdiffuser.data.store import Dataset
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.import_diffuser import import_checkpoint, unet_state
from vhdiffuser.diffusion.process import Process, clamp, denoising_loss
from vhdiffuser.diffusion.sampler import clamp_mask
from vhdiffuser.diffusion.schedule import cosine_betas
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.length.config import LengthConfig
from vhdiffuser.length.task import LengthTask
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.report.plan_figures import draw_plans
from vhdiffuser.torch_network import state_dict
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.training.loop import train
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.format import load_model
from vhdiffuser.weights.places import find_model

HORIZON, STEPS, ACTION, STATE = 128, 16, 2, 4
DIM = 16
"""Width of the U-Net; 32 in the original."""
PAIRS = 20
"""Start-goal pairs to execute."""


def train_checkpoint(
    path: Path,
    data: Dataset,
    updates: int,
    horizon: int = HORIZON,
    steps: int = STEPS,
    rate: float = 2e-4,
    seconds: float = float("inf"),
) -> None:
    """Train a U-Net under the original's names; save {step, model, ema}, the U-Net under `model.` beside buffers.

    As there: knots are (action, state), the loss is that of the clean trajectory, both end states are clamped.
    """
    torch.manual_seed(0)
    unet, ema = (TemporalUnet(ACTION + STATE, dim=DIM, dim_mults=(1, 4, 8)) for _ in range(2))
    ema.load_state_dict(unet.state_dict())
    done = 0
    if path.exists():  # resume
        saved = torch.load(path, weights_only=True)
        done = saved["step"]
        unet.load_state_dict(unet_state(path, saved["model"]))
        ema.load_state_dict(unet_state(path, saved["ema"]))
    states = data.normalizer().normalize(data.episodes.observations)
    knots = np.concatenate([data.episodes.actions, states], axis=1)  # (N, ACTION + STATE)
    crops = Crops(knots, data.episodes.ends)
    process, adam = Process(steps, "sample"), torch.optim.Adam(unet.parameters(), lr=rate)
    clamped = list(range(ACTION, ACTION + STATE))
    mask = torch.from_numpy(clamp_mask(np.array([horizon - 1]), horizon, ACTION + STATE, (clamped, clamped)))
    generator = torch.Generator().manual_seed(done)
    begun = time.monotonic()
    for update in range(done, updates):
        tau0 = crops.draw(horizon, 1, 32, generator)
        i = torch.randint(steps, (32,), generator=generator)
        noise = torch.randn(tau0.shape, generator=generator)
        loss = denoising_loss(unet(clamp(process.noised(tau0, i, noise), tau0, mask), i), tau0, mask)
        adam.zero_grad()
        loss.backward()
        adam.step()
        for slow, fast in zip(ema.parameters(), unet.parameters(), strict=True):
            slow.data.lerp_(fast.data, 1 - 0.995 if update > 100 else 1.0)
        if time.monotonic() - begun > seconds:
            break
    buffers = {"betas": torch.from_numpy(cosine_betas(steps)), "loss_fn.weights": torch.ones(horizon, ACTION + STATE)}
    saved = [{f"model.{name}": value for name, value in net.state_dict().items()} | buffers for net in (unet, ema)]
    torch.save({"step": update + 1, "model": saved[0], "ema": saved[1]}, path)


def save_as_original(model: Path, folder: Path) -> Path:
    """Write a planner's model file as the original saves its own: {step, model, ema}, with the diffusion's buffers."""
    tensors, header = load_model(model, "planner")
    config, spec = PlannerConfig.from_json(header.config), EnvSpec.from_json(header.spec)
    if config.stride != 1 or config.prediction == "v_prediction":
        raise SystemExit("the original has stride 1 and predicts the noise or the clean trajectory.")
    horizon = config.horizon or spec.T_max
    state = {f"model.{name}": value for name, value in state_dict(tensors).items()}
    state["betas"] = torch.from_numpy(cosine_betas(config.diffusion_steps))
    state["loss_fn.weights"] = torch.ones(horizon, config.action_dim + spec.state_dim)
    path = folder / f"state_{header.updates}.pt"
    torch.save({"step": header.updates, "model": state, "ema": state}, path)
    return path


def drive(model: Path) -> None:
    """A planner in the original's format, without and with the Length Predictor that ships."""
    header = load_model(model, "planner")[1]
    spec, normalizer = EnvSpec.from_json(header.spec), Normalizer.from_json(header.normalizer)
    with tempfile.TemporaryDirectory() as folder:
        imported = Path(folder) / "planner.safetensors"
        checkpoint = save_as_original(model, Path(folder))
        import_checkpoint(checkpoint, imported, spec, normalizer, prediction=header.config["prediction"])
        predictor = LengthPredictor.load(find_model(spec.name, "length", "shipped"))
        planners = {
            "FH": Planner.load(imported, outside="ignore"),
            "FH+LP": Planner.load(imported, predictor, outside="ignore"),
        }
    plans = []
    for name, planner in planners.items():
        starts = np.array([[1.0, 1.0, 0.0, 0.0]] * 2, np.float32)
        plans += planner.plan_batch(starts, np.array([[1.0, 1.8], [3.0, 1.0]], np.float32))
        for protocol in ("ss", "rp"):
            (summary,) = evaluate(planner, n=2 * PAIRS, protocols=protocol, seeds=9)
            print(f"{name} ({protocol}): {summary.success_rate:.0%}, {summary.average_executed_steps:.0f} steps")
    print("drawn in", draw_plans(plans, Path("diffuser_with_length_predictor.png")))


def main() -> None:
    if len(sys.argv) > 1 and not sys.argv[1].isdigit():
        drive(Path(sys.argv[1]))
        return
    updates = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    folder = Path(tempfile.mkdtemp())
    os.environ.setdefault("VHD_HOME", str(folder))  # leaves your own cache alone
    vhd(["data", "get", "maze2d-umaze", "--source", "build", "--size", "20000", "--quiet"])
    data = load_dataset("maze2d-umaze")
    checkpoint, model = folder / f"state_{updates}.pt", folder / "diffuser.safetensors"
    train_checkpoint(checkpoint, data, updates)

    # Import it. Widths, horizon and diffusion steps follow from the shapes; nothing in the file is executed.
    # The normaliser is fitted to the same data as there.
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

    # The same network without and with it: one horizon for all pairs, or one per pair.
    fixed, varied = Planner.load(model), Planner.load(model, LengthPredictor.load(length_file))
    start = [1.0, 1.0, 0.0, 0.0]
    for name, goal in (("near", [1.3, 1.0]), ("far", [1.0, 3.0])):
        lengths = [planner.plan(start, goal).length for planner in (fixed, varied)]
        print(f"{name}: {lengths[0]} states as trained, {lengths[1]} as predicted")
    for name, planner in (("FH", fixed), ("FH+LP", varied)):
        (summary,) = evaluate(planner, n=PAIRS, protocols="ss", seeds=9)
        print(f"{name}: {summary.success_rate:.0%} single-shot, {summary.average_executed_steps:.0f} steps")


if __name__ == "__main__":
    main()
