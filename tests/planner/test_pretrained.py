"""Planners kept in folders and on a Hub that is a folder here: the same plans back, and no network unless asked for."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from vhdiffuser import LengthPredictor, Planner, load_planner
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.errors import DataError, UnknownNameError, VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner import pretrained
from vhdiffuser.weights.format import load_model
from vhdiffuser.weights.places import shipped_path

ENV = "maze2d-umaze"
START, GOAL = [1, 1, 0, 0], [3, 1]


@pytest.fixture(scope="module")
def planner():
    return Planner.from_pretrained(ENV)


def same_plans(one: Planner, two: Planner) -> None:
    for seed in (0, 5):
        a, b = (planner.plan(START, GOAL, seed=seed).states for planner in (one, two))
        np.testing.assert_array_equal(a, b)


def test_a_saved_planner_comes_back_and_plans_the_same_to_the_bit(planner, tmp_path):
    changed = planner.with_options(sampler="ddpm", steps=7, gamma=1.1, smoothing=3.0, candidates=2)
    changed.save_pretrained(tmp_path / "mine")
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {
        "planner.safetensors",
        "length.safetensors",
        "support.safetensors",
        "calibration.json",
        "config.json",
        "README.md",
    }
    back = Planner.from_pretrained(tmp_path / "mine")
    assert back.options == changed.options
    same_plans(changed, back)
    same_plans(changed.with_options(candidates=3), load_planner(str(tmp_path / "mine"), candidates=3))
    assert back.motion == planner.motion
    places = np.array([[1.0, 1.0], [2.0, 2.0]])  # free, and in the wall between the U's arms
    supports = [made.length_predictor.support(places) for made in (planner, back)]
    np.testing.assert_array_equal(*supports)
    assert supports[0][0] > supports[0][1]
    for kind in ("planner", "length"):  # where it came from is not lost
        _, before = load_model(shipped_path(ENV, kind), kind)
        _, after = load_model(tmp_path / f"mine/{kind}.safetensors", kind)
        assert (after.data_fingerprint, after.updates, after.notes) == (
            before.data_fingerprint,
            before.updates,
            before.notes,
        )


def test_config_json_says_what_the_planner_is(planner, tmp_path):
    planner.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["library_name"] == "vhdiffuser"
    assert config["spec"]["name"] == ENV
    assert PlannerConfig.from_json(config["config"]) == planner.config
    assert PlanningOptions.from_json(config["planning"]) == planner.options
    assert Normalizer.from_json(config["normalizer"]).low.tolist() == planner.normalizer.low.tolist()
    assert set(config["versions"]) == {"vhdiffuser", "format"}
    card = (tmp_path / "README.md").read_text()
    head = card.split("---")[1]
    assert card.startswith("---\n")
    assert all(line in head for line in ("library_name: vhdiffuser", "license: mit", "- planning", f"- {ENV}"))


def test_a_card_that_is_there_stays(planner, tmp_path):
    (tmp_path / "README.md").write_text("my own words")
    planner.save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "my own words"


@pytest.mark.parametrize("part", ["planning", "config", "spec", "normalizer", "length"])
def test_a_config_that_contradicts_its_weights_is_refused(planner, tmp_path, part):
    planner.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config[part]["gamma" if part == "planning" else next(iter(config[part]))] = 9.0
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match=f"'{part}' differs from the model files.*with_options"):
        Planner.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DataError, match="config.json: damaged"):
        Planner.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(DataError, match="not the config of a vhdiffuser planner"):
        Planner.from_pretrained(tmp_path)


def test_a_planner_is_saved_without_a_length_predictor_and_not_with_a_stranger_s(tmp_path):
    config, spec = PlannerConfig(dim=8, dim_mults=(1, 2), horizon=40), get_spec(ENV)
    normalizer = Normalizer(np.array([0, 0, -5, -5], np.float32), np.array([4, 4, 5, 5], np.float32))
    torch.manual_seed(0)
    fixed = Planner(TemporalUnet(4, 8, (1, 2)), config, spec, normalizer)
    fixed.save_pretrained(tmp_path / "fixed")
    assert not (tmp_path / "fixed/length.safetensors").exists()
    back = Planner.from_pretrained(tmp_path / "fixed")
    assert back.length_predictor is None
    same_plans(fixed, back)

    class Ruler:
        def predict_steps(self, starts, goals):
            return np.zeros(len(starts))

    fixed.length_predictor = Ruler()
    with pytest.raises(VhdError, match=r"a Ruler cannot be saved.*or to None"):
        fixed.save_pretrained(tmp_path / "other")
    assert not (tmp_path / "other").exists()


class Hub:
    """A Hub with a cache: what is pushed is there, what is downloaded is cached; it counts its use of the network."""

    def __init__(self, folder: Path) -> None:
        self.remote, self.cache, self.calls = folder / "remote", folder / "cache", []

    def snapshot_download(self, repo_id, revision=None, local_files_only=False, allow_patterns=None):
        cached = self.cache / repo_id
        if not local_files_only:
            self.calls.append("download")
            if not (self.remote / repo_id).is_dir():
                raise OSError(f"404: {repo_id}")
            shutil.copytree(self.remote / repo_id, cached, dirs_exist_ok=True)
        if not cached.is_dir():
            raise FileNotFoundError(f"{repo_id} is not cached")
        return str(cached)

    def create_repo(self, repo_id, private=False, exist_ok=False):
        self.calls.append(f"create {'private' if private else 'public'}")
        (self.remote / repo_id).mkdir(parents=True, exist_ok=exist_ok)
        return f"https://hub/{repo_id}"

    def upload_folder(self, repo_id, folder_path, commit_message):
        self.calls.append(commit_message)
        shutil.copytree(folder_path, self.remote / repo_id, dirs_exist_ok=True)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    made = Hub(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", made.snapshot_download)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: made)
    return made


def test_the_network_is_used_only_where_it_is_asked_for(planner, hub):
    changed = planner.with_options(gamma=1.15)
    assert changed.push_to_hub("me/umaze", private=True, commit_message="first") == "https://hub/me/umaze"
    assert hub.calls == ["create private", "first"]
    hub.calls.clear()
    with pytest.raises(DataError, match=r"'me/umaze' is neither a folder .* local_files_only=False"):
        Planner.from_pretrained("me/umaze")
    assert hub.calls == []
    same_plans(changed, Planner.from_pretrained("me/umaze", local_files_only=False))
    assert hub.calls == ["download"]
    cached = load_planner("me/umaze", candidates=2)
    assert hub.calls == ["download"], "the second time it is in the cache"
    assert cached.options == changed.with_options(candidates=2).options
    assert isinstance(cached.length_predictor, LengthPredictor)
    with pytest.raises(DataError, match=r"'me/other' cannot be downloaded .*404"):
        Planner.from_pretrained("me/other", local_files_only=False)


def test_a_name_that_is_nothing_says_what_it_could_be(planner, hub):
    with pytest.raises(
        UnknownNameError,
        match=r"'maze9d'.*maze2d-umaze.*a folder of weights, an environment you trained, a Hugging Face id OWNER/NAME",
    ):
        Planner.from_pretrained("maze9d", local_files_only=False)
    with pytest.raises(DataError, match="use OWNER/NAME"):
        planner.push_to_hub("umaze")
    assert hub.calls == []


def test_a_folder_of_that_name_comes_before_the_hub(planner, hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    planner.save_pretrained("out/umaze")
    same_plans(planner, load_planner("out/umaze"))
    assert hub.calls == []


@pytest.mark.slow
def test_without_the_extra_folders_work_and_the_hub_names_it(tmp_path):
    code = """
import sys
sys.modules["huggingface_hub"] = None
import vhdiffuser
planner = vhdiffuser.load_planner("maze2d-umaze")
planner.save_pretrained(sys.argv[1])
vhdiffuser.Planner.from_pretrained(sys.argv[1])
for call in (lambda: vhdiffuser.load_planner("a/b"), lambda: planner.push_to_hub("a/b")):
    try:
        call()
    except vhdiffuser.errors.MissingExtraError as error:
        print(error)
"""
    shown = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(shown) == 2
    assert all("needs the extra 'hub': pip install 'vhdiffuser[hub]'" in line for line in shown)


def test_hub_ids_are_told_from_paths():
    matches = [
        name
        for name in ("a/b", "a/b/c", "/a/b", "./b", "../b", "a", "me/maze-2.1")
        if pretrained.HUB_ID.fullmatch(name)
    ]
    assert matches == ["a/b", "me/maze-2.1"]
