"""Figures of executions: plans and executed paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.drawing import (
    METHOD_COLOURS,
    PLAN_COLOUR,
    add_legend,
    axis_labels,
    draw_ends,
    draw_maze,
    draw_path,
    new_figure,
    save_figure,
)
from vhdiffuser.report.paper import PROTOCOL_LABELS
from vhdiffuser.results.rollout_files import KeptRollout
from vhdiffuser.trajectories import Rollout
from vhdiffuser.trajectories.plots import projection_of


def draw_rollouts(rows: Mapping[str, Sequence[KeptRollout]], config: Mapping[str, Any], path: Path) -> Path:
    """One row of panels per protocol, one panel per rollout: plans in grey, the executed path in colour.

    `config` is the rows' configuration (`vhdiffuser.results.rows`): walls, goal dimensions, tolerance.
    """
    columns = max(len(rollouts) for rollouts in rows.values())
    figure, panels = new_figure(len(rows), columns, size=2.6)
    environment, goal_dims = config["environment"], list(config["goal_dims"])
    labels, tolerance = axis_labels(environment), config["epsilon"] * np.asarray(config["scale"])[:2]
    for order, (protocol, rollouts) in enumerate(rows.items()):
        own = panels[order * columns : (order + 1) * columns]
        for axes in own[len(rollouts) :]:
            axes.set_axis_off()
        for axes, kept in zip(own, rollouts, strict=False):
            draw_maze(axes, config["walls"], labels)
            for _, places in kept.plans:
                draw_path(axes, places, color=PLAN_COLOUR, linewidth=4, alpha=0.5, label="plan")
            executed = kept.states[:, goal_dims]
            draw_path(axes, executed, color=METHOD_COLOURS["vhd"], label="executed")
            draw_ends(axes, executed[0], kept.instance.goal, tolerance)
            label, steps = PROTOCOL_LABELS.get(protocol, protocol), len(kept.states) - 1
            length, outcome = len(kept.plans[0][1]), "hit" if kept.success else "missed"
            replans = len(kept.plans) - 1
            again = "" if protocol == "ss" else f", {replans} replan{'s' * (replans != 1)}"
            axes.set_title(f"{label}: L = {length}, {steps} steps{again}, {outcome}", fontsize=7)
    add_legend(figure, panels)
    return save_figure(figure, path)


def draw_execution(rollouts: Sequence[Rollout], path: Path) -> Path:
    """One panel per goal: its plans in grey, the executed path in colour."""
    figure, panels = new_figure(1, len(rollouts), 4.5, projection_of(rollouts[0].spec))
    for axes, rollout in zip(panels, rollouts, strict=True):
        rollout.plot(axes)
    add_legend(figure, panels)
    return save_figure(figure, path)
