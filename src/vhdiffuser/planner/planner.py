"""(start, goal) -> L_hat -> plan: Algorithm 2, for one start-goal pair or many."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers, as_seed
from vhdiffuser.data.motion import FastestMotion
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.guidance import BoxCost, Cost, CostFunction
from vhdiffuser.diffusion.networks import as_network, unet_network
from vhdiffuser.diffusion.options import OptionChanges, PlanningOptions
from vhdiffuser.diffusion.schedule import Schedule
from vhdiffuser.errors import DataError, UnknownNameError, VhdError, needs_extra
from vhdiffuser.files import scratch_folder
from vhdiffuser.length.horizon import plan_lengths
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.length.route import Route, RouteGraph
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.candidates import StepsPredictor, best_candidates, candidate_seeds
from vhdiffuser.planner.denoising import Denoiser
from vhdiffuser.planner.onnx import load_parts
from vhdiffuser.planner.pretrained import find_pretrained, push_folder, save_folder
from vhdiffuser.planner.requests import (
    RequestError,
    check_inside,
    checked_goals,
    checked_lengths,
    checked_seeds,
    checked_starts,
)
from vhdiffuser.planner.routing import Router
from vhdiffuser.planner.waypoints import checked_waypoints, plan_legs, shared_out
from vhdiffuser.runtime.network import Network
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, IntArray
from vhdiffuser.weights.folder import check_config
from vhdiffuser.weights.format import ModelHeader, load_model
from vhdiffuser.weights.onnx_folder import is_onnx_folder
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    import torch
    from typing_extensions import Self, Unpack

LONGEST = 65_536
"""States of the longest plan that may be composed."""
Outside = Literal["warn", "refuse", "ignore"]
"""What happens to a start or goal beyond the limits of the training data."""


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
        device: torch.device | str = "cpu",
    ) -> None:
        """`outside` says what happens to a start or goal beyond the data's limits. `lengths` are the shortest and
        longest plan allowed, (L_min, T_max) by default. `motion` holds the maximum speed and acceleration of the
        training data, to check plans against."""
        self.config, self.spec, self.normalizer = config, spec, normalizer
        self.options = (options or PlanningOptions()).checked_for(config)
        if outside not in get_args(Outside):
            raise UnknownNameError("value of `outside`", outside, list(get_args(Outside)))
        self.length_predictor, self.outside, self.motion = length_predictor, outside, motion
        self.lengths = lengths or (spec.L_min, spec.T_max)
        self.network = as_network(network, config, spec, device)
        self.schedule = Schedule(config.diffusion_steps, config.prediction)
        self._origin: ModelHeader | None = None  # of the file it was loaded from
        self._kept: tuple[tuple[Any, ...], Denoiser] | None = None

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
        """A planner from its model file, with the options stored there (`with_options` changes them)."""
        tensors, header = load_model(Path(path), "planner")
        config, spec = PlannerConfig.from_json(header.config), EnvSpec.from_json(header.spec)
        try:
            network = unet_network(tensors, config, spec, device)
        except DataError as error:
            raise DataError(f"{path}: its weights do not match its own config ({error}). Train it again.") from error
        planner = cls(
            network,
            config,
            spec,
            Normalizer.from_json(header.normalizer),
            length_predictor,
            options=PlanningOptions.from_json(header.planning),
            outside=outside,
            lengths=lengths,
            motion=FastestMotion.from_notes(header.notes),
            device=device,
        )
        planner._origin = header
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
        """A planner with its Length Predictor, ready to plan; `options` are those of `with_options`.

        `name` is a folder (from `save_pretrained`, `vhd models export` or `vhd export onnx`), an environment whose
        weights ship (`vhd models` lists them), or a repository `OWNER/NAME` of the Hugging Face Hub, which is looked up
        in the Hub's local cache unless `local_files_only=False` allows a download. With `source="trained"`, `name` is
        an environment that you trained.

        >>> planner = Planner.from_pretrained("maze2d-large", candidates=4)      # doctest: +SKIP
        """
        if isinstance(name, str | Path) and is_onnx_folder(Path(name)):
            arguments, predictor = load_parts(Path(name))
            return cls(**arguments, length_predictor=predictor, outside=outside).with_options(**options)
        path, length_path, route_path = find_pretrained(name, source, local_files_only, revision)
        predictor = None if length_path is None else LengthPredictor.load(length_path, device, routes=route_path)
        planner = cls.load(path, predictor, outside=outside, device=device)
        check_config(path.parent, planner._headers())
        return planner.with_options(**options)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `planner.safetensors`, `length.safetensors`, `route.safetensors` (where there is a route graph),
        `config.json` and a model card to a folder.

        `from_pretrained(folder)` then makes the same plans, bit for bit, with the same options. An existing README.md
        is kept.
        """
        headers = self._headers()
        models = {"planner": (self.network.tensors, headers["planner"])}
        if isinstance(self.length_predictor, LengthPredictor):
            models["length"] = (self.length_predictor.network.tensors, headers["length"])
            if (routes := self.length_predictor.routes) is not None:
                fingerprint = headers["length"].data_fingerprint
                models["route"] = routes.model(self.spec, self.length_predictor.normalizer, fingerprint)
        elif self.length_predictor is not None:
            raise VhdError(
                f"a {type(self.length_predictor).__name__} cannot be saved: only a vhdiffuser.LengthPredictor can. Set "
                "planner.length_predictor to one, or to None to save the planner alone."
            )
        save_folder(Path(folder), models)

    def push_to_hub(self, repo_id: str, *, private: bool = False, commit_message: str = "Upload planner") -> str:
        """Upload what `save_pretrained` writes to `OWNER/NAME` on the Hugging Face Hub, and return its URL.

        Log in first (`hf auth login`). This is the only method that always uses the network.
        """
        with scratch_folder() as folder:
            self.save_pretrained(folder)
            return push_folder(repo_id, folder, private, commit_message)

    def _headers(self) -> dict[str, ModelHeader]:
        """The current header of its model file, and that of its Length Predictor if it is a `LengthPredictor`."""
        notes = self.motion.to_notes() if self.motion else {}
        history = self._origin or ModelHeader("planner", {}, {}, {}, data_fingerprint="", notes=notes)
        header = replace(
            history,
            spec=self.spec.to_json(),
            config=self.config.to_json(),
            normalizer=self.normalizer.to_json(),
            planning=self.options.to_json(),
        )
        predictor = self.length_predictor
        return {"planner": header} | ({"length": predictor.header()} if isinstance(predictor, LengthPredictor) else {})

    @property
    def saved_options(self) -> PlanningOptions | None:
        """The options in the file that it was loaded from; None where it was made in memory."""
        return None if self._origin is None else PlanningOptions.from_json(self._origin.planning)

    def with_options(self, **changes: Unpack[OptionChanges]) -> Self:
        """The same planner with other options; network and Length Predictor are shared. None means no change.

        >>> planner.with_options(candidates=8, sampler="ddpm", steps=64)     # doctest: +SKIP
        """
        other = copy(self)
        other.options = self.options.changed(**changes).checked_for(self.config)
        return other

    def plan(
        self,
        start: npt.ArrayLike,
        goal: npt.ArrayLike,
        length: int | None = None,
        *,
        via: npt.ArrayLike | None = None,
        avoid: npt.ArrayLike | CostFunction | None = None,
        seed: int = 0,
        keep_denoising: bool = False,
    ) -> Plan:
        """One plan of exactly `length` states (by default the predicted L_hat) from start (d,) to goal.

        The goal is given as goal dimensions (goal_dim,) or as a full planning state (d,).

        `via` are waypoints (n, goal_dim) that the plan passes through, in order. Each leg is planned on its own, with
        its own predicted length (or its share of `length`), so the whole may be longer than T_max. To track such a plan
        to its end, even if it passes the goal on the way to a waypoint, use `ExecutionRule(stop_at_hit=False)`.

        `avoid` are boxes (n, 2, goal_dim) of lower and upper corners, or a function of positions by torch operations
        (`vhdiffuser.diffusion.guidance.CostFunction`). With a route graph (`vhd train route`) the plan follows a route
        around them, with the length that the detour needs; sampling is guided away from them, and the finished plan is
        pushed out. Walls are not known to the push, so there is no guarantee: check the plan, and draw several
        candidates (`with_options`); the one that intrudes least is returned.
        """
        start, goal = as_numbers("a start", start), as_numbers("a goal", goal)
        seed = as_seed(seed)

        def plan_leg(start: FloatArray, goal: FloatArray, length: int | None, seed: int) -> Plan:
            lengths = None if length is None else [length]
            return self.plan_batch(
                start[None], goal[None], lengths, avoid=avoid, seeds=[seed], keep_denoising=keep_denoising
            )[0]

        if via is None:
            return plan_leg(start, goal, length, seed)
        places = checked_waypoints(self.spec, via)
        lengths: list[int | None] = [None] * (len(places) + 1)
        if length is not None:  # dimensions that a waypoint leaves open are taken to be 0
            starts = np.stack([start, *(self.spec.start_state(place) for place in places)])
            ends = np.stack([*places, self.spec.place_of(goal)])
            lengths = [*shared_out(length, self.predict_lengths(starts, ends).tolist())]
        return plan_legs(plan_leg, start, [*places, goal], lengths, seed)

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
        """Plans for (B, d) starts and (B, goal_dim or d) goals, in order, each of its own length.

        Plans that the network pads to the same length are denoised together, in batches of bounded size; plans are
        independent of the batch they are computed in. One integer for `seeds` means it, the next one, and so on.
        Of several candidates, the one that least violates predicted distances is returned. `avoid` as in `plan`.
        """
        origins = checked_starts(self.spec, starts)  # (B, d)
        targets = checked_goals(self.spec, goals, self.config.clamp, len(origins))  # (B, d)
        check_inside(self.spec, self.normalizer, origins, targets, self.config.clamp, self.outside)
        cost = None if avoid is None else self._cost(avoid)
        router = self._router(avoid)
        if lengths is None:
            whole = self.config.clamp == "state" and np.shape(goals)[1] == self.spec.state_dim
            lengths = self.predict_lengths(origins, targets if whole else self.spec.goal_of(targets))
            if router is not None:
                lengths = lengths + np.ceil(self.options.gamma * router.detours(origins, targets)).astype(np.int64)
        allowed = self.lengths if router is None else (self.lengths[0], max(self.lengths[1], LONGEST))
        lengths = checked_lengths(lengths, len(origins), allowed, self.config.horizon)  # (B,)
        seeds = checked_seeds(seeds, len(origins))  # (B,)
        denoiser = self._denoiser(None if router is None else self.options.tube * router.graph.radius)
        routes: list[Route | None] = [None] * len(origins)
        if router is not None:
            long = lengths > self.options.piece
            long &= np.array([denoiser.knot_count(L) for L in lengths.tolist()], np.int64) > denoiser.piece_knots
            routes = router.routes(origins, targets, long)
            self._refuse_too_long(lengths, routes)
        n = self.options.candidates
        if n == 1 or not len(origins):
            return denoiser.draw(origins, targets, lengths, seeds, keep_denoising, cost, routes)
        plans = denoiser.draw(
            np.repeat(origins, n, axis=0),
            np.repeat(targets, n, axis=0),
            np.repeat(lengths, n),
            candidate_seeds(seeds, n).ravel(),
            keep_denoising,
            cost,
            [route for route in routes for _ in range(n)],
        )
        return best_candidates(plans, n, self.spec, self.normalizer, self.length_predictor, cost)

    @property
    def _routes(self) -> RouteGraph | None:
        """The route graph for composing long plans; None if every plan is sampled whole."""
        if not self.options.piece or self.config.horizon is not None:
            return None
        return getattr(self.length_predictor, "routes", None)

    def _denoiser(self, tube: float | None) -> Denoiser:
        """Made once for the planner's present parts; it keeps what it has computed from them."""
        parts = (self.network, self.schedule, self.config, self.spec, self.normalizer, self.options)
        kept = self._kept
        if (
            kept is None
            or kept[1].tube != tube
            or any(part is not own for part, own in zip(parts, kept[0], strict=True))
        ):
            self._kept = kept = (parts, Denoiser(*parts, tube=tube))
        return kept[1]

    def _router(self, avoid: npt.ArrayLike | CostFunction | None) -> Router | None:
        """Routes for composed plans, around what is to be avoided; None if every plan is sampled whole."""
        if self._routes is None:
            return None
        costs: list[Cost] = []
        if avoid is not None:
            costs.append(self._cost(avoid))
            if not callable(avoid):
                costs.append(BoxCost(self.spec, avoid, np.zeros(self.spec.goal_dim, np.float32)))
        return Router(self._routes, self.spec, self.normalizer, costs)

    def _refuse_too_long(self, lengths: IntArray, routes: Sequence[Route | None]) -> None:
        beyond = [n for n, route in enumerate(routes) if route is None and lengths[n] > self.lengths[1]]
        if beyond:
            raise RequestError(
                f"pair {beyond[0]}: a plan of {int(lengths[beyond[0]])} states needs a route, but no observed moves "
                f"connect its start and goal. Without one, plans have at most {self.lengths[1]} states."
            )

    def _cost(self, avoid: npt.ArrayLike | CostFunction) -> Cost:
        """The cost of positions to avoid: the caller's function, or that of boxes grown by the goal tolerance."""
        if callable(avoid):
            with needs_extra("train", "a function of positions to avoid"):
                from vhdiffuser.diffusion.torch_cost import TorchCost
            return TorchCost(avoid)
        return BoxCost(self.spec, avoid, self.spec.epsilon * self.spec.goal_of(self.normalizer.scale))

    def predict_steps(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> FloatArray:
        """(B,) shortest-step distances f_theta(s, g) T_max of (B, d) starts and (B, goal_dim) goals."""
        if self.length_predictor is None:
            raise VhdError(
                "distances need a Length Predictor: create the planner with a length_predictor (`vhd train length`)."
            )
        return self.length_predictor.predict_steps(starts, goals)

    def predict_lengths(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> IntArray:
        """(B,) L_hat = clip(gamma (f_theta(s, g) T_max + 1), L_min, T_max): Algorithm 2, line 1.

        T_max is no limit where plans are composed of pieces (`PlanningOptions.piece`) and a route is known.
        A fixed-horizon planner without a Length Predictor plans at its horizon.
        """
        if self.length_predictor is not None:
            steps = self.length_predictor.predict_steps(starts, goals)  # (B,)
            return plan_lengths(steps, self.spec, self.options.gamma, self._is_joined(starts, goals))
        if self.config.horizon is not None:
            return np.full(len(np.asarray(starts)), self.config.horizon)
        raise VhdError(
            "no length: give `length` (states of the plan), or create the planner with a length_predictor "
            "(`vhd train length`)."
        )

    def _is_joined(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> BoolArray | bool:
        """(B,) whether a route is known from each start to each goal, so that its plan may be of any length."""
        graph = self._routes
        if graph is None:
            return False
        here = self.spec.goal_of(self.normalizer.normalize(np.asarray(starts, np.float32)))
        ends = np.asarray(goals, np.float32)
        places = ends if ends.shape[-1] == self.spec.goal_dim else self.spec.goal_of(ends)
        there = self.normalizer.select(self.spec.goal_dims).normalize(places)
        return np.isfinite(graph.steps(here, there))
