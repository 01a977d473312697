"""The five terms of the Length Predictor's loss, eqs. (target) to (total-loss): one function each.

f is f_theta(s, g), f_bar the EMA network's value; all are normalised by T_max and of shape (B,).
"""

from __future__ import annotations

import torch


def target(k: torch.Tensor, hit: torch.Tensor, f_bar_k: torch.Tensor, T_max: int) -> torch.Tensor:
    """Eq. (target): k/T_max if the episode hits g, otherwise k/T_max + f_bar(s_k, g); at most 1."""
    return torch.where(hit, k / T_max, k / T_max + f_bar_k).clamp(max=1.0)


def relay_target(y: torch.Tensor, hit: torch.Tensor, way: torch.Tensor) -> torch.Tensor:
    """Our change to eq. (target), given the length of a relay path from s to g (>= 1: none known).

    The path bounds an anchor from above; without an anchor, it replaces the bootstrap f_bar(s_k, g).
    """
    return torch.where(hit | (way >= 1), torch.minimum(y, way), way)


def L_TD(f: torch.Tensor, y: torch.Tensor, tau: float | torch.Tensor, kappa: float) -> torch.Tensor:
    """Primary regression: Huber(f - y) with threshold kappa, tilted towards the tau-quantile of y.

    Observed lengths are upper bounds: tau < 1/2 penalises f > y more than f < y. tau = 1/2 is the paper's Huber.
    """
    error = f - y
    size = error.abs()
    huber = torch.where(size <= kappa, 0.5 * error**2, kappa * (size - 0.5 * kappa))
    lean = torch.where(error > 0, 1 - tau, tau) * 2
    return (lean * huber).mean()


def L_cons(f: torch.Tensor, k: torch.Tensor, f_bar_k: torch.Tensor, T_max: int) -> torch.Tensor:
    """Eq. (cons): [f - min(1, k/T_max + f_bar(s_k, g))]_+^2."""
    bound = (k / T_max + f_bar_k).clamp(max=1.0)
    return (f - bound).clamp(min=0).square().mean()


def L_triangle(f: torch.Tensor, f_bar_sh: torch.Tensor, f_bar_hg: torch.Tensor) -> torch.Tensor:
    """Eq. (triangle): [f - min(1, f_bar(s, h) + f_bar(h, g))]_+^2."""
    bound = (f_bar_sh + f_bar_hg).clamp(max=1.0)
    return (f - bound).clamp(min=0).square().mean()


def L_bdry(f_gg: torch.Tensor) -> torch.Tensor:
    """Eq. (stabilizers), left: f(g, g)^2."""
    return f_gg.square().mean()


def L_clip(f: torch.Tensor) -> torch.Tensor:
    """Eq. (stabilizers), right: [f - 1]_+^2."""
    return (f - 1).clamp(min=0).square().mean()
