"""Batched denoising: which plans share a batch, how they are sampled, and the curve through their knots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.guidance import Cost, Guidance
from vhdiffuser.diffusion.interpolation import control_rate, knot_count
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.process import Process, clamp_mask
from vhdiffuser.diffusion.sampler import sample
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.threads import batches_in_parallel
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, IntArray

KNOTS_PER_BATCH = 2048
"""Knots per batch: bounds memory and spreads work over threads; on one CPU thread 8,192 were no faster."""


@dataclass(frozen=True)
class Denoiser:
    """A planner's network and everything needed to sample from it."""

    network: nn.Module
    process: Process
    config: PlannerConfig
    spec: EnvSpec
    normalizer: Normalizer
    options: PlanningOptions
    device: torch.device

    def draw(
        self,
        starts: FloatArray,
        targets: FloatArray,
        lengths: IntArray,
        seeds: IntArray,
        keep: bool,
        cost: Cost | None,
    ) -> list[Plan]:
        """One plan for each of (B, d) starts, (B, d) targets, (B,) lengths and (B,) seeds."""
        counts = np.array([self._knot_count(int(length)) for length in lengths], np.int64)  # (B,) K
        plans: dict[int, Plan] = {}
        groups = list(self._groups(counts))

        def denoise(members: IntArray) -> tuple[FloatArray, FloatArray | None]:
            return self._denoise(starts[members], targets[members], counts[members], seeds[members], keep, cost)

        for members, (knots, kept) in zip(groups, batches_in_parallel(denoise, groups), strict=True):
            for length in np.unique(lengths[members]):
                same = np.flatnonzero(lengths[members] == length)
                K = counts[members[same[0]]]
                states = control_rate(
                    knots[same, :K],
                    int(length),
                    self.config.stride,
                    self.spec,
                    self.config.clamp,
                    self.options.smoothing,
                )
                for row, own_states in zip(same, states, strict=True):
                    member = int(members[row])
                    history = None if kept is None else kept[row, :, :K]
                    plans[member] = self._plan(own_states, starts[member], targets[member], history)
        return [plans[member] for member in range(len(starts))]

    def _knot_count(self, length: int) -> int:
        """K of a plan of that length: 1/stretch of its states are sampled at the data's pace, at least L_min.

        A fixed-horizon planner is never stretched, neither at its own length nor at a predicted one (FH+LP): it was
        trained on crops of one length only.
        """
        if self.config.horizon is None:
            length = max(1 + round((length - 1) / self.options.stretch), min(length, self.spec.L_min))
        return knot_count(length, self.config.stride)

    def _padded(self, counts: IntArray) -> IntArray:
        """Knot counts rounded up to the multiple that the U-Net's downsamplings need, as its own padding does."""
        multiple = 2 ** (len(self.config.dim_mults) - 1)
        return -(-counts // multiple) * multiple

    def _groups(self, counts: IntArray) -> Iterator[IntArray]:
        """Indices of plans that may share a batch: same padded length, and few enough to bound memory.

        GroupNorm averages over time, so padding a plan further than necessary would change it.
        """
        padded = self._padded(counts)
        for P in np.unique(padded):
            members = np.flatnonzero(padded == P)
            size = max(KNOTS_PER_BATCH // int(P), 1)
            yield from (members[first : first + size] for first in range(0, len(members), size))

    @torch.inference_mode()
    def _denoise(
        self,
        starts: FloatArray,
        targets: FloatArray,
        counts: IntArray,
        seeds: IntArray,
        keep: bool,
        cost: Cost | None,
    ) -> tuple[FloatArray, FloatArray | None]:
        """Algorithm 2, lines 2 to 6: padded knots (B, P, d) in units and, if kept, (B, steps + 1, P, d)."""
        first = self.config.action_dim  # the original Diffuser's knots are (action, state)
        width = first + self.spec.state_dim
        P = int(self._padded(counts)[0])
        last = torch.from_numpy(counts - 1).to(self.device)
        known = torch.zeros(len(starts), P, width, device=self.device)
        known[:, 0, first:] = torch.from_numpy(self.normalizer.normalize(starts)).to(self.device)
        ends = torch.from_numpy(self.normalizer.normalize(targets)).to(self.device)
        known[torch.arange(len(starts), device=self.device), last, first:] = ends
        mask = clamp_mask(last, P, width, self.config.clamped_dims(self.spec))
        generators = [torch.Generator().manual_seed(int(seed)) for seed in seeds]
        sampler, steps = self.options.sampler, self.options.steps
        guide = None if cost is None else Guidance.of(cost, self.spec, self.normalizer, first)
        tau, kept = sample(self.network, self.process, known, mask, generators, sampler, steps, last, keep, guide)
        knots = self.normalizer.unnormalize(tau[..., first:].cpu().numpy())
        return knots, None if kept is None else self.normalizer.unnormalize(kept[..., first:].cpu().numpy())

    def _plan(self, states: FloatArray, start: FloatArray, target: FloatArray, kept: FloatArray | None) -> Plan:
        """The plan with its exact ends, which normalising and back had rounded."""
        last = list(self.spec.goal_dims) if self.config.clamp == "goal" else list(range(self.spec.state_dim))
        states[0] = start
        states[-1, last] = target[last]
        return Plan(states=states, goal=self.spec.goal_of(target), denoising=kept, spec=self.spec)
