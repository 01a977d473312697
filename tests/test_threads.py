"""One thread for each small batch, and the setting given back."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch

from vhdiffuser.planner.load import load_planner
from vhdiffuser.threads import batches_in_parallel, torch_threads, use_faster_threads


@pytest.fixture
def three_threads():
    """As on a machine with three cores, whatever this one has."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_the_setting_holds_within_and_is_given_back():
    with torch_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
    with torch_threads(None):
        assert torch.get_num_threads() == 3
    with pytest.raises(ValueError, match="boom"), torch_threads(2):
        raise ValueError("boom")
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize(("seconds", "chosen"), [({1: 1.0, 3: 0.5}, 3), ({1: 1.0, 3: 0.95}, 1), ({1: 1.0, 3: 8.0}, 1)])
def test_several_threads_are_used_only_if_they_gain_a_tenth(monkeypatch, seconds, chosen):
    clock, asked = 0.0, []

    def compute(number):
        nonlocal clock
        asked.append((torch.get_num_threads(), number))
        clock += seconds[torch.get_num_threads()]

    monkeypatch.setattr("vhdiffuser.threads.time.perf_counter", lambda: clock)
    with torch_threads(None):
        assert use_faster_threads(compute, repeats=2) == chosen
        assert torch.get_num_threads() == chosen
    assert torch.get_num_threads() == 3
    assert asked == [(3, 0), (3, 0), (3, 1), (1, 0), (1, 0), (1, 1)]


def test_a_single_thread_is_kept_without_computing():
    with torch_threads(1):
        assert use_faster_threads(lambda number: pytest.fail("computed")) == 1


@pytest.mark.usefixtures("three_threads")
def test_batches_run_side_by_side_on_one_thread_each_and_come_in_order():
    inside, lock, most = 0, threading.Lock(), 0

    def work(item):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.02)
        with lock:
            inside -= 1
        return item, torch.get_num_threads()

    results = batches_in_parallel(work, list(range(7)))
    assert [item for item, _ in results] == list(range(7))
    assert {threads for _, threads in results} == {1}
    assert most == 3
    assert batches_in_parallel(work, [5]) == [(5, 1)]
    assert batches_in_parallel(work, []) == []
    assert torch.get_num_threads() == 3


def test_where_torch_may_use_one_thread_nothing_runs_side_by_side():
    def work(_):
        return threading.get_ident()

    with torch_threads(1):
        assert set(batches_in_parallel(work, [1, 2, 3])) == {threading.get_ident()}


@pytest.mark.usefixtures("three_threads")
def test_an_error_in_one_batch_is_raised():
    def work(item):
        if item == 2:
            raise ValueError("batch 2")
        return item

    with pytest.raises(ValueError, match="batch 2"):
        batches_in_parallel(work, [1, 2, 3])
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_planning_predicting_and_controlling_compute_on_one_thread(monkeypatch):
    planner = load_planner("maze2d-umaze")
    seen = []

    def watched(network):
        return lambda *inputs: seen.append(torch.get_num_threads()) or network(*inputs)

    for owner in (planner, planner.length_predictor):
        owner.network = watched(owner.network)
    starts = np.tile(np.array([1, 1, 0, 0], np.float32), (40, 1))
    plans = planner.plan_batch(starts, np.tile(np.array([3, 1], np.float32), (40, 1)), lengths=list(range(100, 140)))
    alone = planner.plan(starts[7], [3, 1], length=107, seed=7)
    planner.length_predictor.predict_steps(np.tile(starts, (200, 1)), np.array([3, 1], np.float32))
    assert set(seen) == {1}
    assert torch.get_num_threads() == 3
    np.testing.assert_allclose(plans[7].states, alone.states, atol=1e-4)
