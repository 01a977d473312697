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


def halves() -> Episodes:
    """Walks on a chain of 20 cells: some on cells 0 to 11 only, some on cells 8 to 19 only."""
    left, right = (chain_walks(12, stay=0.4, episodes=80, length=100, seed=seed) for seed in (0, 1))
    parts = [left.episode(number) for number in range(len(left))]
    parts += [(states + 8, actions) for states, actions in (right.episode(number) for number in range(len(right)))]
    return Episodes.from_parts(parts)


@pytest.mark.slow
def test_relays_of_phase_three_stitch_what_no_episode_joins() -> None:
    """From cells of the left walks to cells of the right ones, phase III's relays bring f nearer to D*, from above."""
    spec, cells = toy_spec(1, 80, epsilon=0.01), np.arange(20, dtype=np.float32)[:, None]
    start, goal = np.meshgrid(np.arange(0, 7), np.arange(13, 20))
    truth = np.abs(goal - start)
    paper = LengthConfig.paper(800)
    recipe = replace(small(paper), warm_start=paper.warm_start, expansion=paper.expansion, ramp=40, batch=128)
    without = replace(recipe.strengthening, lambda_triangle=0.0, relay_share=0.0)
    error = {}
    for name, config in (("with", recipe), ("without", replace(recipe, strengthening=without))):
        network, task = fit(halves(), spec, config, updates=800)
        assert len(task.curriculum.starts) == 3
        predicted = LengthPredictor(network, spec, config, task.normalizer).predict_steps(cells[:, None], cells[None])
        error[name] = float((predicted[start, goal] - truth).mean())
    assert 0 < error["with"] < 0.8 * error["without"]


def test_consistency_bootstraps_at_hits_as_the_paper_writes_it() -> None:
    """Eq. (cons) by hand on the same mini-batch: with f_bar(s_k, g) for every pair, or 0 where the episode hits."""
    episodes = chain_walks(20, stay=0.25, episodes=20, length=100)
    ema = lambda s, g: 0.05 + 0.01 * s[:, :1].abs()  # noqa: E731
    network = lambda s, g: 0.6 + 0.0 * s[:, :1]  # noqa: E731
    for bootstrap in (True, False):
        config = replace(LengthConfig.paper(), bootstrap_at_hit=bootstrap)
        task = LengthTask(episodes, toy_spec(1, 40, 0.01), config, Normalizer.fit(episodes.observations), "toy")
        _, logged = task.loss(network, ema, torch.Generator().manual_seed(3), 0)  # type: ignore[arg-type]
        phase = config.warm_start
        batch = task.sampler.draw(config.batch, phase.goals, phase.links, torch.Generator().manual_seed(3), phase.even)
        f_bar = ema(batch.s_k, batch.g)[:, 0]
        f_bar = f_bar if bootstrap else torch.where(batch.hit, 0.0, f_bar)
        expected = (0.6 - (batch.k / 40 + f_bar).clamp(max=1)).clamp(min=0).square().mean()
        assert 0 < batch.hit.float().mean() < 1
        assert float(logged["L_cons"]) == pytest.approx(float(expected), rel=1e-5)


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
    _, _, task = chain
    network = task.make_network()
    saved = task.state()
    one, logged = task.loss(network, network, torch.Generator().manual_seed(1), 700)
    task.load_state(saved)
    two, _ = task.loss(network, network, torch.Generator().manual_seed(1), 700)
    assert torch.equal(one, two)
    assert {"L_TD", "L_cons", "L_triangle", "L_bdry", "L_clip", "phase", "anchor_error_steps"} <= logged.keys()
    assert logged["phase"] == 3.0
