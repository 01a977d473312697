"""What `vhd` finds through the entry point: everything known about the cart, in one object."""

from __future__ import annotations

from my_robot.cart import GEOMETRY, SPEC, Cart
from my_robot.driving import EPISODE, chunk_maker
from my_robot.steering import PursuitController
from vhdiffuser import Environment
from vhdiffuser.control.base import register_controller
from vhdiffuser.data.build import Builder

register_controller("my_robot_pursuit", lambda spec, model: PursuitController())


def make() -> Environment:
    """The environment `my-robot`."""
    return Environment(
        SPEC,
        simulator=Cart,
        geometry=GEOMETRY,
        controller="my_robot_pursuit",
        builder=Builder(chunk_maker, chunk=20 * EPISODE, transitions=200_000),
        recipes={"default": {"planner": {"stride": 4}, "planning": {"smoothing": 4.0}}},  # it turns in place
        instances="start (at any heading) and goal uniform over the free floor",
    )
