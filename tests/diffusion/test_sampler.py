"""The reverse process: a perfect denoiser must give back the clean trajectory, whatever the sampler."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from vhdiffuser.diffusion.noise import Noise, draw_all
from vhdiffuser.diffusion.sampler import clamp_mask, network_clean, reverse_levels, sample
from vhdiffuser.diffusion.schedule import Schedule
from vhdiffuser.errors import VhdError
from vhdiffuser.types import BoolArray, FloatArray

SAMPLERS = ["ddpm", "ddim", "dpm++"]


def levels(schedule: Schedule, level: int) -> tuple[np.float32, np.float32]:
    alpha_bar = schedule.alpha_bar[level]
    return np.sqrt(alpha_bar), np.sqrt(1 - alpha_bar)


class Oracle:
    """Knows tau^0 and answers exactly, in the asked prediction."""

    def __init__(self, schedule: Schedule, tau0: FloatArray) -> None:
        self.schedule, self.tau0 = schedule, tau0

    def __call__(self, tau: FloatArray, level: int) -> FloatArray:
        signal, noise = levels(self.schedule, level)
        epsilon = (tau - signal * self.tau0) / noise
        answers = {"epsilon": epsilon, "sample": self.tau0, "v_prediction": signal * epsilon - noise * self.tau0}
        return answers[self.schedule.prediction]


class Gaussian:
    """The exact posterior mean of tau^0 when every entry of the data is N(mean, std^2)."""

    def __init__(self, schedule: Schedule, mean: float, std: float) -> None:
        self.schedule, self.mean, self.std = schedule, mean, std

    def __call__(self, tau: FloatArray, level: int) -> FloatArray:
        signal, noise = levels(self.schedule, level)
        gain = signal * self.std**2 / (signal**2 * self.std**2 + noise**2)
        return self.mean + gain * (tau - signal * self.mean)


def streams(seeds: range | list[int]) -> list[Noise]:
    return [Noise(seed) for seed in seeds]


def nothing_known(batch: int, knots: int, width: int) -> tuple[FloatArray, BoolArray]:
    return np.zeros((batch, knots, width), np.float32), np.zeros((knots, width), bool)


@pytest.mark.parametrize("prediction", ["epsilon", "sample", "v_prediction"])
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("steps", [1, 5, 7, 20, 63, 64])
def test_a_perfect_denoiser_recovers_the_clean_trajectory(prediction: str, sampler: str, steps: int) -> None:
    schedule = Schedule(64, prediction)
    tau0 = np.random.default_rng(0).uniform(-0.9, 0.9, (3, 9, 2)).astype(np.float32)
    known, mask = nothing_known(3, 9, 2)
    tau, _ = sample(
        network_clean(Oracle(schedule, tau0), schedule), schedule, known, mask, streams(range(3)), sampler, steps
    )
    np.testing.assert_allclose(tau, tau0, atol=1e-3)


@pytest.mark.parametrize(("sampler", "steps"), [("ddpm", 128), ("ddim", 64), ("dpm++", 64)])
def test_samples_have_the_data_s_distribution(sampler: str, steps: int) -> None:
    schedule = Schedule(128, "sample")
    known, mask = nothing_known(200, 20, 2)
    network = Gaussian(schedule, mean=0.2, std=0.15)
    tau, _ = sample(network_clean(network, schedule), schedule, known, mask, streams(range(200)), sampler, steps)
    assert float(tau.mean()) == pytest.approx(0.2, abs=0.01)
    assert float(tau.std()) == pytest.approx(0.15, abs=0.012)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_both_ends_are_clamped_at_every_step(sampler: str) -> None:
    schedule = Schedule(64, "v_prediction")
    mask = clamp_mask(np.array([6]), 7, 4, ([0, 1, 2, 3], [0, 1]))[0]
    known = np.random.default_rng(0).uniform(-1.5, 1.5, (2, 7, 4)).astype(np.float32)  # beyond the limits, too
    network = Gaussian(schedule, 0.0, 0.5)
    tau, kept = sample(
        network_clean(network, schedule), schedule, known, mask, streams(range(2)), sampler, 6, keep=True
    )
    assert kept is not None
    assert kept.shape == (2, 7, 7, 4)
    assert np.array_equal(kept[:, -1], tau)
    for step in range(7):
        assert np.array_equal(kept[:, step][:, mask], known[:, mask])
    assert np.abs(tau[:, ~mask]).max() <= 1 + 1e-5  # what is not clamped is clipped


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_batch_equals_one_by_one_with_the_same_seeds(sampler: str) -> None:
    schedule = Schedule(32, "sample")
    network = Gaussian(schedule, 0.1, 0.4)
    known, mask = nothing_known(4, 6, 3)
    seeds = [5, 9, 5, 123456]
    together, _ = sample(network_clean(network, schedule), schedule, known, mask, streams(seeds), sampler, 8)
    for number, seed in enumerate(seeds):
        alone, _ = sample(network_clean(network, schedule), schedule, known[:1], mask, streams([seed]), sampler, 8)
        np.testing.assert_allclose(together[number : number + 1], alone, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(together[0], together[2])
    assert not np.allclose(together[0], together[1])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_knots_after_the_last_are_copies_of_it(sampler: str) -> None:
    schedule = Schedule(32, "sample")
    known, mask = nothing_known(2, 8, 3)
    last = np.array([4, 7])
    tau, kept = sample(
        network_clean(Gaussian(schedule, 0.1, 0.4), schedule),
        schedule,
        known,
        mask,
        streams([0, 1]),
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
    schedule = Schedule(diffusion_steps)
    for steps in range(1, diffusion_steps + 1, max(diffusion_steps // 50, 1)):
        visited = reverse_levels(schedule, steps)
        assert len(visited) == steps
        assert all(a > b for a, b in pairwise(visited))
        assert visited[-1] >= 0
        assert visited[0] < diffusion_steps
    assert reverse_levels(schedule, diffusion_steps) == tuple(range(diffusion_steps))[::-1]


def test_ddpm_is_the_paper_s_posterior_step() -> None:
    """Eqs. (6) and (7) by hand, for noise prediction without clipping or clamping in force."""
    schedule = Schedule(16, "epsilon")
    known, mask = nothing_known(1, 5, 2)

    def small(tau: FloatArray, level: int) -> FloatArray:
        signal, noise = levels(schedule, level)
        return (tau - signal * 0.3 * np.tanh(tau)) / noise  # implies |tau^0| <= 0.3: never clipped

    (stream,) = streams([4])
    tau = stream.draw(5, 2)[None]
    for level in reversed(range(16)):
        alpha, alpha_bar = 1 - schedule.betas[level], schedule.alpha_bar[level]
        mean = (tau - (1 - alpha) / np.sqrt(1 - alpha_bar) * small(tau, level)) / np.sqrt(alpha)
        if level > 0:
            variance = (1 - schedule.alpha_bar[level - 1]) / (1 - alpha_bar) * schedule.betas[level]
            mean = mean + np.sqrt(variance) * stream.draw(1, 5, 2)
        tau = mean
    ours, _ = sample(network_clean(small, schedule), schedule, known, mask, streams([4]), "ddpm", 16)
    np.testing.assert_allclose(ours, tau, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("seed", [0, 7, 2**32 + 7, 2**63 - 1])
def test_noise_is_what_torch_draws_from_the_same_seed(seed: int) -> None:
    """Plans were first drawn with torch: published rows stay reproducible. Sizes below and above a block of 16."""
    ours, theirs = Noise(seed), torch.Generator().manual_seed(seed)
    for shape in ((36, 4), (3, 3), (2, 1), (8, 2), (33, 3), (5, 1), (41, 4)):
        np.testing.assert_allclose(ours.draw(*shape), torch.randn(shape, generator=theirs), atol=2e-6)


@pytest.mark.parametrize("shape", [(9, 4), (33, 3), (3, 2)])
def test_a_stream_draws_the_same_alone_and_in_a_batch(shape: tuple[int, int]) -> None:
    together, alone = streams([3, 4, 5]), streams([3, 4, 5])
    for _ in range(3):
        np.testing.assert_array_equal(draw_all(together, *shape), [stream.draw(*shape) for stream in alone])


class Wavy:
    def __call__(self, tau: FloatArray, level: int) -> FloatArray:
        return np.sin(3 * tau) + np.float32(0.01 * level)


def by_diffusers(sampler: str, network: Wavy, schedule: Schedule, steps: int) -> torch.Tensor:
    """The same reverse process by the schedulers of `diffusers`, on a schedule that *is* the levels visited."""
    diffusers = pytest.importorskip("diffusers", reason="the reference schedulers need diffusers (extra dev)")
    visited = list(reverse_levels(schedule, steps))
    alpha_bar = schedule.alpha_bar.astype(float)[visited[::-1]]  # cleanest first
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
    draws = [torch.Generator().manual_seed(seed) for seed in range(3)]
    tau = torch.stack([torch.randn(5, 2, generator=generator) for generator in draws])
    for number, level in enumerate(visited):
        tau0 = torch.from_numpy(np.clip(schedule.clean(network(tau.numpy(), level), level, tau.numpy()), -1, 1))
        tau = scheduler.step(tau0, steps - 1 - number, tau, generator=draws, return_dict=False)[0]
    return tau


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("steps", [1, 2, 5, 20, 64])
def test_samplers_agree_with_diffusers(sampler: str, steps: int) -> None:
    schedule = Schedule(64, "v_prediction")
    known, mask = nothing_known(3, 5, 2)
    ours, _ = sample(network_clean(Wavy(), schedule), schedule, known, mask, streams(range(3)), sampler, steps)
    np.testing.assert_allclose(ours, by_diffusers(sampler, Wavy(), schedule, steps), atol=2e-5)


def test_bad_sampler_and_bad_steps_are_refused() -> None:
    schedule = Schedule(32, "sample")
    known, mask = nothing_known(1, 6, 3)
    network = Gaussian(schedule, 0.0, 0.4)
    with pytest.raises(VhdError, match=r"unknown sampler 'euler'. Known: ddpm, ddim, dpm\+\+"):
        sample(network_clean(network, schedule), schedule, known, mask, streams([0]), "euler", 4)
    for steps in (0, 33):
        with pytest.raises(VhdError, match=r"1\.\.32"):
            sample(network_clean(network, schedule), schedule, known, mask, streams([0]), "ddim", steps)
