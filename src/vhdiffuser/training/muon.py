"""Muon (Jordan et al. 2024) for convolutions, AdamW for everything else.

An update of a weight matrix is orthogonalised before it is applied, so that all its directions are learnt at
the same pace. On the same mini-batches of maze2d-large the planner's loss was a sixth below AdamW's (docs/planner.md).
torch's own Muon takes matrices only and leaves the rest to a second optimiser; the loop wants one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch

_QUINTIC = (3.4445, -4.7750, 2.0315)
"""Coefficients of the Newton-Schulz step: steep at 0, so that small singular values grow fast."""
_STEPS = 5
_SMALLEST = 16
"""Fewest channels on either side for which a convolution counts as a matrix."""


class Muon(torch.optim.Optimizer):
    """One optimiser for a network of convolutions: its inner ones by Muon, the rest by AdamW."""

    def __init__(
        self,
        params: Iterable[torch.Tensor],
        lr: float,
        weight_decay: float,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        defaults = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "betas": betas, "eps": eps}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update."""
        for group in self.param_groups:
            alike: dict[tuple[int, ...], list[torch.Tensor]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                if _is_convolution(weight):
                    alike[tuple(weight.shape)].append(weight)
                else:
                    self._adamw(weight, group)
            for weights in alike.values():
                self._muon(weights, group)

    def _muon(self, weights: list[torch.Tensor], group: dict[str, Any]) -> None:
        """Weights of one shape at once: Nesterov momentum, orthogonalised, scaled to an AdamW update's size."""
        directions = []
        for weight in weights:
            state = self.state[weight]
            if not state:
                state["momentum"] = torch.zeros_like(weight)
            assert weight.grad is not None
            state["momentum"].lerp_(weight.grad, 1 - group["momentum"])
            directions.append(weight.grad.lerp(state["momentum"], group["momentum"]).flatten(1))
        matrices = orthogonalized(torch.stack(directions))  # (n, out, in * kernel)
        # Liu et al. 2025: with this factor AdamW's learning rate and decay serve unchanged.
        size = 0.2 * math.sqrt(max(matrices.shape[1:]))
        for weight, matrix in zip(weights, matrices, strict=True):
            weight.mul_(1 - group["lr"] * group["weight_decay"])
            weight.add_(matrix.view_as(weight), alpha=-group["lr"] * size)

    def _adamw(self, weight: torch.Tensor, group: dict[str, Any]) -> None:
        """Loshchilov and Hutter 2019."""
        state = self.state[weight]
        if not state:
            state["step"] = torch.zeros(())
            state["mean"], state["square"] = torch.zeros_like(weight), torch.zeros_like(weight)
        assert weight.grad is not None
        b1, b2 = group["betas"]
        state["step"] += 1
        state["mean"].lerp_(weight.grad, 1 - b1)
        state["square"].mul_(b2).addcmul_(weight.grad, weight.grad, value=1 - b2)
        step = int(state["step"])
        root = (state["square"] / (1 - b2**step)).sqrt_().add_(group["eps"])
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        weight.addcdiv_(state["mean"], root, value=-group["lr"] / (1 - b1**step))


def orthogonalized(matrices: torch.Tensor) -> torch.Tensor:
    """(n, rows, columns) -> the same with singular values near 1 (0.7 to 1.2) and the same singular vectors."""
    a, b, c = _QUINTIC
    tall = matrices.shape[1] > matrices.shape[2]
    X = matrices.transpose(1, 2) if tall else matrices
    X = X / (X.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(_STEPS):
        A = X @ X.transpose(1, 2)
        X = a * X + (b * A + c * (A @ A)) @ X
    return X.transpose(1, 2) if tall else X


def _is_convolution(weight: torch.Tensor) -> bool:
    return weight.ndim == 3 and weight.shape[2] > 1 and min(weight.shape[:2]) >= _SMALLEST
