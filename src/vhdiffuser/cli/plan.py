"""`vhd plan`: one plan, as an image, JSON, CSV or GIF; optionally executed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro
from tyro.conf import Positional

from vhdiffuser.cli.options import Omittable
from vhdiffuser.console import err, out, print_json
from vhdiffuser.envs.instances import check_ends
from vhdiffuser.envs.registry import environment_of
from vhdiffuser.errors import VhdError
from vhdiffuser.report.plan_files import check_format, plan_json, write_plan
from vhdiffuser.trajectories import Plan, Rollout
from vhdiffuser.types import EnvSpec, FloatArray
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    from vhdiffuser.planner.calibrated import Horizon


@dataclass(frozen=True)
class PlanCommand:
    """Plan from a start to a goal; the Length Predictor sets the length unless --length is given.

    The suffix of --out selects the format: .png an image, .json or .csv the states, .gif the denoising. With
    --execute the plan is also executed in the simulator, and --then moves the goal during the execution. Examples:

        vhd plan maze2d-large --start 1 1 --goal 7 9 --out plan.png
        vhd plan maze2d-umaze --start 1 1 0 0 --goal 3 1 --length 192 --out plan.json
        vhd plan maze2d-large --start 1 1 --goal 7 9 --risk 0.05
        vhd plan maze2d-large --start 1 1 --goal 7 9 --deadline 600
        vhd plan maze2d-large --start 1 1 --goal 7 9 --execute rp --then 1 10 --after 150 --out film.gif
    """

    env: Positional[Annotated[str, tyro.conf.arg(metavar="ENV")]]
    """Environment: see `vhd envs`."""
    start: tuple[float, ...]
    """Start: a planning state, or goal dimensions (the others are then 0)."""
    goal: tuple[float, ...]
    """Goal dimensions, or a full planning state."""
    length: Omittable[int] = None
    """Number of states in the plan (default: predicted)."""
    gamma: Omittable[float] = None
    """Margin on the predicted length, instead of a risk (default: the risk 0.01 of calibrated planners, otherwise the
    planner's own)."""
    smoothing: Omittable[float] = None
    """Smoothing time of the plan in control steps; 0 passes through every knot (default: the planner's)."""
    stretch: Omittable[float] = None
    """Factor by which the plan is slower than the data (default: the planner's)."""
    candidates: Omittable[int] = None
    """Candidates sampled; the one that least violates predicted distances is used (default: the planner's)."""
    piece: Omittable[int] = None
    """States per piece: a longer plan is composed of pieces along a route; 0 plans in one piece (default: the
    planner's)."""
    tube: Omittable[float] = None
    """Maximum distance of a composed plan from its route, in radii of its regions (default: the planner's)."""
    retime: Omittable[float] = None
    """A plan shorter than this many times the predicted distance is sampled at that length and sped up within the
    data's speed and acceleration (default: the planner's)."""
    wait: Omittable[int] = None
    """States that the plan adds to its length and spends at the goal (default: the planner's)."""
    risk: Omittable[float] = None
    """Accepted probability of not arriving within the plan's length, as calibrated (`vhd calibrate`): uses the shortest
    plan that meets it (default: the planner's)."""
    deadline: Omittable[int] = None
    """Control step by which to arrive, at the accepted risk (0.05 if neither you nor the planner sets one). If it is
    too early, the error says how many steps are needed."""
    arrive: Literal["by", "at"] = "by"
    """With --deadline: arrive by that step, or exactly at it."""
    sampler: Omittable[str] = None
    """Sampler: ddpm, ddim, dpm++ or a registered one (default: the planner's)."""
    steps: Omittable[int] = None
    """Reverse steps (default: the planner's)."""
    seed: int = 0
    """Seed of the noise."""
    execute: Omittable[Literal["ss", "rp"]] = None
    """Also execute the plan in the simulator: single-shot, or replan-on-deviation."""
    then: Omittable[tuple[float, ...]] = None
    """With --execute: a second goal, planned from the robot's state at that time."""
    after: Omittable[int] = None
    """With --then: control steps after which the goal moves (default: when the first execution ends)."""
    weights: Source = "auto"
    """Models to use: trained (by you), shipped, auto (trained if available), or a folder of weights."""
    out: Omittable[Path] = None
    """File to write: .png, .json, .csv or .gif."""
    json: bool = False
    """Print the plan, and the execution if any, as one JSON object."""

    def run(self) -> None:
        """Plan, then write and print the result."""
        from vhdiffuser.execution.execute import execute_goals
        from vhdiffuser.planner.calibrated import advice, known_horizon
        from vhdiffuser.planner.load import load_planner

        self._check_options()
        planner = load_planner(
            self.env,
            source=self.weights,
            sampler=self.sampler,
            steps=self.steps,
            gamma=self.gamma,
            smoothing=self.smoothing,
            stretch=self.stretch,
            candidates=self.candidates,
            piece=self.piece,
            tube=self.tube,
            retime=self.retime,
            wait=self.wait,
            risk=self.risk,
        )
        spec = planner.spec
        start = spec.start_state(self.start)
        goals = [np.asarray(goal, np.float32) for goal in (self.goal, self.then) if goal is not None]
        if self.execute is not None:
            environment_of(spec).require_simulator()
        check_ends(spec, start, goals)
        keep = self.out is not None and self.out.suffix == ".gif"
        if self.execute is None:
            plan = planner.plan(
                start,
                goals[0],
                self.length,
                deadline=self.deadline,
                arrive=self.arrive,
                seed=self.seed,
                keep_denoising=keep,
            )
            rollouts: list[Rollout] = []
        else:
            rollouts = execute_goals(
                planner,
                start,
                goals,
                self.execute,
                after=self.after,
                seed=self.seed,
                length=self.length,
                keep_denoising=keep,
            )
            plan = rollouts[0].plans[0][1]
        known = None if self.arrive == "at" else known_horizon(planner, start, goals[0], plan.length)
        if self.out is not None:
            write_plan(self.out, plan, rollouts, spec)
        self._print(plan, rollouts, known, spec)
        if self.length is None and self.gamma is None and not self.json and (said := advice(planner)) is not None:
            err.print(said)

    def _print(self, plan: Plan, rollouts: list[Rollout], known: Horizon | None, spec: EnvSpec) -> None:
        if self.json:
            print_json({**plan_json(plan, rollouts, spec), **({} if known is None else {"horizon": asdict(known)})})
            return
        written = "" if self.out is None else f", wrote {self.out}"
        again = f", {plan.redrawn} pieces resampled" if plan.redrawn else ""
        out.print(f"{spec.name}: a plan of {plan.length} states ({plan.length - 1} control steps){again}{written}")
        if known is not None and known.probability is not None and known.interval is not None:
            low, high = known.interval
            out.print(
                f"arrives with probability {known.probability:.2f}; 80 % of arrivals at step {low:.0f} to {high:.0f}"
            )
        for rollout in rollouts:
            lengths = ", ".join(str(made.length) for _, made in rollout.plans)
            outcome = "reached" if rollout.success else "not reached"
            out.print(
                f"goal {_numbers(rollout.plans[0][1].goal)}: {outcome} in {rollout.steps} steps; plans: {lengths}"
            )

    def _check_options(self) -> None:
        if self.out is not None:
            check_format(self.out, self.execute is not None)
        if self.then is not None and self.execute is None:
            raise VhdError("--then needs --execute: the goal moves during an execution.")
        if self.deadline is not None and (self.execute is not None or self.length is not None):
            raise VhdError(
                "--deadline sets the length, and its plan is not executed: leave out --length and --execute."
            )
        if self.risk is not None and self.gamma is not None:
            raise VhdError("--risk and --gamma both set the length: give one of them.")
        if self.arrive != "by" and self.deadline is None:
            raise VhdError(f"--arrive {self.arrive} needs --deadline T, in control steps.")
        if self.after is not None and (self.then is None or self.after < 1):
            raise VhdError("--after needs --then, and at least 1 control step.")


def _numbers(values: FloatArray) -> str:
    return " ".join(f"{value:g}" for value in values)
