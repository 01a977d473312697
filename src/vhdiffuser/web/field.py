"""The Length Predictor's distance field: predicted steps to one goal, on a grid over a view."""

from __future__ import annotations

import numpy as np

from vhdiffuser.cancel import check_cancelled
from vhdiffuser.errors import VhdError
from vhdiffuser.planner.candidates import StepsPredictor
from vhdiffuser.types import BoolArray, FloatArray, Instance
from vhdiffuser.web.library import Loaded
from vhdiffuser.web.replies import FieldReply, View
from vhdiffuser.web.requests import FieldRequest
from vhdiffuser.web.scene import numbers, views_of

_PIECE = 512
"""Starts per forward pass (about 10 ms); cancellation is checked in between."""


def distance_field(loaded: Loaded, request: FieldRequest, instance: Instance) -> FieldReply:
    """f_theta(s, g) T_max for starts at rest, on a grid in the view's plane through the start."""
    predictor = loaded.planner.length_predictor
    if predictor is None:
        raise VhdError(f"{loaded.spec.name}: this planner has no Length Predictor, so there is no distance field.")
    views = views_of(loaded)
    if request.view >= len(views):
        raise VhdError(f"{loaded.spec.name} has {len(views)} view(s), numbered from 0; got {request.view}.")
    view = views[request.view]
    right, up = _axes(view, request.points)
    spec = loaded.spec
    places = np.tile(spec.goal_of(instance.start), (len(up), len(right), 1))  # (rows, columns, goal_dim)
    places[..., view.right] = right[None, :]
    places[..., view.up] = up[:, None]
    free = _free(loaded, places)
    starts = np.zeros((int(free.sum()), spec.state_dim), np.float32)  # at rest
    starts[:, list(spec.goal_dims)] = places[free]
    steps = np.full(free.shape, -1.0)
    steps[free] = _steps(predictor, starts, instance.goal)
    return FieldReply(
        rows=len(up),
        columns=len(right),
        right_range=[float(right[0]), float(right[-1])],
        up_range=[float(up[0]), float(up[-1])],
        steps=numbers(steps.ravel(), 1),
    )


def _steps(predictor: StepsPredictor, starts: FloatArray, goal: FloatArray) -> FloatArray:
    """(n,) predicted steps from (n, d) starts, in chunks so that the work can be cancelled."""
    found = []
    for first in range(0, len(starts), _PIECE):
        check_cancelled()
        piece = starts[first : first + _PIECE]
        found.append(np.asarray(predictor.predict_steps(piece, np.broadcast_to(goal, (len(piece), len(goal))))))
    return np.concatenate(found) if found else np.zeros(0)


def _axes(view: View, points: int) -> tuple[FloatArray, FloatArray]:
    """Centres of square cells that tile the view, with `points` cells along its longer side."""
    width, height = view.right_range[1] - view.right_range[0], view.up_range[1] - view.up_range[0]
    side = max(width, height) / points
    columns, rows = max(round(width / side), 2), max(round(height / side), 2)
    right = view.right_range[0] + (np.arange(columns) + 0.5) * width / columns
    up = view.up_range[0] + (np.arange(rows) + 0.5) * height / rows
    return right, up


def _free(loaded: Loaded, places: FloatArray) -> BoolArray:
    """(rows, columns) bool: free space, extended by one grid point into the walls so that an interpolated image touches
    them."""
    walls = loaded.environment.geometry.walls
    if len(walls) == 0:
        return np.ones(places.shape[:-1], bool)
    x, y = places[..., 0, None], places[..., 1, None]
    inside = (walls[:, 0] <= x) & (x <= walls[:, 1]) & (walls[:, 2] <= y) & (y <= walls[:, 3])
    padded = np.pad(~inside.any(axis=-1), 1)
    rows, columns = places.shape[:2]
    return np.any([padded[i : i + rows, j : j + columns] for i in range(3) for j in range(3)], axis=0)
