"""Algorithm 2: the reverse process, with the ends clamped after every update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import expm1, log, log1p, sqrt

import torch
from torch import nn

from vhdiffuser.diffusion.process import Process, clamp
from vhdiffuser.diffusion.samplers import SAMPLERS
from vhdiffuser.errors import VhdError

LOWEST_LOG_SNR = -5.1
"""Few-step grids start no lower than this log(sqrt(alpha_bar) / sqrt(1 - alpha_bar)).

The last levels of the cosine schedule contain no signal; a long first step from there only amplifies
the network's error (1/sqrt(alpha_bar) is 5,000 at the last of 256 levels). The value is DPM-Solver's.
"""


SPACING = 1.5
"""Exponent that concentrates few-step grids near the clean end.

The network's error in tau^0 is its error in v times the noise level, so the last evaluation should be at low
noise. On maze2d-umaze 5 steps spaced so gave the plans of 20 evenly spaced ones (docs/notes/planner.md).
"""


def reverse_levels(process: Process, steps: int) -> list[int]:
    """The `steps` levels i visited, noisiest first; all of them when `steps` is N.

    Shorter grids start at the noisiest useful level and end at the cleanest, from which the last step reaches tau^0.
    """
    if not 1 <= steps <= process.steps:
        raise VhdError(f"steps must lie in 1..{process.steps} (the planner's diffusion steps), got {steps}.")
    alpha_bar = process.alpha_bar.double().cpu()
    log_snr = 0.5 * (alpha_bar.log() - (-alpha_bar).log1p())
    useful = int((log_snr >= LOWEST_LOG_SNR).sum())
    top = (useful if steps <= useful else process.steps) - 1
    if steps == 1:
        return [top]
    # Never below the number of levels still to come, so that no level is visited twice.
    return [max(round(top * (left / (steps - 1)) ** SPACING), left) for left in range(steps - 1, -1, -1)]


Draw = Callable[[], torch.Tensor]
"""Fresh standard normal noise of tau's shape."""


def ddpm_step(
    tau: torch.Tensor, tau0: torch.Tensor, older: torch.Tensor, a: list[float], n: int, draw: Draw
) -> torch.Tensor:
    """tau^{i-1} ~ p(tau^{i-1} | tau^i), eqs. (6) and (7): the Gaussian posterior of the forward process given tau^0."""
    alpha = a[n] / a[n + 1]
    mean = (sqrt(a[n + 1]) * (1 - alpha) * tau0 + sqrt(alpha) * (1 - a[n + 1]) * tau) / (1 - a[n])
    if n + 2 == len(a):  # the last step ends at its mean
        return mean
    return mean + sqrt((1 - alpha) * (1 - a[n + 1]) / (1 - a[n])) * draw()


def ddim_step(
    tau: torch.Tensor, tau0: torch.Tensor, older: torch.Tensor, a: list[float], n: int, draw: Draw
) -> torch.Tensor:
    """The same marginals without fresh noise (Song et al. 2021): tau^0 and the noise implied by tau, remixed."""
    epsilon = (tau - sqrt(a[n]) * tau0) / sqrt(1 - a[n])
    return sqrt(a[n + 1]) * tau0 + sqrt(1 - a[n + 1]) * epsilon


def dpmpp_step(
    tau: torch.Tensor, tau0: torch.Tensor, older: torch.Tensor, a: list[float], n: int, draw: Draw
) -> torch.Tensor:
    """DPM-Solver++(2M) (Lu et al. 2022): tau^0 extrapolated from the last two predictions, over half-log-SNR lambda.

    The first step has one prediction only; the last ends at tau^0 itself.
    """
    if n + 2 == len(a):
        return tau0
    lam = [0.5 * (log(value) - log1p(-value)) for value in a[:-1]]
    h = lam[n + 1] - lam[n]
    if n > 0:
        tau0 = tau0 + 0.5 * h / (lam[n] - lam[n - 1]) * (tau0 - older)
    return sqrt((1 - a[n + 1]) / (1 - a[n])) * tau - sqrt(a[n + 1]) * expm1(-h) * tau0


Clean = Callable[[torch.Tensor, int], torch.Tensor]
"""(tau^i (B, K, d), level i) -> the predicted tau^0 (B, K, d)."""


def network_clean(network: nn.Module, process: Process) -> Clean:
    """Line 4, left: the tau^0 implied by the network's output, clipped to the data's limits as in Diffuser."""

    def clean(tau: torch.Tensor, level: int) -> torch.Tensor:
        i = torch.full((len(tau),), level, device=tau.device)
        return process.clean(network(tau, i).float(), i, tau).clamp(-1, 1)

    return clean


def sample(
    clean: Clean,
    process: Process,
    known: torch.Tensor,
    mask: torch.Tensor,
    generators: Sequence[torch.Generator],
    sampler: str,
    steps: int,
    last: torch.Tensor | None = None,
    keep: bool = False,
    guide: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Algorithm 2, lines 2 to 6, for B plans, normalised: tau^0 (B, K, d).

    known (B, K, d) holds the start and the goal where mask (B or 1, K, d) is true. Each plan draws its noise from its
    own generator (on the CPU, whatever the device), so plans are independent of the batch they are computed in.
    Plans of fewer than K knots end at index last (B,). They may share a batch if the U-Net would pad them to the
    same length; the knots beyond `last` equal that padding.
    With `keep`, also returns tau at all steps: (B, steps + 1, K, d). `guide` modifies every predicted tau^0.
    """
    B, K, d = known.shape
    levels = reverse_levels(process, steps)
    reverse_step = SAMPLERS.get(sampler)
    a = [*process.alpha_bar.double().cpu()[levels].tolist(), 1.0]  # alpha_bar of the levels visited, then of tau^0

    def draw() -> torch.Tensor:
        return torch.stack([torch.randn(K, d, generator=generator) for generator in generators]).to(known.device)

    tau = continued(clamp(draw(), known, mask), last)  # line 2
    older, kept = tau, [tau]
    for number, level in enumerate(levels):  # line 3
        tau0 = clean(tau, level)  # line 4, left
        if guide is not None:
            tau0 = guide(clamp(tau0, known, mask)).clamp(-1, 1)
        tau = reverse_step(tau, tau0, older, a, number, draw)  # line 4, right
        if tau.shape != known.shape:
            raise VhdError(f"sampler '{sampler}' must return tau of shape {(B, K, d)}, got {tuple(tau.shape)}.")
        tau, older = continued(clamp(tau, known, mask), last), tau0  # line 5
        if keep:
            kept.append(tau)
    return tau, torch.stack(kept, dim=1) if keep else None


def continued(tau: torch.Tensor, last: torch.Tensor | None) -> torch.Tensor:
    """tau (B, K, d) with each plan's last knot (B,) repeated to the end: the U-Net's own padding."""
    if last is None:
        return tau
    index = torch.minimum(torch.arange(tau.shape[1], device=tau.device), last[:, None])  # (B, K)
    return tau.gather(1, index[:, :, None].expand_as(tau))
