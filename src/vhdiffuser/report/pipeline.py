"""Fig. 2: the pipeline, drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vhdiffuser.drawing import GOAL_COLOUR, PATH_COLOUR, START_COLOUR, new_figure, save_figure

_BOXES = {
    # name: (x, y, width, height, text, colour)
    "data": (0.0, 0.2, 1.7, 1.0, "offline trajectories\ns₀, s₁, …, s_T", "#eef1f6"),
    "supervision": (2.4, 1.2, 2.2, 0.8, "hybrid supervision\nanchors, DP bounds, relays", "#eef1f6"),
    "crops": (2.4, -0.6, 2.2, 0.8, "random-length crops\nL ~ U{L_min..T_max}", "#eef1f6"),
    "length": (5.4, 1.2, 2.0, 0.8, "Length Predictor\nf(s, g)", "#dbe8ff"),
    "planner": (5.4, -0.6, 2.0, 0.8, "Diffusion Planner\nDM(τ, t)", "#dbe8ff"),
    "horizon": (8.2, 1.2, 2.2, 0.8, "L̂ = gamma (f T_max + 1)\nstates", "#fff3d6"),
    "noise": (8.2, -0.6, 2.2, 0.8, "", "#ffffff"),
    "plan": (11.2, -0.6, 2.2, 0.8, "", "#ffffff"),
}
_ARROWS = (
    ("data", "supervision"),
    ("data", "crops"),
    ("supervision", "length"),
    ("crops", "planner"),
    ("length", "horizon"),
)


def pipeline(path: Path) -> Path:
    """Training on the left, planning on the right: the predicted horizon is the length of the initial noise."""
    from matplotlib.patches import FancyBboxPatch

    figure, (axes,) = new_figure(1, 1)
    figure.set_size_inches(10.5, 3.2)
    axes.set_axis_off()
    axes.set_xlim(-0.2, 13.8)
    axes.set_ylim(-1.5, 3.1)
    for x, y, width, height, text, colour in _BOXES.values():
        style = "round,pad=0.02,rounding_size=0.1"
        axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=colour, edgecolor="#5b6270"))
        axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=8)
    for start, end in _ARROWS:
        a, b = _BOXES[start], _BOXES[end]
        _arrow(axes, (a[0] + a[2], a[1] + a[3] / 2), (b[0], b[1] + b[3] / 2))
    _arrow(axes, (6.4, 2.75), (6.4, 2.05))
    axes.text(6.4, 2.8, "start s, goal g", ha="center", va="bottom", fontsize=8)
    _arrow(axes, (9.3, 1.15), (9.3, 0.3))
    axes.text(9.4, 0.72, "length of the noise", fontsize=7, va="center")
    _arrow(axes, (10.45, -0.2), (11.15, -0.2))
    axes.text(10.8, -0.05, "denoise", fontsize=7, ha="center", va="bottom")
    _arrow(axes, (7.45, -0.2), (8.15, -0.2))
    _strips(axes)
    axes.text(9.3, -0.75, "noise of L̂ states, N(0, I)", ha="center", va="top", fontsize=8)
    axes.text(12.3, -0.75, "plan of L̂ states,\nends clamped at every step", ha="center", va="top", fontsize=8)
    return save_figure(figure, path)


def _arrow(axes, start: tuple[float, float], end: tuple[float, float]) -> None:  # type: ignore[no-untyped-def]
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "#5b6270"})


def _strips(axes) -> None:  # type: ignore[no-untyped-def]
    """A noisy and a clean curve with marked ends."""
    rng, t = np.random.default_rng(0), np.linspace(0, 1, 60)
    smooth = 0.22 * np.sin(2.2 * np.pi * t)
    for x, curve in ((8.35, 0.16 * rng.normal(size=60).clip(-2, 2)), (11.35, smooth)):
        y = -0.2 + np.concatenate([[smooth[0]], curve[1:-1], [smooth[-1]]])
        axes.plot(x + 1.9 * t, y, color=PATH_COLOUR, linewidth=0.9)
        axes.plot(x, y[0], "o", color=START_COLOUR, markersize=5, markeredgecolor="black")
        axes.plot(x + 1.9, y[-1], "*", color=GOAL_COLOUR, markersize=7, markeredgecolor="black")
