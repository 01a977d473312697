from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vhdiffuser.data.build import BuildConfig, Builder, build
from vhdiffuser.data.store import save_dataset
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.maze2d.building import _next_cells, stream
from vhdiffuser.envs.maze2d.maze import LARGE, MEDIUM, UMAZE
from vhdiffuser.envs.maze2d.simulator import MazePhysics
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError

MAZES = {"umaze": (UMAZE, 300), "medium": (MEDIUM, 600), "large": (LARGE, 800)}
"""Map, and D4RL's episode length: a target that is not reached in so many steps is given up."""
ENVIRONMENT = get_environment("maze2d-umaze")
SPEC = ENVIRONMENT.spec

PUBLISHED = {
    "umaze": {
        "mean": (1.9328, 2.3745, 0.0002, -0.0010),
        "std": (0.8997, 0.7093, 2.2129, 2.4682),
        "action std": (0.7043, 0.7506),
        "speed quartiles": (2.26, 3.20, 4.03),
        "segment": 79.9,
    },
    "medium": {
        "mean": (3.5093, 3.4766, 0.0, 0.0),
        "std": (1.3371, 1.5210, 2.3408, 2.3694),
        "action std": (0.7398, 0.7459),
        "speed quartiles": (2.33, 3.19, 4.03),
        "segment": 158.3,
    },
    "large": {
        "mean": (3.7296, 5.3047, 0.0, 0.0),
        "std": (1.8070, 2.5688, 2.4368, 2.6494),
        "action std": (0.7249, 0.7395),
    },
}
"""Statistics of D4RL's full official sets, as its users publish them; the mean segment is of 20,000 rows."""


@pytest.mark.slow
@pytest.mark.parametrize("maze", list(MAZES))
def test_regeneration_has_d4rls_statistics(maze):
    """A tenth of a set; `benchmarks/data_fidelity.py` compares whole ones.

    Tolerances are about four standard errors of a stream this long: some 600 targets decide where the ball has been.
    """
    published = PUBLISHED[maze]
    streams = [stream(*MAZES[maze], 50_000, np.random.default_rng([0, i])) for i in range(6)]
    states, actions = (np.concatenate([part[i] for part in streams]) for i in (0, 1))
    np.testing.assert_allclose(states.std(0), published["std"], rtol=0.035)
    np.testing.assert_allclose(actions.std(0), published["action std"], rtol=0.008)
    place = {"umaze": 0.02, "medium": 0.035, "large": 0.055}[maze]
    np.testing.assert_allclose(states[:, :2].mean(0), published["mean"][:2], rtol=place)
    np.testing.assert_allclose(states[:, 2:].mean(0), published["mean"][2:], atol=0.01)
    if "speed quartiles" in published:
        quartiles = np.quantile(np.hypot(states[:, 2], states[:, 3]), [0.25, 0.5, 0.75])
        np.testing.assert_allclose(quartiles, published["speed quartiles"], rtol=0.01)
        segments = np.concatenate([np.diff(part[2]) for part in streams])
        assert segments.mean() == pytest.approx(published["segment"], rel=0.08)  # a few hundred targets decide theirs
    np.testing.assert_allclose(np.abs(states[:, 2:]).max(0), 5.2263, atol=1e-3)


def test_each_action_leads_to_the_next_state(rng):
    states, actions, _ = stream(MEDIUM, 600, 300, rng)
    physics = MazePhysics(MEDIUM)
    for t in range(0, 300, 17):
        physics.set(states[t])
        physics.step(actions[t])
        # Contacts are warm-started in the stream and not here; away from walls there is no difference.
        np.testing.assert_allclose(physics.state(), states[t + 1], atol=5e-3)


def test_paths_lead_to_the_target():
    step = _next_cells(LARGE, (7, 9))
    cell, count = (1, 1), 0
    while cell != (7, 9):
        cell, count = step[cell], count + 1
        assert LARGE.rows[cell[0]][cell[1]] != "#"
    assert count == 14  # the Manhattan distance: this pair has a direct way


@pytest.fixture
def builder() -> Builder:
    """Chunks of a thousand steps, not of fifty thousand."""
    assert ENVIRONMENT.builder is not None
    return replace(ENVIRONMENT.builder, chunk=1000)


@pytest.mark.slow
def test_same_seed_same_bytes_whatever_the_workers(builder, vhd_home):
    one = build(SPEC, builder, BuildConfig(size=2001, workers=1), lambda done, total: None)
    assert one.episodes.transitions == 2001
    assert len(one.episodes) == 3
    (vhd_home / "data").rename(vhd_home / "elsewhere")
    two = build(SPEC, builder, BuildConfig(size=2001, workers=2), lambda done, total: None)
    assert one.fingerprint() == two.fingerprint()
    other = stream(UMAZE, 300, 1000, np.random.default_rng(np.random.SeedSequence([1, 0])))[0]
    assert not np.array_equal(other, one.episodes.observations[:1001])


def test_a_stopped_build_goes_on(builder, vhd_home):
    config = BuildConfig(size=20_000, workers=1)

    def stop_after_the_first(done: int, total: int) -> None:
        if done >= 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(SPEC, builder, config, stop_after_the_first)
    kept = {path: path.stat().st_mtime_ns for path in (vhd_home / "data").rglob("chunk-*.safetensors")}
    assert 1 <= len(kept) < 20
    seen: list[int] = []
    dataset = build(SPEC, builder, config, lambda done, total: seen.append(done))
    assert seen[0] == 1000 * len(kept), "finished chunks are not built again"
    assert seen[-1] == 20_000
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    expected = stream(UMAZE, 300, 1000, np.random.default_rng(np.random.SeedSequence([0, 0])))[0]
    np.testing.assert_array_equal(dataset.episodes.episode(0)[0], expected)
    save_dataset(dataset)
    assert load_dataset("maze2d-umaze").fingerprint() == dataset.fingerprint()


def test_a_damaged_chunk_is_said_and_built_again(builder, vhd_home):
    config = BuildConfig(size=1001, workers=1)
    build(SPEC, builder, config, lambda done, total: None)
    chunk = next((vhd_home / "data").rglob("chunk-00001.safetensors"))
    chunk.write_bytes(chunk.read_bytes()[:20])
    with pytest.raises(DataError, match="damaged chunk"):
        build(SPEC, builder, config, lambda done, total: None)
    assert build(SPEC, builder, config, lambda done, total: None).episodes.transitions == 1001


def test_too_small_a_size_is_refused():
    with pytest.raises(DataError, match="T_max = 256"):
        build(SPEC, ENVIRONMENT.builder, BuildConfig(size=100), lambda done, total: None)
