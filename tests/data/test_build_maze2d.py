from __future__ import annotations

import json

import numpy as np
import pytest

from vhdiffuser.data.build import BuildConfig, build
from vhdiffuser.data.build_maze2d import _next_cells, stream
from vhdiffuser.data.store import load_dataset, save_dataset
from vhdiffuser.envs.maze2d import MAZES, MazePhysics
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.errors import DataError


@pytest.mark.parametrize("maze", list(MAZES))
def test_regeneration_has_d4rls_statistics(maze, d4rl_samples):
    # The full sets are compared by benchmarks/data_fidelity.py; this is a tenth of one.
    reference = json.loads((d4rl_samples / "d4rl_maze2d_reference.json").read_text())[maze]
    streams = [stream(maze, 50_000, np.random.default_rng([0, i])) for i in range(6)]
    states, actions = (np.concatenate([part[i] for part in streams]) for i in (0, 1))
    np.testing.assert_allclose(states.std(0), reference["obs_std"], rtol=0.05)
    np.testing.assert_allclose(actions.std(0), reference["act_std"], rtol=0.02)
    np.testing.assert_allclose(states.mean(0), reference["obs_mean"], atol=0.2)
    if "speed_quantiles_5_25_50_75_95" in reference:
        speed = np.hypot(states[:, 2], states[:, 3])
        quartiles = np.quantile(speed, [0.25, 0.5, 0.75])
        np.testing.assert_allclose(quartiles, reference["speed_quantiles_5_25_50_75_95"][1:4], rtol=0.03)
        segments = np.concatenate([np.diff(part[2]) for part in streams])
        assert segments.mean() == pytest.approx(reference["segment_mean"], rel=0.1)


def test_each_action_leads_to_the_next_state(rng):
    states, actions, _ = stream("medium", 300, rng)
    physics = MazePhysics("medium")
    for t in range(0, 300, 17):
        physics.set(states[t])
        physics.step(actions[t])
        # Contacts are warm-started in the stream and not here; away from walls there is no difference.
        np.testing.assert_allclose(physics.state(), states[t + 1], atol=5e-3)


def test_paths_lead_to_the_target():
    step = _next_cells("large", (7, 9))
    cell, count = (1, 1), 0
    while cell != (7, 9):
        cell, count = step[cell], count + 1
        assert MAZES["large"][cell[0]][cell[1]] != "#"
    assert count == 14  # the Manhattan distance: this pair has a direct way


def test_same_seed_same_bytes_whatever_the_workers(vhd_home):
    spec = get_spec("maze2d-umaze")
    one = build(spec, BuildConfig(size=100_001, workers=1), lambda done, total: None)
    assert one.episodes.transitions == 100_001
    assert len(one.episodes) == 3
    (vhd_home / "data").rename(vhd_home / "elsewhere")
    two = build(spec, BuildConfig(size=100_001, workers=2), lambda done, total: None)
    assert one.fingerprint() == two.fingerprint()
    other = stream("umaze", 1000, np.random.default_rng(np.random.SeedSequence([1, 0])))[0]
    assert not np.array_equal(other, one.episodes.observations[:1001])


def test_a_stopped_build_goes_on(vhd_home):
    spec, config = get_spec("maze2d-umaze"), BuildConfig(size=150_000, workers=1)
    calls: list[int] = []

    def stop_after_the_first(done: int, total: int) -> None:
        calls.append(done)
        if done >= 50_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(spec, config, stop_after_the_first)
    kept = {path: path.stat().st_mtime_ns for path in (vhd_home / "data").rglob("chunk-*.safetensors")}
    assert len(kept) >= 1
    first: list[int] = []
    dataset = build(spec, config, lambda done, total: first.append(done))
    assert first[0] == 50_000 * len(kept), "finished chunks are not built again"
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    expected = stream("umaze", 50_000, np.random.default_rng(np.random.SeedSequence([0, 0])))[0]
    np.testing.assert_array_equal(dataset.episodes.episode(0)[0], expected)
    save_dataset(dataset)
    assert load_dataset("maze2d-umaze").fingerprint() == dataset.fingerprint()


def test_a_damaged_chunk_is_said_and_built_again(vhd_home):
    spec, config = get_spec("maze2d-umaze"), BuildConfig(size=50_001, workers=1)
    build(spec, config, lambda done, total: None)
    chunk = next((vhd_home / "data").rglob("chunk-00001.safetensors"))
    chunk.write_bytes(chunk.read_bytes()[:20])
    with pytest.raises(DataError, match="damaged chunk"):
        build(spec, config, lambda done, total: None)
    assert build(spec, config, lambda done, total: None).episodes.transitions == 50_001


def test_too_small_a_size_is_refused():
    with pytest.raises(DataError, match="T_max = 256"):
        build(get_spec("maze2d-umaze"), BuildConfig(size=100), lambda done, total: None)
