"""What may be asked besides a plan: moving goals, boxes, changed maps, candidates, trials, skeletons; and endings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from fastapi.testclient import TestClient
from web_toys import BEHIND_WALL, ENVIRONMENT, FREE, STEPS_PER_UNIT, load_toy, toy_library

from vhdiffuser.envs.protocols import paper_rule
from vhdiffuser.trajectories import Plan, Rollout
from vhdiffuser.web.app import create_app
from vhdiffuser.web.endings import explain
from vhdiffuser.web.planning import pieces
from vhdiffuser.web.scene import describe

ROWS = ["#####", "#GOO#", "###O#", "#OOO#", "#####"]


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(toy_library()), base_url="http://127.0.0.1") as client:
        yield client


def trials(client: TestClient, **body) -> list[dict]:
    response = client.post("/api/trials", json={"environment": "maze2d-umaze", **body})
    assert response.status_code == 200, response.text
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert lines[-1]["event"] == "done"
    return [line["value"] for line in lines[:-1]]


# ---- goals that move


def test_a_goal_that_moves_is_replanned_for_from_where_the_robot_is(client):
    straight = client.post("/api/execute", json={**FREE, "protocol": "rp"}).json()
    moves = [{"step": 20, "goal": [1.0, 1.3]}]
    moved = client.post("/api/execute", json={**FREE, "protocol": "rp", "moves": moves}).json()
    assert moved["places"][:21] == straight["places"][:21], "nothing is different before the goal moves"
    assert [(plan["step"], plan["reason"]) for plan in moved["plans"]][:2] == [(0, "start"), (20, "goal")]
    np.testing.assert_allclose(moved["plans"][1]["places"][0], moved["places"][20], atol=2e-3)
    assert moved["success"]
    np.testing.assert_allclose(moved["places"][-1], [1.0, 1.3], atol=0.06)


def test_live_replans_at_every_step_and_says_how_long_each_plan_took(client):
    run = client.post("/api/execute", json={**FREE, "protocol": "live"}).json()
    assert run["success"]
    assert [plan["step"] for plan in run["plans"]] == list(range(run["steps"]))
    assert {plan["reason"] for plan in run["plans"][1:]} == {"due"}
    assert all(plan["seconds"] > 0 for plan in run["plans"])
    for plan, place in zip(run["plans"], run["places"], strict=False):
        np.testing.assert_allclose(plan["places"][0], place, atol=2e-3)
    lengths = [plan["length"] for plan in run["plans"]]
    assert lengths[0] == 91
    assert lengths[-1] == ENVIRONMENT.spec.L_min, "the horizon shrinks on the way"
    stuck = client.post("/api/execute", json={**BEHIND_WALL, "protocol": "live"}).json()
    assert (stuck["ending"], stuck["steps"], len(stuck["plans"])) == ("stuck", 600, 600)
    assert sum(len(plan["places"]) for plan in stuck["plans"]) <= 16_000, "many plans are sent with fewer points each"
    moved = client.post("/api/execute", json={**FREE, "protocol": "live", "moves": [{"step": 9, "goal": [1, 1.3]}]})
    assert moved.json()["plans"][9]["reason"] == "goal"


def test_moves_are_checked(client):
    def refused(*moves):
        response = client.post("/api/execute", json={**FREE, "moves": list(moves)})
        assert response.status_code == 422
        return response.json()["reason"]

    assert "inside a wall" in refused({"step": 5, "goal": [1.8, 0.8]})
    later, earlier = {"step": 9, "goal": [1, 2]}, {"step": 5, "goal": [1, 2]}
    assert "sorted by step" in refused(later, earlier)
    assert "moves" in refused(*[earlier] * 17)


# ---- boxes to avoid


def test_plans_keep_out_of_boxes(client):
    low, high = [0.95, 1.6], [1.4, 1.9]

    def inside(reply):
        places = np.array(reply["states"])[:, :2]
        return ((places > low) & (places < high)).all(axis=1)

    assert inside(client.post("/api/plan", json=FREE).json()["plan"]).any()
    kept = client.post("/api/plan", json={**FREE, "avoid": [[low, high]]}).json()["plan"]
    assert not inside(kept).any()


def test_boxes_are_checked(client):
    def refused(*boxes):
        response = client.post("/api/plan", json={**FREE, "avoid": list(boxes)})
        assert response.status_code == 422
        return response.json()["reason"]

    assert "the start (1.00, 1.00) lies in a box to avoid" in refused([[0.5, 0.5], [1.5, 1.5]])
    assert "corner of 2 numbers" in refused([[0, 0, 0], [1, 1, 1]])
    assert "lower corner first" in refused([[1.5, 2], [1.2, 1]])
    assert "avoid" in refused(*[[[0, 0], [0.1, 0.1]]] * 17)


# ---- changed maps


def test_without_the_wall_the_straight_line_is_the_way(client):
    opened = [*ROWS[:2], "#O#O#", *ROWS[3:]]
    assert not client.post("/api/execute", json={**BEHIND_WALL, "protocol": "ss"}).json()["success"]
    assert client.post("/api/execute", json={**BEHIND_WALL, "protocol": "ss", "map": opened}).json()["success"]
    in_the_gap = {**FREE, "goal": [1.8, 0.9]}
    assert client.post("/api/plan", json=in_the_gap).status_code == 422
    assert client.post("/api/plan", json={**in_the_gap, "map": opened}).status_code == 200
    field = {key: in_the_gap[key] for key in ("environment", "start", "goal")}
    assert client.post("/api/field", json={**field, "map": opened}).status_code == 200


def test_a_new_wall_stops_the_robot_and_is_avoided_only_if_it_is_known(client):
    walled = ["#####", "#GOO#", "#O###", "#OOO#", "#####"]  # the way through (2, 3) is closed, one through (2, 1) open
    body = {**FREE, "start": [1.0, 3.1], "goal": [3.0, 3.1]}
    assert client.post("/api/execute", json={**body, "protocol": "ss"}).json()["success"]
    stopped = client.post("/api/execute", json={**body, "protocol": "ss", "map": walled, "walls_known": False}).json()
    assert (stopped["success"], stopped["ending"]) == (False, "stuck")
    assert "at a wall" in stopped["explanation"]
    known, unknown = (
        np.array(client.post("/api/plan", json={**body, "map": walled, "walls_known": told}).json()["plan"]["states"])
        for told in (True, False)
    )
    np.testing.assert_allclose(unknown[:, 1], 3.1, atol=1e-3)
    assert np.abs(known[:, 1] - 3.1).max() > 0.1, "bent away from the wall"


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (ROWS[:4], "outer cells"),
        ([row[:4] + "##" for row in ROWS], "must keep its 5 rows of 5 cells"),
        (["#####", "#GO##", "#####", "#OOO#", "#####"], "disconnected parts"),
        (["#####", "#GOO#", "##?O#", "#OOO#", "#####"], "map.2"),
    ],
)
def test_maps_are_checked(client, rows, reason):
    response = client.post("/api/plan", json={**FREE, "map": rows})
    assert response.status_code == 422
    assert reason in response.json()["reason"]


# ---- candidates, trials, skeletons, pieces


def excess(states: list[list[float]]) -> float:
    """The most steps by which a part of T_max / 10 states is shorter than the ruler says."""
    places, last = np.array(states)[:, :2], len(states) - 1
    parts = [(begin, min(begin + 25, last)) for begin in range(0, last, 25)]
    return max(STEPS_PER_UNIT * np.linalg.norm(places[end] - places[begin]) - (end - begin) for begin, end in parts)


def test_candidates_have_the_predictors_score_and_the_first_is_the_plan(client):
    reply = client.post("/api/candidates", json={**FREE, "count": 5}).json()
    plan = client.post("/api/plan", json=FREE).json()["plan"]
    assert reply["length"] == plan["length"] == 91
    np.testing.assert_allclose(reply["candidates"][0]["places"], np.array(plan["states"])[:, :2], atol=1e-3)
    scores = [one["score"] for one in reply["candidates"]]
    assert scores[0] == pytest.approx(excess(plan["states"]), abs=0.02)
    assert reply["best"] == int(np.argmin(scores))
    rushed = client.post("/api/candidates", json={**FREE, "count": 2, "length": 46}).json()
    assert rushed["candidates"][0]["score"] > 20, "half the steps that the way takes"
    assert client.post("/api/candidates", json={**FREE, "count": 65}).status_code == 422


def test_trials_are_the_random_pairs_as_the_page_executes_them(client):
    found = trials(client, first=3, count=3, protocol="ss")
    assert [trial["number"] for trial in found] == [3, 4, 5]
    for trial in found:
        pair = client.get("/api/environments/maze2d-umaze/instance", params={"seed": trial["number"]}).json()
        assert {"start": trial["start"], "goal": trial["goal"]} == pair
        run = client.post("/api/execute", json={"environment": "maze2d-umaze", **pair, "protocol": "ss"}).json()
        assert (trial["success"], trial["steps"], trial["ending"]) == (run["success"], run["steps"], run["ending"])
    (fixed,) = trials(client, count=1, method="fh-h2", protocol="ss")
    assert fixed["length"] == 128


def test_a_skeleton_stands_where_the_robot_is(client):
    run = client.post("/api/execute", json={**FREE, "skeleton": True}).json()
    skeleton = run["skeleton"]
    poses = np.array(skeleton["poses"])  # (n, 2, 3)
    np.testing.assert_allclose(poses[:, 0, :2], np.array(run["places"])[skeleton["steps"]], atol=2e-3)
    np.testing.assert_allclose(poses[:, 1, 2], 1.0)
    assert skeleton["bones"] == [[0, 1, 0.05]]
    assert client.post("/api/execute", json=FREE).json()["skeleton"] is None


def test_pieces_cover_a_composed_plan_and_overlap():
    toy = load_toy()
    planner = toy.planner.with_options(piece=64)
    states = np.zeros((200, 4), np.float32)
    composed = Plan(states, np.zeros(2, np.float32), route=np.zeros((3, 2), np.float32))
    found = pieces(planner, composed)
    assert (found[0][0], found[-1][1]) == (0, 199)
    for (_, end), (begin, _) in pairwise(found):
        assert begin < end
    assert all(56 <= last - first <= 72 for first, last in found)
    assert pieces(planner, Plan(states, np.zeros(2, np.float32))) == []


# ---- the opening scene, and why executions end


def test_the_scene_opens_on_the_median_of_random_pairs():
    from vhdiffuser.envs.checked import draw_instance

    toy = load_toy()
    rng = np.random.default_rng(0)
    drawn = [draw_instance(toy.env, rng) for _ in range(32)]
    lengths = np.sort([np.linalg.norm(one.start[:2] - one.goal) for one in drawn])
    scene = describe(toy, ())
    assert np.linalg.norm(np.subtract(scene.start, scene.goal)) == pytest.approx(lengths[16], abs=0.02)
    assert "median" in scene.opening


def rollout(places: np.ndarray, planned: np.ndarray, success: bool = False) -> Rollout:
    """The ball at these places, with one plan."""
    observations = np.concatenate([places, np.zeros_like(places)], axis=1).astype(np.float32)
    states = np.concatenate([planned, np.zeros_like(planned)], axis=1).astype(np.float32)
    actions = np.zeros((len(places) - 1, 2), np.float32)
    return Rollout(observations, actions, success, ((0, Plan(states, planned[-1].astype(np.float32))),))


def line(first, last, n: int) -> np.ndarray:
    return np.linspace(first, last, n)


@pytest.mark.parametrize(
    ("places", "protocol", "ending", "words"),
    [
        (line([1, 1], [1, 2.5], 101), "ss", "missed", "followed the plan to its end"),
        (np.concatenate([line([1, 1], [1, 1.5], 51), line([1, 1.5], [1, 1.2], 50)]), "ss", "off-plan", "left the plan"),
        (np.concatenate([line([1, 1], [1.2, 1.0], 41), np.full((60, 2), [1.2, 1.0])]), "ss", "stuck", "at a wall"),
        (np.concatenate([line([1, 1], [1, 1.5], 41), np.full((60, 2), [1, 1.5])]), "ss", "stuck", "in place"),
        (line([1, 1], [1, 2.5], 601), "rp", "out-of-steps", "ran out of steps (the limit is 600)"),
    ],
)
def test_an_execution_that_missed_says_why(places, protocol, ending, words):
    rule = paper_rule(protocol, ENVIRONMENT.step_budget)
    planned = line([1, 1], [1, 2.5], len(places))
    explained = explain(load_toy(), rule, rollout(places, planned), np.array([1, 2.7], np.float32))
    assert explained.ending == ending
    assert words in explained.text
    assert explained.missed_by == pytest.approx(np.linalg.norm(places[-1] - [1, 2.7]), abs=1e-4)
    assert f"missed by {explained.missed_by:.2g} cells" in explained.text


def test_a_fall_is_told_with_its_step():
    toy = load_toy()
    toy = replace(toy, environment=replace(toy.environment, fallen=lambda observations: observations[..., 1] > 1.6))
    places = line([1, 1], [1, 2.5], 151)  # 1.6 is passed after 60 steps
    explained = explain(toy, paper_rule("ss", 600), rollout(places, places), np.array([1, 2.9], np.float32))
    assert explained.ending == "fell"
    assert "fell over at step 61" in explained.text


def test_a_hit_is_a_hit():
    places = line([1, 1], [1, 2.5], 91)
    explained = explain(load_toy(), paper_rule("ss", 600), rollout(places, places, True), places[-1])
    assert (explained.ending, explained.text) == ("reached", "Goal reached in 90 steps.")
