"""The JSON API: plans, executions, fields and comparisons; and every way to be refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from fastapi.testclient import TestClient
from web_toys import BEHIND_WALL, ENVIRONMENT, FREE, STEPS_PER_UNIT, SlowController, toy_library

import vhdiffuser
from vhdiffuser.web.app import create_app
from vhdiffuser.web.limits import Limits


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(toy_library()), base_url="http://127.0.0.1") as client:
        yield client


def events(response) -> list[tuple[str, dict]]:
    assert response.status_code == 200, response.text
    lines = [json.loads(line) for line in response.text.splitlines()]
    return [(line["event"], line["value"]) for line in lines]


def test_environments_with_and_without_weights(client):
    listed = {entry["name"]: entry for entry in client.get("/api/environments").json()}
    assert listed["maze2d-umaze"]["ready"]
    assert not listed["maze2d-large"]["ready"]
    assert listed["maze2d-large"]["commands"] == ["vhd train planner maze2d-large"]


def test_a_scene_says_all_that_is_drawn(client):
    scene = client.get("/api/environments/maze2d-umaze").json()
    assert (scene["horizons"], scene["trained_horizons"]) == ([64, 128, 192], [64])
    assert len(scene["walls"]) == 18
    (view,) = scene["views"]
    assert (view["right"], view["up"]) == (0, 1), "x to the right, y up"
    np.testing.assert_allclose(scene["tolerance"], [0.04 * 1.4, 0.04 * 1.4], atol=1e-4)
    assert client.post("/api/plan", json={**FREE, "start": scene["start"], "goal": scene["goal"]}).status_code == 200


def test_random_pairs_are_free_and_follow_their_seed(client):
    path = "/api/environments/maze2d-umaze/instance"
    one, same, other = (client.get(path, params={"seed": seed}).json() for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert client.post("/api/plan", json={"environment": "maze2d-umaze", **one}).status_code == 200


def test_a_plan_has_the_predicted_length_and_the_ends_asked_for(client):
    reply = client.post("/api/plan", json=FREE).json()
    horizon, plan = reply["horizon"], reply["plan"]
    assert horizon["length"] == plan["length"] == len(plan["states"]) == 1.5 * STEPS_PER_UNIT + 1
    # One end may move by epsilon (0.056 units) along the line, so L_hat by 3.36 steps.
    assert (horizon["low"], horizon["high"]) == (88, 95)
    assert horizon["quantile_spread"] is None
    np.testing.assert_allclose(plan["states"][0], [1, 1, 0, 0])
    np.testing.assert_allclose(plan["states"][-1][:2], [1, 2.5])
    assert plan["frames"] == [0, 1, 2, 3, 4]
    assert len(plan["denoising"]) == 5
    last = np.array(plan["denoising"][-1])
    np.testing.assert_allclose(last[:, 0], 1.0, atol=0.02)
    assert np.abs(np.array(plan["denoising"][0])[1:-1, 0] - 1).max() > 0.1, "it begins as noise"


def test_options_reach_the_planner(client):
    def plan(**options):
        return client.post("/api/plan", json={**FREE, **options}).json()

    assert plan(gamma=2.0)["plan"]["length"] == 182
    fixed = plan(length=50)
    assert fixed["plan"]["length"] == 50
    assert not fixed["horizon"]["predicted"]
    assert plan(sampler="ddpm", steps=32)["plan"]["frames"][-1] == 32
    assert plan(seed=1)["plan"]["denoising"][0] != plan(seed=2)["plan"]["denoising"][0]
    assert plan(seed=1)["plan"] | {"seconds": 0} == plan(seed=1)["plan"] | {"seconds": 0}


def test_a_registered_sampler_is_offered_and_plans(client):
    vhdiffuser.register_sampler("jump", lambda tau, tau0, older, a, n, draw: tau0)
    assert client.get("/api/environments/maze2d-umaze").json()["samplers"] == ["ddpm", "ddim", "dpm++", "jump"]
    plan = client.post("/api/plan", json={**FREE, "sampler": "jump"}).json()["plan"]
    assert plan["sampler"] == "jump"
    assert plan["denoising"][1] == plan["denoising"][-1], "it is at the straight line from its first step on"


def test_a_stream_tells_horizon_plan_and_execution_in_turn(client):
    told = events(client.post("/api/stream", json={**FREE, "protocol": "ss"}))
    assert [event for event, _ in told] == ["horizon", "plan", "execution", "done"]
    plan, execution = told[1][1], told[2][1]
    assert execution["success"]
    assert execution["steps"] == len(execution["places"]) - 1 <= plan["length"]
    (made,) = execution["plans"]
    assert (made["step"], made["length"], made["reason"]) == (0, plan["length"], "start")
    np.testing.assert_allclose(made["places"][-1], FREE["goal"])
    assert [event for event, _ in events(client.post("/api/stream", json=FREE))] == ["horizon", "plan", "done"]


def test_replanning_is_told_with_its_reason_and_each_new_horizon(client):
    execution = client.post("/api/execute", json={**BEHIND_WALL, "protocol": "rp"}).json()
    assert not execution["success"], "straight lines do not lead around a wall"
    assert execution["steps"] == execution["budget"] == ENVIRONMENT.step_budget
    plans = execution["plans"]
    assert len(plans) > 2
    assert {plan["reason"] for plan in plans[1:]} <= {"deviation", "ended"}
    assert plans[1]["reason"] == "deviation"
    for plan in plans:  # each begins where the ball was, and is as long as the ruler says from there
        np.testing.assert_allclose(plan["places"][0], execution["places"][plan["step"]], atol=2e-3)
        distance = np.linalg.norm(np.subtract(plan["places"][0], BEHIND_WALL["goal"]))
        assert plan["length"] == pytest.approx(STEPS_PER_UNIT * distance + 1, abs=1.5)
    single = client.post("/api/execute", json={**BEHIND_WALL, "protocol": "ss"}).json()
    assert len(single["plans"]) == 1
    assert single["steps"] == single["plans"][0]["length"]


def test_a_comparison_says_whose_weights_each_method_has(client):
    told = events(client.post("/api/compare", json={**FREE, "protocol": "ss"}))
    methods = [value for event, value in told if event == "method"]
    assert [(item["method"], item["horizon"], item["weights"]) for item in methods] == [
        ("vhd", None, "own"),
        ("fh-h1", 64, "own"),
        ("fh-h2", 128, "forced"),
        ("fh-h3", 192, "forced"),
    ]
    assert [item["execution"]["plans"][0]["length"] for item in methods] == [91, 64, 128, 192]


def test_the_field_is_the_predictors_distance_in_free_space(client):
    body = {key: FREE[key] for key in ("environment", "start", "goal")}
    field = client.post("/api/field", json={**body, "points": 40}).json()
    assert (field["rows"], field["columns"]) == (40, 40)
    steps = np.array(field["steps"]).reshape(field["rows"], field["columns"])
    x = np.linspace(*field["right_range"], field["columns"])[None, :]
    y = np.linspace(*field["up_range"], field["rows"])[:, None]
    free = steps >= 0
    expected = STEPS_PER_UNIT * np.hypot(x - FREE["goal"][0], y - FREE["goal"][1])
    np.testing.assert_allclose(steps[free], expected[free], atol=0.06)
    row, column = np.abs(y - 0.8).argmin(), np.abs(x - 1.8).argmin()
    assert steps[row, column] == -1, "inside the wall between the corridors"
    assert 0.3 < free.mean() < 0.75


def test_lengths_of_many_pairs(client):
    pairs = [{"start": [1, 1], "goal": [1, 1 + 0.1 * number]} for number in range(20)]
    reply = client.post("/api/lengths", json={"environment": "maze2d-umaze", "pairs": pairs}).json()
    expected = np.clip(np.ceil(6 * np.arange(20) + 1 - 1e-4), 16, 256)
    np.testing.assert_allclose(reply["lengths"], expected, atol=1)


@pytest.mark.filterwarnings("ignore::vhdiffuser.errors.ClippedLengthWarning")
def test_a_length_clipped_at_T_max_is_noted(client):
    horizon = client.post("/api/plan", json={**FREE, "gamma": 4}).json()["horizon"]
    assert (horizon["length"], len(horizon["notes"])) == (ENVIRONMENT.spec.T_max, 1)
    assert "clipped at T_max = 256" in horizon["notes"][0]


def test_what_lies_outside_the_data_is_noted(client):
    inside = client.post("/api/plan", json=FREE).json()["horizon"]["notes"]
    fast = client.post("/api/plan", json={**FREE, "start": [1, 1, 9, 0]}).json()["horizon"]["notes"]
    assert inside == []
    assert "vx = 9 is outside the range of the training data" in fast[0]


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("plan", {**FREE, "goal": [1.8, 0.8]}, 422, "inside a wall"),
        ("plan", {**FREE, "start": [1.0]}, 422, "need 2 numbers, x, y"),
        ("plan", {**FREE, "goal": ["here", 1]}, 422, "goal.0"),
        ("plan", {**FREE, "start": []}, 422, "start"),
        ("plan", {**FREE, "environment": "maze3d"}, 404, "unknown environment 'maze3d'. Known: maze2d-umaze"),
        ("plan", {**FREE, "environment": "maze2d-large"}, 404, "vhd train planner maze2d-large"),
        ("plan", {**FREE, "environment": "../../etc/passwd"}, 404, "unknown environment"),
        ("plan", {**FREE, "sampler": "euler"}, 422, "unknown sampler 'euler'. Known: ddpm, ddim, dpm++."),
        ("plan", {**FREE, "steps": 33}, 422, "steps must be in 1..32"),
        ("plan", {**FREE, "steps": 0}, 422, "steps"),
        ("plan", {**FREE, "length": 300}, 422, "plans of 16 to 256"),
        ("plan", {**FREE, "gamma": 0}, 422, "gamma"),
        ("plan", {**FREE, "gama": 1}, 422, "gama"),
        ("plan", {**FREE, "seed": -1}, 422, "seed"),
        ("stream", {**FREE, "goal": [1.8, 0.8], "protocol": "ss"}, 422, "inside a wall"),
        ("compare", {**FREE, "goal": [1.8, 0.8]}, 422, "inside a wall"),
        ("execute", {**FREE, "protocol": "best"}, 422, "protocol"),
        ("field", {**FREE, "points": 5000}, 422, "points"),
        ("field", {**FREE, "view": 3}, 422, "1 view"),
        ("lengths", {"environment": "maze2d-umaze", "pairs": []}, 422, "pairs"),
        ("lengths", {"environment": "maze2d-umaze", "pairs": [{"start": [1, 1], "goal": [1, 2]}] * 257}, 422, "256"),
    ],
)
def test_bad_requests_get_a_4xx_with_a_reason(client, path, body, status, reason):
    response = client.post(f"/api/{path}", json=body)
    assert response.status_code == status
    assert reason in response.json()["reason"]


def test_malformed_and_huge_bodies(client):
    json_type = {"content-type": "application/json"}
    assert client.post("/api/plan", content="{", headers=json_type).status_code == 422
    assert client.post("/api/plan", content='{"start": [NaN]}', headers=json_type).status_code == 422
    assert client.post("/api/plan", content="{}", headers={"content-type": "text/plain"}).status_code == 415
    assert client.post("/api/plan", content="x" * 70_000, headers=json_type).status_code == 413
    piecewise = client.post("/api/plan", content=(b"x" * 10_000 for _ in range(10)), headers=json_type)
    assert piecewise.status_code == 413
    assert client.get("/api/plan").status_code == 405


def test_only_the_pages_own_files_have_an_address(client):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert client.get("/main.js").headers["content-type"].startswith("text/javascript")
    for path in (
        "/../app.py",
        "/%2e%2e/app.py",
        "/static/main.js",
        "/..%2f..%2fapp.py",
        "/app.py",
        "/etc/passwd",
        "/docs",
    ):
        assert client.get(path).status_code == 404, path
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400


def test_the_page_is_small_and_stays_at_home():
    from importlib.resources import files

    assets = [item for item in (files("vhdiffuser.web") / "static").iterdir() if item.is_file()]
    assert sum(len(item.read_bytes()) for item in assets) < 300_000
    for item in assets:
        text = item.read_text().replace("http://www.w3.org/2000/svg", "")  # a name, never fetched
        assert "http://" not in text, item.name
        assert "https://" not in text, item.name


def test_the_api_describes_itself(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/api/plan", "/api/stream", "/api/execute", "/api/compare", "/api/field", "/api/lengths"} <= paths.keys()
    assert all("description" in route for methods in paths.values() for route in methods.values())


def test_a_slow_execution_is_ended_by_a_newer_request_and_blocks_no_plan():
    controller = SlowController()
    app = create_app(toy_library(controller), Limits(seconds=600), hosts=("*",))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        numbered = {**FREE, "client": "page", "protocol": "rp"}
        assert client.post("/api/plan", json=FREE).status_code == 200
        told: list[list[tuple[str, dict]]] = []
        slow = threading.Thread(
            target=lambda: told.append(events(client.post("/api/stream", json={**numbered, "sequence": 1})))
        )
        slow.start()
        assert controller.begun.wait(60)
        assert client.post("/api/plan", json=FREE).status_code == 200, "plans go on meanwhile"
        assert slow.is_alive()
        newer = client.post("/api/stream", json={**FREE, "client": "page", "sequence": 2})
        assert [event for event, _ in events(newer)] == ["horizon", "plan", "done"]
        slow.join(timeout=60)
        assert [event for event, _ in told[0]] == ["horizon", "plan", "error"]
        assert told[0][-1][1]["kind"] == "stale"
        late = client.post("/api/stream", json={**numbered, "sequence": 1})
        assert late.status_code == 409


def test_what_takes_too_long_is_given_up():
    app = create_app(toy_library(SlowController()), Limits(seconds=1.0))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        client.get("/api/environments/maze2d-umaze")
        response = client.post("/api/execute", json={**FREE, "protocol": "rp"})
        assert response.status_code == 503
        assert "stopped after 1 s" in response.json()["reason"]
