"""The benchmark on the toy point: continued, refused, grown; and the rows it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from toy_point import ENVIRONMENT, CopyableEnv, ToyController, ToyEnv, ToyPlanner

from vhdiffuser.benchmark.methods import METHODS, PlannerChoice, controller_for, get_method, method_models
from vhdiffuser.benchmark.run import run_benchmark
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.envs.instances import draw_instances, load_instances
from vhdiffuser.envs.protocols import Protocol, euclidean_hit, replan_on_deviation
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError, UnknownNameError, VhdError
from vhdiffuser.results.paths import plans_path, result_path, rollout_path
from vhdiffuser.results.rollout_files import load_plans, load_rollout
from vhdiffuser.results.rows import Row, read_results
from vhdiffuser.streams import STREAMS

CONFIG = BenchConfig(ENVIRONMENT, n=12, seeds=(4,), threshold=0.05, check_every=3, keep=2, workers=1, simulators=5)


class Stop(Exception):
    """Stands for Ctrl-C."""


class Source:
    """Planners by method, counting the plans they make."""

    def __init__(self, gamma: float = 1.0) -> None:
        self.gamma = gamma
        self.planners = {name: ToyPlanner(noise=0.04) for name in METHODS}

    def __call__(self, method: str, environment: str) -> PlannerChoice:
        return PlannerChoice(
            self.planners[get_method(method).name],
            PlanningOptions(gamma=self.gamma),
            {"planner": f"digest of {method}"},
        )

    @property
    def seeds(self) -> list[int]:
        return [s for planner in self.planners.values() for call in planner.calls for s in call["seeds"]]


def run(folder: Path, config: BenchConfig = CONFIG, source: Source | None = None, on_row: Callable | None = None):
    return run_benchmark(config, folder, source or Source(), ToyController(), on_row)


def rows(folder: Path, method: str, protocol: str, seed: int = 4, distribution: str = "reset") -> list[dict]:
    """Rows without the clock's share."""
    found = read_results(result_path(folder, "toy", method, protocol, seed, distribution)).rows
    return [asdict(replace(row, planning_seconds=0.0, control_seconds=0.0)) for row in found]


def by_instance(values: list[dict]) -> list[dict]:
    return sorted(values, key=lambda row: row["instance"])


def stop_after(count: int) -> Callable[[Row], None]:
    seen: list[Row] = []

    def on_row(row: Row) -> None:
        seen.append(row)
        if len(seen) == count:
            raise Stop

    return on_row


def test_every_cell_has_every_instance_and_all_methods_share_them(tmp_path: Path) -> None:
    summaries = run(tmp_path)
    assert [(s.method, s.protocol, s.n) for s in summaries] == [
        (m, p, 12) for m in CONFIG.methods for p in ("ss", "rp")
    ]
    expected = draw_instances(ToyEnv(), 12, 4)
    for summary in summaries:
        found = by_instance(rows(tmp_path, summary.method, summary.protocol))
        assert [row["instance"] for row in found] == list(range(12))
        np.testing.assert_array_equal([row["start"] for row in found], [case.start for case in expected])
        assert summary.average_executed_steps == np.mean([row["steps"] for row in found])
        straight = np.array([np.linalg.norm(np.subtract(row["start"], row["goal"])) for row in found])
        shortest = np.array([row["geodesic"] for row in found])  # nothing stands in the way
        assert ((straight - 1e-6 <= shortest) & (shortest <= 1.015 * straight + 0.1)).all()
        assert all(row["replans"] == len(row["plan_lengths"]) - 1 for row in found)


def test_fixed_horizons_plan_with_table_i_and_predicted_ones_do_not(tmp_path: Path) -> None:
    run(tmp_path, replace(CONFIG, protocols=("ss",)))
    for number in range(3):
        found = rows(tmp_path, f"fh-h{number + 1}", "ss")
        assert {row["planned_length"] for row in found} == {ENVIRONMENT.horizons[number]}
        assert {row["predicted_length"] for row in found} == {None}
        assert all(row["success"] or row["steps"] == ENVIRONMENT.horizons[number] for row in found)
    found = rows(tmp_path, "fh-lp", "ss")
    assert all(row["predicted_length"] == row["planned_length"] for row in found)
    assert len({row["planned_length"] for row in found}) > 2


def test_an_interrupted_run_continues_and_nothing_is_planned_twice(tmp_path: Path) -> None:
    config = replace(CONFIG, methods=("vhd", "fh-h1"))
    whole, parts = Source(), [Source(), Source()]
    run(tmp_path / "whole", config, whole)
    with pytest.raises(Stop):
        run(tmp_path / "parts", config, parts[0], stop_after(17))
    new: list[Row] = []
    missing: list[int] = []
    folder = tmp_path / "parts"
    run_benchmark(config, folder, parts[1], ToyController(), new.append, missing.append)
    assert missing == [len(new)] == [4 * 12 - 17]
    for method in config.methods:
        for protocol in config.protocols:
            first, second = (rows(tmp_path / name, method, protocol) for name in ("whole", "parts"))
            assert by_instance(first) == by_instance(second)
    third = Source()
    run(tmp_path / "parts", config, third, new.append)
    assert third.seeds == []
    assert len(new) == 4 * 12 - 17


def test_more_instances_keep_the_rows_there_are(tmp_path: Path) -> None:
    config = replace(CONFIG, methods=("vhd",), protocols=("rp",))
    run(tmp_path / "a", replace(config, n=5))
    small = rows(tmp_path / "a", "vhd", "rp")
    (summary,) = run(tmp_path / "a", config)
    run(tmp_path / "b", config)
    assert rows(tmp_path / "a", "vhd", "rp")[:5] == small
    assert by_instance(rows(tmp_path / "a", "vhd", "rp")) == by_instance(rows(tmp_path / "b", "vhd", "rp"))
    assert summary.n == 12
    (summary,) = run(tmp_path / "a", replace(config, n=5))
    assert summary.n == 5


@pytest.mark.parametrize(
    ("changes", "source"),
    [({"check_every": 4}, Source()), ({}, Source(1.2))],
)
def test_results_of_another_configuration_are_refused(tmp_path: Path, changes: dict, source: Source) -> None:
    config = replace(CONFIG, methods=("vhd",), protocols=("rp",))
    run(tmp_path, config)
    before = rows(tmp_path, "vhd", "rp")
    with pytest.raises(DataError, match="another configuration"):
        run(tmp_path, replace(config, **changes), source)
    assert rows(tmp_path, "vhd", "rp") == before
    assert source.seeds == []


def test_every_seed_has_a_file_of_its_own_and_the_summary_pools_them(tmp_path: Path) -> None:
    config = replace(CONFIG, methods=("vhd",), protocols=("ss", "rp"), keep=0)
    for seed in (4, 5):
        run(tmp_path / "alone", replace(config, seeds=(seed,)))
    summaries = run(tmp_path / "pooled", replace(config, seeds=(4, 5)))
    for summary in summaries:
        assert (summary.seeds, summary.n, summary.streams, summary.distribution) == ((4, 5), 24, STREAMS, "reset")
        alone = [rows(tmp_path / "alone", "vhd", summary.protocol, seed) for seed in (4, 5)]
        assert [rows(tmp_path / "pooled", "vhd", summary.protocol, seed) for seed in (4, 5)] == alone
        assert summary.average_executed_steps == np.mean([row["steps"] for found in alone for row in found])
        rates = [np.mean([row["success"] for row in found]) for found in alone]
        assert summary.success_rate_by_seed == pytest.approx(rates)
        assert summary.success_rate == pytest.approx(np.mean(rates))
        assert not {tuple(row["start"]) for row in alone[0]} & {tuple(row["start"]) for row in alone[1]}


def test_distributions_have_files_of_their_own(tmp_path: Path) -> None:
    config = replace(CONFIG, methods=("vhd",), protocols=("ss",), n=2)
    (own,), (uniform,) = run(tmp_path, config), run(tmp_path, replace(config, distribution="uniform"))
    assert (own.distribution, uniform.distribution) == ("reset", "uniform")
    names = {path.name for path in (tmp_path / "toy").glob("*.jsonl")}
    assert names == {"vhd-ss-4.jsonl", "vhd-ss-uniform-4.jsonl"}
    kept = {path.name for path in (tmp_path / "toy" / "rollouts").iterdir()}
    assert kept == {f"vhd-ss{drawn}-4-{number}.npz" for drawn in ("", "-uniform") for number in range(2)}


@pytest.mark.parametrize("seeds", [(), (1, 2, 1)])
def test_seeds_are_one_or_more_and_none_twice(seeds: tuple[int, ...]) -> None:
    with pytest.raises(VhdError, match="seed"):
        replace(CONFIG, seeds=seeds)


def test_workers_change_no_row(tmp_path: Path) -> None:
    config = replace(CONFIG, methods=("vhd",), protocols=("rp",), simulators=12)
    run(tmp_path / "one", config)
    run(tmp_path / "two", replace(config, workers=2))
    assert rows(tmp_path / "one", "vhd", "rp") == rows(tmp_path / "two", "vhd", "rp")


def test_rollouts_and_plans_are_kept_for_figures(tmp_path: Path) -> None:
    run(tmp_path, replace(CONFIG, methods=("vhd",)))
    found = {row["instance"]: row for row in rows(tmp_path, "vhd", "rp")}
    for number in range(2):
        kept = load_rollout(rollout_path(result_path(tmp_path, "toy", "vhd", "rp", 4), number))
        assert len(kept.states) - 1 == len(kept.actions) == found[number]["steps"]
        assert [len(places) for _, places in kept.plans] == found[number]["plan_lengths"]
    assert not rollout_path(result_path(tmp_path, "toy", "vhd", "rp", 4), 2).exists()
    short, right, long = (len(places) for places in load_plans(plans_path(tmp_path, "toy")).plans)
    assert short < right < long


def test_the_header_says_how_the_rows_were_made(tmp_path: Path) -> None:
    run(tmp_path, replace(CONFIG, methods=("vhd",)))
    config = read_results(result_path(tmp_path, "toy", "vhd", "rp", 4)).config
    assert (config["seed"], config["streams"]) == (4, STREAMS)
    assert config["candidates"] == 1
    assert config["controller"] == {"name": "toy"}
    assert (config["sampler"], config["sampler_steps"], config["gamma"]) == ("ddim", 5, 1.0)
    assert {"smoothing", "stretch", "candidates"} <= set(config), "every planning option"
    assert config["rule"] == {
        "threshold": 0.05, "check_every": 3, "budget": 40, "stop_at_hit": True, "hold": False,
    }  # fmt: skip


def test_unknown_names_and_missing_weights_stop_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="fh-h3"):
        run(tmp_path, replace(CONFIG, methods=("fh-h4",)))
    with pytest.raises(UnknownNameError, match="rp"):
        run(tmp_path, replace(CONFIG, protocols=("mpc",)))

    def without_weights(method: str, environment: str) -> PlannerChoice:
        method_models(get_method(method), get_environment("maze2d-large"), "trained")
        raise AssertionError

    with pytest.raises(DataError, match="vhd train planner maze2d-large --horizon 256"):
        run_benchmark(replace(CONFIG, methods=("fh-h1",)), tmp_path, without_weights, ToyController())
    with pytest.raises(DataError, match="vhd train planner maze2d-large --recipe paper"):
        run_benchmark(replace(CONFIG, methods=("vhd-paper",)), tmp_path, without_weights, ToyController())
    assert not list(tmp_path.rglob("*.jsonl"))


def test_methods_of_the_paper_read_plans_by_their_index() -> None:
    ant, maze = replace(get_environment("antmaze-medium"), controller="path_following"), get_environment("maze2d-umaze")
    assert controller_for(("vhd", "fh-lp"), ant) == "path_following"
    assert controller_for(("vhd-paper", "fh-h2-paper"), ant) == "inverse_dynamics"
    assert controller_for(("vhd", "vhd-paper"), maze) == "pd"
    with pytest.raises(VhdError, match="Run them in separate commands"):
        controller_for(("vhd", "vhd-paper"), ant)


def write_pairs(path: Path, **arrays: np.ndarray) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for key, value in arrays.items():
                file[key] = value
    return path


@pytest.mark.parametrize("name", ["pairs.npz", "pairs.hdf5"])
def test_ones_own_pairs_are_taken_as_they_are(tmp_path: Path, name: str) -> None:
    starts, goals = np.array([[0.1, 0.2], [0.3, 0.4], [0.9, 0.9]]), np.array([[0.9, 0.2], [0.3, 0.9], [0.0, 0.0]])
    path = write_pairs(tmp_path / name, start_state=starts, goal_pos=goals)
    (summary,) = run(tmp_path, replace(CONFIG, n=None, instances=path, methods=("vhd",), protocols=("ss",)))
    assert summary.n == 3
    found = by_instance(rows(tmp_path, "vhd", "ss", distribution="pairs"))
    np.testing.assert_allclose([row["goal"] for row in found], goals, atol=1e-6)
    with pytest.raises(VhdError, match="the file has 3"):
        run(tmp_path, replace(CONFIG, n=4, instances=path, methods=("vhd",), protocols=("ss",)))
    peer = Protocol(draw_instances, replan_on_deviation, euclidean_hit(ENVIRONMENT.spec, 0.5))
    config = replace(CONFIG, environment=replace(ENVIRONMENT, protocols={"peer": peer}), methods=("vhd",))
    with pytest.raises(VhdError, match="its own instances"):
        run(tmp_path, replace(config, n=None, instances=path, protocols=("peer",)))
    with pytest.raises(VhdError, match="its own instances"):
        run(tmp_path, replace(config, distribution="uniform", protocols=("peer",)))
    with pytest.raises(VhdError, match="allows one seed"):
        replace(CONFIG, instances=path, seeds=(1, 2))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"start_state": np.zeros((2, 2)), "goal_pos": np.array([[0.5, 0.5], [3.0, 0.5]])}, "pair 1: .*outside"),
        ({"start_state": np.zeros((2, 2)), "goal_pos": np.array([[0.5, np.nan], [0.5, 0.5]])}, "pair 0"),
        ({"start_state": np.zeros((2, 2)), "goal_pos": np.zeros((3, 2))}, "2 starts but 3 goals"),
        ({"start_state": np.zeros((0, 2)), "goal_pos": np.zeros((0, 2))}, "at least one"),
        ({"start_state": np.zeros(2), "goal_pos": np.zeros((1, 2))}, "2-D"),
        ({"start_state": np.zeros((1, 2))}, "missing field.* goal_pos"),
    ],
)
@pytest.mark.parametrize("name", ["pairs.npz", "pairs.hdf5"])
def test_bad_pairs_are_named(tmp_path: Path, arrays: dict, message: str, name: str) -> None:
    with pytest.raises(DataError, match=message):
        load_instances(write_pairs(tmp_path / name, **arrays), ToyEnv())


def test_files_that_are_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        load_instances(tmp_path / "a.npz", ToyEnv())
    for name in ("a.npz", "a.h5"):
        (tmp_path / name).write_bytes(b"junk")
        with pytest.raises(DataError, match="damaged, truncated or not"):
            load_instances(tmp_path / name, ToyEnv())


@pytest.mark.parametrize(("n", "seed"), [(0, 0), (3, -1)])
def test_bad_numbers_are_refused(n: int, seed: int) -> None:
    with pytest.raises(VhdError):
        draw_instances(ToyEnv(), n, seed)


def test_rows_do_not_depend_on_which_protocols_and_shards_are_run_together(tmp_path: Path) -> None:
    environment = replace(ENVIRONMENT, simulator=CopyableEnv)
    config = replace(CONFIG, environment=environment, methods=("vhd", "fh-h2"), shard=5, simulators=12, keep=0)
    source = Source()
    run(tmp_path / "together", config, source)
    planned = len(source.seeds)
    for protocol in ("ss", "rp"):
        run(tmp_path / "apart", replace(config, protocols=(protocol,)))
    for method in ("vhd", "fh-h2"):
        both = [rows(tmp_path / "together", method, protocol) for protocol in ("ss", "rp")]
        for found, protocol in zip(both, ("ss", "rp"), strict=True):
            apart = rows(tmp_path / "apart", method, protocol)
            assert sorted(found, key=lambda row: row["instance"]) == sorted(apart, key=lambda row: row["instance"])
        assert any(row["replans"] for row in both[1])
    plans = sum(
        len(row["plan_lengths"]) for method in ("vhd", "fh-h2") for row in rows(tmp_path / "together", method, "rp")
    )
    assert planned == plans  # single-shot rows cost none


def test_a_shared_benchmark_that_was_stopped_is_completed(tmp_path: Path) -> None:
    config = replace(CONFIG, environment=replace(ENVIRONMENT, simulator=CopyableEnv), methods=("vhd",), shard=5)
    seen: list[Row] = []

    def stop(row: Row) -> None:
        seen.append(row)
        if len(seen) == 9:
            raise Stop

    with pytest.raises(Stop):
        run(tmp_path / "stopped", config, on_row=stop)
    run(tmp_path / "stopped", config)
    run(tmp_path / "whole", config)
    for protocol in ("ss", "rp"):
        found, whole = (rows(tmp_path / name, "vhd", protocol) for name in ("stopped", "whole"))
        assert sorted(found, key=lambda row: row["instance"]) == sorted(whole, key=lambda row: row["instance"])
