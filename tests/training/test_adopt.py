"""One planner for many mazes: what is adopted, what becomes the environment's own, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError
from vhdiffuser.training.export import adopt
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.format import load_model
from vhdiffuser.weights.places import shipped_path

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


@pytest.mark.parametrize(
    ("other", "reason"), [("pointmaze-giant-stitch", "--frame WIDTH"), ("maze2d-large", "state_names")]
)
def test_a_planner_that_knows_its_own_places_or_states_is_refused(other: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=reason):
        adopt(get_environment(POINT), other, ("planner",))
    assert not list(tmp_path.rglob("model.safetensors"))
