"""What `vhdiffuser` offers by name: shown by Tab, and imported only when it is used."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import vhdiffuser


def test_everything_offered_is_shown_and_can_be_had() -> None:
    assert set(vhdiffuser.__all__) <= set(dir(vhdiffuser))
    assert all(getattr(vhdiffuser, name) is not None for name in dir(vhdiffuser))
    assert vhdiffuser.__version__ == version("vhdiffuser")
    with pytest.raises(AttributeError, match="no attribute 'load_plane'"):
        _ = vhdiffuser.load_plane  # type: ignore[attr-defined]


def test_looking_imports_nothing_heavy() -> None:
    code = (
        "import vhdiffuser, sys; dir(vhdiffuser); print({'torch', 'mujoco', 'scipy', 'matplotlib'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "set()"


@pytest.mark.slow
def test_the_first_plan_waits_for_no_import_that_it_does_not_need() -> None:
    """diffusers and torch's compiler took seconds; scipy.interpolate and the simulators are not needed to plan."""
    code = (
        "import vhdiffuser, sys; vhdiffuser.load_planner('maze2d-umaze').plan([1, 1, 0, 0], [3, 1]);"
        "print({'diffusers', 'torch._dynamo', 'accelerate', 'scipy.interpolate', 'mujoco'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "set()"
