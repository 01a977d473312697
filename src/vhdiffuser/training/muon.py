"""Muon (Jordan et al. 2024) for convolutions, AdamW for everything else.

The update of a weight matrix is orthogonalised before it is applied, so that all directions are learned at the same
rate. On the same mini-batches of maze2d-large the planner's loss was a sixth below AdamW's (docs/notes/planner.md).
torch's own Muon handles matrices only and leaves the rest to a second optimiser; our loop needs a single one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim.adamw import adamw

_QUINTIC = (3.4445, -4.7750, 2.0315)
"""Coefficients of the Newton-Schulz step: steep at 0, so that small singular values grow fast."""
_STEPS = 5
_SMALLEST = 16
"""Minimum number of input and output channels for a convolution to be treated as a matrix."""


class Muon(torch.optim.Optimizer):
    """One optimiser for a convolutional network: Muon for its inner convolutions, AdamW for the rest."""

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
        """Perform one update."""
        for group in self.param_groups:
            alike: dict[tuple[int, ...], list[torch.Tensor]] = defaultdict(list)
            others = []
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                if _is_convolution(weight):
                    alike[tuple(weight.shape)].append(weight)
                else:
                    others.append(weight)
            self._adamw(others, group)
            for weights in alike.values():
                self._muon(weights, group)

    def _muon(self, weights: list[torch.Tensor], group: dict[str, Any]) -> None:
        """Update all weights of one shape: Nesterov momentum, orthogonalised, scaled to the size of an AdamW update."""
        for weight in weights:
            if not self.state[weight]:
                self.state[weight]["momentum"] = torch.zeros_like(weight)
        momenta, gradients = [self.state[weight]["momentum"] for weight in weights], _gradients(weights)
        torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
        directions = torch._foreach_lerp(gradients, momenta, group["momentum"])
        matrices = orthogonalized(torch.stack(directions).flatten(2))  # (n, out, in * kernel)
        # Liu et al. 2025: with this factor, AdamW's learning rate and decay apply unchanged.
        size = 0.2 * math.sqrt(max(matrices.shape[1:]))
        torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(weights, [m.view_as(weights[0]) for m in matrices], alpha=-group["lr"] * size)

    def _adamw(self, weights: list[torch.Tensor], group: dict[str, Any]) -> None:
        """Loshchilov and Hutter 2019, with torch's fused kernel."""
        for weight in weights:
            if not self.state[weight]:
                self.state[weight]["step"] = torch.zeros((), device=weight.device)
                self.state[weight]["mean"] = torch.zeros_like(weight)
                self.state[weight]["square"] = torch.zeros_like(weight)
        adamw(
            weights,
            _gradients(weights),
            [self.state[weight]["mean"] for weight in weights],
            [self.state[weight]["square"] for weight in weights],
            [],  # no AMSGrad
            [self.state[weight]["step"] for weight in weights],
            fused=True,
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )


def orthogonalized(matrices: torch.Tensor) -> torch.Tensor:
    """(n, rows, columns) -> the same with singular values near 1 (0.7 to 1.2) and the same singular vectors.

    Each Newton-Schulz step multiplies X from the left by a polynomial P of its Gram matrix, X X^T -> P X X^T P. So the
    steps run on the small square matrices alone, and X, five times as wide for a kernel of 5, is multiplied once.
    """
    a, b, c = _QUINTIC
    tall = matrices.shape[1] > matrices.shape[2]
    X = matrices.transpose(1, 2) if tall else matrices
    X = X / (X.norm(dim=(1, 2), keepdim=True) + 1e-7)
    gram = X @ X.transpose(1, 2)  # (n, rows, rows)
    one = torch.eye(gram.shape[1], dtype=X.dtype, device=X.device)
    product = a * one + b * gram + c * (gram @ gram)
    P = product
    for _ in range(_STEPS - 1):
        gram = P @ gram @ P
        P = a * one + b * gram + c * (gram @ gram)
        product = P @ product
    X = product @ X
    return X.transpose(1, 2) if tall else X


def _gradients(weights: list[torch.Tensor]) -> list[torch.Tensor]:
    return [weight.grad for weight in weights if weight.grad is not None]


def _is_convolution(weight: torch.Tensor) -> bool:
    return weight.ndim == 3 and weight.shape[2] > 1 and min(weight.shape[:2]) >= _SMALLEST
