"""One planner for many mazes: what is adopted, what becomes the environment's own, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError
from vhdiffuser.training.export import adopt
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.format import load_model, save_model
from vhdiffuser.weights.places import run_folder, run_name, shipped_path

ANT, POINT = "antmaze-giant-navigate", "pointmaze-large-navigate"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VHD_HOME", str(tmp_path))


def test_a_point_adopts_an_ants_planner_with_limits_of_its_own() -> None:
    written = adopt(get_environment(POINT), ANT, ("planner",))
    tensors, header = load_model(written["planner"], "planner")
    theirs, their_header = load_model(shipped_path(ANT, "planner"), "planner")
    for name, values in theirs.items():
        np.testing.assert_array_equal(tensors[name], values)
    own = load_model(shipped_path(POINT, "length"), "length")[1].normalizer
    assert header.normalizer == own != their_header.normalizer
    assert EnvSpec.from_json(header.spec) == get_environment(POINT).spec
    assert header.planning == their_header.planning
    assert header.notes["adopted_from"] == ANT


def test_a_controller_needs_the_same_robot() -> None:
    with pytest.raises(DataError, match="observation_dim"):
        adopt(get_environment(POINT), ANT, ("dynamics",))


def test_a_planner_that_knows_its_own_places_is_refused() -> None:
    other = "pointmaze-giant-stitch"
    tensors, header = load_model(shipped_path(other, "planner"), "planner")
    own = run_folder(other, run_name("planner")) / "model.safetensors"
    own.parent.mkdir(parents=True)
    save_model(own, tensors, replace(header, config={**header.config, "frame": None}))
    with pytest.raises(DataError, match="--frame WIDTH"):
        adopt(get_environment(POINT), other, ("planner",))
    assert not run_folder(POINT, run_name("planner")).exists()


def test_a_planner_of_other_states_is_refused() -> None:
    with pytest.raises(DataError, match="state_names"):
        adopt(get_environment(POINT), "maze2d-large", ("planner",))
    assert not run_folder(POINT, run_name("planner")).exists()
