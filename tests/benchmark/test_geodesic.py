"""Geodesic distance on mazes whose shortest ways are known."""

import numpy as np
import pytest

from vhdiffuser.benchmark.geodesic import Geodesic, make_geodesic
from vhdiffuser.errors import VhdError


def room(width: float, height: float, thick: float = 1.0) -> list[tuple[float, float, float, float]]:
    """Four walls around [0, width] x [0, height]."""
    return [
        (-thick, 0, -thick, height + thick),
        (width, width + thick, -thick, height + thick),
        (-thick, width + thick, -thick, 0),
        (-thick, width + thick, height, height + thick),
    ]


def test_open_room_is_euclidean_to_the_grids_precision() -> None:
    geodesic = Geodesic(np.array(room(4, 3)), spacing=0.1, clearance=0.1)
    rng = np.random.default_rng(0)
    starts, goals = (rng.uniform((0.1, 0.1), (3.9, 2.9), (200, 2)) for _ in range(2))
    straight = np.linalg.norm(starts - goals, axis=1)
    found = geodesic.distance(starts, goals)
    assert (found >= straight).all()
    assert (found <= 1.015 * straight + 0.15).all()


def test_the_way_round_a_wall() -> None:
    walls = np.array([*room(5, 4), (2, 3, 0, 3)])  # a wall from below leaves a gap of 1 at the top
    geodesic = Geodesic(walls, spacing=0.05, clearance=0.1)
    found = geodesic.distance(np.array([[1.0, 0.5]]), np.array([[4.0, 0.5]]))[0]
    # Up to the rounded corners of the inflated wall, across, and down; the arcs are shorter than the mitres.
    up = np.hypot(1.9 - 1.0, 3.1 - 0.5)
    assert 2 * up + 1.2 - 0.25 < found < (2 * up + 1.2) * 1.015
    assert found > 3 * 1.5


def test_distance_is_symmetric_and_zero_at_the_goal() -> None:
    geodesic = Geodesic(np.array([*room(5, 4), (2, 3, 0, 3)]), spacing=0.1, clearance=0.1)
    points = np.array([[0.5, 0.5], [4.5, 0.7], [2.5, 3.5], [1.2, 2.0]])
    starts, goals = np.repeat(points, 4, axis=0), np.tile(points, (4, 1))
    table = geodesic.distance(starts, goals).reshape(4, 4)
    np.testing.assert_allclose(table, table.T, atol=1e-9)
    np.testing.assert_array_equal(np.diag(table), 0.0)


def test_one_pair_alone_and_many_with_one_goal_agree_to_the_bit() -> None:
    walls = np.array([*room(6, 5), (2, 3, 0, 4), (4, 5, 1, 5), (-1, 7, 6.5, 7.5)])
    geodesic = Geodesic(walls, spacing=0.1, clearance=0.1)
    rng = np.random.default_rng(0)
    starts = np.array([0.2, 0.2]) + rng.uniform(0, 1, (60, 2)) * [[1.6, 4.6]]
    for goal in ([5.5, 0.5], [3.5, 3.0], [0.5, 4.5]):
        together = geodesic.distance(starts, np.tile(goal, (60, 1)))
        alone = [geodesic.distance(start[None], np.array([goal]))[0] for start in starts]
        np.testing.assert_array_equal(together, alone)


def test_field_agrees_with_distance_and_is_nan_in_walls() -> None:
    geodesic = Geodesic(np.array([*room(5, 4), (2, 3, 0, 3)]), spacing=0.1, clearance=0.1)
    goal = np.array([4.5, 0.5])
    field = geodesic.field(goal)
    assert field.shape == (len(geodesic.x), len(geodesic.y))
    np.testing.assert_array_equal(np.isnan(field), ~geodesic.free)
    row, column = np.argwhere(geodesic.free)[123]
    start = np.array([[geodesic.x[row], geodesic.y[column]]])
    assert field[row, column] == pytest.approx(geodesic.distance(start, goal[None])[0])


def test_closed_rooms_are_infinitely_far_apart() -> None:
    geodesic = Geodesic(np.array([*room(5, 2), (2, 3, -0.5, 2.5)]), spacing=0.1, clearance=0.1)
    assert np.isinf(geodesic.distance(np.array([[1.0, 1.0]]), np.array([[4.0, 1.0]])))[0]


def test_gaps_narrower_than_the_point_are_closed() -> None:
    walls = np.array([*room(5, 2), (2, 3, 0.3, 2)])  # a gap of 0.3
    pair = np.array([[1.0, 1.0]]), np.array([[4.0, 1.0]])
    assert np.isfinite(Geodesic(walls, 0.05, clearance=0.1).distance(*pair))[0]
    assert np.isinf(Geodesic(walls, 0.05, clearance=0.2).distance(*pair))[0]


def test_points_in_walls_are_refused() -> None:
    geodesic = Geodesic(np.array(room(2, 2)), spacing=0.1, clearance=0.1)
    with pytest.raises(VhdError, match="in a wall or outside"):
        geodesic.distance(np.array([[1.0, 1.0]]), np.array([[2.5, 1.0]]))
    with pytest.raises(VhdError, match="no free space"):
        Geodesic(np.array([(0.0, 1.0, 0.0, 1.0)]), spacing=0.1, clearance=0.1)


def test_maze2d_umaze_corridor() -> None:
    from vhdiffuser.envs.maze2d.maze import BALL_RADIUS
    from vhdiffuser.envs.registry import get_environment

    geodesic = make_geodesic(get_environment("maze2d-umaze"))
    assert geodesic is not None
    # Cells (1, 1) and (3, 1) are joined by the U alone. Its inner wall ends in corners at (1.3, 2.3) and (2.3, 2.3): a
    # thread runs along tangents and arcs of the ball's radius about both, and straight between them.
    to_corner = np.hypot(0.5, 1.5)
    turned = np.pi / 2 - np.arctan2(0.5, 1.5) + np.arcsin(BALL_RADIUS / to_corner)
    thread = 2 * (np.sqrt(to_corner**2 - BALL_RADIUS**2) + BALL_RADIUS * turned) + 1.0
    found = geodesic.distance(np.array([[0.8, 0.8]]), np.array([[2.8, 0.8]]))[0]
    assert thread <= found <= 1.015 * thread
    assert make_geodesic(get_environment("cube")) is None
