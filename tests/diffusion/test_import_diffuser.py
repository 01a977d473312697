"""Checkpoints of the original Diffuser become planners, whatever they are wrapped in."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vhdiffuser.diffusion.import_diffuser import import_checkpoint
from vhdiffuser.diffusion.schedule import cosine_betas
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.errors import DataError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.planner import Planner

SPEC = get_spec("maze2d-umaze")
NORMALIZER = Normalizer(np.array([0.4, 0.4, -5, -5], np.float32), np.array([3.2, 3.2, 5, 5], np.float32))
HORIZON, STEPS = 32, 16


def unet(seed: int, width: int = 6) -> TemporalUnet:
    torch.manual_seed(seed)
    return TemporalUnet(width, 8, (1, 4, 8))


def diffusion_state(network: TemporalUnet) -> dict[str, torch.Tensor]:
    """As GaussianDiffusion saves it: the U-Net under `model.`, beside the schedule and the loss weights."""
    betas = torch.from_numpy(cosine_betas(STEPS))
    buffers = {"betas": betas, "alphas_cumprod": torch.cumprod(1 - betas, 0), "loss_fn.weights": torch.ones(HORIZON, 6)}
    return {**buffers, **{f"model.{key}": value for key, value in network.state_dict().items()}}


def trained(tmp_path: Path) -> Path:
    content = {"step": 4000, "model": diffusion_state(unet(1)), "ema": diffusion_state(unet(2))}
    torch.save(content, tmp_path / "state_4000.pt")
    return tmp_path / "state_4000.pt"


def test_state_pt_with_actions_becomes_a_fixed_horizon_planner(tmp_path: Path) -> None:
    header = import_checkpoint(trained(tmp_path), tmp_path / "out.safetensors", SPEC, NORMALIZER, "print")
    assert header.updates == 4000
    planner = Planner.load(tmp_path / "out.safetensors")
    config = planner.config
    assert (config.dim, config.dim_mults, config.action_dim) == (8, (1, 4, 8), 2)
    assert (config.horizon, config.diffusion_steps, planner.options.steps) == (HORIZON, STEPS, STEPS)
    assert (config.prediction, config.clamp, config.stride, planner.options.sampler) == ("sample", "state", 1, "ddpm")
    x, time = torch.randn(2, HORIZON, 6), torch.tensor([3, 3])
    with torch.no_grad():
        np.testing.assert_allclose(planner.network(x.numpy(), 3), unet(2)(x, time), atol=1e-5)  # the EMA weights

    plan = planner.plan(np.array([1.0, 1.0, 0.5, 0.0]), np.array([3.0, 2.0]))
    assert plan.states.shape == (HORIZON, 4)
    np.testing.assert_array_equal(plan.states[0], np.float32([1.0, 1.0, 0.5, 0.0]))
    np.testing.assert_array_equal(plan.states[-1], np.float32([3.0, 2.0, 0.0, 0.0]))  # at rest, as in Diffuser
    assert planner.plan(plan.states[0], plan.goal, length=57).length == 57  # FH+LP


def test_plans_of_an_imported_model_are_diffusers(tmp_path: Path) -> None:
    """The original's reverse loop by hand: predict tau^0, clip, posterior, clamp the observations only."""
    import_checkpoint(trained(tmp_path), tmp_path / "out.safetensors", SPEC, NORMALIZER)
    start, goal = np.float32([1.0, 1.0, 0.5, 0.0]), np.float32([3.0, 2.0, 0.0, 0.0])
    plan = Planner.load(tmp_path / "out.safetensors").plan(start, goal, seed=5)

    network, generator = unet(2), torch.Generator().manual_seed(5)
    betas = torch.from_numpy(cosine_betas(STEPS)).double()
    bar = torch.cumprod(1 - betas, 0)
    before = torch.cat([torch.ones(1, dtype=torch.float64), bar[:-1]])
    first, last = (torch.from_numpy(NORMALIZER.normalize(state)) for state in (start, goal))
    tau = torch.randn(HORIZON, 6, generator=generator)[None]
    tau[:, 0, 2:], tau[:, -1, 2:] = first, last
    for i in reversed(range(STEPS)):
        with torch.no_grad():
            tau0 = network(tau, torch.tensor([i])).clamp(-1, 1)
        mean = betas[i] * math.sqrt(before[i]) / (1 - bar[i]) * tau0
        mean = mean + (1 - before[i]) * math.sqrt(1 - betas[i]) / (1 - bar[i]) * tau
        if i > 0:
            noise = torch.randn(1, HORIZON, 6, generator=generator)
            mean = mean + math.sqrt(betas[i] * (1 - before[i]) / (1 - bar[i])) * noise
        tau = mean.float()
        tau[:, 0, 2:], tau[:, -1, 2:] = first, last
    np.testing.assert_allclose(plan.states, NORMALIZER.unnormalize(tau[0, :, 2:].numpy()), atol=2e-3)


def test_model_weights_bare_networks_and_plain_state_dicts_are_read(tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    import_checkpoint(trained(tmp_path), out, SPEC, NORMALIZER, weights="model")
    x, time = torch.randn(1, 8, 6), torch.tensor([3])
    with torch.no_grad():
        np.testing.assert_allclose(Planner.load(out).network(x.numpy(), 3), unet(1)(x, time), atol=1e-5)

    torch.save(diffusion_state(unet(3)), tmp_path / "plain.pt")
    assert import_checkpoint(tmp_path / "plain.pt", out, SPEC, NORMALIZER).config["horizon"] == HORIZON

    torch.save(unet(4, width=4).state_dict(), tmp_path / "bare.pt")
    header = import_checkpoint(
        tmp_path / "bare.pt", out, SPEC, NORMALIZER, horizon=64, diffusion_steps=20, prediction="epsilon"
    )
    assert (header.config["action_dim"], header.config["horizon"], header.config["diffusion_steps"]) == (0, 64, 20)
    with pytest.raises(DataError, match="pass the diffusion_steps"):
        import_checkpoint(tmp_path / "bare.pt", out, SPEC, NORMALIZER)


class Harmful:
    """A pickle that would make a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.trace,))


def test_foreign_damaged_and_harmful_files_get_a_clear_error(tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"

    def refused(name: str, match: str, **options: Any) -> None:
        with pytest.raises(DataError, match=match):
            import_checkpoint(tmp_path / name, out, SPEC, NORMALIZER, **options)
        assert not out.exists()

    refused("missing.pt", "no such file")
    (tmp_path / "noise.pt").write_bytes(b"not a checkpoint at all")
    refused("noise.pt", "cannot be read as weights")
    (tmp_path / "harmful.pt").write_bytes(pickle.dumps(Harmful(tmp_path / "trace"), protocol=2))
    refused("harmful.pt", "cannot be read as weights")
    assert not (tmp_path / "trace").exists()
    torch.save(torch.zeros(3), tmp_path / "tensor.pt")
    refused("tensor.pt", "not a state dict")
    torch.save({"conv.weight": torch.zeros(3)}, tmp_path / "other.pt")
    refused("other.pt", "no parameters of")
    torch.save({"model": diffusion_state(unet(0))}, tmp_path / "no_ema.pt")
    refused("no_ema.pt", "no 'ema' weights")
    refused("no_ema.pt", "its horizon is 32, not 64", weights="model", horizon=64)
    state = diffusion_state(unet(0))
    torch.save({**state, "betas": state["betas"] * 0.5}, tmp_path / "linear.pt")
    refused("linear.pt", "cosine schedule")
    state.pop("model.mid_block1.blocks.0.block.0.weight")
    torch.save(state, tmp_path / "lacking.pt")
    refused("lacking.pt", "not the weights")


def test_another_environment_s_dimensions_are_refused(tmp_path: Path) -> None:
    spec = replace(get_spec("antmaze-medium"), action_dim=8)
    with pytest.raises(DataError, match="another environment"):
        import_checkpoint(trained(tmp_path), tmp_path / "out.safetensors", spec, NORMALIZER.select((0, 1)))
