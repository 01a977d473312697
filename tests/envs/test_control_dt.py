"""The time between two rows: checked against positions and velocities on import, and inferred from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vhdiffuser.data.build import BuildConfig, build
from vhdiffuser.envs.importing import import_dataset, own_spec
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError, VhdError, VhdWarning
from vhdiffuser.types import Episodes

DT = 0.05


def pushed(velocity_of_step: str = "after", noise: float = 0.0, units: tuple[float, float] = (1.0, 1.0)) -> Episodes:
    """Points pushed about at random: (x, y, vx, vy), four episodes of 200 states."""
    rng, parts = np.random.default_rng(0), []
    for _ in range(4):
        v = np.cumsum(0.2 * rng.standard_normal((201, 2)), axis=0)
        used = {"before": v[:-1], "after": v[1:], "mean": (v[:-1] + v[1:]) / 2}[velocity_of_step]
        p = np.concatenate([np.zeros((1, 2)), np.cumsum(DT * used, axis=0)]) + 50 * rng.standard_normal(2)
        p, v = p * np.array(units), v + noise * rng.standard_normal(v.shape)
        parts.append((np.concatenate([p, v], axis=1)[:200], np.zeros((199, 0))))
    return Episodes.from_parts(parts)


def dt_of(episodes: Episodes, given: float | None = None, velocity_dims: tuple[int, int] | None = (2, 3)) -> float:
    return own_spec("cart", episodes, goal_dims=(0, 1), velocity_dims=velocity_dims, control_dt=given).control_dt


@pytest.mark.parametrize("velocity_of_step", ["before", "after", "mean"])
def test_it_is_inferred_whichever_velocity_moves_the_robot(velocity_of_step: str) -> None:
    assert dt_of(pushed(velocity_of_step)) == pytest.approx(DT, rel=1e-2)


def test_it_is_inferred_from_slightly_noisy_velocities_and_over_no_episode_s_end() -> None:
    assert dt_of(pushed(noise=0.1)) == pytest.approx(DT, rel=0.05)


def test_maze2d_s_own_data_says_its_own_time_step() -> None:
    umaze = get_environment("maze2d-umaze")
    dataset = build(umaze.spec, umaze.builder, BuildConfig(size=3000, workers=1), lambda done, total: None)
    assert dt_of(dataset.episodes) == pytest.approx(0.01, rel=1e-2)


def test_one_that_disagrees_is_refused_with_both_numbers() -> None:
    with pytest.raises(DataError, match=r"control_dt is 1 s, but positions and velocities give 0\.05 s"):
        dt_of(pushed(), 1.0)
    assert dt_of(pushed(), 0.052) == 0.052, "4 % off is not a disagreement"


@pytest.mark.parametrize(
    "episodes",
    [pushed(noise=20.0), pushed(units=(1.0, 100.0)), pushed(units=(-1.0, 1.0)), pushed(units=(0.0, 0.0))],
    ids=["noise", "units", "mirrored", "still"],
)
def test_where_positions_do_not_follow_velocities_nothing_is_guessed(episodes: Episodes) -> None:
    with pytest.raises(DataError, match=r"no single control_dt explains .*--control-dt.*leave out the velocity"):
        dt_of(episodes)
    with pytest.warns(VhdWarning, match=r"Using control_dt 0\.05 s as given"):
        assert dt_of(episodes, DT) == DT


def test_without_velocities_time_is_counted_in_steps_unless_told() -> None:
    assert dt_of(pushed(), velocity_dims=None) == 1.0
    assert dt_of(pushed(), 0.2, velocity_dims=None) == 0.2


@pytest.mark.parametrize("given", [0.0, -0.1, np.nan, np.inf])
def test_what_is_no_time_is_refused(given: float) -> None:
    with pytest.raises(VhdError, match="control_dt must be a"):
        dt_of(pushed(), given)


def test_dimensions_that_there_are_not_are_refused() -> None:
    with pytest.raises(DataError, match=r"velocity dimensions \(3, 4\) must be in 0..3"):
        dt_of(pushed(), velocity_dims=(3, 4))


def test_a_registered_environment_takes_no_settings(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="its own settings: leave out control_dt"):
        import_dataset("maze2d-umaze", str(tmp_path / "umaze.hdf5"), control_dt=0.01)
