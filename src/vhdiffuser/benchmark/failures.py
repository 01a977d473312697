"""Why executions fail: failed instances are planned and executed again, and classified.

A plan's seed depends only on the rows' seed and the instance number, so the same weights and settings reproduce the
plan. The first kind that applies counts:

  horizon    fewer steps than the shortest path takes at the data's maximum acceleration and speed, or clipped at T_max
  plan       passes closer to a wall than the body's radius allows
  endpoint   ends farther than epsilon from the goal, or reaches it by a faster step than any in the data
  fall       the robot has fallen at the end
  time       the step budget ended before the plan did, and the robot was still moving
  tracking   none of these: the plan was sound but was not followed

With several plans, the last one counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vhdiffuser.benchmark.geodesic import Geodesic
from vhdiffuser.benchmark.records import kept_rollout
from vhdiffuser.control.base import Controller
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.protocols import ExecutionRule, Protocol
from vhdiffuser.envs.success import goal_distance
from vhdiffuser.envs.walls import narrowest, wall_distance
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.executor import Executor, Outcome
from vhdiffuser.execution.loop import BatchPlanner
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.results.configs import FOREIGN
from vhdiffuser.results.rollout_files import KeptRollout
from vhdiffuser.results.rows import ResultFile, Row
from vhdiffuser.streams import STREAMS
from vhdiffuser.trajectories import Plan, Rollout
from vhdiffuser.types import EnvSpec, FloatArray, Instance

KINDS = ("horizon", "plan", "endpoint", "fall", "time", "tracking")
LATELY, WALKING = 50, 0.1
"""A robot is stuck if, in this many steps, it covered less than this fraction of the distance at the data's maximum
speed."""
BODY_SHARE = 0.8
"""Minimum distance of a plan from walls, as a fraction of the body's radius; below 1, since the data itself touches
walls."""


@dataclass(frozen=True)
class Facts:
    """What the analysis needs to know about the environment and its data."""

    environment: Environment
    """Environment, with its walls, body and falls."""
    scale: FloatArray
    """(d,) units per normalised unit of the planning state."""
    fastest: float
    """Maximum speed in the data, in units per control step."""
    acceleration: float
    """Maximum acceleration in the data, in units per control step squared; infinity means no limit."""
    geodesic: Geodesic | None = None
    """Shortest paths between the walls; None without walls."""

    @property
    def spec(self) -> EnvSpec:
        """The environment's spec."""
        return self.environment.spec


@dataclass(frozen=True)
class Failure:
    """One failed instance, executed again."""

    seed: int
    """Seed of the row."""
    kind: str | None
    """One of `KINDS`; None if it succeeded this time."""
    length: int
    """Number of states in the analysed plan."""
    needed: int
    """Number of states needed by the shortest path at maximum acceleration and speed."""
    in_walls: float
    """Fraction of the plan that is too close to a wall."""
    end_gap: float
    """Normalised distance of the plan's end to the goal, with its last step limited to the maximum speed."""
    tracking_error: float
    """Largest normalised distance between robot and plan."""
    fell: bool
    """Whether the robot has fallen at the end."""
    final_distance: float
    """||s_final - g||_inf, normalised."""
    same_plan: bool
    """Whether the plans have the lengths recorded in the row."""
    kept: KeptRollout
    """Instance, plans and executed path, for figures."""

    @property
    def name(self) -> str:
        """`SEED/INSTANCE`."""
        return f"{self.seed}/{self.kept.number}"

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict, without plans and paths."""
        return {
            "seed": self.seed,
            "instance": self.kept.number,
            "kind": self.kind,
            "length": self.length,
            "needed_length": self.needed,
            "in_walls": self.in_walls,
            "end_gap": self.end_gap,
            "tracking_error": self.tracking_error,
            "fell": self.fell,
            "final_distance": self.final_distance,
            "steps": len(self.kept.actions),
            "plans": len(self.kept.plans),
            "same_plan": self.same_plan,
            "start": [float(value) for value in self.kept.instance.start],
            "goal": [float(value) for value in self.kept.instance.goal],
        }


def failed_rows(results: ResultFile) -> list[Row]:
    """The rows that failed, by instance."""
    if not results.config["rule"].get("stop_at_hit", True):
        raise VhdError(
            f"{results.path}: under '{results.config['protocol']}' an episode does not end when the goal is "
            "reached, so its failures differ in kind. Failures can be classified under ss, rp and ogbench."
        )
    return sorted((row for row in results.rows if not row.success), key=lambda row: row.instance)


def instances_of(
    results: ResultFile, rows: Sequence[Row], env: PlanningEnv, protocol: Protocol | None = None
) -> list[Instance]:
    """Instances of rows, including the simulator's seeds, which rows do not contain.

    `protocol` belongs to another benchmark, which draws its own instances.
    """
    if results.streams != STREAMS:
        raise VhdError(
            f"{results.path}: its instances and plans use random streams {results.streams}, but this version "
            f"uses {STREAMS}, so they cannot be reproduced. Create new rows with `vhd bench`."
        )
    source = results.config["instances"]
    if "distribution" not in source:  # user-defined pairs: their number is their seed
        return [Instance(np.array(row.start, np.float32), np.array(row.goal, np.float32), row.instance) for row in rows]
    count = max((row.instance for row in rows), default=0) + 1
    seed = results.config["seed"]
    if protocol is None:
        drawn = draw_instances(env, count, seed, source["distribution"])
    else:
        drawn = protocol.instances(env, count, seed)
    for row in rows:
        if not np.array_equal(drawn[row.instance].start, np.array(row.start, np.float32)):
            raise VhdError(
                f"{results.path}: instance {row.instance} starts at {row.start}, but this version draws "
                f"{drawn[row.instance].start.tolist()}. The rows come from another version; run `vhd bench` "
                "again."
            )
    return [drawn[row.instance] for row in rows]


def run_again(
    results: ResultFile,
    planner: BatchPlanner,
    controller: Controller,
    simulators: Simulators,
    env: PlanningEnv,
    facts: Facts,
) -> Iterator[Failure]:
    """Plan and execute each failed instance again and classify it; yields results as executions end."""
    rows, config = failed_rows(results), results.config
    by_number = {row.instance: row for row in rows}
    rule, theirs = ExecutionRule(**config["rule"]), facts.environment.protocols.get(config["protocol"])
    executor = Executor(
        planner,
        controller,
        simulators,
        rule,
        seed=config["seed"],
        horizon=config["horizon"],
        hit=None if theirs is None else theirs.hit,
    )
    predicted = config["horizon"] is None and FOREIGN not in config  # otherwise T_max clipped nothing
    for outcome in executor.run(instances_of(results, rows, env, theirs), list(by_number)):
        yield evaluate_failure(outcome, by_number[outcome.number], facts, predicted, rule.budget)


def evaluate_failure(outcome: Outcome, row: Row, facts: Facts, predicted: bool, budget: int | None = None) -> Failure:
    """Measure and classify one execution of at most `budget` steps.

    `predicted`: lengths were predicted, so T_max may have clipped them.
    """
    spec, rollout = facts.spec, outcome.rollout
    begun, plan = rollout.plans[-1]
    needed, in_walls, gap = needed_length(plan, facts, begun == 0), share_in_walls(plan, facts), end_gap(plan, facts)
    fell = bool(facts.environment.has_fallen(rollout.observations[-1]))
    if rollout.success:
        kind = None
    elif plan.length < needed or (predicted and plan.length == spec.T_max):
        kind = "horizon"
    elif in_walls > 0:
        kind = "plan"
    elif gap > spec.epsilon:
        kind = "endpoint"
    elif fell:
        kind = "fall"
    else:
        ended = budget is not None and rollout.steps >= budget and rollout.steps - begun < plan.length
        kind = "time" if ended and is_moving(rollout, facts) else "tracking"
    return Failure(
        seed=row.seed,
        kind=kind,
        length=plan.length,
        needed=needed,
        in_walls=in_walls,
        end_gap=gap,
        tracking_error=tracking_error(plan, spec.planning_state(rollout.observations[begun:]), facts),
        fell=fell,
        final_distance=outcome.final_distance,
        same_plan=[item.length for _, item in rollout.plans] == row.plan_lengths,
        kept=kept_rollout(spec, outcome),
    )


def is_moving(rollout: Rollout, facts: Facts) -> bool:
    """Whether the robot moved at `WALKING` of the maximum speed or more in the last `LATELY` steps."""
    places = facts.spec.goal_of(facts.spec.planning_state(rollout.observations[-LATELY - 1 :]))
    moved = float(np.linalg.norm(places[-1] - places[0]))
    return moved >= WALKING * facts.fastest * (len(places) - 1)


def needed_length(plan: Plan, facts: Facts, resting: bool) -> int:
    """Number of states from the plan's start to the goal region along the shortest path, at the data's maximum
    speed."""
    spec = facts.spec
    start = spec.goal_of(plan.states[0])
    if facts.geodesic is None:
        distance = float(np.linalg.norm(start - plan.goal))
    else:
        distance = float(facts.geodesic.distance(start[None], plan.goal[None])[0])
    region = float(np.linalg.norm(spec.epsilon * facts.scale[list(spec.goal_dims)]))  # farthest corner
    # An execution starts at rest. Later, without velocities in the state, acceleration is assumed to take no time.
    speed = 0.0 if resting else facts.fastest
    if spec.velocity_dims is not None:
        speed = float(np.linalg.norm(plan.states[0, list(spec.velocity_dims)])) * spec.control_dt
    steps = steps_to_go(max(distance - region, 0.0), min(speed, facts.fastest), facts.fastest, facts.acceleration)
    return int(np.ceil(steps)) + 1


def steps_to_go(distance: float, speed: float, fastest: float, acceleration: float) -> float:
    """Control steps to cover a distance, accelerating from `speed` to `fastest`."""
    gaining = (fastest - speed) / acceleration
    gained = (speed + fastest) / 2 * gaining
    if distance >= gained:
        return gaining + (distance - gained) / fastest
    return (np.sqrt(speed**2 + 2 * acceleration * distance) - speed) / acceleration


def share_in_walls(plan: Plan, facts: Facts) -> float:
    """Fraction of the planned path that is closer to a wall than `BODY_SHARE` of the body's radius."""
    geometry = facts.environment.geometry
    if not geometry.is_maze:
        return 0.0
    places = facts.spec.goal_of(plan.states)[:, :2].astype(np.float64)
    # Straight segments between states, sampled densely enough not to skip a wall.
    longest = float(np.linalg.norm(np.diff(places, axis=0), axis=1).max())
    pieces = max(int(np.ceil(longest / (geometry.radius or narrowest(geometry.walls) / 2))), 1)
    steps = np.arange(0, pieces * (plan.length - 1) + 1) / pieces
    way = np.stack([np.interp(steps, np.arange(plan.length), places[:, dim]) for dim in range(2)], axis=1)
    distance = wall_distance(geometry.walls, way)
    return float(((distance < BODY_SHARE * geometry.radius) | (distance <= 0)).mean())  # a point has no radius


def end_gap(plan: Plan, facts: Facts) -> float:
    """Normalised distance of the plan's end to the goal, with its last step limited to the maximum speed."""
    before, end = plan.states[-2].astype(np.float64), plan.states[-1].astype(np.float64)
    step = float(np.linalg.norm(facts.spec.goal_of(end - before)))
    end = before + min(1.0, facts.fastest / max(step, 1e-9)) * (end - before)
    return float(goal_distance(facts.spec, facts.scale, end, plan.goal))


def tracking_error(plan: Plan, states: FloatArray, facts: Facts) -> float:
    """Largest normalised distance between (t, d) states and the plan's states at the same index."""
    states = states[: plan.length]
    planned = facts.spec.goal_of(plan.states[: len(states)])
    return float(goal_distance(facts.spec, facts.scale, states, planned).max())


def count_kinds(failures: Sequence[Failure]) -> dict[str, int]:
    """Number of failures of each kind; instances that succeeded this time are not counted."""
    found = Counter(failure.kind for failure in failures)
    return {kind: found[kind] for kind in KINDS}


def pick(failures: Sequence[Failure], most: int) -> list[Failure]:
    """At most `most` of those that failed again, taken from each kind in turn, in the order of `KINDS`."""
    queues = [[item for item in failures if item.kind == kind] for kind in KINDS]
    rounds = [queue[turn] for turn in range(max(map(len, queues))) for queue in queues if turn < len(queue)]
    order = {kind: number for number, kind in enumerate(KINDS)}
    return sorted(rounds[:most], key=lambda item: (order[str(item.kind)], item.seed, item.kept.number))
