"""Many copies of one body among walls on a grid, stepped together by MuJoCo's own thread pool.

Bitwise equal to `mj_step` in the whole maze, at about half the cost. A body can touch only the walls near it, so its
copy of the model has a floor and four walls, which move to wherever the body's nearest walls are. The body's own parts
never touch each other in these models, so contacts are listed as pairs and need no broad search; and one body is one
constraint island, so none are searched for. Order and parameters of contacts are those of the whole maze.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import mujoco
import numpy as np
from mujoco.batch import Batch

from vhdiffuser.envs.base import Reset, VectorEnv
from vhdiffuser.types import BoolArray, FloatArray, Instance, IntArray

_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
_NEAREST = 4
"""Walls per copy: those of the 2 x 2 cells around a body."""
_NOWHERE = -1000.0
"""Height at which an unused wall touches nothing."""


@dataclass(frozen=True)
class WallGrid:
    """Boxes of one size that fill the wall cells of a grid."""

    geoms: tuple[str, ...]
    """Names of the boxes, in the model's order."""
    is_wall: BoolArray
    """(A, B): whether cell (a, b) is a wall; row by row in the order of `geoms`."""
    origin: tuple[float, float]
    """Position of cell (0, 0) along a and along b."""
    cell: float
    """Side of a cell."""
    axes: tuple[int, int]
    """Coordinates (of x, y) that a and b count along."""
    height: float
    """z of the boxes' centres."""
    offset: tuple[float, float] = (0.0, 0.0)
    """Position of the body in the world at qpos 0."""


class WalledBatch:
    """`copies` simulations of a model whose only static geoms besides the floor are a grid of walls."""

    def __init__(self, xml: str, walls: WallGrid, reach: float, slack: float, copies: int, threads: int = 1) -> None:
        """`reach`: no part of the body, with its contact margin, is farther from (qpos 0, qpos 1).

        `slack`: distance within which a step is trusted to stay; longer ones are repeated in the whole maze.
        """
        if reach + slack >= walls.cell / 2:
            raise ValueError("a body that reaches beyond half a cell could touch more than four walls")
        self._walls, self._radius, self._slack = walls, reach + slack, slack
        self._whole = mujoco.MjModel.from_xml_string(xml)
        self._spare = mujoco.MjData(self._whole)
        self._batch = Batch(_lean_model(xml, walls), nsim=copies, nthread=threads)
        self._centres = _centres(walls)
        model = self._batch.model
        self._slots = [model.geom(name).id for name in walls.geoms[:_NEAREST]]
        self._geom_pos = self._batch.expand("geom_pos")
        self.state = self._batch.state
        """(copies, s): everything that a step depends on and changes."""
        self.position = self._batch.bind("qpos")
        self.velocity = self._batch.bind("qvel")
        self.warmstart = self._batch.bind("qacc_warmstart")
        self.control = self._batch.bind("ctrl")

    def load(self, copy: int, data: mujoco.MjData) -> None:
        """Set one copy to the state of a simulation of the whole maze."""
        row = np.empty(self._batch.nstate)
        mujoco.mj_getState(self._whole, data, row, _STATE)
        self.state[copy] = row

    def step(self, copies: IntArray, substeps: int) -> None:
        """`substeps` times `mj_step` of these copies (sorted), with their controls."""
        before = self.state[copies]
        places = self.position[copies, :2]
        self._geom_pos[np.ix_(copies, self._slots)] = self.near(places)
        self._batch.step(copies, nstep=substeps)
        moved = np.square(self.position[copies, :2] - places).sum(axis=1)
        # Written so that NaN is also repeated.
        for row in np.flatnonzero(~(moved < (self._slack / 2) ** 2)):
            self._repeat(int(copies[row]), before[row], substeps)

    def near(self, places: FloatArray) -> FloatArray:
        """Centres (k, 4, 3) of the walls within reach of positions (k, 2); far below if there are fewer."""
        walls = self._walls
        world = places + walls.offset
        corner = np.floor((world[:, walls.axes] - walls.origin) / walls.cell).astype(np.int64)
        corner = np.clip(corner, -1, np.array(walls.is_wall.shape) - 1) + 1
        centres = self._centres[corner[:, 0], corner[:, 1]].copy()
        gaps = np.maximum(np.abs(centres[..., :2] - world[:, None]) - walls.cell / 2, 0.0)
        centres[np.square(gaps).sum(axis=-1) > self._radius**2, 2] = _NOWHERE
        return centres

    def _repeat(self, copy: int, state: FloatArray, substeps: int) -> None:
        """Step one copy in the whole maze."""
        mujoco.mj_setState(self._whole, self._spare, state, _STATE)
        mujoco.mj_step(self._whole, self._spare, nstep=substeps)
        self.load(copy, self._spare)


class Bodies(ABC):
    """Copies of a robot stepped together: control and observation on top of `simulations`."""

    simulations: WalledBatch

    @abstractmethod
    def step(self, copies: IntArray, actions: FloatArray) -> None:
        """One control step of these copies, in ascending order, with actions (k, m) in [-1, 1]."""

    def observations(self, copies: IntArray) -> FloatArray:
        """(k, o) float64: position and velocity, unless the robot observes something else."""
        return np.concatenate([self.simulations.position[copies], self.simulations.velocity[copies]], axis=1)


class BodiesVector(VectorEnv):
    """Bodies behind the planning interface; each is reset in `env`, whose simulation is `env.physics.data`."""

    def __init__(self, env: Any, bodies: Bodies, reset: Reset | None = None) -> None:
        """`reset` sets `env` to an instance (default: its own)."""
        self.spec, self._env, self._bodies = env.spec, env, bodies
        self._reset: Reset = reset or env.reset

    def reset(self, slots: Sequence[int], instances: Sequence[Instance]) -> FloatArray:
        """(k, o) first observations, as `env` returns them."""
        observations = np.empty((len(slots), self.spec.observation_dim), np.float32)
        for row, (slot, instance) in enumerate(zip(slots, instances, strict=True)):
            observations[row] = self._reset(instance)
            self._bodies.simulations.load(slot, self._env.physics.data)
        return observations

    def step(self, slots: Sequence[int] | IntArray, actions: FloatArray) -> FloatArray:
        """One action each, clipped to [-1, 1]^m."""
        order = np.argsort(slots)
        copies = np.asarray(slots)[order]
        self._bodies.step(copies, np.clip(actions[order], -1.0, 1.0))
        observations = np.empty((len(copies), self.spec.observation_dim), np.float32)
        observations[order] = self._bodies.observations(copies)
        return observations

    savable = True

    def save(self, slot: int) -> FloatArray:
        """(s,) the simulation's state."""
        return self._bodies.simulations.state[slot].copy()

    def load(self, slot: int, state: FloatArray) -> None:
        """Set a slot's simulation to a saved state (s,)."""
        self._bodies.simulations.state[slot] = state


def _lean_model(xml: str, walls: WallGrid) -> mujoco.MjModel:
    """The body, the floor and four walls; every contact that the whole model allows is a listed pair."""
    spec = mujoco.MjSpec.from_string(xml)
    unused = set(walls.geoms[_NEAREST:])
    for geom in list(spec.geoms):
        if geom.name in unused:
            spec.delete(geom)
    for item in [*spec.cameras, *spec.lights]:
        spec.delete(item)
    geoms = list(spec.geoms)
    for number, geom in enumerate(geoms):
        geom.name = geom.name or f"part {number}"
    static = [geom for geom in geoms if geom.parent.name == "world"]
    moving = [geom for geom in geoms if geom.parent.name != "world"]
    if any(_touch(one, other) for one, other in combinations(moving, 2)):
        raise ValueError("parts of the body touch each other, which listed contacts leave out")
    # Pairs are sorted by body when compiled; within a body by the floor and walls, as in the whole model.
    for part in moving:
        for wall in static:
            if _touch(part, wall):
                _add_pair(spec, wall, part)
    for geom in geoms:
        geom.contype = geom.conaffinity = 0
    model = spec.compile()
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
    return model


def _touch(one: mujoco.MjsGeom, other: mujoco.MjsGeom) -> bool:
    return bool(one.contype & other.conaffinity or other.contype & one.conaffinity)


def _add_pair(spec: mujoco.MjSpec, one: mujoco.MjsGeom, other: mujoco.MjsGeom) -> None:
    """A contact pair with the parameters that the two geoms have without it; NaN leaves their derivation to MuJoCo."""
    pair = spec.add_pair(geomname1=one.name, geomname2=other.name, condim=max(one.condim, other.condim))
    pair.margin, pair.gap = one.margin + other.margin, one.gap + other.gap
    pair.friction[:] = pair.solref[:] = pair.solimp[:] = np.nan


def _centres(walls: WallGrid) -> FloatArray:
    """(A + 1, B + 1, 4, 3): centres of the walls around each corner of cells; far below where there is none."""
    rows, columns = walls.is_wall.shape
    padded = np.zeros((rows + 2, columns + 2), bool)
    padded[1:-1, 1:-1] = walls.is_wall
    centres = np.zeros((rows + 1, columns + 1, 2, 2, 3))
    for a, b in np.ndindex(2, 2):
        here = centres[:, :, a, b]
        here[..., walls.axes[0]] = walls.origin[0] + walls.cell * (np.arange(-1, rows) + a)[:, None]
        here[..., walls.axes[1]] = walls.origin[1] + walls.cell * (np.arange(-1, columns) + b)
        here[..., 2] = np.where(padded[a : a + rows + 1, b : b + columns + 1], walls.height, _NOWHERE)
    return centres.reshape(rows + 1, columns + 1, _NEAREST, 3)
