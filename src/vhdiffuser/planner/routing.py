"""Routes for composed plans, around forbidden regions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from vhdiffuser.diffusion.guidance import BoxCost, Cost, CostFunction
from vhdiffuser.errors import BlockedRouteWarning, needs_extra, warn
from vhdiffuser.length.route import Route, RouteGraph
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.denoising import Denoiser
from vhdiffuser.planner.requests import RequestError
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, IntArray


def joined(
    graph: RouteGraph, spec: EnvSpec, normalizer: Normalizer, starts: npt.ArrayLike, goals: npt.ArrayLike
) -> BoolArray:
    """(B,) whether a route is known from each start to each goal, so that the plan may have any length."""
    here = spec.goal_of(normalizer.normalize(np.asarray(starts, np.float32)))
    ends = np.asarray(goals, np.float32)
    places = ends if ends.shape[-1] == spec.goal_dim else spec.goal_of(ends)
    there = normalizer.select(spec.goal_dims).normalize(places)
    return np.isfinite(graph.steps(here, there))


def refuse_too_long(lengths: IntArray, routes: Sequence[Route | None], longest: int) -> None:
    """Refuse plans of more than `longest` states without a route."""
    beyond = [n for n, route in enumerate(routes) if route is None and lengths[n] > longest]
    if beyond:
        raise RequestError(
            f"pair {beyond[0]}: a plan of {int(lengths[beyond[0]])} states needs a route, but no observed "
            f"transitions connect its start and goal. Without a route, plans have at most {longest} states."
        )


def routes_of(
    router: Router | None,
    denoiser: Denoiser,
    starts: FloatArray,
    targets: FloatArray,
    lengths: IntArray,
    longest: int,
) -> list[Route | None]:
    """The route of each of B plans; None where it is sampled in one piece, which at most `longest` states allow.

    A short plan has a route only if an end is off the data and the network knows absolute positions: what it draws
    there may lead through a wall.
    """
    if router is None:
        return [None] * len(starts)
    knots = np.array([denoiser.knot_count(L) for L in lengths.tolist()], np.int64)
    guided = (lengths > denoiser.options.piece) & (knots > denoiser.piece_knots)
    if denoiser.config.frame is None and not guided.all():
        guided |= (knots > 2) & router.off_data(starts, targets)
    routes = router.routes(starts, targets, guided)
    refuse_too_long(lengths, routes, longest)
    return routes


def position_cost(avoid: npt.ArrayLike | CostFunction, spec: EnvSpec, normalizer: Normalizer) -> Cost:
    """The cost of positions to avoid: the caller's function, or boxes grown by the goal tolerance."""
    if callable(avoid):
        with needs_extra("train", "a function of positions to avoid"):
            from vhdiffuser.diffusion.torch_cost import TorchCost
        return TorchCost(avoid)
    return BoxCost(spec, avoid, spec.epsilon * spec.goal_of(normalizer.scale))


def make_router(
    graph: RouteGraph, spec: EnvSpec, normalizer: Normalizer, avoid: npt.ArrayLike | CostFunction | None
) -> Router:
    """Routes for composed plans, around regions to avoid."""
    costs: list[Cost] = []
    if avoid is not None:
        costs.append(position_cost(avoid, spec, normalizer))
        if not callable(avoid):
            costs.append(BoxCost(spec, avoid, np.zeros(spec.goal_dim, np.float32)))
    return Router(graph, spec, normalizer, costs)


class Router:
    """Routes on the planner's route graph, without regions forbidden by costs."""

    def __init__(self, graph: RouteGraph, spec: EnvSpec, normalizer: Normalizer, costs: Sequence[Cost] = ()) -> None:
        """A position is forbidden if its cost is > 0. If there is no route for the first cost, the next one applies."""
        self.graph, self.costs, self.spec = graph, costs, spec
        self.normalizer = normalizer.select(spec.goal_dims)
        outside = [graph.outside(partial(self._forbidden, cost)) for cost in costs]
        self.free = [free for free in outside if free is not None]

    def _forbidden(self, cost: Cost, places: FloatArray) -> BoolArray:
        """(n,) whether normalised positions (n, goal_dim) have a cost."""
        return cost.values(self.normalizer.unnormalize(places).astype(np.float32)[None])[0] > 0

    def routes(self, starts: FloatArray, targets: FloatArray, long: BoolArray) -> list[Route | None]:
        """The route of each plan from (B, d) to (B, d); None if it needs none or none is known.

        A plan needs a route if it is `long` (B,), or if its route would enter a forbidden region.
        """
        ends = zip(*(self._normal(states) for states in (starts, targets)), strict=True)
        return [self._route(start, goal, bool(far)) for (start, goal), far in zip(ends, long, strict=True)]

    def off_data(self, starts: FloatArray, targets: FloatArray) -> BoolArray:
        """(B,) whether a start (B, d) or its target (B, d) is off the data."""
        return self.graph.off_data(self._normal(starts), self._normal(targets))

    def detours(self, starts: FloatArray, targets: FloatArray) -> FloatArray:
        """(B,) steps added by the way around forbidden regions; 0 if none is known."""
        if not self.costs:
            return np.zeros(len(starts))
        here, there = self._normal(starts), self._normal(targets)
        direct, around = self.graph.steps(here, there), np.full(len(here), np.inf)
        for graph in self.free:
            around = np.where(np.isfinite(around), around, graph.steps(here, there))
        if blocked := int((np.isfinite(direct) & ~np.isfinite(around)).sum()):
            warn(
                f"{blocked} of {len(starts)} plans: no known route avoids the forbidden region. The plan is "
                "bent away from it but may still enter it.",
                BlockedRouteWarning,
            )
        known = np.isfinite(direct) & np.isfinite(around)
        return np.maximum(around - direct, 0.0, out=np.zeros(len(here)), where=known)

    def _route(self, start: FloatArray, goal: FloatArray, long: bool) -> Route | None:
        if not long and not self.costs:
            return None
        route = self.graph.path(start, goal)
        if self.costs and route.known and self._enters(route):
            around = self._around(start, goal)
            route, long = (around, True) if around is not None else (route, long)
        return route if long and route.known and route.total > 0 else None

    def _enters(self, route: Route) -> bool:
        """Whether a route enters a forbidden region."""
        steps = np.linspace(0.0, route.total, max(int(route.total), 2))
        return bool(self._forbidden(self.costs[0], route.at(steps)).any())

    def _around(self, start: FloatArray, goal: FloatArray) -> Route | None:
        """The route around forbidden regions; None if none is known."""
        found = (graph.path(start, goal) for graph in self.free)
        return next((route for route in found if route.known), None)

    def _normal(self, states: FloatArray) -> FloatArray:
        return self.normalizer.normalize(self.spec.goal_of(states))
