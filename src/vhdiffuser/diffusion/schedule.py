"""The noise schedule, shared by planning and training, and the clean trajectory implied by a prediction."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.types import FloatArray

Prediction = Literal["epsilon", "sample", "v_prediction"]


def cosine_betas(steps: int, s: float = 0.008) -> FloatArray:
    """(N,) beta_i of the cosine schedule (Nichol and Dhariwal 2021), with Diffuser's grid and clipping."""
    grid = np.linspace(0, 1, steps + 1)
    alpha_bar = np.cos((grid + s) / (1 + s) * np.pi / 2) ** 2
    return np.clip(1 - alpha_bar[1:] / alpha_bar[:-1], 0, 0.999).astype(np.float32)


class Schedule:
    """alpha_bar of every level, and the type of the network's prediction.

    The paper counts diffusion steps i = 1..N; here, as in Diffuser, i = 0..N-1 names the same levels.
    """

    def __init__(self, steps: int, prediction: str = "epsilon") -> None:
        if steps < 2:
            raise VhdError(f"diffusion_steps must be >= 2; got {steps}.")
        if prediction not in get_args(Prediction):
            raise UnknownNameError("prediction", prediction, list(get_args(Prediction)))
        self.steps = steps
        self.prediction = prediction
        self.betas = cosine_betas(steps)  # (N,)
        self.alpha_bar = np.cumprod(1 - self.betas, dtype=np.float64).astype(np.float32)  # (N,)

    def clean(self, predicted: FloatArray, level: int, tau: FloatArray) -> FloatArray:
        """The tau^0 (B, K, d) implied by a prediction at a level: eq. (5) solved for it."""
        if self.prediction == "sample":
            return predicted
        signal, noise = np.sqrt(self.alpha_bar[level]), np.sqrt(1 - self.alpha_bar[level])
        if self.prediction == "epsilon":
            return (tau - noise * predicted) / signal
        return signal * tau - noise * predicted
