"""Risks, deadlines and goals off the data, through the JSON API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from web_toys import FREE, SPEC, load_toy, page_library

from vhdiffuser.web.app import create_app
from vhdiffuser.web.library import Entry, Library, Loaded, Missing

AT_RISK = {0.2: 91, 0.05: 114, 0.02: 137}
"""Risk -> states: 1, 1.25 and 1.5 times the 91 of the straight line."""


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(page_library()), base_url="http://127.0.0.1") as client:
        yield client


@pytest.mark.parametrize("risk", AT_RISK)
def test_a_risk_sets_the_length(client, risk):
    reply = client.post("/api/plan", json={**FREE, "gamma": 1.4, "risk": risk}).json()
    assert reply["plan"]["length"] == pytest.approx(AT_RISK[risk], abs=1)
    assert reply["horizon"]["probability"] == pytest.approx(1 - risk, abs=0.02)


def test_a_planner_with_a_risk_of_its_own_plans_with_it_unless_a_margin_is_asked_for():
    def load() -> Loaded:
        loaded = load_toy()
        return replace(loaded, planner=loaded.planner.with_options(risk=0.05))

    with TestClient(create_app(Library([Entry(SPEC.name, Missing, load)])), base_url="http://127.0.0.1") as client:
        assert client.get(f"/api/environments/{SPEC.name}").json()["risk"] == 0.05
        own, margin = (client.post("/api/plan", json={**FREE, **asked}).json()["plan"] for asked in ({}, {"gamma": 1}))
    assert (own["length"], own["risk"]) == (pytest.approx(AT_RISK[0.05], abs=1), 0.05)
    assert (margin["length"], margin["risk"]) == (pytest.approx(91, abs=1), None)


@pytest.mark.parametrize(("risk", "within"), [(None, 114), (0.2, 91)])
def test_a_deadline_with_time_to_spare_takes_what_the_risk_needs(client, risk, within):
    reply = client.post("/api/plan", json={**FREE, "risk": risk, "deadline": 200}).json()
    assert reply["plan"]["length"] == reply["horizon"]["length"] == pytest.approx(within, abs=1)
    kept = reply["horizon"]["deadline"]
    assert (kept["limit"], kept["kept"], kept["risk"]) == (200, True, risk or 0.05)
    assert kept["steps"] == reply["plan"]["length"]
    assert kept["probability"] == pytest.approx(0.98, abs=0.001), "that of the longest horizon tried"


def test_too_early_a_deadline_says_what_would_do(client):
    response = client.post("/api/stream", json={**FREE, "deadline": 91, "protocol": "ss"})
    horizon, refusal = (json.loads(line) for line in response.text.splitlines())
    late = horizon["value"]["deadline"]
    assert (late["limit"], late["kept"], late["risk"]) == (91, False, 0.05)
    assert late["steps"] == pytest.approx(114, abs=1)
    assert late["probability"] == pytest.approx(0.8, abs=0.02)
    assert refusal["event"] == "error"
    assert refusal["value"]["kind"] == "deadline"
    assert f"{late['steps']} would be enough" in refusal["value"]["reason"]
    assert client.post("/api/execute", json={**FREE, "deadline": 91}).status_code == 422


@pytest.mark.parametrize("protocol", ["ss", "rp"])
def test_executions_begin_with_the_plan_for_the_deadline(client, protocol):
    asked = {**FREE, "deadline": 220, "arrive": "at"}
    plan = client.post("/api/plan", json=asked).json()["plan"]
    run = client.post("/api/execute", json={**asked, "protocol": protocol}).json()
    assert run["plans"][0]["length"] == plan["length"] > 220
    assert run["plans"][0]["places"][-1] == pytest.approx(plan["states"][-1][:2], abs=0.001)
    assert run["success"]
    assert abs(run["steps"] - 220) <= 11
    assert client.post("/api/execute", json={**asked, "arrive": "by"}).json()["steps"] < 150


@pytest.mark.parametrize(
    ("path", "options", "reason"),
    [
        ("plan", {"environment": "toy-data"}, "not calibrated"),
        ("plan", {"length": 100}, "a fixed length"),
        ("plan", {"avoid": [[[2, 2.5], [2.5, 3]]]}, "cannot be combined with"),
        ("plan", {"deadline": 601}, "at most 600"),
        ("plan", {"deadline": 1}, "deadline"),
        ("plan", {"arrive": "around"}, "arrive"),
        ("compare", {}, "leave out the deadline"),
        ("candidates", {}, "deadline"),
    ],
)
def test_what_a_deadline_does_not_go_with(client, path, options, reason):
    response = client.post(f"/api/{path}", json={**FREE, "deadline": 200, **options})
    assert response.status_code == 422
    assert reason in response.json()["reason"]


def test_a_scene_says_whether_it_is_calibrated(client):
    scenes = {name: client.get(f"/api/environments/{name}").json() for name in ("maze2d-umaze", "toy-data")}
    assert {name: scene["calibrated"] for name, scene in scenes.items()} == {"maze2d-umaze": True, "toy-data": False}


def test_a_goal_where_the_data_never_was_is_told(client):
    assert client.post("/api/plan", json=FREE).json()["horizon"]["reachable"] is None, "a ruler knows no data"
    with TestClient(create_app(Library.of_weights()), base_url="http://127.0.0.1") as shipped:
        rows = shipped.get("/api/environments/maze2d-umaze").json()["map"]["rows"]
        assert rows[2] == "###O#"
        opened = [*rows[:2], "#O#O#", *rows[3:]]
        asked = {"environment": "maze2d-umaze", "start": [1, 1], "map": opened}
        known = shipped.post("/api/plan", json={**asked, "goal": [3, 1]}).json()["horizon"]
        assert (known["reachable"], known["notes"]) == (True, [])
        off = shipped.post("/api/plan", json={**asked, "goal": [1.8, 0.8]}).json()["horizon"]
        assert off["reachable"] is False
        assert "The data never visits the goal" in " ".join(off["notes"])
