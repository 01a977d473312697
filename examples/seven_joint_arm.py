"""A benchmark for the Length Predictor: an arm with seven joints, where neither a map nor a graph helps.

    python examples/seven_joint_arm.py                      a small one, in a minute
    vhd data get examples/seven_joint_arm.py:make --source build
    vhd train length examples/seven_joint_arm.py:make
    vhd eval-length examples/seven_joint_arm.py:make        all of it: 400,000 transitions, 4,000 updates

Limits of position and speed are those of a common seven-joint arm. A log is one episode per commanded move: all joints
start and arrive together, as robot controllers interpolate, at 50 to 100 % of full speed. The truth is known: the
slowest joint decides, max_j |q_j - g_j| / v_j. In seven dimensions landmarks are too far apart for a
route graph, and bootstrapping far goals has nothing to start from. The recipe therefore uses goals of the same move
only, and a quasimetric head with smooth features.
"""

from __future__ import annotations

import os
import tempfile

import numpy as np
from scipy.stats import spearmanr

import vhdiffuser
from vhdiffuser import Environment, Geometry, PlanningEnv
from vhdiffuser.data.build import Builder, ChunkMaker, Parts
from vhdiffuser.errors import VhdError
from vhdiffuser.types import EnvSpec, Instance

JOINTS = tuple(range(7))
LOW = np.array([-2.90, -1.76, -2.90, -3.07, -2.90, -0.02, -2.90])
HIGH = np.array([2.90, 1.76, 2.90, -0.07, 2.90, 3.75, 2.90])
SPEED = np.array([2.175] * 4 + [2.61] * 3) * 0.05  # radians per control step
SPEC = EnvSpec(
    name="seven-joint-arm",
    observation_dim=7,
    action_dim=7,
    state_dims=JOINTS,
    state_names=tuple(f"joint {number + 1} [rad]" for number in JOINTS),
    goal_dims=JOINTS,
    velocity_dims=None,
    control_dt=0.05,
    epsilon=0.05,
    T_max=128,
    L_min=8,
)
PHASE = {"goals": {"endpoint": 0.3, "local": 0.7, "far": 0.0}, "even": 0.0}
LENGTH = {
    "network": {"feature_scale": 0.05, "depth": 2},
    "quasimetric": 1,  # the largest difference of latent numbers, like the truth
    "latent": 64,
    "relay_graph": None,
    **dict.fromkeys(("warm_start", "expansion", "strengthening"), PHASE),
}


class Arm(PlanningEnv):
    """Joints move as commanded, within their limits of speed and position."""

    spec = SPEC

    def reset(self, instance: Instance) -> np.ndarray:
        """At the start."""
        self.q = np.asarray(instance.start, np.float64)
        return self.q.astype(np.float32)

    def step(self, action: np.ndarray) -> np.ndarray:
        """An action of 1 is the fastest joint's full speed."""
        self.q = np.clip(self.q + np.clip(action * SPEED.max(), -SPEED, SPEED), LOW, HIGH)
        return self.q.astype(np.float32)

    def sample_instance(self, rng: np.random.Generator, distribution: str = "reset") -> Instance:
        """Start and goal uniform within the limits."""
        start, goal = rng.uniform(LOW, HIGH, (2, 7)).astype(np.float32)
        return Instance(start, goal, int(rng.integers(2**31)))

    def check(self, instance: Instance) -> None:
        """Start and goal must be within the joint limits."""
        for name, value in self.finite_ends(instance):
            if (value < LOW - 1e-3).any() or (value > HIGH + 1e-3).any():
                raise VhdError(f"seven-joint-arm: the {name} {value.tolist()} exceeds a joint's limits.")

    def render(self, width: int = 350, height: int = 240) -> np.ndarray:
        """A bar per joint, between its limits."""
        picture = np.full((height, width, 3), 255, np.uint8)
        filled = ((self.q - LOW) / (HIGH - LOW) * height).astype(int)
        for joint, level in enumerate(filled):
            picture[height - level :, joint * width // 7 + 5 : (joint + 1) * width // 7 - 5] = (40, 90, 200)
        return picture


def shortest_steps(starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """(n, 7) and (n, 7) -> (n,) steps at full speed."""
    return (np.abs(goals - starts) / SPEED).max(axis=-1)


def make_moves(transitions: int, rng: np.random.Generator) -> Parts:
    """One episode per move, the last one cut short."""
    parts: Parts = []
    q = rng.uniform(LOW, HIGH)
    while transitions > 0:
        goal = rng.uniform(LOW, HIGH)
        steps = int(np.ceil(shortest_steps(q, goal) / rng.uniform(0.5, 1.0)))
        states = np.linspace(q, goal, steps + 1)[: transitions + 1].astype(np.float32)
        parts.append((states, (np.diff(states, axis=0) / SPEED.max()).astype(np.float32)))
        q, transitions = goal, transitions - steps
    return parts


def maker() -> ChunkMaker:
    """For the builder's worker processes."""
    return make_moves


def make() -> Environment:
    """The environment `seven-joint-arm`."""
    return Environment(
        SPEC,
        simulator=Arm,
        geometry=Geometry(bounds=np.stack([LOW, HIGH])),
        controller="displacement",
        displacement=float(SPEED.max()),
        builder=Builder(maker, chunk=50_000, transitions=400_000),
        shortest_steps=shortest_steps,
        instances="start and goal uniform within the joints' limits",
        recipes={"default": {"length": LENGTH}},
    )


def main() -> None:
    from vhdiffuser.benchmark.length_eval import draw_pairs
    from vhdiffuser.cli import run as vhd

    os.environ.setdefault("VHD_HOME", tempfile.mkdtemp())  # leaves your own cache alone
    environment = vhdiffuser.register(make())
    vhd(["data", "get", SPEC.name, "--source", "build", "--size", "100000", "--quiet"])
    recipe = vhdiffuser.get_recipe(environment).changed(
        length={"batch": 256, "warm_start": {"shortest": 50, "longest": 100}, "expansion": {"shortest": 100}},
        length_loop={"updates": 500, "warmup": 20, "ema": 0.98, "threads": 1},
    )
    vhdiffuser.train_length(SPEC.name, recipe)
    vhd(["eval-length", SPEC.name, "--pairs", "500", "--seed", "5"])
    starts, goals = draw_pairs(environment.make(), 500, seed=5)
    straight = spearmanr(np.linalg.norm(goals - starts, axis=1), shortest_steps(starts, goals)).statistic
    print(f"for comparison, a straight line in joint space has a rank correlation of {straight:.3f}")


if __name__ == "__main__":
    main()
