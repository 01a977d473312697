"""`vhd plan`: one plan, as a picture, JSON, CSV or GIF; optionally executed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import tyro
from tyro.conf import Positional

from vhdiffuser.console import out, print_json
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.registry import environment_of, find_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.files import atomic_path
from vhdiffuser.trajectories import Plan, Rollout
from vhdiffuser.types import EnvSpec, Episodes, FloatArray, Instance
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    from vhdiffuser.planner.calibrated import Horizon
    from vhdiffuser.planner.planner import Planner


@dataclass(frozen=True)
class PlanCommand:
    """Plan from a start to a goal; the Length Predictor sets the length unless --length is given.

    The suffix of --out selects the format: .png a picture, .json or .csv the states, .gif the denoising. With
    --execute the plan is also executed in the simulator, and --then moves the goal on the way. Examples:

        vhd plan maze2d-large --start 1 1 --goal 7 9 --out plan.png
        vhd plan maze2d-umaze --start 1 1 0 0 --goal 3 1 --length 192 --out plan.json
        vhd plan maze2d-large --start 1 1 --goal 7 9 --risk 0.05
        vhd plan maze2d-large --start 1 1 --goal 7 9 --deadline 600
        vhd plan maze2d-large --start 1 1 --goal 7 9 --execute rp --then 1 10 --after 150 --out film.gif
    """

    env: Positional[Annotated[str, tyro.conf.arg(metavar="ENV")]]
    """Environment: see `vhd envs`."""
    start: tuple[float, ...]
    """Start as a planning state, or as goal dimensions with the others 0."""
    goal: tuple[float, ...]
    """Goal dimensions, or a full planning state."""
    length: int | None = None
    """States of the plan (default: predicted)."""
    gamma: float | None = None
    """Margin on the predicted length (default: the planner's)."""
    smoothing: float | None = None
    """Smoothing time of the plan in control steps; 0: through every knot (default: the planner's)."""
    stretch: float | None = None
    """How many times slower than the data the plan moves (default: the planner's)."""
    candidates: int | None = None
    """Candidates drawn; the one that least violates predicted distances is kept (default: the planner's own)."""
    piece: int | None = None
    """States of a piece: a longer plan is composed of pieces along a route; 0 draws it whole (default: the planner's
    own)."""
    tube: float | None = None
    """How far a composed plan may leave its route, in radii of its regions (default: the planner's own)."""
    risk: float | None = None
    """Accepted probability of not arriving within the plan's length, as calibrated (`vhd calibrate`); takes the
    shortest plan that keeps it (default: the planner's own)."""
    deadline: int | None = None
    """Control step by which to arrive with that risk (default 0.05); otherwise the error says how many steps do."""
    arrive: Literal["by", "at"] = "by"
    """With --deadline: by that step, or at it."""
    sampler: str | None = None
    """Sampler: ddpm, ddim, dpm++ or a registered one (default: the planner's)."""
    steps: int | None = None
    """Reverse steps (default: the planner's)."""
    seed: int = 0
    """Seed of the noise."""
    execute: Literal["ss", "rp"] | None = None
    """Also execute the plan in the simulator: single-shot, or replan-on-deviation."""
    then: tuple[float, ...] | None = None
    """With --execute: a second goal, planned from the robot's state at that time."""
    after: int | None = None
    """With --then: control steps after which the goal moves (default: when the first execution ends)."""
    weights: Source = "auto"
    """Models to use: trained (by you), shipped, auto (trained if available), or a folder of weights."""
    out: Path | None = None
    """File to write: .png, .json, .csv or .gif."""
    json: bool = False
    """Print the plan, and the execution if there is one, as one JSON object."""

    def run(self) -> None:
        """Plan, then write and print the result."""
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
            risk=self.risk,
        )
        spec = planner.spec
        start = spec.start_state(self.start)
        goals = [np.asarray(goal, np.float32) for goal in (self.goal, self.then) if goal is not None]
        environment = find_environment(spec.name)
        if self.execute is not None:
            environment_of(spec).require_simulator()
        if environment is not None and environment.simulator is not None:
            env = environment.make()
            for goal in goals:
                own = spec.goal_of(goal) if len(goal) == spec.state_dim else goal
                env.check(Instance(start, own, 0))
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
            rollouts = self._follow(planner, start, goals, keep)
            plan = rollouts[0].plans[0][1]
        known = None if self.arrive == "at" else self._horizon(planner, start, goals[0], plan)
        if self.out is not None:
            self._write(plan, rollouts, spec)
        if self.json:
            print_json({**_json(plan, rollouts, spec), **({} if known is None else {"horizon": asdict(known)})})
            return
        written = "" if self.out is None else f", wrote {self.out}"
        again = f", {plan.redrawn} pieces drawn again" if plan.redrawn else ""
        out.print(f"{spec.name}: a plan of {plan.length} states ({plan.length - 1} control steps){again}{written}")
        if known is not None and known.probability is not None and known.interval is not None:
            low, high = known.interval
            out.print(
                f"arrives with probability {known.probability:.2f}, most likely after {low:.0f} to {high:.0f} steps"
            )
        for rollout in rollouts:
            lengths = ", ".join(str(made.length) for _, made in rollout.plans)
            outcome = "reached" if rollout.success else "not reached"
            out.print(
                f"goal {_numbers(rollout.plans[0][1].goal)}: {outcome} in {rollout.steps} steps; plans: {lengths}"
            )

    def _horizon(self, planner: Planner, start: FloatArray, goal: FloatArray, plan: Plan) -> Horizon | None:
        """What is known about executing the plan, if the planner is calibrated with its own weights."""
        from vhdiffuser.planner.calibrated import belongs

        if planner.calibration is None or not belongs(planner, planner.calibration):
            return None
        return planner.horizon(start, goal, plan.length)

    def _check_options(self) -> None:
        if self.out is not None and self.out.suffix not in (".png", ".json", ".csv", ".gif"):
            raise VhdError(f"--out {self.out}: the suffix must be .png, .json, .csv or .gif.")
        if self.execute is not None and self.out is not None and self.out.suffix == ".csv":
            raise VhdError(f"--out {self.out}: a .csv holds one plan. With --execute, write .png, .json or .gif.")
        if self.then is not None and self.execute is None:
            raise VhdError("--then needs --execute: the goal moves during an execution.")
        if self.deadline is not None and (self.execute is not None or self.length is not None):
            raise VhdError(
                "--deadline sets the length, and its plan is not executed: leave out --length and --execute."
            )
        if self.after is not None and (self.then is None or self.after < 1):
            raise VhdError("--after needs --then, and at least 1 control step.")

    def _follow(self, planner: Planner, start: FloatArray, goals: list[FloatArray], keep: bool) -> list[Rollout]:
        """One rollout per goal; the second starts where the first ended or was cut."""
        from vhdiffuser.execution.execute import execute
        from vhdiffuser.planner.forwarding import KeepsDenoising

        assert self.execute is not None
        follower = KeepsDenoising(planner) if keep else planner
        spec, rollouts = planner.spec, []
        for number, goal in enumerate(goals):
            own = spec.goal_of(goal) if len(goal) == spec.state_dim else goal
            rollout = execute(follower, start, own, self.execute, seed=self.seed + number, length=self.length)
            if self.after is not None and number == 0 and self.after < rollout.steps:
                rollout = rollout.until(self.after)
            rollouts.append(rollout)
            start = spec.planning_state(rollout.observations[-1])
        return rollouts

    def _write(self, plan: Plan, rollouts: list[Rollout], spec: EnvSpec) -> None:
        assert self.out is not None
        suffix = self.out.suffix
        if suffix == ".png":
            from vhdiffuser.report.plan_figures import draw_plans
            from vhdiffuser.report.rollout_figures import draw_execution

            if rollouts:
                draw_execution(rollouts, self.out)
            else:
                draw_plans([plan], self.out, data=_log(spec))
        elif suffix == ".gif":
            from vhdiffuser.drawing import walls_of
            from vhdiffuser.painting import write_gif
            from vhdiffuser.report.plan_figures import denoising_frames
            from vhdiffuser.trajectories.film import write_film

            if rollouts:
                write_film(spec, rollouts, walls_of(spec), self.out)
            else:
                write_gif(denoising_frames(spec, plan), self.out, fps=8)
        elif rollouts:
            with atomic_path(self.out) as path:
                path.write_text(json.dumps(_json(plan, rollouts, spec)))
        else:
            plan.save(self.out)


def _log(spec: EnvSpec) -> Episodes | None:
    """Imported data, to draw behind a plan: where it went is all that is known about free space."""
    environment = find_environment(spec.name)
    if environment is None or environment.recorded is None or environment.spec != spec:
        return None
    return load_dataset(spec.name).episodes


def _numbers(values: FloatArray) -> str:
    return " ".join(f"{value:g}" for value in values)


def _json(plan: Plan, rollouts: list[Rollout], spec: EnvSpec) -> dict[str, Any]:
    """The plan and, if any, the executions."""
    result: dict[str, Any] = plan.to_json()
    if rollouts:
        result["executions"] = [
            {
                "goal": rollout.plans[0][1].goal.tolist(),
                "success": rollout.success,
                "steps": rollout.steps,
                "plans": [{"step": made, "length": each.length} for made, each in rollout.plans],
                "states": spec.planning_state(rollout.observations).tolist(),
            }
            for rollout in rollouts
        ]
    return result
