"""Samplers by name: ours of `vhdiffuser.diffusion.sampler`, and anybody's. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from vhdiffuser.extensions import Registry

if TYPE_CHECKING:
    from torch import Tensor


class ReverseStep(Protocol):
    """A sampler: one step of the reverse process, from tau^i to the next, less noisy level."""

    def __call__(
        self, tau: Tensor, tau0: Tensor, older: Tensor, a: list[float], n: int, draw: Callable[[], Tensor], /
    ) -> Tensor:
        """The next tau (B, K, d), before its ends are clamped; all is normalised.

        tau (B, K, d) is where step n = 0, 1, ... begins, tau0 the network's prediction of the clean trajectory from
        there, and older that of the step before (at n = 0 the noise that sampling began with). a holds alpha_bar of
        the levels visited, noisiest first, and 1.0 at the end: the step leads from a[n] to a[n + 1]. draw() gives fresh
        standard normal noise of tau's shape, from each plan's own seed.
        """
        ...


SAMPLERS: Registry[ReverseStep] = Registry(
    "sampler",
    "vhdiffuser.samplers",
    {
        "ddpm": "vhdiffuser.diffusion.sampler:ddpm_step",
        "ddim": "vhdiffuser.diffusion.sampler:ddim_step",
        "dpm++": "vhdiffuser.diffusion.sampler:dpmpp_step",
    },
)
"""Samplers by name: ours, registered ones, and those of installed packages."""


def register_sampler(name: str, function: ReverseStep, replace: bool = False) -> None:
    """Make a sampler known by a name: to `planner.with_options(sampler=...)`, the commands and the page."""
    SAMPLERS.register(name, function, replace)
