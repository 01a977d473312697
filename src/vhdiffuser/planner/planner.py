"""(start, goal) -> L_hat -> plan: the pipeline of Algorithm 2, for one pair or for many."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from vhdiffuser.arguments import as_numbers, as_seed
from vhdiffuser.data.motion import FastestMotion
from vhdiffuser.devices import pick_device
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.guidance import Cost, box_cost
from vhdiffuser.diffusion.options import OptionChanges, PlanningOptions
from vhdiffuser.diffusion.process import Process
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.errors import DataError, UnknownNameError, VhdError
from vhdiffuser.length.horizon import plan_lengths
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.length.route import Route, RouteGraph
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.candidates import StepsPredictor, candidate_seeds, most_believable
from vhdiffuser.planner.denoising import TUBE, Denoiser
from vhdiffuser.planner.pretrained import find_pretrained, push_folder, save_folder
from vhdiffuser.planner.requests import (
    RequestError,
    check_inside,
    checked_goals,
    checked_lengths,
    checked_seeds,
    checked_starts,
)
from vhdiffuser.planner.waypoints import checked_waypoints, plan_legs, shared_out
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, IntArray
from vhdiffuser.weights.folder import check_config
from vhdiffuser.weights.format import ModelHeader, load_model
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

LONGEST = 65_536
"""States of the longest plan that may be composed."""
Outside = Literal["warn", "refuse", "ignore"]
"""What happens to a start or goal beyond the limits of the training data."""


class Planner:
    """A trained denoiser with all that is needed to plan: its config, normaliser, options and, if given, a Length
    Predictor."""

    def __init__(
        self,
        network: nn.Module,
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
        """`outside` says what happens to a start or goal beyond the data's limits; `lengths` are the shortest and
        longest plan that may be asked for, (L_min, T_max) unless told. `motion` is the fastest that the training data
        moved, for whoever judges plans."""
        self.config, self.spec, self.normalizer = config, spec, normalizer
        self.options = (options or PlanningOptions()).checked_for(config)
        if outside not in get_args(Outside):
            raise UnknownNameError("way with what lies outside the data", outside, list(get_args(Outside)))
        self.length_predictor, self.outside, self.motion = length_predictor, outside, motion
        self.lengths = lengths or (spec.L_min, spec.T_max)
        self.device = pick_device(device)
        self.network = network.to(self.device).eval()
        self.process = Process(config.diffusion_steps, config.prediction, self.device)
        self._origin: ModelHeader | None = None  # of the file it was loaded from

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
        """A planner from its model file, with the options in it (`with_options` gives it others)."""
        tensors, header = load_model(Path(path), "planner")
        config, spec = PlannerConfig.from_json(header.config), EnvSpec.from_json(header.spec)
        network = TemporalUnet(config.action_dim + spec.state_dim, config.dim, config.dim_mults)
        try:
            network.load_state_dict(tensors)
        except RuntimeError as error:
            raise DataError(f"{path}: its weights do not fit its own recipe ({error}). Train it again.") from error
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

        `name` is a folder (of `save_pretrained` or `vhd models export`), an environment whose weights ship (`vhd
        models` lists them), or a repository `OWNER/NAME` of the Hugging Face Hub. That is looked for in the Hub's local
        cache; `local_files_only=False` downloads what is not there. With `source="trained"`, `name` is an environment
        that you have trained.

        >>> planner = Planner.from_pretrained("maze2d-large", candidates=4)      # doctest: +SKIP
        """
        path, length_path, route_path = find_pretrained(name, source, local_files_only, revision)
        device = pick_device(device)
        predictor = None if length_path is None else LengthPredictor.load(length_path, device, routes=route_path)
        planner = cls.load(path, predictor, outside=outside, device=device)
        check_config(path.parent, planner._headers())
        return planner.with_options(**options)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `planner.safetensors`, `length.safetensors`, `route.safetensors` (where there is a route graph),
        `config.json` and a model card to a folder.

        `from_pretrained(folder)` then plans the same, bit for bit, with the same options. A README.md that is in the
        folder stays as it is.
        """
        headers = self._headers()
        models = {"planner": (self.network.state_dict(), headers["planner"])}
        if isinstance(self.length_predictor, LengthPredictor):
            models["length"] = (self.length_predictor.network.state_dict(), headers["length"])
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
        """Upload what `save_pretrained` writes to the repository `OWNER/NAME` of the Hugging Face Hub; its address.

        Log in first (`hf auth login`). This is the one method that always uses the network.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return push_folder(repo_id, Path(folder), private, commit_message)

    def _headers(self) -> dict[str, ModelHeader]:
        """The header of its model file as it is now, and of its Length Predictor's, if that is one of ours."""
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
        """The same planner with other options; network and Length Predictor are shared. None keeps an option.

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
        avoid: npt.ArrayLike | Cost | None = None,
        seed: int = 0,
        keep_denoising: bool = False,
    ) -> Plan:
        """One plan of exactly `length` states (or L_hat of the Length Predictor) from start (d,) to goal.

        The goal may be given as goal dimensions (goal_dim,) or as a whole planning state (d,).

        `via` are waypoints (n, goal_dim) that the plan passes through, in order. It is planned leg by leg, each with a
        predicted length of its own (or its share of `length`), so the whole may be longer than T_max. A leg knows
        nothing of the next one: where a plan must turn sharply at a waypoint, a robot may miss it.

        `avoid` are boxes (n, 2, goal_dim) of lowest and highest corners, or a function of positions (see
        `vhdiffuser.diffusion.guidance.Cost`), that sampling is guided away from. Guidance bends a plan and does not
        reroute it, and it promises nothing: check the plan, and draw several candidates (`with_options`), of which the
        one that is least inside is kept.
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
        if length is not None:  # what is left open of a waypoint's state is taken to be 0
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
        avoid: npt.ArrayLike | Cost | None = None,
        seeds: Sequence[int] | IntArray | int = 0,
        keep_denoising: bool = False,
    ) -> list[Plan]:
        """Plans for (B, d) starts and (B, goal_dim or d) goals, in that order, each of its own length.

        Plans that look equally long to the network are denoised together, in batches of bounded size; each
        comes out as if planned alone with its seed. One integer for `seeds` means it, the next one, and so on.
        Of several candidates, the one that least violates predicted distances is returned. `avoid` as in `plan`.
        """
        origins = checked_starts(self.spec, starts)  # (B, d)
        targets = checked_goals(self.spec, goals, self.config.clamp, len(origins))  # (B, d)
        check_inside(self.spec, self.normalizer, origins, targets, self.config.clamp, self.outside)
        if lengths is None:
            lengths = self.predict_lengths(origins, self.spec.goal_of(targets))
        allowed = self.lengths if self._routes is None else (self.lengths[0], max(self.lengths[1], LONGEST))
        lengths = checked_lengths(lengths, len(origins), allowed, self.config.horizon)  # (B,)
        seeds = checked_seeds(seeds, len(origins))  # (B,)
        cost = None if avoid is None else self._cost(avoid)
        graph = self._routes
        denoiser = Denoiser(
            self.network,
            self.process,
            self.config,
            self.spec,
            self.normalizer,
            self.options,
            self.device,
            tube=None if graph is None else TUBE * graph.radius,
        )
        routes = self._known_routes(origins, targets, lengths)
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
        return most_believable(plans, n, self.spec, self.normalizer, self.length_predictor, cost)

    @property
    def _routes(self) -> RouteGraph | None:
        """The route graph by which long plans are composed; None where every plan is drawn whole."""
        if not self.options.piece or self.config.horizon is not None:
            return None
        return getattr(self.length_predictor, "routes", None)

    def _known_routes(self, starts: FloatArray, targets: FloatArray, lengths: IntArray) -> list[Route | None]:
        """The route of each plan, normalised; None where the plan is no longer than a piece or no way is known."""
        graph = self._routes
        if graph is None:
            return [None] * len(starts)
        here, there = (self.spec.goal_of(self.normalizer.normalize(states)) for states in (starts, targets))
        long = lengths > self.options.piece
        found = [graph.path(s, g) if far else None for s, g, far in zip(here, there, long, strict=True)]
        routes = [route if route is not None and route.known and route.total > 0 else None for route in found]
        beyond = [n for n, route in enumerate(routes) if route is None and lengths[n] > self.lengths[1]]
        if beyond:
            raise RequestError(
                f"pair {beyond[0]}: a plan of {int(lengths[beyond[0]])} states needs a route, and no observed moves "
                f"join its start and goal. Without one, plans have at most {self.lengths[1]} states."
            )
        return routes

    def _cost(self, avoid: npt.ArrayLike | Cost) -> Cost:
        """The cost of positions to keep away from: the caller's, or that of boxes with the goal tolerance around."""
        if callable(avoid):
            return avoid
        return box_cost(self.spec, avoid, self.spec.epsilon * self.spec.goal_of(self.normalizer.scale))

    def predict_steps(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> FloatArray:
        """(B,) shortest-step distances f_theta(s, g) T_max of (B, d) starts and (B, goal_dim) goals."""
        if self.length_predictor is None:
            raise VhdError(
                "no Length Predictor, so no distances: make the planner with a length_predictor (`vhd train length`)."
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
            "no length: give `length` (states of the plan), or make the planner with a length_predictor "
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
