"""With numpy and safetensors alone: the same plans; and clear words where a model or an installation is damaged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vhdiffuser
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.errors import DataError
from vhdiffuser.execution.export_onnx import export_onnx
from vhdiffuser.runtime.numpy_session import NumpySession
from vhdiffuser.runtime.onnx_file import Graph
from vhdiffuser.runtime.unet import unet_model
from vhdiffuser.torch_network import arrays
from vhdiffuser.weights.places import shipped_environments

ALONE = """
import json, sys
ABSENT = {"onnxruntime", "scipy", "gymnasium", "mujoco", "h5py", "tyro", "shtab", "rich", "matplotlib", "PIL",
          "typing_extensions", "torch", "accelerate"}
class Absent:  # as where they are not installed
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import vhdiffuser
"""


def run_alone(code: str, *arguments: str) -> list[str]:
    """Lines printed by code that runs with numpy and safetensors alone."""
    command = [sys.executable, "-c", ALONE + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_plans_and_lengths_are_the_same_from_weights_and_from_an_exported_folder(tmp_path: Path) -> None:
    export_onnx(vhdiffuser.load_planner("maze2d-large"), tmp_path / "exported")
    names = ["maze2d-large", str(tmp_path / "exported")]
    lines = run_alone(
        """
for name in sys.argv[1:]:
    planner = vhdiffuser.load_planner(name)
    composed = planner.plan([1, 1, 0, 0], [7, 9], seed=5)
    whole = planner.with_options(piece=0).plan([1, 1, 0, 0], [3, 5], seed=5)
    print(json.dumps([composed.states.tolist(), whole.states.tolist()]))
""",
        *names,
    )
    for name, line in zip(names, lines, strict=True):
        planner = vhdiffuser.load_planner(name)
        composed, whole = json.loads(line)
        np.testing.assert_allclose(composed, planner.plan([1, 1, 0, 0], [7, 9], seed=5).states, atol=1e-4)
        wanted = planner.with_options(piece=0).plan([1, 1, 0, 0], [3, 5], seed=5)
        np.testing.assert_allclose(whole, wanted.states, atol=1e-4)


@pytest.mark.slow
def test_everything_that_ships_plans_with_numpy_alone() -> None:
    lines = run_alone(
        """
for name in sys.argv[1:]:
    planner = vhdiffuser.load_planner(name, outside="ignore")
    start, goal = planner.normalizer.unnormalize(planner.normalizer.low * 0 + [[-0.5], [0.5]])
    print(planner.plan(start, planner.spec.goal_of(goal)).length)
""",
        *shipped_environments(),
    )
    for name, length in zip(shipped_environments(), lines, strict=True):
        planner = vhdiffuser.load_planner(name, outside="ignore")
        start, goal = planner.normalizer.unnormalize(planner.normalizer.low * 0 + [[-0.5], [0.5]])
        assert planner.plan(start, planner.spec.goal_of(goal)).length == int(length)


def test_an_installation_that_cannot_be_imported_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('libstdc++.so.6 is too old')")
    code = "import vhdiffuser; vhdiffuser.load_planner('maze2d-umaze').plan([1, 1, 0, 0], [3, 1])"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0
    assert "VhdError: onnxruntime is installed, but cannot be imported (libstdc++.so.6 is too old)" in done.stderr


def test_a_damaged_or_foreign_model_is_refused() -> None:
    model = unet_model(arrays(TemporalUnet(2, 8, (1, 2)).state_dict()))
    for damaged in (b"", b"hello", model[: len(model) // 2]):
        with pytest.raises(DataError, match="not an ONNX model written by vhdiffuser"):
            NumpySession(damaged)
    graph = Graph()
    foreign = graph.model(graph.add("Conv", graph.input("x", [1])), "y", [1])
    with pytest.raises(DataError, match="Conv"):
        NumpySession(foreign)


def test_every_value_but_the_output_is_freed_after_its_last_use() -> None:
    session = NumpySession(unet_model(arrays(TemporalUnet(2, 8, (1, 2)).state_dict())))
    spent = [name for node in session._nodes for name in node.spent]
    made = {name for node in session._nodes for name in node.outputs}
    assert len(spent) == len(set(spent))
    assert made - set(spent) == {"predicted"}
