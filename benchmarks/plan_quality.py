"""How good are plans, apart from the Length Predictor: a table over planners, samplers and reverse steps.

    python benchmarks/plan_quality.py maze2d-umaze                          the trained planner, steps 1..100
    python benchmarks/plan_quality.py maze2d-umaze --runs vhd fh-128        several planners at their own settings

Lengths come from the true geodesic distance at a stated speed (evaluation only), so that planners are
compared and nothing else. The first two columns are of the knots that the network made, the others of the
plan at the control rate that is executed; distances in the environment's units, means over plans:

  knot gap    distance between where the knot next to an end should be, by the velocities, and where it is, both ends
  knot jump   the same between interior knots, the largest of a plan
  gap         the same as the first, of the plan's own first and last step
  error       largest dynamics error |p[t+1] - p[t] - v[t] dt| of a plan
  step        largest move per control step of a plan (data: 0.073 at most)
  hard %      share of control steps that ask for more acceleration than a full action gives
  in wall %   share of planned states nearer to a wall than the ball's radius less a fifth
  SS %, AES   single-shot success and executed steps, one plan a pair, PD tracking
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from vhdiffuser.benchmark.geodesic import make_geodesic
from vhdiffuser.control.base import make_controller
from vhdiffuser.envs.environment import Geometry
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.protocols import single_shot
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.envs.walls import wall_distance
from vhdiffuser.execution.executor import Executor
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.planner.planner import Planner
from vhdiffuser.trajectories import Plan
from vhdiffuser.weights.places import run_folder


class GeodesicLength:
    """Steps of the shortest way at a constant speed, plus the time to get going. For evaluation only."""

    def __init__(self, environment: str, speed: float, slack: float) -> None:
        geodesic = make_geodesic(get_environment(environment))
        assert geodesic is not None
        self.geodesic, self.speed, self.slack = geodesic, speed, slack

    def predict_steps(self, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return self.geodesic.distance(starts[:, :2], goals) / self.speed + self.slack


FULL_ACTION = 0.237
"""Change of velocity by one control step at full action."""


def join_errors(states: np.ndarray, spacing: float) -> np.ndarray:
    """(T - 1,) |p' - p - (v + v') spacing / 2| of (T, 4) states that far apart in time."""
    step = np.diff(states[:, :2], axis=0) - spacing * (states[1:, 2:] + states[:-1, 2:]) / 2
    return np.linalg.norm(step, axis=1)


def ends(errors: np.ndarray) -> float:
    """Mean of the first and the last."""
    return float((errors[0] + errors[-1]) / 2)


def quality(plan: Plan, dt: float) -> tuple[float, ...]:
    """Knot gap, knot jump, gap, error, step, hard share."""
    assert plan.denoising is not None
    knots, states = plan.denoising[-1].astype(np.float64), plan.states.astype(np.float64)
    between = join_errors(knots, dt * (plan.length - 1) / (len(knots) - 1))
    moves = np.diff(states[:, :2], axis=0)
    return (
        ends(between),
        float(between[1:-1].max() if len(between) > 2 else between.max()),
        ends(join_errors(states, dt)),
        float(np.linalg.norm(moves - states[:-1, 2:] * dt, axis=1).max()),
        float(np.linalg.norm(moves, axis=1).max()),
        float((np.abs(np.diff(states[:, 2:], axis=0)).max(axis=1) > FULL_ACTION).mean()),
    )


def share_in_walls(geometry: Geometry, places: np.ndarray) -> float:
    """Share of (n, 2) places nearer to a wall than the ball's radius less a fifth."""
    return float((wall_distance(geometry.walls, places) < 0.8 * geometry.radius).mean())


def evaluate(planner: Planner, n: int) -> dict[str, float]:
    spec = planner.spec
    environment = get_environment(spec.name)
    assert environment.simulator is not None
    instances = draw_instances(environment.make(), n, seed=77_000)  # not the benchmark's
    starts = np.stack([instance.start for instance in instances])
    goals = np.stack([instance.goal for instance in instances])
    begun = time.perf_counter()
    plans = planner.plan_batch(starts, goals, keep_denoising=True)
    seconds = time.perf_counter() - begun
    means = np.mean([quality(plan, spec.control_dt) for plan in plans], axis=0)
    places = np.concatenate([plan.states[:, :2] for plan in plans])
    with Simulators(environment.simulator, n, 1) as simulators:
        horizon = planner.config.horizon
        controller = make_controller(environment.controller, spec)
        executor = Executor(planner, controller, simulators, single_shot(), horizon=horizon)
        outcomes = list(executor.run(instances))
    return {
        **dict(zip(("knot gap", "knot jump", "gap", "error", "step"), means.tolist(), strict=False)),
        "hard %": 100 * float(means[5]),
        "in wall %": 100 * share_in_walls(environment.geometry, places),
        "SS %": 100 * float(np.mean([outcome.rollout.success for outcome in outcomes])),
        "AES": float(np.mean([outcome.rollout.steps for outcome in outcomes])),
        "plans/s": n / seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment")
    parser.add_argument("--runs", nargs="+", default=["vhd"])
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--speed", type=float, default=0.036, help="units a step (the data's mean in open corridors)")
    parser.add_argument("--slack", type=float, default=16.0, help="steps added to every length")
    parser.add_argument("--sweep", action="store_true", help="sweep samplers and steps (default for one run)")
    options = parser.parse_args()
    length = GeodesicLength(options.environment, options.speed, options.slack)
    sweep = [("ddim", steps) for steps in (1, 2, 3, 5, 10, 20)] + [("dpm++", 5), ("dpm++", 10), ("ddpm", None)]
    header = None
    for run in options.runs:
        path = run_folder(options.environment, run) / "model.safetensors"
        loaded = Planner.load(path, length, outside="ignore").with_options(gamma=1.0)
        for sampler, steps in sweep if len(options.runs) == 1 or options.sweep else [(None, None)]:
            steps = loaded.config.diffusion_steps if sampler == "ddpm" and steps is None else steps
            planner = loaded.with_options(sampler=sampler, steps=steps)
            row = evaluate(planner, options.n)
            if header is None:
                header = f"{'run':14}{'sampler':>9}{'steps':>6}" + "".join(f"{key:>11}" for key in row)
                print(header)
            named = (planner.options.sampler, planner.options.steps)
            print(
                f"{run:14}{named[0]:>9}{named[1]:>6}" + "".join(f"{value:11.4g}" for value in row.values()), flush=True
            )


if __name__ == "__main__":
    main()
