"""A small Length Predictor fitted to the answers of a trained one: for very many queries, such as distance fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from vhdiffuser.errors import VhdError
from vhdiffuser.length.network import make_length_network
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.types import FloatArray, IntArray

_CHUNK = 8192
"""Pairs of which the teacher is asked together."""
_NEAR, _AMONG = 0.25, 64
"""Share of pairs whose goal is the nearest of so many random ones: short distances are rare among random pairs."""
_BATCH = 4096
"""Pairs per update."""
_RATE = 3e-3
"""Learning rate; it falls to 0 along a cosine."""


def distil_length(
    teacher: LengthPredictor,
    states: FloatArray,
    *,
    features: int = 32,
    width: int = 64,
    depth: int = 2,
    pairs: int = 400_000,
    updates: int = 4_000,
    seed: int = 0,
    on_update: Callable[[int, int], None] | None = None,
) -> LengthPredictor:
    """A predictor with a network of that size that gives the teacher's quantiles for pairs of `states` (N, d).

    It has the teacher's routes, and looks landmarks up on a grid (`coarse`). One to three minutes on one core.
    `on_update` receives the updates done, and their total.
    """
    if teacher.config.quasimetric or teacher.config.full_state_goals:
        raise VhdError(
            "only Length Predictors whose goals are positions, without a quasimetric head, can be distilled."
        )
    rng = np.random.default_rng(seed)
    normal = teacher.normalizer.normalize(np.asarray(states, np.float32))
    starts, goals = _pairs(normal, list(teacher.spec.goal_dims), pairs, rng)
    s, g = normal[starts], normal[goals][:, list(teacher.spec.goal_dims)]
    parts = [slice(first, first + _CHUNK) for first in range(0, pairs, _CHUNK)]
    target = torch.from_numpy(np.concatenate([teacher.network(s[part], g[part]) for part in parts]))
    network = replace(teacher.config.network, features=features, width=width, depth=depth, relative=False)
    config = replace(teacher.config, network=network)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        student = make_length_network(teacher.spec, config)
    given, wanted = torch.from_numpy(s), torch.from_numpy(g)
    optimizer = torch.optim.AdamW(student.parameters(), lr=_RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    generator = torch.Generator().manual_seed(seed)
    for update in range(updates):
        rows = torch.randint(pairs, (_BATCH,), generator=generator)
        loss = torch.nn.functional.smooth_l1_loss(student(given[rows], wanted[rows]), target[rows], beta=0.01)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        if on_update is not None:
            on_update(update + 1, updates)
    return LengthPredictor(
        student, teacher.spec, config, teacher.normalizer, teacher.routes, teacher.landmarks, coarse=True
    )


def _pairs(states: FloatArray, dims: list[int], count: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """(count,) and (count,) rows of states: starts and goals."""
    starts, goals = rng.integers(len(states), size=(2, count))
    places = states[:, dims]
    for first in range(0, int(_NEAR * count), _CHUNK):
        rows = slice(first, min(first + _CHUNK, int(_NEAR * count)))
        others = rng.integers(len(states), size=(rows.stop - rows.start, _AMONG))
        away = np.abs(places[others] - places[starts[rows], None]).max(axis=-1)
        goals[rows] = others[np.arange(len(others)), away.argmin(axis=1)]
    return starts, goals
