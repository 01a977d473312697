"""Data: a driver visits random places in line of sight."""

from __future__ import annotations

import numpy as np

from my_robot.cart import GEOMETRY, RADIUS, Cart
from my_robot.steering import wheel_speeds
from vhdiffuser.data.build import ChunkMaker, Parts
from vhdiffuser.envs.walls import draw_free, wall_distance

EPISODE = 500
"""Transitions per episode."""


def chunk_maker() -> ChunkMaker:
    """For the builder's worker processes."""
    return make_chunk


def make_chunk(transitions: int, rng: np.random.Generator) -> Parts:
    """Episodes with this many transitions in total."""
    ends = range(0, transitions, EPISODE)
    return [drive(min(EPISODE, transitions - begin), rng) for begin in ends]


def drive(transitions: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(T + 1, 6) observations and (T, 2) actions of one episode."""
    cart = Cart()
    observation = cart.reset(cart.sample_instance(rng))
    observations, actions = [observation], []
    target = place_in_sight(observation[:2], rng)
    for _ in range(transitions):
        if np.linalg.norm(target - observation[:2]) < 0.3:
            target = place_in_sight(observation[:2], rng)
        action = wheel_speeds(observation[None], target[None], np.array([0.9]))[0]
        action = np.clip(action + 0.1 * rng.standard_normal(2), -1, 1).astype(np.float32)
        observation = cart.step(action)
        observations.append(observation)
        actions.append(action)
    return np.array(observations), np.array(actions)


def place_in_sight(place: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(2,) a random place in line of sight; next to a wall, the nearest of many."""
    for _ in range(50):
        target = draw_free(GEOMETRY.walls, RADIUS + 0.1, rng)
        way = np.linspace(place, target, 40)[4:]
        if (wall_distance(GEOMETRY.walls, way) >= RADIUS + 0.05).all():
            return target
    return min((draw_free(GEOMETRY.walls, RADIUS + 0.1, rng) for _ in range(200)), key=lambda p: np.hypot(*(p - place)))
