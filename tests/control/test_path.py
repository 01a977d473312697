"""Plans read as paths: by hand, and against numpy's own interpolation, path by path."""

import numpy as np
import pytest

from vhdiffuser.control.path import along_paths


def test_a_path_is_read_by_distance_from_its_nearest_point() -> None:
    corner = np.array([[0, 0], [1, 0], [1, 1], [1, 3]], np.float32)
    (points,) = along_paths([corner], (0, 1), np.array([[0.9, 0.2]]), np.array([0.0, 0.5, 1.0, 2.0, 9.0]))
    np.testing.assert_allclose(points, [[1, 0], [1, 0.5], [1, 1], [1, 2], [1, 3]])


@pytest.mark.parametrize("gap", [0.001, 0.05, 0.4])
def test_many_paths_are_read_to_the_bit_as_each_alone(gap: float) -> None:
    rng = np.random.default_rng(0)
    paths = [np.cumsum(rng.normal(0, gap, (length, 2)), axis=0).astype(np.float32) for length in (2, 7, 60, 300)]
    paths.append(np.concatenate([paths[2], np.repeat(paths[2][-1:], 9, axis=0)]))  # stands at its end
    places = np.stack([path[rng.integers(len(path))] for path in paths]) + np.float32(0.1)
    distances = np.array([0.15, 0.6, 1.2, 2.4, 3.6])
    for points, path, place in zip(along_paths(paths, (0, 1), places, distances), paths, places, strict=True):
        rest = path[np.square(path - place).sum(axis=1).argmin() :]
        travelled = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(rest, axis=0), axis=1))])
        for dim in range(2):
            np.testing.assert_array_equal(points[:, dim], np.interp(distances, travelled, rest[:, dim]))
