"""(start, goal) -> L_hat -> plan: Algorithm 2, for one start-goal pair or many."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers, as_seed
from vhdiffuser.data.motion import FastestMotion
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.guidance import CostFunction
from vhdiffuser.diffusion.networks import as_network, unet_network
from vhdiffuser.diffusion.options import OptionChanges, PlanningOptions
from vhdiffuser.diffusion.schedule import Schedule
from vhdiffuser.errors import DataError, UnknownNameError, VhdError
from vhdiffuser.files import scratch_folder
from vhdiffuser.length.calibration import Calibration
from vhdiffuser.length.horizon import plan_lengths
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.length.route import Route, RouteGraph
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner import calibrated
from vhdiffuser.planner.calibrated import FILE, Arrive, Horizon
from vhdiffuser.planner.candidates import StepsPredictor, best_candidates, candidate_seeds
from vhdiffuser.planner.denoising import Denoiser
from vhdiffuser.planner.onnx import load_parts
from vhdiffuser.planner.pretrained import find_pretrained, headers_of, predictor_models, push_folder, save_folder
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
from vhdiffuser.planner.routing import joined, make_router, position_cost, refuse_too_long
from vhdiffuser.planner.waypoints import plan_via
from vhdiffuser.runtime.network import Network
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, IntArray
from vhdiffuser.weights.folder import check_config
from vhdiffuser.weights.format import ModelHeader, load_model
from vhdiffuser.weights.onnx_folder import is_onnx_folder
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    import torch
    from typing_extensions import Self, Unpack


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
        """`outside` says what happens to a start or goal beyond the data's limits. `lengths` are the shortest and
        longest plan allowed, (L_min, T_max) by default. `motion` holds the maximum speed and acceleration of the
        training data, to check plans against. `calibration` (`vhdiffuser.calibrate`) allows a `risk`."""
        self.config, self.spec, self.normalizer = config, spec, normalizer
        self.options = (options or PlanningOptions()).checked_for(config)
        if outside not in get_args(Outside):
            raise UnknownNameError("value of `outside`", outside, list(get_args(Outside)))
        self.length_predictor, self.outside, self.motion = length_predictor, outside, motion
        self.calibration = calibration
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
        """A planner from its model file, with the options stored there (`with_options` changes them) and, if there is
        one beside it, its calibration."""
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
            calibration=calibrated.read_calibration(Path(path).with_name(FILE)),
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
        check_config(path.parent, headers_of(planner, planner._origin))
        return planner.with_options(**options)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `planner.safetensors`, `length.safetensors`, `route.safetensors` (where there is a route graph),
        `calibration.json` (where there is one), `config.json` and a model card to a folder.

        `from_pretrained(folder)` then makes the same plans, bit for bit, with the same options. An existing README.md
        is kept.
        """
        header = headers_of(self, self._origin)["planner"]
        models = {"planner": (self.network.tensors, header), **predictor_models(self.length_predictor)}
        save_folder(Path(folder), models)
        calibrated.save_calibration(Path(folder), self.calibration)

    def push_to_hub(self, repo_id: str, *, private: bool = False, commit_message: str = "Upload planner") -> str:
        """Upload what `save_pretrained` writes to `OWNER/NAME` on the Hugging Face Hub, and return its URL.

        Log in first (`hf auth login`). This is the only method that always uses the network.
        """
        with scratch_folder() as folder:
            self.save_pretrained(folder)
            return push_folder(repo_id, folder, private, commit_message)

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
        risk: float | None = None,
        deadline: int | None = None,
        arrive: Arrive = "by",
        seed: int = 0,
        keep_denoising: bool = False,
    ) -> Plan:
        """One plan of exactly `length` states (by default the predicted L_hat) from start (d,) to goal.

        The goal is given as goal dimensions (goal_dim,) or as a full planning state (d,).

        With a calibration (`vhd calibrate`), `risk=0.05` takes the shortest length at which this system arrives with
        probability 0.95. `deadline` is the control step by which it must arrive with that risk (default 0.05), or with
        `arrive="at"` the one at which it arrives; a `DeadlineError` has the number of steps that would do.

        `via` are waypoints (n, goal_dim) that the plan passes through, in order. Each leg is planned on its own, with
        its own predicted length (or its share of `length`), so the whole may be longer than T_max. To track such a plan
        to its end, even if it passes the goal on the way to a waypoint, use `ExecutionRule(stop_at_hit=False)`.

        `avoid` are boxes (n, 2, goal_dim) of lower and upper corners, or a function of positions by torch operations
        (`vhdiffuser.diffusion.guidance.CostFunction`). With a route graph (`vhd train route`) the plan follows a route
        around them, with the length that the detour needs; sampling is guided away from them, and the finished plan is
        pushed out. Walls are not known to the push, so there is no guarantee: check the plan, and draw several
        candidates (`with_options`); the one that intrudes least is returned.
        """
        planner = self if risk is None else self.with_options(risk=risk)
        start, goal = as_numbers("a start", start), as_numbers("a goal", goal)
        seed = as_seed(seed)
        if deadline is not None:
            if length is not None or via is not None or avoid is not None:
                raise RequestError("a deadline sets the length, and knows no waypoints or regions: give it alone.")
            return calibrated.plan_until(planner, start, goal, deadline, arrive, seed, keep_denoising)

        def plan_leg(start: FloatArray, goal: FloatArray, length: int | None, seed: int) -> Plan:
            lengths = None if length is None else [length]
            return planner.plan_batch(
                start[None], goal[None], lengths, avoid=avoid, seeds=[seed], keep_denoising=keep_denoising
            )[0]

        if via is None:
            return plan_leg(start, goal, length, seed)
        return plan_via(plan_leg, self.spec, start, goal, via, length, planner.predict_lengths, seed)

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
        cost = None if avoid is None else position_cost(avoid, self.spec, self.normalizer)
        router = None if self._routes is None else make_router(self._routes, self.spec, self.normalizer, avoid)
        if lengths is None:
            whole = self.config.clamp == "state" and np.shape(goals)[1] == self.spec.state_dim
            ends = targets if whole else self.spec.goal_of(targets)
            lengths = self.predict_lengths(origins, ends)
            if router is not None and avoid is not None:
                margin = self._margin(self.predict_steps(origins, ends))
                lengths = lengths + np.ceil(margin * router.detours(origins, targets)).astype(np.int64)
        allowed = self.lengths if router is None else (self.lengths[0], max(self.lengths[1], LONGEST))
        lengths = checked_lengths(lengths, len(origins), allowed, self.config.horizon)  # (B,)
        seeds = checked_seeds(seeds, len(origins))  # (B,)
        denoiser = self._denoiser(None if router is None else self.options.tube * router.graph.radius)
        routes: list[Route | None] = [None] * len(origins)
        if router is not None:
            long = lengths > self.options.piece
            long &= np.array([denoiser.knot_count(L) for L in lengths.tolist()], np.int64) > denoiser.piece_knots
            routes = router.routes(origins, targets, long)
            refuse_too_long(lengths, routes, self.lengths[1])
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

    def predict_steps(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> FloatArray:
        """(B,) shortest-step distances f_theta(s, g) T_max of (B, d) starts and (B, goal_dim) goals."""
        if self.length_predictor is None:
            raise VhdError(
                "distances need a Length Predictor: create the planner with a length_predictor (`vhd train length`)."
            )
        return self.length_predictor.predict_steps(starts, goals)

    def predict_lengths(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> IntArray:
        """(B,) L_hat = clip(gamma (f_theta(s, g) T_max + 1), L_min, T_max): Algorithm 2, line 1.

        With a `risk`, gamma is the calibrated margin that keeps it. T_max is no limit where plans are composed of
        pieces (`PlanningOptions.piece`) and a route is known. A fixed-horizon planner without a Length Predictor plans
        at its horizon.
        """
        if self.length_predictor is not None:
            steps = self.length_predictor.predict_steps(starts, goals)  # (B,)
            graph = self._routes
            unlimited = graph is not None and joined(graph, self.spec, self.normalizer, starts, goals)
            return plan_lengths(steps, self.spec, self._margin(steps), unlimited)
        if self.config.horizon is not None:
            return np.full(len(np.asarray(starts)), self.config.horizon)
        raise VhdError(
            "no length: give `length` (states of the plan), or create the planner with a length_predictor "
            "(`vhd train length`)."
        )

    def _margin(self, steps: FloatArray) -> FloatArray | float:
        """What predicted lengths are multiplied by: gamma, or for each of (B,) steps what keeps the risk."""
        risk = self.options.risk
        return self.options.gamma if risk is None else calibrated.risk_margins(self, steps, risk)

    def horizon(self, start: npt.ArrayLike, goal: npt.ArrayLike, length: int | None = None) -> Horizon:
        """How long the plan from start (d,) to goal would be, how likely it is to arrive within its length, and when.

        Of a plan of `length` states, if given. Without a calibration only the length is known.
        """
        return calibrated.horizon(self, start, goal, length)
