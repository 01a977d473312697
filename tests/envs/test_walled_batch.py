"""Bodies stepped together, each with only the walls near it: to the bit as alone in the whole maze."""

import mujoco
import numpy as np
import pytest

pytest.importorskip("ogbench", reason="needs the extra 'ogbench'")

from vhdiffuser.envs.antmaze.simulator import AntPhysics
from vhdiffuser.envs.antmaze.walker import Walker
from vhdiffuser.envs.locomaze.maze import cell_centre
from vhdiffuser.envs.locomaze.oracle import free_cells
from vhdiffuser.envs.locomaze.physics import LocoBatch, LocoPhysics
from vhdiffuser.envs.pointmaze.simulator import PointPhysics


@pytest.fixture(scope="module", params=[("ant", "medium"), ("ant", "giant"), ("point", "large")], ids="-".join)
def physics(request) -> LocoPhysics:
    body, maze = request.param
    return (AntPhysics if body == "ant" else PointPhysics)(maze)


def started(physics: LocoPhysics, copies: int, threads: int = 1) -> LocoBatch:
    """Bodies between the middle and the walls of random cells."""
    rng = np.random.default_rng(0)
    batch, cells = physics.batch(copies, threads), free_cells(physics.maze_map)
    for copy in range(copies):
        physics.reset(cell_centre(rng.choice(cells)) + rng.uniform(-1.3, 1.3, 2), rng)
        batch.simulations.load(copy, physics.data)
    return batch


def walk(batch: LocoBatch, steps: int):
    """Yields the actions of each step: everyone heads somewhere else every 15 steps, and soon into a wall."""
    copies, m = batch.simulations.control.shape
    everyone, rng, walker = np.arange(copies), np.random.default_rng(1), Walker.load()
    for step in range(steps):
        if step % 15 == 0:
            angle = rng.uniform(0, 2 * np.pi, copies)
            ways = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        actions = ways if m == 2 else walker(batch.observations(everyone)[:, 2:], ways)
        actions = np.clip(actions + rng.normal(0, 0.2, (copies, m)), -1, 1).astype(np.float32)
        batch.step(everyone, actions)
        yield actions


def test_a_batch_is_to_the_bit_what_its_bodies_are_alone_in_the_whole_maze(physics: LocoPhysics) -> None:
    copies = 24
    batch, everyone = started(physics, copies), np.arange(copies)
    rows = batch.simulations.state.copy()
    states, touched = mujoco.mjtState.mjSTATE_INTEGRATION, 0
    for actions in walk(batch, 30):
        for copy in everyone:
            mujoco.mj_setState(physics.model, physics.data, rows[copy], states)
            physics.step(actions[copy])
            mujoco.mj_getState(physics.model, physics.data, rows[copy], states)
            touched += any("block" in physics.model.geom(contact.geom2).name for contact in physics.data.contact)
        np.testing.assert_array_equal(batch.simulations.state, rows)
    assert touched > 20, "the walls were touched"


def test_a_batch_does_not_depend_on_its_threads_nor_on_who_is_stepped_with_whom(physics: LocoPhysics) -> None:
    one, two, halves = started(physics, 8), started(physics, 8, threads=2), started(physics, 8)
    for actions in walk(one, 10):
        two.step(np.arange(8), actions)
        halves.step(np.arange(0, 8, 2), actions[::2])
        halves.step(np.arange(1, 8, 2), actions[1::2])
    np.testing.assert_array_equal(two.simulations.state, one.simulations.state)
    np.testing.assert_array_equal(halves.simulations.state, one.simulations.state)


def test_a_body_faster_than_its_walls_were_chosen_for_is_simulated_in_the_whole_maze(physics: LocoPhysics) -> None:
    batch = started(physics, 1).simulations
    physics.reset(np.zeros(2), np.random.default_rng(0))
    physics.velocity[:2] = 25.0, 3.0  # through the cell and into the next in one control step
    batch.load(0, physics.data)
    mujoco.mj_step(physics.model, physics.data, nstep=5)
    batch.step(np.arange(1), 5)
    np.testing.assert_array_equal(batch.position[0], physics.position)
    assert np.linalg.norm(physics.position[:2]) > 0.6


def test_only_walls_within_reach_are_near() -> None:
    ant = AntPhysics("medium")
    batch = ant.batch(1).simulations
    middle, left, corner = batch.near(np.array([[0.0, 0.0], [-0.9, 0.1], [-1.0, -1.0]]))
    assert (middle[:, 2] < -100).all(), "walls begin 2 m away"
    assert left[left[:, 2] > 0].tolist() == [[-4, 0, 1]]
    assert corner[corner[:, 2] > 0].tolist() == [[-4, -4, 1], [0, -4, 1], [-4, 0, 1]], "in the order of the whole maze"
