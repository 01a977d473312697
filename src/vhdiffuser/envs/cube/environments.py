"""OGBench's cube-single as an environment: the task is to position the effector; the cube's own task is ignored."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from vhdiffuser.data.build import Builder, ChunkMaker
from vhdiffuser.data.official import OfficialFiles
from vhdiffuser.data.readers import OGBENCH_HOSTS, read_ogbench, read_ogbench_file
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.cube.workspace import WORKSPACE, to_units
from vhdiffuser.envs.environment import Environment, Geometry
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, Instance

_CONTACT = 18
"""Index of the gripper's contact (0 to 1) in the observation."""


def grasping(observations: FloatArray) -> BoolArray:
    """(..., o) -> (...,) whether the gripper touches something."""
    return observations[..., _CONTACT] > 0


def _simulator(spec: EnvSpec) -> PlanningEnv:
    from vhdiffuser.envs.cube.simulator import CubeEnv

    return CubeEnv(spec)


def _chunk_maker() -> ChunkMaker:
    from vhdiffuser.envs.cube.building import build_chunk

    return build_chunk


def _restore(env: Any, observation: FloatArray, goal: FloatArray) -> FloatArray:
    """Joints and velocities as recorded, gripper open, cube out of the way; the arm may sag below its workspace."""
    low, high = env.workspace
    start = env.spec.place_of(observation)
    env.reset(Instance(np.clip(start, low, high), np.clip(np.asarray(goal, np.float64), low, high), 0))
    return env.physics.restore_arm(observation).astype(np.float32)


_SPEC = EnvSpec(
    name="cube",
    observation_dim=28,
    action_dim=5,
    state_dims=(12, 13, 14),
    state_names=("x", "y", "z"),
    goal_dims=(0, 1, 2),
    velocity_dims=None,
    control_dt=0.05,
    epsilon=0.03,
    T_max=128,
    L_min=8,
)

ENVIRONMENTS = (
    Environment(
        spec=_SPEC,
        simulator=partial(_simulator, _SPEC),
        geometry=Geometry(bounds=to_units(WORKSPACE), unit="dm"),
        horizons=(32, 64, 128),
        step_budget=400,
        instances="effector start and goal uniform in the workspace; the start is reached before the clock starts",
        official=OfficialFiles(("cube-single-play-v0.npz", "cube-single-play-v0-val.npz"), OGBENCH_HOSTS, read_ogbench),
        builder=Builder(_chunk_maker, chunk=5_000, transitions=1_000_000),
        reader=read_ogbench_file,
        hindered=grasping,
        restore=_restore,
        # In the data the arm moves freely for at most 46 steps between two grasps.
        window_steps=30,
        # A simulator takes 114 MB, because of the arm's meshes.
        simulators=16,
        # The controller must not depend on where the cube lies (observations 19 to 27).
        recipes={
            "default": {"planner_loop": {"updates": 2500}, "dynamics": {"ignore": tuple(range(19, 28))}},
            "paper": {"dynamics": {"ignore": tuple(range(19, 28))}},
        },
        goal_radius=0.3,
        extra="ogbench",
        extra_module="ogbench",
    ),
)
"""Table I of the paper, and what it leaves open."""
