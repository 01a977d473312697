"""(start, goal) -> L_hat -> plan: Algorithm 2, for one start-goal pair or many."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers, as_seed
from vhdiffuser.data.motion import FastestMotion
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.guidance import CostFunction
from vhdiffuser.diffusion.networks import as_network
from vhdiffuser.diffusion.options import OptionChanges, PlanningOptions
from vhdiffuser.diffusion.schedule import Schedule
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.files import scratch_folder
from vhdiffuser.length.calibration import Calibration
from vhdiffuser.length.horizon import plan_lengths
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.length.route import RouteGraph
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner import calibrated, pretrained
from vhdiffuser.planner.calibrated import Arrive, Horizon
from vhdiffuser.planner.candidates import StepsPredictor
from vhdiffuser.planner.denoising import Denoiser
from vhdiffuser.planner.onnx import load_parts
from vhdiffuser.planner.parts import Requests, draw_candidates, replanned
from vhdiffuser.planner.requests import (
    LONGEST,
    Outside,
    RequestError,
    check_inside,
    checked_goals,
    checked_lengths,
    checked_seeds,
    checked_starts,
)
from vhdiffuser.planner.retiming import quickened
from vhdiffuser.planner.routing import joined, make_router, position_cost, routes_of
from vhdiffuser.planner.waiting import moving_lengths, waiting
from vhdiffuser.planner.waypoints import plan_via
from vhdiffuser.runtime.network import Network
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, IntArray
from vhdiffuser.weights.folder import check_config
from vhdiffuser.weights.format import ModelHeader
from vhdiffuser.weights.onnx_folder import is_onnx_folder
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    import torch
    from typing_extensions import Self, Unpack

_AGREEING = 1 / 3
"""Fraction of a route's least distance below which the network's distance is trusted instead."""


class Planner:
    """A trained denoiser with everything needed to plan: config, normaliser, options and, optionally, a Length
    Predictor."""

    def __init__(
        self,
        network: Network | torch.nn.Module,
        config: PlannerConfig,
        spec: EnvSpec,
        normalizer: Normalizer,
        length_predictor: StepsPredictor | None = None,
        *,
        options: PlanningOptions | None = None,
        outside: Outside = "warn",
        lengths: tuple[int, int] | None = None,
        motion: FastestMotion | None = None,
        calibration: Calibration | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """`outside` defines what happens to a start or goal outside the data's limits. `lengths` are the minimum and
        maximum plan length, (L_min, T_max) by default. `motion` is the maximum speed and acceleration of the training
        data, to check plans against. `calibration` (from `vhdiffuser.calibrate`) enables `risk`."""
        self.config, self.spec, self.normalizer = config, spec, normalizer
        self.options = (options or PlanningOptions()).checked_for(config)
        if outside not in get_args(Outside):
            raise UnknownNameError("value of `outside`", outside, list(get_args(Outside)))
        self.length_predictor, self.outside, self.motion = length_predictor, outside, motion
        self.calibration = calibration
        self.lengths = lengths or (spec.L_min, spec.T_max)
        self.network = as_network(network, config, spec, device)
        self.schedule = Schedule(config.diffusion_steps, config.prediction)
        self._origin: ModelHeader | None = None  # header of the file it was loaded from
        self._kept: Denoiser | None = None

    @classmethod
    def load(
        cls,
        path: Path | str,
        length_predictor: StepsPredictor | None = None,
        *,
        outside: Outside = "warn",
        lengths: tuple[int, int] | None = None,
        device: torch.device | str = "cpu",
    ) -> Self:
        """Load a planner's model file, with the options stored in it (`with_options` changes them) and, if there is one
        next to it, its calibration."""
        arguments, origin = pretrained.planner_parts(Path(path), device)
        planner = cls(**arguments, length_predictor=length_predictor, outside=outside, lengths=lengths, device=device)
        planner._origin = origin
        return planner

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        source: Source = "shipped",
        local_files_only: bool = True,
        revision: str | None = None,
        outside: Outside = "warn",
        device: torch.device | str = "cpu",
        **options: Unpack[OptionChanges],
    ) -> Self:
        """Load a planner with its Length Predictor; `options` are those of `with_options`.

        `name` is a folder (from `save_pretrained`, `vhd models export` or `vhd export onnx`), an environment with
        shipped weights (`vhd models` lists them), or a repository `OWNER/NAME` on the Hugging Face Hub, looked up in
        the Hub's local cache unless `local_files_only=False` allows a download. With `source="trained"`, `name` is an
        environment that you trained. Raises `DataError` if files are missing or damaged.

        A calibrated planner (`vhd calibrate`) plans at its calibration's risk, 0.01, unless
        `options` name a risk or a gamma.

        >>> planner = Planner.from_pretrained("maze2d-large", candidates=4)      # doctest: +SKIP
        """
        if isinstance(name, str | Path) and is_onnx_folder(Path(name)):
            arguments, predictor = load_parts(Path(name))
            planner = cls(**arguments, length_predictor=predictor, outside=outside).with_options(**options)
            return calibrated.at_default_risk(planner, options)
        path, length_path, route_path = pretrained.find_pretrained(name, source, local_files_only, revision)
        predictor = None if length_path is None else LengthPredictor.load(length_path, device, routes=route_path)
        planner = cls.load(path, predictor, outside=outside, device=device)
        check_config(path.parent, pretrained.headers_of(planner, planner._origin))
        return calibrated.at_default_risk(planner.with_options(**options), options)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `planner.safetensors`, `length.safetensors`, `route.safetensors` and `calibration.json` (if present),
        `config.json` and a model card to a folder.

        `from_pretrained(folder)` then makes bitwise identical plans with the same options. An existing README.md is
        kept.
        """
        header = pretrained.headers_of(self, self._origin)["planner"]
        models = {"planner": (self.network.tensors, header), **pretrained.predictor_models(self.length_predictor)}
        pretrained.save_folder(Path(folder), models)
        if isinstance(self.length_predictor, LengthPredictor) and self.length_predictor.routes is not None:
            self.length_predictor.routes.save_table(Path(folder) / "route.safetensors")
        calibrated.save_calibration(Path(folder), self.calibration)

    def push_to_hub(self, repo_id: str, *, private: bool = False, commit_message: str = "Upload planner") -> str:
        """Upload what `save_pretrained` writes to `OWNER/NAME` on the Hugging Face Hub, and return its URL.

        Log in first (`hf auth login`). This is the only method that always uses the network.
        """
        with scratch_folder() as folder:
            self.save_pretrained(folder)
            return pretrained.push_folder(repo_id, folder, private, commit_message)

    @property
    def saved_options(self) -> PlanningOptions | None:
        """Options in the file that it was loaded from; None if it was created in memory."""
        return None if self._origin is None else PlanningOptions.from_json(self._origin.planning)

    def with_options(self, **changes: Unpack[OptionChanges]) -> Self:
        """Return the same planner with other options; network and Length Predictor are shared. None means no change.
        Raises `VhdError` for invalid options.

        >>> planner.with_options(candidates=8, sampler="ddpm", steps=64)     # doctest: +SKIP
        """
        other = copy(self)
        other.options = self.options.changed(**changes).checked_for(self.config)
        if changes.get("risk") is not None:
            other.calibration = calibrated.asked(self.calibration)
        return other

    def plan(
        self,
        start: npt.ArrayLike,
        goal: npt.ArrayLike,
        length: int | None = None,
        *,
        via: npt.ArrayLike | None = None,
        avoid: npt.ArrayLike | CostFunction | None = None,
        risk: float | None = None,
        deadline: int | None = None,
        arrive: Arrive = "by",
        seed: int = 0,
        keep_denoising: bool = False,
    ) -> Plan:
        """Plan from start (d,) to goal, with exactly `length` states (default: the predicted L_hat).

        The goal is given as goal dimensions (goal_dim,) or as a full planning state (d,). The same `seed` gives the
        same plan; `keep_denoising` stores the intermediate knots in the plan.

        With a calibration (`vhd calibrate`), `risk=0.05` uses the shortest length at which the system arrives with
        probability 0.95. `deadline` is the control step by which it must arrive, or with `arrive="at"` exactly at which
        it arrives, at that risk (default: the planner's, or 0.05 if it has none). If that is not possible, raises
        `DeadlineError` with the number of steps needed. Warns if start or goal lies off the data, where the risk that
        was asked for cannot be promised.

        `via` are waypoints (n, goal_dim) to pass through, in order. Each leg is planned separately, with its own
        predicted length (or its share of `length`), so the whole plan may exceed T_max. To track such a plan to its
        end, even if it passes the goal on the way to a waypoint, use `ExecutionRule(stop_at_hit=False)`.

        `avoid` are boxes (n, 2, goal_dim) of lower and upper corners, or a function of positions in torch operations
        (`vhdiffuser.diffusion.guidance.CostFunction`). With a route graph (`vhd train route`) the plan follows a route
        around them, lengthened by the detour; sampling is guided away from them, and the finished plan is pushed out.
        The push ignores walls, so there is no guarantee: check the plan, and use several candidates (`with_options`),
        of which the one that intrudes least is returned.
        """
        planner = self if risk is None else self.with_options(risk=risk)
        start, goal = as_numbers("a start", start), as_numbers("a goal", goal)
        checked_starts(self.spec, start[None])
        checked_goals(self.spec, goal[None], self.config.clamp, 1)
        seed = as_seed(seed)
        if deadline is not None:
            if length is not None or via is not None or avoid is not None:
                raise RequestError(
                    "a deadline cannot be combined with a length, waypoints or regions to avoid: pass it alone."
                )
            return calibrated.plan_until(planner, start, goal, deadline, arrive, seed, keep_denoising)
        if arrive != "by":
            raise RequestError(f"arrive={arrive!r} needs a deadline: pass deadline=T, in control steps, as well.")
        if length is None:
            calibrated.warn_off_data(planner, start, goal)
        if via is not None:
            return plan_via(planner, start, goal, via, length, avoid, seed, keep_denoising)
        lengths = None if length is None else [length]
        return planner.plan_batch(
            start[None], goal[None], lengths, avoid=avoid, seeds=[seed], keep_denoising=keep_denoising
        )[0]

    def plan_batch(
        self,
        starts: npt.ArrayLike,
        goals: npt.ArrayLike,
        lengths: Sequence[int] | IntArray | int | None = None,
        *,
        avoid: npt.ArrayLike | CostFunction | None = None,
        seeds: Sequence[int] | IntArray | int = 0,
        keep_denoising: bool = False,
    ) -> list[Plan]:
        """Plan for (B, d) starts and (B, goal_dim or d) goals; returns B plans in order, each with its own length.

        Plans of equal padded length are denoised together, in batches of bounded size; plans are independent of the
        batch they are computed in. A single integer for `seeds` means consecutive seeds from there. Of several
        candidates, the one that least violates predicted distances is returned. `avoid` as in `plan`.
        """
        origins = checked_starts(self.spec, starts)  # (B, d)
        targets = checked_goals(self.spec, goals, self.config.clamp, len(origins))  # (B, d)
        check_inside(self.spec, self.normalizer, origins, targets, self.config.clamp, self.outside)
        cost = None if avoid is None else position_cost(avoid, self.spec, self.normalizer)
        router = None if self._routes is None else make_router(self._routes, self.spec, self.normalizer, avoid)
        whole = self.config.clamp == "state" and np.shape(goals)[1] == self.spec.state_dim
        ends = targets if whole else self.spec.goal_of(targets)
        if lengths is None:
            lengths = self.predict_lengths(origins, ends)
            if router is not None and avoid is not None:
                margin = self._margin(origins, ends, self.predict_steps(origins, ends))
                lengths = lengths + np.ceil(margin * router.detours(origins, targets)).astype(np.int64)
        allowed = self.lengths if router is None else (self.lengths[0], max(self.lengths[1], LONGEST))
        lengths = checked_lengths(lengths, len(origins), allowed, self.config.horizon)  # (B,)
        drawn = moving = moving_lengths(lengths, self.wait, self.spec.L_min)
        if self.options.retime is not None and self.length_predictor is not None:
            at_data_pace = self.with_options(gamma=self.options.retime, wait=0).predict_lengths(origins, ends)
            drawn = np.maximum(moving, at_data_pace)
        seeds = checked_seeds(seeds, len(origins))  # (B,)
        denoiser = self._denoiser()
        routes = routes_of(router, denoiser, origins, targets, drawn, self.lengths[1])
        n = self.options.candidates
        if n == 1 or not len(origins):
            plans = denoiser.draw(origins, targets, drawn, seeds, keep_denoising, cost, routes)
        else:
            asked = Requests(origins, targets, drawn, seeds, routes, keep_denoising)
            plans = draw_candidates(denoiser, asked, n, self.length_predictor, self._routes, cost)
        return waiting(quickened(plans, moving, self.motion, self.config.clamp), lengths)

    def replan_batch(
        self,
        plans: Sequence[Plan],
        starts: npt.ArrayLike,
        goals: npt.ArrayLike,
        *,
        seeds: Sequence[int] | IntArray | int = 0,
    ) -> list[Plan]:
        """New plans from (B, d) starts that keep the remainders of composed plans beyond the pieces ahead.

        The pieces ahead are resampled along the plan, with a predicted length, and blend into the rest of it. A new
        plan is made, as by `plan_batch`, if the robot has left its plan's route, or the plan is almost over, in one
        piece, or to another goal.
        """
        origins = checked_starts(self.spec, starts)  # (B, d)
        places = self.spec.goal_of(checked_goals(self.spec, goals, "goal", len(origins)))  # (B, goal_dim)
        seeds = checked_seeds(seeds, len(origins))
        if self._routes is None:
            return self.plan_batch(origins, goals, seeds=seeds)
        return replanned(self, self._denoiser(), plans, origins, places, seeds)

    def warm_up(self) -> None:
        """Prepare everything that plans of any length need, so that the first ones are not slow."""
        self._denoiser().warm_up()

    @property
    def _routes(self) -> RouteGraph | None:
        """The route graph for composing long plans; None if plans are sampled in one piece."""
        if not self.options.piece or self.config.horizon is not None:
            return None
        return getattr(self.length_predictor, "routes", None)

    def _denoiser(self) -> Denoiser:
        """Cached for the planner's current parts, with everything it has computed from them."""
        graph = self._routes
        tube = None if graph is None else self.options.tube * graph.radius
        parts = (self.network, self.schedule, self.config, self.spec, self.normalizer, self.options)
        kept = self._kept
        if kept is None or not kept.has(*parts, tube=tube):
            self._kept = kept = Denoiser(*parts, tube=tube)
        return kept

    def predict_steps(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> FloatArray:
        """(B,) shortest-step distances f_theta(s, g) T_max for (B, d) starts and (B, goal_dim) goals.

        For plans that a route guides only loosely, distances to and from places off the data are at least
        `LengthPredictor.least_steps`, unless the network's is less than a third of it: then the route is a detour
        through sparse data.
        """
        if self.length_predictor is None:
            raise VhdError(
                "distances need a Length Predictor: create the planner with a length_predictor (`vhd train length`)."
            )
        steps, predictor = self.length_predictor.predict_steps(starts, goals), self.length_predictor
        if self._routes is None or self.config.frame is not None or not isinstance(predictor, LengthPredictor):
            return steps
        least = predictor.least_steps(starts, goals)
        return np.where(steps >= _AGREEING * least, np.maximum(steps, least), steps)

    def predict_lengths(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> IntArray:
        """(B,) L_hat = clip(gamma (f_theta(s, g) T_max + 1), L_min, T_max): Algorithm 2, line 1, plus `wait` states.

        With a `risk`, the calibrated margin that meets it takes the place of gamma. T_max does not apply if plans are
        composed of pieces (`PlanningOptions.piece`) and a route is known. A fixed-horizon planner without a Length
        Predictor plans at its horizon.
        """
        if self.length_predictor is not None:
            steps = self.predict_steps(starts, goals)  # (B,)
            graph = self._routes
            unlimited = graph is not None and joined(graph, self.spec, self.normalizer, starts, goals)
            margin = self._margin(np.asarray(starts), np.asarray(goals), steps)
            lengths = plan_lengths(steps, self.spec, margin, unlimited)
            if self.options.risk is None:  # a calibrated horizon includes the states that wait
                longest = np.where(unlimited, LONGEST, self.spec.T_max)
                lengths = np.maximum(lengths, np.minimum(lengths + self.wait, longest))
            return lengths
        if self.config.horizon is not None:
            return np.full(len(np.asarray(starts)), self.config.horizon)
        raise VhdError(
            "no length: pass `length` (number of states), or create the planner with a length_predictor (`vhd "
            "train length`)."
        )

    @property
    def wait(self) -> int:
        """States at the end of a plan that stand at its goal; a fixed-horizon planner never waits."""
        return self.options.wait if self.config.horizon is None else 0

    def _margin(self, starts: FloatArray, goals: FloatArray, steps: FloatArray) -> FloatArray | float:
        """What predicted lengths are multiplied by: gamma, or for each of (B,) pairs what keeps the risk."""
        risk = self.options.risk
        return self.options.gamma if risk is None else calibrated.risk_margins(self, starts, goals, steps, risk)

    def horizon(self, start: npt.ArrayLike, goal: npt.ArrayLike, length: int | None = None) -> Horizon:
        """Length of the plan from start (d,) to goal, probability of arriving within it, and time of arrival.

        For a plan of `length` states, if given. Without a calibration only the length is known.
        """
        return calibrated.horizon(self, start, goal, length)
