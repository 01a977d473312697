"""The predictor learns D* where D* is known: a chain that dithers, and a grid with a wall."""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
import torch
from length_toys import chain_walks, fit, grid_walks, toy_spec
from scipy.stats import spearmanr

from vhdiffuser.length.config import LengthConfig, NetworkConfig
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.length.task import LengthTask
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import Episodes


def small(config: LengthConfig) -> LengthConfig:
    """The same recipe, in seconds."""
    warm, expansion, last = config.phases
    return replace(
        config,
        network=NetworkConfig(features=16, width=64, depth=2),
        batch=256,
        warm_start=replace(warm, shortest=50, longest=100),
        expansion=replace(expansion, links=(1, 2, 4), shortest=100, longest=300),
        strengthening=replace(last, links=(1, 2, 4)),
        ramp=100,
    )


def mean_first_hit(episodes: Episodes, start: int, goal: int, T_max: int) -> float:
    """The behaviour's average number of steps from cell to cell, where it gets there within T_max."""
    lengths = []
    for number in range(len(episodes)):
        cells = episodes.episode(number)[0][:, 0]
        for t in np.flatnonzero(cells == start):
            ahead = np.flatnonzero(cells[t : t + T_max + 1] == goal)
            if len(ahead):
                lengths.append(ahead[0])
    return float(np.mean(lengths))


@pytest.fixture(scope="module")
def chain() -> tuple[Episodes, LengthPredictor, LengthTask]:
    cells, T_max = 20, 40
    episodes = chain_walks(cells, stay=0.25, episodes=150, length=100)
    spec = toy_spec(1, T_max, epsilon=0.01)
    network, task = fit(episodes, spec, small(LengthConfig()), updates=600)
    return episodes, LengthPredictor(network, spec, task.config, task.normalizer), task


@pytest.mark.slow
def test_chain_distance_is_learned(chain: tuple[Episodes, LengthPredictor, LengthTask]) -> None:
    _, predictor, task = chain
    cells = np.arange(20, dtype=np.float32)[:, None]
    predicted = predictor.predict_steps(cells[:, None], cells[None])  # (20, 20)
    truth = np.abs(cells - cells.T)
    assert np.abs(predicted - truth).max() < 0.05 * 40 * 2
    assert np.abs(predicted - truth).mean() < 0.05 * 40
    assert np.diag(predicted).mean() < 0.5
    assert task.curriculum.phase == 2


@pytest.mark.slow
def test_chain_estimate_is_shorter_than_the_behaviours_average(
    chain: tuple[Episodes, LengthPredictor, LengthTask],
) -> None:
    episodes, predictor, _ = chain
    for start, goal in ((0, 10), (3, 8), (15, 5), (18, 2), (10, 13)):
        predicted = float(predictor.predict_steps(np.array([start]), np.array([goal])))
        assert predicted < mean_first_hit(episodes, start, goal, 40)


@pytest.mark.slow
def test_grid_with_a_wall() -> None:
    size, T_max = 7, 30
    wall = {(3, c) for c in range(6)}  # one gap, at column 6
    episodes = grid_walks(size, wall, episodes=300, length=80)
    spec = toy_spec(2, T_max, epsilon=0.01)
    network, task = fit(episodes, spec, small(LengthConfig()), updates=700)
    predictor = LengthPredictor(network, spec, task.config, task.normalizer)
    free = [(r, c) for r in range(size) for c in range(size) if (r, c) not in wall]
    truth = np.array([[distances(goal, free)[start] for goal in free] for start in free], float)
    cells = np.array(free, np.float32)
    predicted = predictor.predict_steps(cells[:, None], cells[None])
    assert np.abs(predicted - truth).mean() < 0.05 * T_max
    # Straight through the wall is 2 cells; the way round is 14.
    assert float(predictor.predict_steps(np.array([2.0, 0.0]), np.array([4.0, 0.0]))) > 7


def distances(goal: tuple[int, int], free: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
    found, queue = {goal: 0}, deque([goal])
    while queue:
        r, c = queue.popleft()
        for other in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)):
            if other in free and other not in found:
                found[other] = found[(r, c)] + 1
                queue.append(other)
    return found


@pytest.mark.slow
def test_paper_recipe_learns_the_order_of_a_chain() -> None:
    episodes = chain_walks(20, stay=0.25, episodes=100, length=100)
    spec = toy_spec(1, 40, epsilon=0.01)
    network, task = fit(episodes, spec, small(LengthConfig.paper()), updates=400)
    predictor = LengthPredictor(network, spec, task.config, task.normalizer)
    cells = np.arange(20, dtype=np.float32)[:, None]
    predicted = predictor.predict_steps(cells[:, None], cells[None])
    assert spearmanr(predicted.ravel(), np.abs(cells - cells.T).ravel()).statistic > 0.9


def test_the_papers_phase_one_uses_relays() -> None:
    """Rarely, by the recipe; here for every pair and for none, on the same mini-batch."""
    episodes = chain_walks(20, stay=0.25, episodes=20, length=100)
    recipe = small(LengthConfig.paper())
    terms = {}
    for share in (0.0, 1.0):
        config = replace(recipe, warm_start=replace(recipe.warm_start, relay_share=share, margin=1.0))
        task = LengthTask(episodes, toy_spec(1, 40, 0.01), config, Normalizer.fit(episodes.observations), "toy")
        torch.manual_seed(0)
        network, other = task.make_network(), task.make_network()
        ema = lambda s, g, other=other: 0.1 * other(s, g)  # noqa: E731  (below f, so that every relay undercuts it)
        loss, logged = task.loss(network, ema, torch.Generator().manual_seed(1), 0)
        assert logged["phase"] == 1.0
        terms[share] = float(loss.detach()), float(logged["L_triangle"]), logged["lambda_triangle"]
    assert terms[1.0][1] != terms[0.0][1]
    assert terms[1.0][0] - terms[0.0][0] == pytest.approx(0.05 * (terms[1.0][1] - terms[0.0][1]), rel=1e-3)


@pytest.mark.slow
def test_loss_is_a_function_of_seed_and_logs_its_terms(
    chain: tuple[Episodes, LengthPredictor, LengthTask],
) -> None:
    _, predictor, task = chain
    network = predictor.network
    saved = task.state()
    one, logged = task.loss(network, network, torch.Generator().manual_seed(1), 700)
    task.load_state(saved)
    two, _ = task.loss(network, network, torch.Generator().manual_seed(1), 700)
    assert torch.equal(one, two)
    assert {"L_TD", "L_cons", "L_triangle", "L_bdry", "L_clip", "phase", "anchor_error_steps"} <= logged.keys()
    assert logged["phase"] == 3.0
