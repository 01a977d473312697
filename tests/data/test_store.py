from __future__ import annotations

import errno
import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from vhdiffuser import files
from vhdiffuser.data.store import Dataset, dataset_path, save_dataset, summary
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.importing import own_spec
from vhdiffuser.envs.registry import known_names
from vhdiffuser.errors import DataError, UnknownNameError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import Episodes


@pytest.fixture
def dataset(rng) -> Dataset:
    parts = [(rng.normal(size=(n, 3)).astype(np.float32), rng.normal(size=(n - 1, 2))) for n in (30, 12, 9)]
    episodes = Episodes.from_parts(parts)
    return Dataset(own_spec("mine", episodes), episodes, "import", {"file": "x.npz"})


def test_saved_and_loaded_is_the_same(dataset):
    save_dataset(dataset)
    loaded = load_dataset("mine")
    assert loaded.fingerprint() == dataset.fingerprint()
    assert (loaded.spec, loaded.source, loaded.details) == (dataset.spec, dataset.source, dataset.details)
    assert "mine" in known_names()


def test_summary_is_of_real_transitions(dataset):
    facts = summary(dataset)
    assert facts["transitions"] == 29 + 11 + 8
    assert facts["episodes"] == 3
    actions = np.concatenate([dataset.episodes.episode(i)[1] for i in range(3)])
    np.testing.assert_allclose(facts["action_std"], actions.std(0), atol=1e-5)
    np.testing.assert_allclose(facts["observation_mean"], dataset.episodes.observations.mean(0), atol=1e-5)
    assert facts["fingerprint"] == dataset.fingerprint()


def test_missing_and_unknown_say_what_to_do():
    with pytest.raises(DataError, match="vhd data get maze2d-umaze"):
        load_dataset("maze2d-umaze")
    with pytest.raises(UnknownNameError, match=r"nowhere.*maze2d-umaze"):
        load_dataset("nowhere")


@pytest.mark.parametrize("keep", [0, 10, 300, -40])
def test_a_truncated_file_is_never_taken_for_a_whole_one(dataset, keep):
    path = save_dataset(dataset)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match="damaged"):
        load_dataset("mine")


def test_changed_numbers_are_noticed(dataset):
    path = save_dataset(dataset)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"fingerprint|ends"):
        load_dataset("mine")


def test_a_foreign_safetensors_file_is_refused(dataset):
    path = dataset_path("mine")
    path.parent.mkdir(parents=True)
    save_file({"weights": np.zeros(3)}, path)
    with pytest.raises(DataError, match="not a vhdiffuser dataset"):
        load_dataset("mine")


def test_a_full_disk_leaves_the_good_file(dataset, monkeypatch, rng):
    path = save_dataset(dataset)
    before = path.read_bytes()

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(DataError, match="No space left"):
        save_dataset(dataset)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name], "no half-written file is left"


def test_too_little_space_is_said_before_work_begins(tmp_path, monkeypatch):
    usage = type("usage", (), {"free": 10})
    monkeypatch.setattr(files.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(DataError, match=r"5 MB needed.* VHD_HOME"):
        files.require_space(tmp_path, 5_000_000)


def test_normaliser_maps_limits_to_one_and_back(rng):
    values = rng.normal(size=(500, 3)).astype(np.float32) * [1, 50, 0] + [0, 9, 7]
    normalizer = Normalizer.fit(values.astype(np.float32))
    scaled = normalizer.normalize(values)
    np.testing.assert_allclose(scaled.min(0), [-1, -1, 0], atol=1e-6)
    np.testing.assert_allclose(scaled.max(0), [1, 1, 0], atol=1e-6)
    np.testing.assert_allclose(normalizer.unnormalize(scaled), values, atol=1e-5)
    again = Normalizer.from_json(normalizer.to_json())
    np.testing.assert_array_equal(again.low, normalizer.low)
    np.testing.assert_array_equal(normalizer.select((1,)).normalize(values[:, 1:2]), scaled[:, 1:2])


def test_normaliser_refuses_nonsense():
    with pytest.raises(DataError, match="low <= high"):
        Normalizer(np.array([1.0]), np.array([0.0]))
