"""Samplers by name: those of `vhdiffuser.diffusion.sampler`, and registered ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from vhdiffuser.extensions import Registry
from vhdiffuser.types import FloatArray


class ReverseStep(Protocol):
    """A sampler: one step of the reverse process, from tau^i to the next, less noisy level."""

    def __call__(
        self,
        tau: FloatArray,
        tau0: FloatArray,
        older: FloatArray,
        a: list[float],
        n: int,
        draw: Callable[[], FloatArray],
        /,
    ) -> FloatArray:
        """Return the next tau (B, K, d), before its ends are clamped. All arrays are normalised float32.

        tau (B, K, d) is the input of step n = 0, 1, ..., tau0 the clean trajectory that the network predicts from it,
        and older the prediction of the previous step (at n = 0 the initial noise). a holds alpha_bar of the levels
        visited, noisiest first, and 1.0 at the end: the step goes from a[n] to a[n + 1]. draw() returns fresh standard
        normal noise of tau's shape, from each plan's own seed.
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
"""Samplers by name: built-in, registered, or from installed packages."""


def register_sampler(name: str, function: ReverseStep, replace: bool = False) -> None:
    """Register a sampler by name, for `planner.with_options(sampler=...)`, the command line and the web page."""
    SAMPLERS.register(name, function, replace)
