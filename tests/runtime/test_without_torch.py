"""Without torch: plans, lengths, executions and commands; and clear words where torch is needed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import vhdiffuser

BLOCKED = """
import sys
sys.modules["torch"] = sys.modules["accelerate"] = None  # as where they are not installed
import numpy as np
import vhdiffuser
"""


def run_without_torch(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", BLOCKED + code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_plans_lengths_and_executions_are_the_same_without_torch() -> None:
    out = run_without_torch(
        """
planner = vhdiffuser.load_planner("maze2d-large")
plan = planner.plan([1, 1, 0, 0], [7, 9], seed=5)
whole = planner.with_options(piece=0, candidates=2).plan([1, 1, 0, 0], [4, 5], avoid=[([2, 2], [3, 3])], seed=5)
rollout = vhdiffuser.execute(planner, [1, 1, 0, 0], [3, 1], seed=1)
print(plan.length, plan.states.astype(float).sum(), whole.states.astype(float).sum(), rollout.success, rollout.steps)
"""
    )
    planner = vhdiffuser.load_planner("maze2d-large")
    plan = planner.plan([1, 1, 0, 0], [7, 9], seed=5)
    two = planner.with_options(piece=0, candidates=2)
    whole = two.plan([1, 1, 0, 0], [4, 5], avoid=[([2, 2], [3, 3])], seed=5)
    rollout = vhdiffuser.execute(planner, [1, 1, 0, 0], [3, 1], seed=1)
    sums = [float(item.states.astype(float).sum()) for item in (plan, whole)]
    told = out.split()
    assert told[0] == str(plan.length)
    np.testing.assert_allclose([float(told[1]), float(told[2])], sums, rtol=1e-6)
    assert told[3:] == [str(rollout.success), str(rollout.steps)]


def test_what_needs_torch_says_how_to_get_it() -> None:
    out = run_without_torch(
        """
from vhdiffuser.cli import run
planner = vhdiffuser.load_planner("maze2d-umaze")
for call in (
    lambda: planner.plan([1, 1, 0, 0], [3, 1], avoid=lambda places: places),
    lambda: vhdiffuser.load_planner("maze2d-umaze", device="cuda"),
    lambda: vhdiffuser.train_planner,
):
    try:
        call()
    except vhdiffuser.errors.VhdError as error:
        print(error)
print(run(["train", "planner", "maze2d-umaze"]))
"""
    )
    lines = out.splitlines()
    assert len(lines) == 4
    assert all("pip install 'vhdiffuser[train]'" in line for line in lines[:3])
    assert lines[3] == "1"
