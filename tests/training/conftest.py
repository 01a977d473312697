"""Trainings are tested in both precisions on every machine: what `auto` means is set here, not by the CPU."""

from __future__ import annotations

import pytest

from vhdiffuser.training.precision import PRECISION_VARIABLE


@pytest.fixture(params=["fp32", "bf16"])
def each_precision(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(PRECISION_VARIABLE, request.param)
    return request.param
