from __future__ import annotations

import numpy as np

from vhdiffuser.envs.walls import draw_free, inside, wall_distance

ROOM = np.array([(-1.0, 5.0, -1.0, 0.0), (-1.0, 5.0, 4.0, 5.0), (-1.0, 0.0, 0.0, 4.0), (4.0, 5.0, 0.0, 4.0)])
"""A room of 4 by 4 behind walls one thick."""


def test_distance_is_to_the_nearest_wall_and_0_where_nothing_can_be() -> None:
    points = np.array([[2.0, 2.0], [1.0, 3.5], [3.9, 0.2], [-0.5, 2.0], [-1.5, 2.0], [2.0, 90.0]])
    np.testing.assert_allclose(wall_distance(ROOM, points), [2.0, 0.5, 0.1, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(wall_distance(ROOM, points.reshape(2, 3, 2)).ravel(), wall_distance(ROOM, points))
    assert wall_distance(ROOM, points[0]).shape == ()
    assert inside(ROOM, points).tolist() == [True, True, True, True, False, False]


def test_a_corner_is_as_far_as_the_straight_line_to_it() -> None:
    pillar = np.concatenate([ROOM, [(3.0, 4.0, 3.0, 4.0)]])
    np.testing.assert_allclose(wall_distance(pillar, np.array([2.7, 2.6])), 0.5)


def test_drawn_points_fill_what_is_free_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    points = np.stack([draw_free(ROOM, 0.5, rng) for _ in range(2000)])
    assert wall_distance(ROOM, points).min() >= 0.5
    counts, _, _ = np.histogram2d(*points.T, bins=3, range=[[0.5, 3.5]] * 2)
    # 222 expected in each ninth of the free square, with a standard deviation of 14.
    assert np.abs(counts - 2000 / 9).max() < 5 * 14
