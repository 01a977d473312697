"""The noising process of Section IV and the loss of Algorithm 1.

The paper counts diffusion steps i = 1..N; here, as in Diffuser, i = 0..N-1 names the same levels.
"""

from __future__ import annotations

import torch

from vhdiffuser.diffusion.schedule import Schedule


class Process:
    """q(tau^i | tau^0), and the network's training target given tau^i."""

    def __init__(self, steps: int, prediction: str = "epsilon", device: torch.device | str = "cpu") -> None:
        schedule = Schedule(steps, prediction)
        self.steps, self.prediction = schedule.steps, schedule.prediction
        self.betas = torch.from_numpy(schedule.betas).to(device)  # (N,)
        self.alpha_bar = torch.from_numpy(schedule.alpha_bar).to(device)  # (N,)

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
        """The tau^0 implied by a prediction: eq. (5) solved for it."""
        if self.prediction == "sample":
            return predicted
        signal, noise = self.levels(i)
        if self.prediction == "epsilon":
            return (tau_i - noise * predicted) / signal
        return signal * tau_i - noise * predicted


def clamp(tau: torch.Tensor, known: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """tau (B, K, d) with its known entries clamped: Algorithm 2, line 5. mask: (B or 1, K, d)."""
    return torch.where(mask, known, tau)


def denoising_loss(predicted: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """||target - predicted||^2, eq. (8), averaged over the entries that are not clamped.

    Clamped entries are inputs, not unknowns: Diffuser overwrites the prediction there, which gives no gradient and only
    shifts the logged loss. A crop of two knots may be fully clamped; its loss is 0.
    """
    squared = (predicted.float() - target).square()  # (B, K, d)
    free = (~mask).to(squared.dtype).expand_as(squared)
    return (squared * free).sum() / free.sum().clamp(min=1)
