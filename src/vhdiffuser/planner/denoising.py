"""Plans from noise, many at a time: which of them share a batch, how each is denoised, and what curve it becomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.guidance import Cost, Guidance
from vhdiffuser.diffusion.interpolation import control_rate, knot_count
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.process import Process, clamp_mask
from vhdiffuser.diffusion.sampler import Clean, network_clean, sample
from vhdiffuser.length.route import Route
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.compose import ROUTE_POINTS, Composed, rough_chain, route_points
from vhdiffuser.threads import batches_in_parallel
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, IntArray

KNOTS_PER_BATCH = 2048
"""Knots denoised at once, which bounds memory and shares work out; on one CPU thread 8,192 were no faster."""
CHAIN = 8
"""Composed plans are denoised in chains of a multiple of this many knots, so that several share a batch."""
TUBE = 2.5
"""Radius within which a composed plan keeps to its route, in radii of the route graph's regions."""


@dataclass(frozen=True)
class Denoiser:
    """A planner's network and all that sampling from it needs."""

    network: nn.Module
    process: Process
    config: PlannerConfig
    spec: EnvSpec
    normalizer: Normalizer
    options: PlanningOptions
    device: torch.device
    tube: float | None = None
    """Normalised distance to which a composed plan keeps to its route."""

    def draw(
        self,
        starts: FloatArray,
        targets: FloatArray,
        lengths: IntArray,
        seeds: IntArray,
        keep: bool,
        cost: Cost | None,
        routes: Sequence[Route | None] | None = None,
    ) -> list[Plan]:
        """One plan for each of (B, d) starts, (B, d) targets, (B,) lengths and (B,) seeds.

        Plans with a route (normalised) that are longer than a piece are composed of pieces along it.
        """
        counts = np.array([self._knot_count(int(length)) for length in lengths], np.int64)  # (B,) K
        ways = list(routes or [None] * len(counts))
        composed = np.array([way is not None and self.piece_knots < K for way, K in zip(ways, counts, strict=True)])
        plans: dict[int, Plan] = {}
        groups = list(self._groups(counts, composed))

        def denoise(members: IntArray) -> tuple[FloatArray, FloatArray | None]:
            along = [way for way in (ways[member] for member in members) if way is not None]
            chains = along if composed[members[0]] else None
            return self._denoise(starts[members], targets[members], counts[members], seeds[members], keep, cost, chains)

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
                    way = ways[member] if composed[member] else None
                    plans[member] = self._plan(own_states, starts[member], targets[member], history, way)
        return [plans[member] for member in range(len(starts))]

    @property
    def piece_knots(self) -> int:
        """P: knots of a piece; a plan of no more is drawn whole."""
        return knot_count(self.options.piece, self.config.stride) if self.options.piece else 0

    def _knot_count(self, length: int) -> int:
        """K of a plan of that length. Drawn at the data's pace it has 1/stretch of its states, and never under L_min.

        A planner of a fixed horizon is not stretched, at its own length or at a predicted one (FH+LP): it has seen
        crops of one length only, and K must rise with the length through it.
        """
        if self.config.horizon is None:
            length = max(1 + round((length - 1) / self.options.stretch), min(length, self.spec.L_min))
        return knot_count(length, self.config.stride)

    def _padded(self, counts: IntArray, chains: bool = False) -> IntArray:
        """Knots up to the next multiple that the U-Net's halvings need (what it pads to by itself), or that chains
        share batches by."""
        multiple = CHAIN if chains else 2 ** (len(self.config.dim_mults) - 1)
        return -(-counts // multiple) * multiple

    def _groups(self, counts: IntArray, composed: BoolArray) -> Iterator[IntArray]:
        """Indices of plans that may share a batch: of one padded length, and few enough to bound memory.

        GroupNorm averages over time, so a plan padded further than it would be alone would come out different.
        """
        padded = np.where(composed, -self._padded(counts, chains=True), self._padded(counts))  # chains are negative
        for P in np.unique(padded):
            members = np.flatnonzero(padded == P)
            overlap = 1 if P > 0 else 2  # every knot of a chain lies in two windows
            size = max(KNOTS_PER_BATCH // (abs(int(P)) * overlap), 1)
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
        ways: Sequence[Route] | None,
    ) -> tuple[FloatArray, FloatArray | None]:
        """Algorithm 2, lines 2 to 6: padded knots (B, P, d) in units and, if kept, (B, steps + 1, P, d)."""
        first = self.config.action_dim  # the original Diffuser's knots are (action, state)
        width = first + self.spec.state_dim
        P = int(self._padded(counts, chains=ways is not None)[0])
        last = torch.from_numpy(counts - 1).to(self.device)
        known = torch.zeros(len(starts), P, width, device=self.device)
        known[:, 0, first:] = torch.from_numpy(self.normalizer.normalize(starts)).to(self.device)
        ends = torch.from_numpy(self.normalizer.normalize(targets)).to(self.device)
        known[torch.arange(len(starts), device=self.device), last, first:] = ends
        mask = clamp_mask(last, P, width, self.config.clamped_dims(self.spec))
        generators = [torch.Generator().manual_seed(int(seed)) for seed in seeds]
        sampler, steps = self.options.sampler, self.options.steps
        guide = None if cost is None else Guidance.of(cost, self.spec, self.normalizer, first)
        clean = network_clean(self.network, self.process)
        if ways is not None:
            clean = self._composed(clean, known, counts, ways)
        tau, kept = sample(clean, self.process, known, mask, generators, sampler, steps, last, keep, guide)
        knots = self.normalizer.unnormalize(tau[..., first:].cpu().numpy())
        return knots, None if kept is None else self.normalizer.unnormalize(kept[..., first:].cpu().numpy())

    def _composed(self, clean: Clean, known: torch.Tensor, counts: IntArray, ways: Sequence[Route]) -> Clean:
        """tau^0 of whole chains (B, K, width) along their routes, by windows of a piece."""
        assert self.tube is not None
        first, P = self.config.action_dim, self.piece_knots
        rough, knot_seconds = known.clone(), self.config.stride * self.spec.control_dt
        for chain, way in enumerate(ways):
            K = int(counts[chain])
            start = known[chain, 0, first:].cpu().numpy()
            drawn = rough_chain(way, start, K, knot_seconds, self.spec, self.normalizer)
            rough[chain, :K, first:] = torch.from_numpy(drawn).to(self.device)
        points = np.stack([route_points(way, ROUTE_POINTS) for way in ways])
        return Composed(
            clean,
            rough,
            torch.from_numpy(points).to(self.device),
            self.tube,
            counts,
            P,
            int(self._padded(np.array([P]))[0]),
            self.config.clamped_dims(self.spec),
            [first + dim for dim in self.spec.goal_dims],
        )

    def _plan(
        self,
        states: FloatArray,
        start: FloatArray,
        target: FloatArray,
        kept: FloatArray | None,
        way: Route | None,
    ) -> Plan:
        """The plan with the ends that were asked for, to the last bit, where units and back had rounded them."""
        last = list(self.spec.goal_dims) if self.config.clamp == "goal" else list(range(self.spec.state_dim))
        states[0] = start
        states[-1, last] = target[last]
        route = None if way is None else self.normalizer.select(self.spec.goal_dims).unnormalize(way.places)
        return Plan(states=states, goal=self.spec.goal_of(target), denoising=kept, spec=self.spec, route=route)
