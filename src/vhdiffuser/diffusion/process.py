"""The noising process of Section IV and the loss of Algorithm 1.

The paper counts diffusion steps i = 1..N; here, as in Diffuser, i = 0..N-1 names the same levels.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch

from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.types import FloatArray

Prediction = Literal["epsilon", "sample", "v_prediction"]


def cosine_betas(steps: int, s: float = 0.008) -> FloatArray:
    """(N,) beta_i of the cosine schedule (Nichol and Dhariwal 2021), with Diffuser's grid and clipping."""
    grid = np.linspace(0, 1, steps + 1)
    alpha_bar = np.cos((grid + s) / (1 + s) * np.pi / 2) ** 2
    return np.clip(1 - alpha_bar[1:] / alpha_bar[:-1], 0, 0.999).astype(np.float32)


class Process:
    """q(tau^i | tau^0), and what the network predicts from tau^i."""

    def __init__(self, steps: int, prediction: str = "epsilon", device: torch.device | str = "cpu") -> None:
        if steps < 2:
            raise VhdError(f"diffusion_steps must be at least 2, got {steps}.")
        if prediction not in get_args(Prediction):
            raise UnknownNameError("prediction", prediction, list(get_args(Prediction)))
        self.steps = steps
        self.prediction = prediction
        self.betas = torch.from_numpy(cosine_betas(steps)).to(device)  # (N,)
        self.alpha_bar = torch.cumprod(1 - self.betas, dim=0)  # (N,)

    def levels(self, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """sqrt(alpha_bar_i) and sqrt(1 - alpha_bar_i), (B, 1, 1) for i (B,)."""
        alpha_bar = self.alpha_bar[i][:, None, None]
        return alpha_bar.sqrt(), (1 - alpha_bar).sqrt()

    def noised(self, tau0: torch.Tensor, i: torch.Tensor, epsilon: torch.Tensor) -> torch.Tensor:
        """tau^i = sqrt(alpha_bar_i) tau^0 + sqrt(1 - alpha_bar_i) epsilon: eq. (5); (B, K, d)."""
        signal, noise = self.levels(i)
        return signal * tau0 + noise * epsilon

    def target(self, tau0: torch.Tensor, i: torch.Tensor, epsilon: torch.Tensor) -> torch.Tensor:
        """The network's target: epsilon (the paper), tau^0, or v (Salimans and Ho 2022)."""
        if self.prediction == "epsilon":
            return epsilon
        if self.prediction == "sample":
            return tau0
        signal, noise = self.levels(i)
        return signal * epsilon - noise * tau0

    def clean(self, predicted: torch.Tensor, i: torch.Tensor, tau_i: torch.Tensor) -> torch.Tensor:
        """The tau^0 that a prediction implies: eq. (5) solved for it."""
        if self.prediction == "sample":
            return predicted
        signal, noise = self.levels(i)
        if self.prediction == "epsilon":
            return (tau_i - noise * predicted) / signal
        return signal * tau_i - noise * predicted


def clamp(tau: torch.Tensor, known: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """tau (B, K, d) with its known entries clamped: Algorithm 2, line 5. mask: (B or 1, K, d)."""
    return torch.where(mask, known, tau)


def clamp_mask(last: torch.Tensor, knots: int, width: int, dims: tuple[list[int], list[int]]) -> torch.Tensor:
    """(B, knots, width) bool: the clamped dimensions of the first knot and of the last, at index last (B,)."""
    first_dims, last_dims = dims
    mask = torch.zeros(len(last), knots, width, dtype=torch.bool, device=last.device)
    mask[:, 0, first_dims] = True
    rows = torch.arange(len(last), device=last.device)
    mask[rows[:, None], last[:, None], torch.tensor(last_dims, device=last.device)] = True
    return mask


def denoising_loss(predicted: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """||target - predicted||^2, eq. (8), averaged over the entries that are not clamped.

    Clamped entries are inputs, not unknowns: Diffuser overwrites the prediction there, which gives no
    gradient and only shifts the logged loss. A crop of two knots may be clamped entirely: its loss is 0.
    """
    squared = (predicted.float() - target).square()  # (B, K, d)
    free = (~mask).to(squared.dtype).expand_as(squared)
    return (squared * free).sum() / free.sum().clamp(min=1)
