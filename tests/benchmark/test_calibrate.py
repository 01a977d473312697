"""Calibration on executions: what it counts, going on after an interruption, and the check of its promises."""

from __future__ import annotations

import json
from copy import copy
from pathlib import Path

import numpy as np
import pytest

from vhdiffuser import Planner, calibrate, load_planner
from vhdiffuser.benchmark.calibrate import PASSES, REFINED_AT, predicted_pairs, recorded_arrivals
from vhdiffuser.benchmark.calibration_check import check_calibration, mean_interval
from vhdiffuser.cli import run
from vhdiffuser.cli.calibrate import check_lines
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.calibrated import FILE, planner_digests
from vhdiffuser.results.rows import read_results
from vhdiffuser.types import EnvSpec, Episodes

ENV = "maze2d-umaze"
MULTIPLES = (0.6, 0.75, 0.85, 0.95, 1.05, 1.3)


@pytest.fixture(scope="module")
def planner() -> Planner:
    return load_planner(ENV, outside="ignore")


class Stop(Exception):
    """Stands for kill -9: rows written so far are on disk."""


def stop_at(count: int):
    def on_done(done: int, total: int) -> None:
        assert total == 2 * 40 * (len(MULTIPLES) + PASSES * len(REFINED_AT)), "two distributions"
        if done == count:
            raise Stop

    return on_done


def test_it_counts_arrivals_and_goes_on_where_it_stopped(planner, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        calibrate(planner, n=40, multiples=MULTIPLES, folder=tmp_path, on_done=stop_at(57))
    resumed = calibrate(planner, n=40, multiples=MULTIPLES, folder=tmp_path)
    whole = calibrate(planner, n=40, multiples=MULTIPLES)
    assert json.dumps(resumed.to_json()) == json.dumps(whole.to_json())
    assert whole.made["models"] == planner_digests(planner)
    assert (whole.made["n"], whole.made["protocol"]) == (40, "ss")

    alone = calibrate(planner, n=40, multiples=MULTIPLES, folder=tmp_path, distributions=("reset",))
    assert alone.elsewhere is None
    own = copy(planner)
    own.calibration = alone
    added = calibrate(own, n=40, multiples=MULTIPLES, folder=tmp_path, distributions=("uniform",))
    assert json.dumps(added.to_json()) == json.dumps(whole.to_json()), "one after the other is the same"
    assert whole.elsewhere is not None
    assert whole.elsewhere.calibration.made["distribution"] == "uniform"

    rows = {}
    for path in tmp_path.rglob("vhd-ss-9*.jsonl"):
        found = read_results(path)
        if found.config["risk"] is not None:
            assert found.config["seed"] == 91, "other instances correct the calibration"
            continue
        rows[found.config["gamma"]] = sorted(found.rows, key=lambda row: row.instance)
    assert set(rows) == set(MULTIPLES)
    steps, places = predicted_pairs(planner, get_environment(ENV), 40, 90)
    expected = whole.expected(steps, places)
    for multiple in MULTIPLES:
        failed = np.mean([not row.success for row in rows[multiple]])
        promised = 1 - whole.probability(expected, [row.planned_length for row in rows[multiple]]).mean()
        assert promised == pytest.approx(failed, abs=0.2)
    short, long = whole.margin(expected, 0.5)[0], whole.margin(expected, 0.2)[0]
    assert (short <= long).all()


def test_promises_are_compared_with_what_came_of_them(planner, tmp_path: Path) -> None:
    own = copy(planner)
    own.calibration = calibrate(planner, n=40, multiples=MULTIPLES)
    results = check_calibration(own, get_environment(ENV), tmp_path, n=30, seed=93, risks=(0.3, 0.1))
    assert [result["risk"] for result in results] == [0.3, 0.1, None]
    assert results[0]["mean_length"] < results[1]["mean_length"]
    for result, name in zip(results, ("risk-0.3", "risk-0.1", "gamma-1.25"), strict=True):
        rows = read_results(tmp_path / name / ENV / "vhd-ss-93.jsonl").rows
        assert result["failure"] == pytest.approx(np.mean([not row.success for row in rows]))
        assert result["average_executed_steps"] == pytest.approx(np.mean([row.steps for row in rows]))
        low, high = result["failure_interval"]
        assert low <= result["failure"] <= high
        low, high = result["coverage_interval"]
        assert low <= result["interval_coverage"] <= high
        of_bands = [band["failure"] for band in result["bands"].values()]
        assert np.mean(of_bands) == pytest.approx(result["failure"])  # thirds
    assert len(check_lines(results)) == 1 + 3 * 4
    assert results == check_calibration(own, get_environment(ENV), tmp_path, n=30, seed=93, risks=(0.3, 0.1))


def test_the_interval_of_a_mean_is_that_of_a_normal_variable() -> None:
    inside = np.array([1.0] * 80 + [0.0] * 20)
    assert mean_interval(inside) == pytest.approx((0.8 - 1.96 * 0.04, 0.8 + 1.96 * 0.04))
    assert mean_interval(np.ones(5)) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seed": 99}, "published figures"),
        ({"n": 5}, ">= 40"),
        ({"multiples": (1.0, 1.0)}, "distinct numbers"),
        ({"protocol": "ogbench"}, "ss, rp"),
        ({"distributions": ("everywhere",)}, "reset, uniform"),
        ({"distributions": ()}, "no distribution given"),
        ({"distributions": ("uniform",), "protocol": "rp"}, "another protocol"),
    ],
)
def test_wrong_requests_are_refused_before_anything_runs(planner, wrong, message) -> None:
    with pytest.raises((VhdError, UnknownNameError), match=message):
        calibrate(planner, **wrong)
    with pytest.raises(VhdError, match="needs a planner"):
        calibrate("maze2d-umaze")


def test_recorded_arrivals_are_the_first_within_epsilon() -> None:
    """A point that goes to and fro: whichever two states are drawn, the goal is first passed on the way out."""
    spec = EnvSpec(
        name="line", observation_dim=1, action_dim=1, state_dims=(0,), goal_dims=(0,), state_names=("x",),
        velocity_dims=None, epsilon=0.01, T_max=64, L_min=4, control_dt=1.0,
    )  # fmt: skip
    x = np.concatenate([np.arange(20), np.arange(20, 0, -1)])[:, None].astype(np.float32)
    episodes = Episodes(x, np.zeros((len(x), 1), np.float32), np.array([len(x)]))
    normalizer = Normalizer(np.array([-1.0], np.float32), np.array([1.0], np.float32))
    starts, goals, steps = recorded_arrivals(episodes, spec, normalizer, 200, 0)
    there = np.abs(goals - starts)[:, 0]
    assert (steps >= there).all()
    outward = steps == there
    assert 0.5 < outward.mean() < 1, "some starts are on the way back or beyond"


def test_the_command_writes_beside_the_weights_and_checks(planner, tmp_path: Path, capsys) -> None:
    planner.save_pretrained(tmp_path / "mine")
    weights = ["--weights", str(tmp_path / "mine"), "--workers", "1", "--quiet", "--json"]
    command = ["calibrate", ENV, "--n", "40", "--multiples", "0.7", "1.3", *weights]
    assert run(command) == 0
    answer = json.loads(capsys.readouterr().out)
    assert Path(answer["written"]) == tmp_path / "mine" / FILE
    content = (tmp_path / "mine" / FILE).read_bytes()
    assert run(command) == 0
    assert (tmp_path / "mine" / FILE).read_bytes() == content
    capsys.readouterr()
    assert run(["calibrate", ENV, "--check", "--n", "10", "--seed", "92", "--out", str(tmp_path / "r"), *weights]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert Path(answer["figure"]).is_file()
    table = Path(answer["figure"]).with_suffix(".md").read_text().splitlines()
    assert len(table) == 2 + 5
    assert table[2].startswith(f"| {ENV} | 20 |")
    assert f"| {100 - 100 * answer['results'][0]['failure']:.1f} |" in table[2]
    assert [result["risk"] for result in answer["results"]] == [0.2, 0.1, 0.05, 0.01, None]
