"""Figures of datasets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vhdiffuser.drawing import axis_labels, draw_maze, new_figure, save_figure, walls_of
from vhdiffuser.types import EnvSpec, Episodes, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_dataset(spec: EnvSpec, episodes: Episodes, path: Path, steps: int = 20_000) -> Path:
    """Draw about `steps` states as paths coloured by time: from above in a maze, or as two views of a workspace."""
    paths = _sample(spec, episodes, steps)
    walls = walls_of(spec)
    names = axis_labels(spec.name, [spec.state_names[dim] for dim in spec.goal_dims])
    if len(walls):
        figure, axes = new_figure(1, 1, size=5)
        draw_maze(axes[0], walls, names)
        _draw_coloured(axes[0], paths)
    else:
        views = [(0, min(1, spec.goal_dim - 1))] + ([(0, 2)] if spec.goal_dim > 2 else [])
        figure, axes = new_figure(1, len(views), size=4.5)
        for axis, (right, up) in zip(axes, views, strict=True):
            _draw_coloured(axis, [places[:, [right, up]] for places in paths])
            axis.set_xlabel(names[right])
            axis.set_ylabel(names[up])
            axis.autoscale()
            axis.set_aspect("equal", adjustable="datalim")
    states = sum(len(places) for places in paths)
    shown = f"{spec.name}: {states:,} of {len(episodes.observations):,} states"
    figure.suptitle(f"{shown}\ndark to bright: from the beginning to the end of each episode", fontsize=9)
    return save_figure(figure, path)


def _sample(spec: EnvSpec, episodes: Episodes, steps: int) -> list[FloatArray]:
    """Goal dimensions of whole episodes, spread over the data, about `steps` states in total."""
    order = np.random.default_rng(0).permutation(len(episodes))
    paths, left = [], steps
    for number in order:
        places = spec.goal_of(spec.planning_state(episodes.episode(int(number))[0]))[: max(left, 2)]
        paths.append(places)
        left -= len(places)
        if left <= 0:
            break
    return paths


def _draw_coloured(axes: Axes, paths: list[FloatArray]) -> None:
    from matplotlib.collections import LineCollection

    for places in paths:
        segments = np.stack([places[:-1], places[1:]], axis=1)
        lines = LineCollection(list(segments), cmap="viridis", array=np.arange(len(segments)), lw=0.5, alpha=0.6)
        axes.add_collection(lines)
