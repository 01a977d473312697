"""A custom cost of positions in torch operations."""

from __future__ import annotations

import torch

from vhdiffuser.diffusion.guidance import CostFunction
from vhdiffuser.errors import VhdError
from vhdiffuser.types import FloatArray

_ALLOWED = "avoid must be a function that maps positions (B, M, goal_dim) to costs (B, M) by torch operations"


class TorchCost:
    """Values and, by automatic differentiation, gradients of a custom function."""

    def __init__(self, function: CostFunction) -> None:
        self.function = function

    def values(self, places: FloatArray) -> FloatArray:
        """(B, M, goal_dim) -> (B, M)."""
        return self._costs(torch.from_numpy(places).float().requires_grad_(True)).detach().numpy()

    def slopes(self, places: FloatArray) -> FloatArray:
        """(B, M, goal_dim) -> (B, M, goal_dim)."""
        at = torch.from_numpy(places).float().requires_grad_(True)
        (slope,) = torch.autograd.grad(self._costs(at).sum(), at)
        return slope.numpy()

    def _costs(self, places: torch.Tensor) -> torch.Tensor:
        try:
            costs = self.function(places)
        except VhdError:
            raise
        except Exception as error:  # third-party code may raise anything
            raise VhdError(f"{_ALLOWED}; it failed with {type(error).__name__}: {error}.") from error
        if not isinstance(costs, torch.Tensor):
            raise VhdError(f"{_ALLOWED}; it returned {type(costs).__name__}.")
        if costs.shape[:1] != places.shape[:1] or not costs.requires_grad:
            without = "" if costs.requires_grad else " without a gradient"
            raise VhdError(f"{_ALLOWED}; it returned shape {tuple(costs.shape)}{without}.")
        return costs
