"""Guidance away from forbidden regions: the predicted clean trajectory, moved down a cost's gradient at every step.

The network is not asked for its gradient, so a plan is bent and not rerouted: where a region closes the only way that
a plan has taken, draw several candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy.typing as npt
import torch

from vhdiffuser.arguments import as_numbers
from vhdiffuser.errors import VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import EnvSpec, FloatArray

Cost = Callable[[torch.Tensor], torch.Tensor]
"""Positions (B, M, goal_dim) in the environment's units -> (B, M): 0 where a plan may be, differentiable elsewhere."""

_BETWEEN = 8
"""Points on every line between two knots at which the cost is asked for: a region between two knots counts."""
_MOVES = 4
"""Gradient moves at every reverse step."""
_NEIGHBOURS = (0.25, 0.6, 1.0, 0.6, 0.25)
"""Share of a knot's move that its neighbours make too, so that the plan bends and does not break."""


def box_cost(spec: EnvSpec, boxes: npt.ArrayLike, margin: FloatArray) -> Cost:
    """Half the squared depth inside of boxes (n, 2, goal_dim) of lowest and highest corners, each grown by a margin."""
    corners = as_numbers("avoid", boxes)
    if corners.ndim != 3 or corners.shape[1:] != (2, spec.goal_dim) or not (corners[:, 0] <= corners[:, 1]).all():
        raise VhdError(
            f"avoid needs boxes (lowest corner, highest corner) of {spec.goal_dim} numbers each, or a function of "
            f"positions; got an array of shape {corners.shape}."
        )
    low, high = torch.from_numpy(corners[:, 0] - margin), torch.from_numpy(corners[:, 1] + margin)  # (n, goal_dim)

    def cost(places: torch.Tensor) -> torch.Tensor:
        at = places.unsqueeze(-2)  # (B, M, 1, goal_dim)
        lower, upper = low.to(places.device), high.to(places.device)
        depth = torch.minimum(at - lower, upper - at).amin(dim=-1).clamp(min=0)  # (B, M, n): to the nearest side
        return 0.5 * depth.square().sum(dim=-1)

    return cost


class Guidance:
    """Moves normalised knots (B, K, width) down the gradient of a cost of their positions."""

    def __init__(self, cost: Cost, dims: Sequence[int], center: FloatArray, scale: FloatArray) -> None:
        """`dims` are the knots' dimensions that are positions; center and scale are theirs."""
        self.cost, self.dims = cost, list(dims)
        self.center, self.scale = torch.from_numpy(center), torch.from_numpy(scale)

    @classmethod
    def of(cls, cost: Cost, spec: EnvSpec, normalizer: Normalizer, action_dim: int) -> Guidance:
        """For the knots of a planner."""
        dims = [action_dim + dim for dim in spec.goal_dims]
        return cls(cost, dims, spec.goal_of(normalizer.center), spec.goal_of(normalizer.scale))

    def __call__(self, tau0: torch.Tensor) -> torch.Tensor:
        """tau0 with its positions moved; a cost of half a squared distance moves them by about that distance."""
        center, scale = self.center.to(tau0.device), self.scale.to(tau0.device)
        with torch.inference_mode(False), torch.enable_grad():
            places = tau0[..., self.dims].clone() * scale + center  # (B, K, goal_dim) in units
            for _ in range(_MOVES):
                places = places.detach().requires_grad_(True)
                cost = _costs(self.cost, between(places))
                (slope,) = torch.autograd.grad(cost.sum() / _BETWEEN, places)
                places = places - spread(slope)
        moved = tau0.clone()
        moved[..., self.dims] = (places.detach() - center) / scale
        return moved


def _costs(cost: Cost, places: torch.Tensor) -> torch.Tensor:
    """(B, M) costs of (B, M, goal_dim) positions, by a function that may be the caller's own."""
    allowed = "avoid must be a function that maps positions (B, M, goal_dim) to costs (B, M) by torch operations"
    try:
        costs = cost(places)
    except VhdError:
        raise
    except Exception as error:  # it is somebody else's code
        raise VhdError(f"{allowed}; it failed with {type(error).__name__}: {error}.") from error
    if not isinstance(costs, torch.Tensor):
        raise VhdError(f"{allowed}; it gave {type(costs).__name__}.")
    if costs.shape[:1] != places.shape[:1] or not costs.requires_grad:
        raise VhdError(
            f"{allowed}; it gave {tuple(costs.shape)}{'' if costs.requires_grad else ' without a gradient'}."
        )
    return costs


def between(knots: torch.Tensor) -> torch.Tensor:
    """(B, K, n) -> (B, (K - 1) _BETWEEN + 1, n): points on the lines between knots, and the knots."""
    share = torch.arange(_BETWEEN, device=knots.device) / _BETWEEN  # (_BETWEEN,)
    first, second = knots[:, :-1, None], knots[:, 1:, None]  # (B, K - 1, 1, n)
    inner = first + share[:, None] * (second - first)  # (B, K - 1, _BETWEEN, n)
    return torch.cat([inner.flatten(1, 2), knots[:, -1:]], dim=1)


def spread(slope: torch.Tensor) -> torch.Tensor:
    """(B, K, n) with each knot's share given to its neighbours."""
    kernel = torch.tensor(_NEIGHBOURS, device=slope.device).view(1, 1, -1)
    B, K, n = slope.shape
    flat = slope.transpose(1, 2).reshape(B * n, 1, K)
    return torch.conv1d(flat, kernel, padding=len(_NEIGHBOURS) // 2).view(B, n, K).transpose(1, 2)
