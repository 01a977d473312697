"""From knots to the control rate: a smooth curve of exactly L states through K knots."""

from __future__ import annotations

import numpy as np

from vhdiffuser.types import EnvSpec, FloatArray


def control_rate(knots: FloatArray, length: int, stride: int, spec: EnvSpec, clamp: str) -> FloatArray:
    """(B, K, d) knots in the environment's units -> (B, length, d), one state per control step.

    The K knots are laid evenly over the length-1 control steps (see `vhdiffuser.data.crops`), so the first
    and the last knot are the first and the last state. A goal dimension with a velocity follows the cubic
    Hermite curve through both, and its velocity is that curve's derivative: the plan moves as it says it
    moves. Every other dimension follows a shape-preserving cubic (PCHIP), which never overshoots its knots.
    """
    from scipy.interpolate import CubicHermiteSpline, PchipInterpolator

    K = knots.shape[1]
    if length == K:
        return knots.astype(np.float32)
    knots = knots.astype(np.float64)
    duration = (length - 1) * spec.control_dt
    knot_times = np.linspace(0.0, duration, K)  # s
    times = np.linspace(0.0, duration, length)
    states = np.empty((len(knots), length, knots.shape[2]))
    positions = list(spec.goal_dims) if spec.velocity_dims is not None else []
    velocities = list(spec.velocity_dims or [])
    others = [dim for dim in range(knots.shape[2]) if dim not in positions + velocities]
    if positions:
        slopes = rescaled_velocities(knots[:, :, velocities], stride * (K - 1) / (length - 1), clamp)
        curve = CubicHermiteSpline(knot_times, knots[:, :, positions], slopes, axis=1)
        states[:, :, positions] = curve(times)
        states[:, :, velocities] = curve(times, 1)
    if others:
        states[:, :, others] = PchipInterpolator(knot_times, knots[:, :, others], axis=1)(times)
    return states.astype(np.float32)


def rescaled_velocities(velocities: FloatArray, rate: float, clamp: str) -> FloatArray:
    """Velocities (B, K, n) of a motion run `rate` times as fast as drawn; clamped ones stay as given.

    Without this the knots would be passed at one speed and the way between them at another.
    """
    scaled = velocities * rate
    scaled[:, 0] = velocities[:, 0]
    if clamp == "state":
        scaled[:, -1] = velocities[:, -1]
    return scaled
