"""Batched denoising: which plans share a batch, how they are sampled, and the curve through their knots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np

from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.guidance import Cost, Guidance
from vhdiffuser.diffusion.interpolation import control_rate, knot_count
from vhdiffuser.diffusion.noise import Noise
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.sampler import Clean, clamp_mask, framed_clean, network_clean, sample
from vhdiffuser.diffusion.schedule import Schedule
from vhdiffuser.length.route import Route
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.clearing import pushed_out
from vhdiffuser.planner.compose import ROUTE_POINTS, Composed, Motion, rough_chain
from vhdiffuser.runtime.network import Network
from vhdiffuser.runtime.unrolled import UnetNetwork
from vhdiffuser.threads import batches_in_parallel
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, IntArray

KNOTS_PER_BATCH = 2048
"""Knots per batch: bounds memory and spreads work over threads; on one CPU thread 8,192 were no faster."""
SLACK = 2.0
"""Maximum number of knots by which a composed plan may deviate from its route's timing, if its network sees no absolute
positions."""
WARM = 0.4
"""Fraction of the reverse steps used by warm-started replanning, which follows the plan's own route."""
CHAIN = 8
"""Composed plans are denoised in chains of a multiple of this many knots, so that several share a batch."""


@dataclass(frozen=True)
class Denoiser:
    """A planner's network and everything needed to sample from it."""

    network: Network
    schedule: Schedule
    config: PlannerConfig
    spec: EnvSpec
    normalizer: Normalizer
    options: PlanningOptions
    tube: float | None = None
    """Maximum normalised distance of a composed plan from its route."""

    def has(self, *parts: object, tube: float | None) -> bool:
        """Whether it was made of these parts, in the order of its fields."""
        own = (self.network, self.schedule, self.config, self.spec, self.normalizer, self.options)
        return self.tube == tube and all(part is mine for part, mine in zip(parts, own, strict=True))

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

        Plans with a (normalised) route are composed of pieces along it.
        """
        counts = np.array([self.knot_count(int(length)) for length in lengths], np.int64)  # (B,) K
        ways = list(routes or [None] * len(counts))
        composed = np.array([way is not None for way in ways])
        plans: dict[int, Plan] = {}
        groups = list(self._groups(counts, composed))

        def denoise(members: IntArray) -> tuple[FloatArray, FloatArray | None]:
            along = [way for way in (ways[member] for member in members) if way is not None]
            chains = along if composed[members[0]] else None
            return self._denoise(starts[members], targets[members], counts[members], seeds[members], keep, cost, chains)

        for members, (knots, kept) in zip(groups, batches_in_parallel(denoise, groups), strict=True):
            for length in sorted(set(lengths[members].tolist())):
                same = np.flatnonzero(lengths[members] == length)
                K = counts[members[same[0]]]
                states = control_rate(
                    knots[same, :K],
                    length,
                    self.config.stride,
                    self.spec,
                    self.config.clamp,
                    self.options.smoothing,
                )
                for row, own_states in zip(same, states, strict=True):
                    member = int(members[row])
                    if cost is not None:
                        own_states = pushed_out(own_states, cost, self.spec, self.options.smoothing)
                    history = None if kept is None else kept[row, :, :K]
                    plans[member] = self._plan(own_states, starts[member], targets[member], history, ways[member])
        return [plans[member] for member in range(len(starts))]

    def warm_up(self) -> None:
        """Build the network's graphs, for plans of any length."""
        if isinstance(self.network, UnetNetwork):
            self.network.warm_up()

    @cached_property
    def quick(self) -> Denoiser:
        """The same with fewer reverse steps, for warm-started replanning."""
        return replace(self, options=self.options.changed(steps=ceil(WARM * self.options.steps)))

    @cached_property
    def network_normalizer(self) -> Normalizer:
        """Maps states to the network's input."""
        return self.config.network_normalizer(self.spec, self.normalizer)

    @property
    def piece_knots(self) -> int:
        """P: knots per piece; plans with no more knots are sampled in one piece."""
        return knot_count(self.options.piece, self.config.stride) if self.options.piece else 0

    def knot_count(self, length: int) -> int:
        """K of a plan of that length: 1/stretch of its states are sampled at the data's speed, at least L_min.

        A fixed-horizon planner is never stretched, neither at its own length nor at a predicted one (FH+LP), since it
        was trained on crops of one length only. It has only ever seen their padding to a multiple of the U-Net's, so
        its plans of other lengths get the nearest number of knots with the same padding.
        """
        horizon, stride = self.config.horizon, self.config.stride
        if horizon is None:
            length = max(1 + round((length - 1) / self.options.stretch), min(length, self.spec.L_min))
            return knot_count(length, stride)
        K, multiple = knot_count(length, stride), self._multiple
        aligned = K + (knot_count(horizon, stride) - K + multiple // 2) % multiple - multiple // 2
        return aligned if aligned >= 2 else K

    @property
    def _multiple(self) -> int:
        """Number of knots that the U-Net's downsampling divides; others are padded to a multiple of it."""
        return 2 ** (len(self.config.dim_mults) - 1)

    def _padded(self, counts: IntArray, chains: bool = False) -> IntArray:
        """Knot counts rounded up to the multiple needed by the U-Net's downsampling (its own padding), or by chains to
        share batches."""
        multiple = CHAIN if chains else self._multiple
        return -(-counts // multiple) * multiple

    def _groups(self, counts: IntArray, composed: BoolArray) -> Iterator[IntArray]:
        """Indices of plans that can share a batch: of equal padded length, and few enough to bound memory.

        GroupNorm averages over time, so padding a plan more than necessary would change it.
        """
        if len(counts) == 1:
            yield np.array([0])
            return
        padded = np.where(composed, self._padded(counts, chains=True), self._padded(counts))
        pieces = np.where(composed, np.minimum(counts, self.piece_knots), 0)  # knots of a chain's windows
        for P, piece in np.unique(np.stack([padded, pieces], axis=1), axis=0):
            members = np.flatnonzero((padded == P) & (pieces == piece))
            overlap = 2 if piece else 1  # each knot of a chain is in two windows
            size = max(KNOTS_PER_BATCH // (int(P) * overlap), 1)
            yield from (members[first : first + size] for first in range(0, len(members), size))

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
        last, normalizer = counts - 1, self.network_normalizer
        known = np.zeros((len(starts), P, width), np.float32)
        known[:, 0, first:] = normalizer.normalize(starts)
        known[np.arange(len(starts)), last, first:] = normalizer.normalize(targets)
        mask = clamp_mask(last, P, width, self.config.clamped_dims(self.spec))
        streams = [Noise(int(seed)) for seed in seeds]
        sampler, steps = self.options.sampler, self.options.steps
        limit = 1.0 if self.config.frame is None else np.inf  # for positions in a frame, which move with the plan
        guide = None if cost is None else Guidance.of(cost, self.spec, normalizer, first, limit)
        clean = self._clean(last) if ways is None else self._composed(known, counts, ways)
        tau, kept = sample(clean, self.schedule, known, mask, streams, sampler, steps, last, keep, guide)
        knots = normalizer.unnormalize(tau[..., first:])
        return knots, None if kept is None else normalizer.unnormalize(kept[..., first:])

    def _clean(self, last: IntArray) -> Clean:
        """tau^0 of plans that end at knot last (B,)."""
        clean = network_clean(self.network, self.schedule)
        if self.config.frame is None:
            return clean
        places = [self.config.action_dim + dim for dim in self.spec.goal_dims]
        return framed_clean(clean, self.schedule, places, last)

    @cached_property
    def _motion(self) -> Motion:
        seconds = self.config.stride * self.spec.control_dt
        return Motion.at(seconds, self.spec, self.network_normalizer, self.config.action_dim)

    def _composed(self, known: FloatArray, counts: IntArray, ways: Sequence[Route]) -> Clean:
        """tau^0 of whole chains (B, K, width) along their routes, from windows of one piece."""
        assert self.tube is not None
        P = min(self.piece_knots, int(counts.min()))
        normalizer, motion = self.network_normalizer, self._motion
        radius: FloatArray | float = self.tube
        if self.config.frame is not None:
            mine, data = (each.select(self.spec.goal_dims) for each in (normalizer, self.normalizer))
            ways = [replace(way, places=mine.normalize(data.unnormalize(way.places))) for way in ways]
            radius = self.tube * data.scale / mine.scale
        rough = known.copy()
        points = np.empty((len(ways), ROUTE_POINTS, len(motion.places)), np.float32)
        for chain, way in enumerate(ways):
            K = int(counts[chain])
            if chain and way is ways[chain - 1]:  # another candidate for the same pair
                rough[chain, :K], points[chain] = rough[chain - 1, :K], points[chain - 1]
                continue
            rough[chain, :K] = rough_chain(way, known[chain, 0], K, motion)
            points[chain] = way.evenly(ROUTE_POINTS)
        return Composed(
            self._clean(np.array([P - 1])),
            rough,
            points,
            radius,
            counts,
            P,
            int(self._padded(np.array([P]))[0]),
            self.config.clamped_dims(self.spec),
            motion,
            None if self.config.frame is None else SLACK,
        )

    def _plan(
        self,
        states: FloatArray,
        start: FloatArray,
        target: FloatArray,
        kept: FloatArray | None,
        way: Route | None,
    ) -> Plan:
        """The plan with its exact ends, which normalisation had rounded."""
        last = list(self.spec.goal_dims) if self.config.clamp == "goal" else list(range(self.spec.state_dim))
        states[0] = start
        states[-1, last] = target[last]
        route = None if way is None else self.normalizer.select(self.spec.goal_dims).unnormalize(way.places)
        return Plan(states=states, goal=self.spec.goal_of(target), denoising=kept, spec=self.spec, route=route)
