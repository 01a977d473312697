"""Algorithm 2: the reverse process, with the ends clamped after every update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from vhdiffuser.diffusion.config import SAMPLERS
from vhdiffuser.diffusion.process import Process, clamp
from vhdiffuser.errors import UnknownNameError, VhdError

LOWEST_LOG_SNR = -5.1
"""log(sqrt(alpha_bar) / sqrt(1 - alpha_bar)) below which few-step grids do not begin.

The cosine schedule's last levels hold no signal at all; a long first step from there only multiplies
the network's error (1/sqrt(alpha_bar) is 5,000 at the last of 256 levels). The value is DPM-Solver's.
"""


SPACING = 1.5
"""Power by which few-step grids crowd towards the clean end.

The network's error in tau^0 is its error in v times the noise level it looks from, so the last look should be
a close one. On maze2d-umaze 5 steps so spaced gave the plans of 20 evenly spaced ones (docs/planner.md).
"""


def reverse_levels(process: Process, steps: int) -> list[int]:
    """The `steps` levels i visited, noisiest first; all of them when `steps` is N.

    Fewer begin at the noisiest level of use and end at the cleanest, from which the last step ends at tau^0.
    """
    if not 1 <= steps <= process.steps:
        raise VhdError(f"steps must lie in 1..{process.steps} (the planner's diffusion steps), got {steps}.")
    alpha_bar = process.alpha_bar.double().cpu()
    log_snr = 0.5 * (alpha_bar.log() - (-alpha_bar).log1p())
    useful = int((log_snr >= LOWEST_LOG_SNR).sum())
    top = (useful if steps <= useful else process.steps) - 1
    if steps == 1:
        return [top]
    # Never below the number of levels still to come, so that none is visited twice.
    return [max(round(top * (left / (steps - 1)) ** SPACING), left) for left in range(steps - 1, -1, -1)]


def make_scheduler(process: Process, levels: list[int], sampler: str) -> Any:
    """A `diffusers` scheduler whose whole schedule *is* `levels`, so that its step n goes between neighbours.

    diffusers' own few-step spacings do not all end at tau^0 (DDIM's previous step is t - N // steps, which
    misses the grid unless steps divides N). The schedule of the visited levels alone has no such gap.
    It is told tau^0: prediction types and clipping are then the same for all of them.
    """
    if sampler not in SAMPLERS:
        raise UnknownNameError("sampler", sampler, list(SAMPLERS))
    alpha_bar = process.alpha_bar.double().cpu().numpy()[levels[::-1]]  # cleanest first
    betas = 1 - alpha_bar / np.concatenate([[1.0], alpha_bar[:-1]])
    settings = {"num_train_timesteps": len(levels), "trained_betas": betas, "prediction_type": "sample"}
    if sampler == "ddpm":
        from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

        return DDPMScheduler(**settings, clip_sample=False)
    if sampler == "ddim":
        from diffusers.schedulers.scheduling_ddim import DDIMScheduler

        scheduler = DDIMScheduler(**settings, clip_sample=False, timestep_spacing="trailing")
    else:
        from diffusers.schedulers.scheduling_dpmsolver_multistep import DPMSolverMultistepScheduler

        scheduler = DPMSolverMultistepScheduler(
            **settings, algorithm_type="dpmsolver++", final_sigmas_type="zero", timestep_spacing="trailing"
        )
    scheduler.set_timesteps(len(levels))
    return scheduler


def sample(
    network: nn.Module,
    process: Process,
    known: torch.Tensor,
    mask: torch.Tensor,
    generators: Sequence[torch.Generator],
    sampler: str,
    steps: int,
    last: torch.Tensor | None = None,
    keep: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Algorithm 2, lines 2 to 6, for B plans, normalised: tau^0 (B, K, d).

    known (B, K, d) holds the start and the goal where mask (B or 1, K, d) is true. Every plan draws its noise
    from its own generator (on the CPU, whatever the device), so a plan does not depend on its company.
    Plans of fewer than K knots say at which index theirs end: last (B,). They may share a batch as long as
    the U-Net would pad them to the same length; what lies beyond is what it would pad with.
    With `keep`, also tau at all steps: (B, steps + 1, K, d).
    """
    B, K, d = known.shape
    levels = reverse_levels(process, steps)
    scheduler = make_scheduler(process, levels, sampler)
    noise = torch.stack([torch.randn(K, d, generator=generator) for generator in generators])
    tau = continued(clamp(noise.to(known.device), known, mask), last)  # line 2
    kept = [tau]
    for number, level in enumerate(levels):  # line 3
        i = torch.full((B,), level, device=known.device)
        predicted = network(tau, i).float()  # line 4, left
        tau0 = process.clean(predicted, i, tau).clamp(-1, 1)  # clipped to the data's limits, as in Diffuser
        tau = posterior_step(scheduler, tau0, len(levels) - 1 - number, tau, generators)  # line 4, right
        tau = continued(clamp(tau, known, mask), last)  # line 5
        if keep:
            kept.append(tau)
    return tau, torch.stack(kept, dim=1) if keep else None


def continued(tau: torch.Tensor, last: torch.Tensor | None) -> torch.Tensor:
    """tau (B, K, d) with every knot after a plan's last one (B,) a copy of it: the U-Net's own padding."""
    if last is None:
        return tau
    index = torch.minimum(torch.arange(tau.shape[1], device=tau.device), last[:, None])  # (B, K)
    return tau.gather(1, index[:, :, None].expand_as(tau))


def posterior_step(
    scheduler: Any, tau0: torch.Tensor, step: int, tau: torch.Tensor, generators: Sequence[torch.Generator]
) -> torch.Tensor:
    """tau^{i-1} ~ p(tau^{i-1} | tau^i), eqs. (6) and (7), or the sampler's deterministic step in its place."""
    return scheduler.step(tau0, step, tau, generator=list(generators), return_dict=False)[0]
