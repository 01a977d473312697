"""The house rules that a machine can keep."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_rooms_import_downwards_only():
    program = Path(sys.executable).with_name("lint-imports")
    if not program.exists():
        pytest.fail("import-linter is not installed; run `make setup`")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_no_pickles_are_read():
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        assert "pickle.load" not in text, path
        assert "allow_pickle=True" not in text, path
        assert "weights_only=False" not in text, path
