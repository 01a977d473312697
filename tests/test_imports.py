"""What is imported when: planning needs neither Gymnasium nor scipy, and Gymnasium's ids are there all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

ID = "vhdiffuser/Maze2d-umaze-v1"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_plan_imports_no_more_than_it_needs() -> None:
    left_out = ("gymnasium", "h5py", "matplotlib", "mujoco", "rich", "scipy", "torch", "tyro")
    code = (
        "import sys, vhdiffuser\n"
        "plan = vhdiffuser.load_planner('maze2d-umaze', steps=1).plan([1, 1, 0, 0], [3, 1])\n"
        f"print(len(plan) > 2, [name for name in {left_out} if name in sys.modules])"
    )
    assert run(code) == "True []"


@pytest.mark.parametrize(
    "first", ["gymnasium, vhdiffuser", "vhdiffuser, gymnasium", "vhdiffuser.envs.gym_task, gymnasium"]
)
def test_gymnasium_knows_our_ids_whichever_is_imported_first(first: str) -> None:
    assert run(f"import {first}\nprint('{ID}' in gymnasium.registry)") == "True"


def test_what_was_registered_before_gymnasium_was_imported_has_an_id_too() -> None:
    code = (
        "import sys, vhdiffuser\nfrom dataclasses import replace\n"
        "known = vhdiffuser.get_environment('maze2d-umaze')\n"
        "vhdiffuser.register(replace(known, spec=replace(known.spec, name='mine')))\n"
        "print('gymnasium' in sys.modules)\n"
        "import gymnasium\nprint('vhdiffuser/Mine-v1' in gymnasium.registry)"
    )
    assert run(code).split() == ["False", "True"]
