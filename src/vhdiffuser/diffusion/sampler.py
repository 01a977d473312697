"""Algorithm 2: the reverse process, with both ends clamped after every update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import expm1, log, log1p, sqrt

import numpy as np

from vhdiffuser.cancel import check_cancelled
from vhdiffuser.diffusion.noise import Noise, draw_all
from vhdiffuser.diffusion.samplers import SAMPLERS
from vhdiffuser.diffusion.schedule import Schedule
from vhdiffuser.errors import VhdError
from vhdiffuser.types import BoolArray, FloatArray, IntArray

LOWEST_LOG_SNR = -5.1
"""Few-step grids start no lower than this log(sqrt(alpha_bar) / sqrt(1 - alpha_bar)).

The last levels of the cosine schedule contain no signal; a long first step from there only amplifies the network's
error (1/sqrt(alpha_bar) is 5,000 at the last of 256 levels). The value is DPM-Solver's.
"""


SPACING = 1.5
"""Exponent that concentrates few-step grids near the clean end.

The network's error in tau^0 is its error in v times the noise level, so the last evaluation should be at low noise. On
maze2d-umaze, 5 steps spaced like this matched 20 evenly spaced ones (docs/notes/planner.md).
"""


@lru_cache(maxsize=64)
def reverse_levels(schedule: Schedule, steps: int) -> tuple[int, ...]:
    """The `steps` levels i visited, noisiest first; all of them when `steps` is N.

    Shorter grids start at the noisiest useful level and end at the cleanest, from which the last step reaches tau^0.
    """
    if not 1 <= steps <= schedule.steps:
        raise VhdError(f"steps must be in 1..{schedule.steps} (the planner's diffusion steps); got {steps}.")
    alpha_bar = schedule.alpha_bar.astype(np.float64)
    log_snr = 0.5 * (np.log(alpha_bar) - np.log1p(-alpha_bar))
    useful = int((log_snr >= LOWEST_LOG_SNR).sum())
    top = (useful if steps <= useful else schedule.steps) - 1
    if steps == 1:
        return (top,)
    # Never below the number of remaining levels, so that no level is visited twice.
    return tuple(max(round(top * (left / (steps - 1)) ** SPACING), left) for left in range(steps - 1, -1, -1))


Draw = Callable[[], FloatArray]
"""Fresh standard normal noise of tau's shape."""


def ddpm_step(tau: FloatArray, tau0: FloatArray, older: FloatArray, a: list[float], n: int, draw: Draw) -> FloatArray:
    """tau^{i-1} ~ p(tau^{i-1} | tau^i), eqs. (6) and (7): the Gaussian posterior of the forward process given tau^0."""
    alpha = a[n] / a[n + 1]
    mean = (sqrt(a[n + 1]) * (1 - alpha) * tau0 + sqrt(alpha) * (1 - a[n + 1]) * tau) / (1 - a[n])
    if n + 2 == len(a):  # the last step ends at its mean
        return mean
    return mean + sqrt((1 - alpha) * (1 - a[n + 1]) / (1 - a[n])) * draw()


def ddim_step(tau: FloatArray, tau0: FloatArray, older: FloatArray, a: list[float], n: int, draw: Draw) -> FloatArray:
    """The same marginals without fresh noise (Song et al. 2021): tau^0 and the noise implied by tau, remixed."""
    epsilon = (tau - sqrt(a[n]) * tau0) / sqrt(1 - a[n])
    return sqrt(a[n + 1]) * tau0 + sqrt(1 - a[n + 1]) * epsilon


def dpmpp_step(tau: FloatArray, tau0: FloatArray, older: FloatArray, a: list[float], n: int, draw: Draw) -> FloatArray:
    """DPM-Solver++(2M) (Lu et al. 2022): tau^0 extrapolated from the last two predictions, over half-log-SNR lambda.

    The first step has a single prediction; the last one ends at tau^0 itself.
    """
    if n + 2 == len(a):
        return tau0
    lam = [0.5 * (log(value) - log1p(-value)) for value in a[:-1]]
    h = lam[n + 1] - lam[n]
    if n > 0:
        tau0 = tau0 + 0.5 * h / (lam[n] - lam[n - 1]) * (tau0 - older)
    return sqrt((1 - a[n + 1]) / (1 - a[n])) * tau - sqrt(a[n + 1]) * expm1(-h) * tau0


Clean = Callable[[FloatArray, int], FloatArray]
"""(tau^i (B, K, d), level i) -> the predicted tau^0 (B, K, d)."""


def network_clean(network: Callable[[FloatArray, int], FloatArray], schedule: Schedule) -> Clean:
    """Line 4, left: the tau^0 implied by the network's output, clipped to the data's limits as in Diffuser."""

    def clean(tau: FloatArray, level: int) -> FloatArray:
        return np.clip(schedule.clean(network(tau, level), level, tau), -1, 1)

    return clean


def framed_clean(clean: Clean, schedule: Schedule, places: list[int], last: IntArray) -> Clean:
    """tau^0 from a network with positions relative to the plan's start: tau is shifted there and back.

    The first knot of each plan and its last, at index last (B,), have clean positions, as in training.
    """

    def moved(tau: FloatArray, level: int) -> FloatArray:
        start = tau[:, :1, places]  # (B, 1, g)
        index = np.arange(tau.shape[1])
        is_clean = ((index == 0) | (index >= last[:, None]))[..., None]  # (B, K, 1)
        local = tau.copy()
        local[..., places] -= np.where(is_clean, start, np.sqrt(schedule.alpha_bar[level]) * start)
        tau0 = clean(local, level).copy()
        tau0[..., places] += start
        return tau0

    return moved


def sample(
    clean: Clean,
    schedule: Schedule,
    known: FloatArray,
    mask: BoolArray,
    streams: Sequence[Noise],
    sampler: str,
    steps: int,
    last: IntArray | None = None,
    keep: bool = False,
    guide: Callable[[FloatArray], FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray | None]:
    """Algorithm 2, lines 2 to 6, for B plans, normalised: tau^0 (B, K, d).

    known (B, K, d) holds the start and the goal where mask (B or 1, K, d) is true. Each plan draws its noise from its
    own stream, so plans are independent of the batch they are computed in.
    Plans of fewer than K knots end at index last (B,). They may share a batch if the U-Net would pad them to the
    same length; the knots beyond `last` equal that padding.
    With `keep`, also returns tau at all steps: (B, steps + 1, K, d). `guide` modifies every predicted tau^0.
    """
    levels = reverse_levels(schedule, steps)
    reverse_step = SAMPLERS.get(sampler)
    a = [*(float(schedule.alpha_bar[level]) for level in levels), 1.0]  # alpha_bar of the levels visited, then of tau^0

    def draw() -> FloatArray:
        return draw_all(streams, *known.shape[1:])

    tau = continued(np.where(mask, known, draw()), last)  # line 2
    older, kept = tau, [tau]
    for number, level in enumerate(levels):  # line 3
        check_cancelled()
        tau0 = clean(tau, level)  # line 4, left
        if guide is not None:
            tau0 = guide(np.where(mask, known, tau0))
        tau = np.asarray(reverse_step(tau, tau0, older, a, number, draw), np.float32)  # line 4, right
        if tau.shape != known.shape:
            raise VhdError(f"sampler '{sampler}' must return tau of shape {known.shape}; got {tau.shape}.")
        tau, older = continued(np.where(mask, known, tau), last), tau0  # line 5
        if keep:
            kept.append(tau)
    return tau, np.stack(kept, axis=1) if keep else None


def continued(tau: FloatArray, last: IntArray | None) -> FloatArray:
    """tau (B, K, d) with each plan's last knot (B,) repeated to the end: the U-Net's own padding."""
    if last is None or (last == tau.shape[1] - 1).all():
        return tau
    index = np.minimum(np.arange(tau.shape[1]), last[:, None])  # (B, K)
    return tau[np.arange(len(tau))[:, None], index]


def clamp_mask(last: IntArray, knots: int, width: int, dims: tuple[list[int], list[int]]) -> BoolArray:
    """(B, knots, width) mask of the clamped dimensions: of the first knot and of the last, at index last (B,)."""
    first_dims, last_dims = dims
    mask = np.zeros((len(last), knots, width), bool)
    mask[:, 0, first_dims] = True
    mask[np.arange(len(last))[:, None], last[:, None], last_dims] = True
    return mask
