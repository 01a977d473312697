"""A worker takes its memory when it loads an environment, and notices soon that work is cancelled."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from web_toys import FREE, Ruler, load_toy

from vhdiffuser.cancel import cancellable
from vhdiffuser.web.field import distance_field
from vhdiffuser.web.library import Library
from vhdiffuser.web.requests import FieldRequest, PlanRequest
from vhdiffuser.web.scene import checked_instance
from vhdiffuser.web.work import Work, answer


def test_no_network_is_made_after_an_environment_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library.of_weights("shipped")
    spec = library.get("maze2d-umaze").spec

    def late(model: bytes) -> None:
        raise AssertionError("a network was made on use")

    monkeypatch.setattr("vhdiffuser.runtime.network._session", late)
    for length in (None, *range(spec.L_min, spec.T_max, 17), spec.T_max):
        body = PlanRequest(environment=spec.name, start=[1, 1], goal=[3, 1], steps=1, length=length)
        made = answer(library, Work("planned", spec.name, body), lambda: False, 60)
        assert made.refusal is None
        assert length in (None, json.loads(made.text)["plan"]["length"])


EVERYTHING = """
import json, sys
from vhdiffuser.web.library import Library
from vhdiffuser.web.requests import CandidatesRequest, ExecuteRequest, FieldRequest, LengthsRequest, PlanRequest
from vhdiffuser.web.work import Work, answer

name = sys.argv[1]
library = Library.of_weights("shipped")
library.get(name)
before = set(sys.modules)

def done(operation, body=None, argument=None):
    made = answer(library, Work(operation, name, body, argument), lambda: False, 120)
    assert made.refusal is None, made.refusal
    return json.loads(made.text)

done("scene")
pair = {"environment": name, **done("instance", argument=3)}
done("planned", PlanRequest(**pair))
done("plan", PlanRequest(**pair, sampler="ddpm", steps=64))
done("field", FieldRequest(**pair, points=32))
done("execute", ExecuteRequest(**pair, protocol="rp"))
done("method", ExecuteRequest(**pair), "fh-h1")
done("candidates", CandidatesRequest(**pair, count=2))
done("lengths", LengthsRequest(environment=name, pairs=[{key: pair[key] for key in ("start", "goal")}] * 2))
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.mark.parametrize("name", ["maze2d-umaze", "maze2d-large"])
def test_nothing_is_imported_after_an_environment_is_loaded(name: str) -> None:
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EVERYTHING, name], capture_output=True, text=True, check=True
    )
    assert json.loads(made.stdout) == []


def test_a_field_that_is_cancelled_ends_after_a_small_piece() -> None:
    pieces: list[int] = []

    class Counting(Ruler):
        def predict_steps(self, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
            pieces.append(len(starts))
            return super().predict_steps(starts, goals)

    class Cancelled(Exception):
        pass

    def check() -> None:
        if pieces:
            raise Cancelled

    loaded = load_toy()
    loaded.planner.length_predictor = Counting()
    request = FieldRequest(**FREE, points=160)
    with pytest.raises(Cancelled), cancellable(check):
        distance_field(loaded, request, checked_instance(loaded, request.start, request.goal))
    assert len(pieces) == 1
    assert pieces[0] <= 512
