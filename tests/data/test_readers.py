from __future__ import annotations

import h5py
import numpy as np
import pytest
from d4rl_files import d4rl_file, write_hdf5

from vhdiffuser.data.readers import read_d4rl_maze2d, read_minari, read_ogbench, read_own
from vhdiffuser.envs.importing import import_dataset
from vhdiffuser.envs.maze2d.maze import MEDIUM, UMAZE
from vhdiffuser.envs.maze2d.simulator import MazePhysics
from vhdiffuser.errors import DataError


@pytest.mark.parametrize("maze", [UMAZE, MEDIUM])
def test_d4rls_repeated_observations_are_undone(tmp_path, maze):
    states, changes = d4rl_file(tmp_path / "a.hdf5", maze)
    with h5py.File(tmp_path / "a.hdf5") as file:
        stored = file["observations"][()]
    repeated = (stored[1:] == stored[:-1]).all(1)
    assert np.flatnonzero(repeated).tolist() == changes.tolist(), "the file is as D4RL's are"
    assert len(changes) > 10
    episodes = read_d4rl_maze2d(tmp_path / "a.hdf5")
    assert len(episodes) == 1, "one physical stream, whatever the timeouts say"
    np.testing.assert_array_equal(episodes.observations, states)
    assert (np.abs(np.diff(episodes.observations[:, :2], axis=0)).max(1) > 0).all()


def test_each_d4rl_action_leads_to_the_next_state(tmp_path):
    d4rl_file(tmp_path / "a.hdf5")
    (states, actions), physics = read_d4rl_maze2d(tmp_path / "a.hdf5").episode(0), MazePhysics(UMAZE)
    for t in range(0, len(actions), 101):
        physics.set(states[t])
        physics.step(actions[t])
        np.testing.assert_allclose(physics.state(), states[t + 1], atol=5e-3)


@pytest.mark.parametrize("lacking", ["infos__qpos", "infos__qvel"])
def test_d4rl_files_without_the_true_states_are_read_as_they_are(tmp_path, lacking):
    d4rl_file(tmp_path / "a.hdf5", **{lacking: None})
    with h5py.File(tmp_path / "a.hdf5") as file:
        np.testing.assert_array_equal(read_d4rl_maze2d(tmp_path / "a.hdf5").observations, file["observations"][()])


def test_a_reset_in_a_d4rl_stream_starts_a_new_episode(tmp_path):
    states = np.zeros((10, 4), np.float32)
    states[6:, 0] = 2.0
    path = write_hdf5(tmp_path / "a.hdf5", observations=states, actions=np.ones((10, 2), np.float32))
    episodes = read_d4rl_maze2d(path)
    assert episodes.ends.tolist() == [6, 10]
    assert episodes.actions[5].tolist() == [0, 0]


def ogbench_file(path, lengths, fill):
    rows = sum(lengths)
    terminals = np.zeros(rows, bool)
    terminals[np.cumsum(lengths) - 1] = True
    np.savez(path, observations=np.full((rows, 3), fill, np.float32), actions=np.ones((rows, 2)), terminals=terminals)
    return path


def test_ogbench_train_and_val_are_laid_end_to_end(tmp_path):
    train = ogbench_file(tmp_path / "a.npz", [4, 5], 1.0)
    val = ogbench_file(tmp_path / "a-val.npz", [3], 2.0)
    episodes = read_ogbench([train, val])
    assert episodes.ends.tolist() == [4, 9, 12]
    assert episodes.transitions == 3 + 4 + 2
    assert episodes.observations[-1, 0] == 2.0


@pytest.mark.parametrize("kind", ["npz", "hdf5"])
@pytest.mark.parametrize(
    "marks",
    [
        {"episode_ends": np.array([3, 8])},
        {"terminals": np.arange(8) == 2},
        {"terminals": np.arange(8) == 2, "timeouts": np.arange(8) == 7},
    ],
)
def test_own_files_in_every_documented_layout(tmp_path, kind, marks):
    path = tmp_path / f"mine.{kind}"
    fields = {"observations": np.arange(16.0).reshape(8, 2), "actions": np.ones((8, 1)), **marks}
    if kind == "npz":
        np.savez(path, **fields)
    else:
        write_hdf5(path, **fields)
    episodes = read_own(path)
    assert episodes.ends.tolist() == [3, 8]
    assert episodes.observations.dtype == np.float32
    assert episodes.actions[:, 0].tolist() == [1, 1, 0, 1, 1, 1, 1, 0]


def test_own_files_may_have_no_actions(tmp_path):
    np.savez(tmp_path / "a.npz", observations=np.zeros((5, 2)), episode_ends=[5])
    assert read_own(tmp_path / "a.npz").actions.shape == (5, 0)


def bad(tmp_path, **changes):
    fields = {
        "observations": np.zeros((8, 2)),
        "actions": np.zeros((8, 1)),
        "episode_ends": np.array([3, 8]),
        **changes,
    }
    np.savez(tmp_path / "bad.npz", **{key: value for key, value in fields.items() if value is not None})
    return tmp_path / "bad.npz"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observations": None}, r"bad.npz: missing field\(s\) observations. It has: actions"),
        ({"episode_ends": None}, "nothing marks where episodes end"),
        ({"actions": np.zeros((7, 1))}, r"bad.npz: observations and actions must have equal length; got 8 and 7"),
        ({"episode_ends": np.array([3, 4, 8])}, r"bad.npz: episode 1 has 1 state"),
        ({"episode_ends": np.array([3, 3, 8])}, "must be positive and increasing"),
        ({"episode_ends": np.array([3, 6])}, "ends at 6, but there are 8"),
        ({"observations": np.zeros((0, 2)), "actions": np.zeros((0, 1)), "episode_ends": np.zeros(0)}, "empty"),
        ({"observations": np.full((8, 2), np.nan)}, "bad.npz: observations: row 0 contains NaN"),
        ({"actions": np.full((8, 1), np.inf)}, "bad.npz: actions: row 0 contains NaN or infinity"),
        ({"observations": np.zeros(8)}, "2-D"),
        ({"episode_ends": None, "terminals": np.zeros(5)}, "as many rows"),
    ],
)
def test_bad_own_files_name_the_file_and_the_field(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        read_own(bad(tmp_path, **changes))


def test_damaged_files_are_refused(tmp_path):
    whole = bad(tmp_path)
    truncated = tmp_path / "truncated.npz"
    truncated.write_bytes(whole.read_bytes()[:200])
    with pytest.raises(DataError, match=r"truncated.npz: damaged, truncated"):
        read_own(truncated)
    hdf5 = tmp_path / "x.hdf5"
    hdf5.write_bytes(b"no such format")
    with pytest.raises(DataError, match=r"x.hdf5: damaged, truncated or not an HDF5"):
        read_d4rl_maze2d(hdf5)
    with pytest.raises(DataError, match="no such file"):
        read_own(tmp_path / "none.npz")
    (tmp_path / "a.csv").write_text("1,2")
    with pytest.raises(DataError, match=r"Allowed: .npz, .hdf5, .h5"):
        read_own(tmp_path / "a.csv")


def test_pickles_in_an_npz_are_never_loaded(tmp_path):
    np.savez(tmp_path / "evil.npz", observations=np.array([{"a": 1}], dtype=object), episode_ends=[1])
    with pytest.raises(DataError, match="evil.npz"):
        read_own(tmp_path / "evil.npz")


def test_d4rl_without_its_fields(tmp_path):
    path = write_hdf5(tmp_path / "a.hdf5", observations=np.zeros((5, 4)))
    with pytest.raises(DataError, match=r"missing field\(s\) actions. It has: observations"):
        read_d4rl_maze2d(path)
    path = write_hdf5(tmp_path / "b.hdf5", observations=np.zeros((5, 3)), actions=np.zeros((5, 2)))
    with pytest.raises(DataError, match="'observations' must have 4 columns"):
        read_d4rl_maze2d(path)


def test_import_under_a_registered_name_checks_the_columns(tmp_path):
    with pytest.raises(DataError, match="antmaze-medium has 29 and 8"):
        import_dataset("antmaze-medium", str(ogbench_file(tmp_path / "a.npz", [4], 1.0)))


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", ""])
def test_import_names_stay_in_the_cache(tmp_path, name):
    with pytest.raises(DataError, match="cannot name a dataset"):
        import_dataset(name, str(bad(tmp_path)))


def test_import_of_own_data_takes_its_settings(tmp_path):
    dataset = import_dataset("mine", str(bad(tmp_path)), goal_dims=(0,), control_dt=0.1, L_min=2)
    assert (dataset.spec.T_max, dataset.spec.L_min, dataset.spec.goal_dims) == (5, 2, (0,))
    with pytest.raises(DataError, match="goal dimensions"):
        import_dataset("mine", str(bad(tmp_path)), goal_dims=(4,))
    with pytest.raises(DataError, match="exceeds the longest episode"):
        import_dataset("mine", str(bad(tmp_path)), T_max=100)


def test_minari_datasets(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    gymnasium = pytest.importorskip("gymnasium")
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    steps = [5, 3]
    buffers = [
        minari.data_collector.EpisodeBuffer(
            observations=np.full((n + 1, 2), n, np.float32),
            actions=np.full((n, 1), n, np.float32),
            rewards=np.zeros(n),
            terminations=np.zeros(n, bool),
            truncations=np.arange(n) == n - 1,
            infos={},
        )
        for n in steps
    ]
    space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
    minari.create_dataset_from_buffers(
        "toy/line-v0", buffers, observation_space=space, action_space=gymnasium.spaces.Box(-9, 9, (1,), np.float32)
    )
    episodes = read_minari("toy/line-v0")
    assert episodes.ends.tolist() == [6, 10]
    assert episodes.transitions == 8
    assert episodes.episode(1)[1].tolist() == [[3], [3], [3]]
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # Minari would ask there, again and again
    with pytest.raises(DataError, match="toy/none-v0"):
        read_minari("toy/none-v0")
