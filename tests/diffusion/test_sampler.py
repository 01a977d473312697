"""The reverse process: a perfect denoiser must give back the clean trajectory, whatever the sampler."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from vhdiffuser.diffusion.process import Process, clamp_mask
from vhdiffuser.diffusion.sampler import network_clean, reverse_levels, sample
from vhdiffuser.errors import VhdError

SAMPLERS = ["ddpm", "ddim", "dpm++"]


class Oracle(nn.Module):
    """Knows tau^0 and answers exactly, in the asked prediction."""

    def __init__(self, process: Process, tau0: torch.Tensor) -> None:
        super().__init__()
        self.process, self.tau0 = process, tau0

    def forward(self, tau: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        signal, noise = self.process.levels(i)
        epsilon = (tau - signal * self.tau0) / noise
        return self.process.target(self.tau0, i, epsilon)


class Gaussian(nn.Module):
    """The exact posterior mean of tau^0 when every entry of the data is N(mean, std^2)."""

    def __init__(self, process: Process, mean: float, std: float) -> None:
        super().__init__()
        self.process, self.mean, self.std = process, mean, std

    def forward(self, tau: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        signal, noise = self.process.levels(i)
        gain = signal * self.std**2 / (signal**2 * self.std**2 + noise**2)
        return self.mean + gain * (tau - signal * self.mean)


def generators(seeds: range | list[int]) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def nothing_known(batch: int, knots: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(batch, knots, width), torch.zeros(knots, width, dtype=torch.bool)


@pytest.mark.parametrize("prediction", ["epsilon", "sample", "v_prediction"])
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("steps", [1, 5, 7, 20, 63, 64])
def test_a_perfect_denoiser_recovers_the_clean_trajectory(prediction: str, sampler: str, steps: int) -> None:
    process = Process(64, prediction)
    tau0 = torch.rand(3, 9, 2, generator=torch.Generator().manual_seed(0)) * 1.8 - 0.9
    known, mask = nothing_known(3, 9, 2)
    tau, _ = sample(
        network_clean(Oracle(process, tau0), process), process, known, mask, generators(range(3)), sampler, steps
    )
    torch.testing.assert_close(tau, tau0, atol=1e-3, rtol=0)


@pytest.mark.parametrize(("sampler", "steps"), [("ddpm", 128), ("ddim", 64), ("dpm++", 64)])
def test_samples_have_the_data_s_distribution(sampler: str, steps: int) -> None:
    process = Process(128, "sample")
    known, mask = nothing_known(200, 20, 2)
    network = Gaussian(process, mean=0.2, std=0.15)
    tau, _ = sample(network_clean(network, process), process, known, mask, generators(range(200)), sampler, steps)
    assert float(tau.mean()) == pytest.approx(0.2, abs=0.01)
    assert float(tau.std()) == pytest.approx(0.15, abs=0.012)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_both_ends_are_clamped_at_every_step(sampler: str) -> None:
    process = Process(64, "v_prediction")
    mask = clamp_mask(torch.tensor([6]), 7, 4, ([0, 1, 2, 3], [0, 1]))[0]
    known = torch.rand(2, 7, 4, generator=torch.Generator().manual_seed(0)) * 3 - 1.5  # beyond the limits, too
    network = Gaussian(process, 0.0, 0.5)
    tau, kept = sample(
        network_clean(network, process), process, known, mask, generators(range(2)), sampler, 6, keep=True
    )
    assert kept is not None
    assert kept.shape == (2, 7, 7, 4)
    assert torch.equal(kept[:, -1], tau)
    for step in range(7):
        assert torch.equal(kept[:, step][:, mask], known[:, mask])
    assert float(tau[:, ~mask].abs().max()) <= 1 + 1e-5  # what is not clamped is clipped


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_batch_equals_one_by_one_with_the_same_seeds(sampler: str) -> None:
    process = Process(32, "sample")
    network = Gaussian(process, 0.1, 0.4)
    known, mask = nothing_known(4, 6, 3)
    seeds = [5, 9, 5, 123456]
    together, _ = sample(network_clean(network, process), process, known, mask, generators(seeds), sampler, 8)
    for number, seed in enumerate(seeds):
        alone, _ = sample(network_clean(network, process), process, known[:1], mask, generators([seed]), sampler, 8)
        torch.testing.assert_close(together[number : number + 1], alone)
    torch.testing.assert_close(together[0], together[2])
    assert not torch.allclose(together[0], together[1])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_knots_after_the_last_are_copies_of_it(sampler: str) -> None:
    process = Process(32, "sample")
    known, mask = nothing_known(2, 8, 3)
    last = torch.tensor([4, 7])
    tau, kept = sample(
        network_clean(Gaussian(process, 0.1, 0.4), process),
        process,
        known,
        mask,
        generators([0, 1]),
        sampler,
        8,
        last,
        True,
    )
    assert kept is not None
    assert (kept[0, :, 5:] == kept[0, :, 4:5]).all()
    assert not (tau[1, 5:] == tau[1, 4:5]).any()


@pytest.mark.parametrize("diffusion_steps", [2, 20, 64, 256, 1000])
def test_levels_fall_without_repeats_and_full_length_visits_all(diffusion_steps: int) -> None:
    process = Process(diffusion_steps)
    for steps in range(1, diffusion_steps + 1, max(diffusion_steps // 50, 1)):
        levels = reverse_levels(process, steps)
        assert len(levels) == steps
        assert all(a > b for a, b in pairwise(levels))
        assert levels[-1] >= 0
        assert levels[0] < diffusion_steps
    assert reverse_levels(process, diffusion_steps) == list(range(diffusion_steps))[::-1]


def test_ddpm_is_the_paper_s_posterior_step() -> None:
    """Eqs. (6) and (7) by hand, for noise prediction without clipping or clamping in force."""
    process = Process(16, "epsilon")
    known, mask = nothing_known(1, 5, 2)

    class Small(nn.Module):
        def forward(self, tau: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            signal, noise = process.levels(i)
            return (tau - signal * 0.3 * torch.tanh(tau)) / noise  # implies |tau^0| <= 0.3: never clipped

    (generator,) = generators([4])
    tau = torch.randn(5, 2, generator=generator)[None]
    for level in reversed(range(16)):
        i = torch.tensor([level])
        alpha, alpha_bar = 1 - process.betas[level], process.alpha_bar[level]
        mean = (tau - (1 - alpha) / (1 - alpha_bar).sqrt() * Small()(tau, i)) / alpha.sqrt()
        if level > 0:
            variance = (1 - process.alpha_bar[level - 1]) / (1 - alpha_bar) * process.betas[level]
            mean = mean + variance.sqrt() * torch.randn(1, 5, 2, generator=generator)
        tau = mean
    ours, _ = sample(network_clean(Small(), process), process, known, mask, generators([4]), "ddpm", 16)
    torch.testing.assert_close(ours, tau, atol=1e-4, rtol=1e-3)


def by_diffusers(sampler: str, network: nn.Module, process: Process, steps: int) -> torch.Tensor:
    """The same reverse process by the schedulers of `diffusers`, on a schedule that *is* the levels visited."""
    diffusers = pytest.importorskip("diffusers", reason="the reference schedulers need diffusers (extra dev)")
    levels = reverse_levels(process, steps)
    alpha_bar = process.alpha_bar.double().numpy()[levels[::-1]]  # cleanest first
    betas = 1 - alpha_bar / np.concatenate([[1.0], alpha_bar[:-1]])
    settings = {"num_train_timesteps": steps, "trained_betas": betas, "prediction_type": "sample"}
    if sampler == "ddpm":
        scheduler = diffusers.DDPMScheduler(**settings, clip_sample=False)
    elif sampler == "ddim":
        scheduler = diffusers.DDIMScheduler(**settings, clip_sample=False, timestep_spacing="trailing")
    else:
        scheduler = diffusers.DPMSolverMultistepScheduler(
            **settings, algorithm_type="dpmsolver++", final_sigmas_type="zero", timestep_spacing="trailing"
        )
    if sampler != "ddpm":
        scheduler.set_timesteps(steps)
    draws = generators(range(3))
    tau = torch.stack([torch.randn(5, 2, generator=generator) for generator in draws])
    for number, level in enumerate(levels):
        i = torch.full((3,), level)
        tau0 = process.clean(network(tau, i), i, tau).clamp(-1, 1)
        tau = scheduler.step(tau0, steps - 1 - number, tau, generator=draws, return_dict=False)[0]
    return tau


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("steps", [1, 2, 5, 20, 64])
def test_samplers_agree_with_diffusers(sampler: str, steps: int) -> None:
    process = Process(64, "v_prediction")

    class Wavy(nn.Module):
        def forward(self, tau: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            return torch.sin(3 * tau) + 0.01 * i[:, None, None]

    known, mask = nothing_known(3, 5, 2)
    ours, _ = sample(network_clean(Wavy(), process), process, known, mask, generators(range(3)), sampler, steps)
    torch.testing.assert_close(ours, by_diffusers(sampler, Wavy(), process, steps), atol=2e-5, rtol=0)


def test_bad_sampler_and_bad_steps_are_refused() -> None:
    process = Process(32, "sample")
    known, mask = nothing_known(1, 6, 3)
    network = Gaussian(process, 0.0, 0.4)
    with pytest.raises(VhdError, match=r"unknown sampler 'euler'. Known: ddpm, ddim, dpm\+\+"):
        sample(network_clean(network, process), process, known, mask, generators([0]), "euler", 4)
    for steps in (0, 33):
        with pytest.raises(VhdError, match=r"1\.\.32"):
            sample(network_clean(network, process), process, known, mask, generators([0]), "ddim", steps)
