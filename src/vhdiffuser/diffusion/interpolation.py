"""From K knots to a smooth curve of exactly L states at the control rate.

A plan of L states has L-1 control steps. With temporal stride k, the knots of a training crop are always
exactly k control steps apart: the network has no horizon input, so it can learn only one spacing. L-1 need
not be a multiple of k, so a plan has K = round((L-1)/k) + 1 knots, which span L-1 steps to within k/2.
At planning time the curve through the K knots is spread over exactly L-1 control steps
(`control_rate`), i.e. run k(K-1)/(L-1) times as fast as sampled: for k = 4 within
11 % of 1 from L = 16 on, within 1 % at L = 256, and exactly 1 if k divides L-1. Crops whose spacing is
stretched to fit L would leave the network to guess the spacing, and with it the velocities.
With stride 1, as in the paper, K = L.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np

from vhdiffuser.types import EnvSpec, FloatArray, IntArray

BLOCK = 16
"""Knots per block in which smoothing splines are solved."""


def knot_count(length: int, stride: int) -> int:
    """K: number of knots in a plan of `length` states, at least 2 (start and goal)."""
    return max((2 * (length - 1) + stride) // (2 * stride), 1) + 1


def control_rate(
    knots: FloatArray, length: int, stride: int, spec: EnvSpec, clamp: str, smoothing: float = 0.0
) -> FloatArray:
    """Interpolate (B, K, d) knots in the environment's units to (B, length, d), one state per control step.

    The K knots are spaced evenly over the length-1 control steps (see above), so the first and the last knot are the
    first and the last state. A goal dimension with a velocity follows a cubic Hermite curve, and its velocity is that
    curve's derivative, so positions and velocities are consistent.

    Without smoothing the curve passes through the knots, and dimensions that have no velocity follow a shape-preserving
    cubic (PCHIP), which never overshoots. With smoothing (a time in control steps) the knots are treated as noisy, and
    the curve is a smoothing spline near them: `smoothed`.
    """
    K = knots.shape[1]
    if length == K and smoothing == 0:
        return knots.astype(np.float32)
    knots = knots.astype(np.float64)
    spacing = (length - 1) / (K - 1)  # control steps between knots
    states = np.empty((len(knots), length, knots.shape[2]))
    positions = list(spec.goal_dims) if spec.velocity_dims is not None else []
    velocities = list(spec.velocity_dims or [])
    others = [dim for dim in range(knots.shape[2]) if dim not in positions + velocities]
    if positions:
        slopes = rescaled_velocities(knots[:, :, velocities], stride / spacing, clamp) * spec.control_dt  # per step
        places = knots[:, :, positions]
        if smoothing > 0:
            places, slopes = smoothed(places, slopes, spacing, smoothing, (True, clamp == "state"))
        states[:, :, positions], speeds = hermite(places, slopes, length)
        states[:, :, velocities] = speeds / spec.control_dt
    if others and smoothing == 0:
        places = knots[:, :, others]
        states[:, :, others], _ = hermite(places, monotone_slopes(places) / spacing, length)
    elif others:
        for dim in others:
            known_end = clamp == "state" or dim in spec.goal_dims
            places, slopes = smoothed(knots[:, :, [dim]], None, spacing, smoothing, (known_end, False))
            states[:, :, [dim]], _ = hermite(places, slopes, length)
    return states.astype(np.float32)


def hermite(places: FloatArray, slopes: FloatArray, length: int) -> tuple[FloatArray, FloatArray]:
    """The cubic Hermite curve through (B, K, n) positions with (B, K, n) slopes per control step, knots evenly spaced.

    Returns its (B, length, n) values at control steps 0..length-1, and its slopes there.
    """
    K = places.shape[1]
    h, left, u = _intervals(K, length)
    change, slopes = places[:, 1:] - places[:, :-1], h * slopes
    v, w = slopes[:, :-1], slopes[:, 1:]
    cubics = np.stack([places[:, :-1], v, 3 * change - 2 * v - w, v + w - 2 * change])  # for each interval
    p, v, bend, twist = cubics.take(left, axis=2)
    values = p + u * (v + u * (bend + u * twist))
    rates = v + u * (2 * bend + u * (3 * twist))
    return values, rates / h


@lru_cache(maxsize=256)
def _intervals(K: int, length: int) -> tuple[float, IntArray, FloatArray]:
    """Control steps between knots; the interval (length,) of each step; the position within it, (length, 1)."""
    h = (length - 1) / (K - 1)
    at = np.arange(length) / h
    left = np.minimum(at.astype(int), K - 2)
    return h, left, (at - left)[:, None]


def monotone_slopes(places: FloatArray) -> FloatArray:
    """Slopes per knot for (B, K, n) positions such that their Hermite curve never overshoots (Fritsch and Butland's
    PCHIP).

    Inside: the harmonic mean of the differences on both sides, 0 at an extremum. At the ends: a one-sided estimate.
    """
    change = np.diff(places, axis=1)  # (B, K - 1, n)
    if change.shape[1] == 1:
        return np.repeat(change, 2, axis=1)
    before, after = change[:, :-1], change[:, 1:]
    slopes = np.zeros_like(places)
    same = before * after > 0
    np.divide(2 * before * after, before + after, out=slopes[:, 1:-1], where=same)
    for end, near, far in ((0, change[:, 0], change[:, 1]), (-1, change[:, -1], change[:, -2])):
        slope = (3 * near - far) / 2
        slope = np.where(np.sign(slope) == np.sign(near), slope, 0.0)
        too_steep = (np.sign(near) != np.sign(far)) & (np.abs(slope) > 3 * np.abs(near))
        slopes[:, end] = np.where(too_steep, 3 * near, slope)
    return slopes


def rescaled_velocities(velocities: FloatArray, rate: float, clamp: str) -> FloatArray:
    """Velocities (B, K, n) of a motion run `rate` times as fast as sampled; clamped ones are kept.

    Otherwise the speed at the knots would not match the speed between them.
    """
    scaled = velocities * rate
    scaled[:, 0] = velocities[:, 0]
    if clamp == "state":
        scaled[:, -1] = velocities[:, -1]
    return scaled


def smoothed(
    places: FloatArray, slopes: FloatArray | None, spacing: float, time: float, known_end: tuple[bool, bool]
) -> tuple[FloatArray, FloatArray]:
    """The smoothing spline near (B, K, n) positions (and slopes, if any) `spacing` apart: its values and slopes at the
    knots.

    It minimises  integral p''^2 dt + sum_k spacing (|p(t_k) - place_k|^2 / time^4 + |p'(t_k) - slope_k|^2 / time^2),
    with the first position (and slope) exact, and the last position and slope exact if `known_end`. This is the most
    probable path of a body driven by white-noise acceleration, given noisy observations: network errors shorter than
    `time`, such as a jump to a clamped goal, are spread over about that time; slower motion is unchanged. Between knots
    the optimum is a cubic, so the unknowns are K positions and K slopes, and the normal equations are banded: the cost
    is linear in K.
    """
    B, K, n = places.shape
    observed = np.zeros_like(places) if slopes is None else slopes
    given = np.stack([places, observed], axis=2).reshape(B, 2 * K, n)  # (B, 2K, n)
    case = (K, spacing, time, slopes is not None, known_end)
    solution = _solve(*_blocks(*case), np.moveaxis(given, 1, 0).reshape(2 * K, B * n)).reshape(K, 2, B, n)
    return np.moveaxis(solution[:, 0], 0, 1), np.moveaxis(solution[:, 1], 0, 1)


Block = tuple[slice, FloatArray, FloatArray]
"""Rows of a block of equations, the inverse of its matrix after elimination of the blocks before it, and its coupling
to the block before (empty in the first)."""


@lru_cache(maxsize=1024)
def _blocks(
    K: int, h: float, time: float, with_slopes: bool, known_end: tuple[bool, bool]
) -> tuple[list[Block], FloatArray, FloatArray]:
    """Block elimination of the equations, which couple neighbouring knots only; factors of the solution and of the
    observations. Shared by plans of equal length."""
    band, weights = _equations(K, h, time, with_slopes, known_end)
    scale = 1 / np.sqrt(band[0])  # entries span nine orders of magnitude
    blocks: list[Block] = []
    for first in range(0, 2 * K, 2 * BLOCK):
        begin, last = max(first - 2 * BLOCK, 0), min(first + 2 * BLOCK, 2 * K)
        matrix = np.zeros((last - begin, last - begin))
        for off in range(min(4, last - begin)):
            at = np.arange(last - begin - off)
            matrix[at + off, at] = matrix[at, at + off] = band[off, begin : last - off]
        matrix *= scale[begin:last] * scale[begin:last, None]
        own, coupling = matrix[first - begin :, first - begin :], matrix[first - begin :, : first - begin]
        if blocks:
            own = own - coupling @ blocks[-1][1] @ coupling.T
        blocks.append((slice(first, last), np.linalg.inv(own), coupling))
    return blocks, scale, scale * weights


def _solve(blocks: list[Block], scale: FloatArray, weights: FloatArray, given: FloatArray) -> FloatArray:
    """Solve the equations for (2K, m) observations: forward elimination, then backward substitution."""
    x = given * weights[:, None]
    for (before, inverse, _), (rows, _, coupling) in pairwise(blocks):
        x[rows] -= coupling @ (inverse @ x[before])
    rows, inverse, _ = blocks[-1]
    x[rows] = inverse @ x[rows]
    for (after, _, coupling), (rows, inverse, _) in pairwise(blocks[::-1]):
        x[rows] = inverse @ (x[rows] - coupling.T @ x[after])
    x *= scale[:, None]
    return x


def _equations(
    K: int, h: float, time: float, with_slopes: bool, known_end: tuple[bool, bool]
) -> tuple[FloatArray, FloatArray]:
    """Normal equations of `smoothed`, (4, 2K) in lower banded form, and the (2K,) weights of the observations."""
    slope_weight = h / time**2 if with_slopes else 0.0
    weights = np.tile([h / time**4, slope_weight], K)  # for position 0, slope 0, position 1, ...
    exact = 1e9 * 12 / h**3  # far above all other entries, far below overflow
    weights[0] = exact
    if with_slopes:
        weights[1] = exact
    if known_end[0]:
        weights[-2] = exact
    if known_end[1]:
        weights[-1] = exact

    # integral p''^2 over one interval, as a quadratic form of (position, slope, next position, next slope).
    bending = np.array(
        [
            [12 / h**3, 6 / h**2, -12 / h**3, 6 / h**2],
            [6 / h**2, 4 / h, -6 / h**2, 2 / h],
            [-12 / h**3, -6 / h**2, 12 / h**3, -6 / h**2],
            [6 / h**2, 2 / h, -6 / h**2, 4 / h],
        ]
    )
    band = np.zeros((4, 2 * K))  # lower form: band[i - j, j] is the entry (i, j)
    band[0] = weights
    for row in range(4):
        for column in range(row + 1):
            band[row - column, column : 2 * (K - 1) + column : 2] += bending[row, column]
    return band, weights
