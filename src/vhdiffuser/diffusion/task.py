"""Algorithm 1: variable-horizon diffusion training, one update at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from vhdiffuser.data.crops import Crops
from vhdiffuser.data.motion import fastest_motion
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.interpolation import knot_count
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.process import Process, clamp, clamp_mask, denoising_loss
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.errors import DataError, VhdError, warn
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import EnvSpec, Episodes
from vhdiffuser.weights.format import ModelHeader

StepsBetween = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Normalised states (n, d) and (n, d) -> (n,) control steps from the ones to the others' goal dimensions."""

_CANDIDATES = 8
"""Crops drawn for each one kept, where crops are chosen."""


class PlannerTask:
    """The planner's recipe for the training loop. The states are normalised once and kept on the device."""

    def __init__(
        self,
        episodes: Episodes,
        spec: EnvSpec,
        config: PlannerConfig,
        normalizer: Normalizer,
        data_fingerprint: str,
        device: torch.device | str = "cpu",
        steps_between: StepsBetween | None = None,
        planning: PlanningOptions | None = None,
    ) -> None:
        """`steps_between`, a trained Length Predictor's, is needed where `config.directness` chooses crops. `planning`
        is what the planner will plan with, in at most `diffusion_steps` steps."""
        if (config.directness is None) != (steps_between is None):
            raise VhdError("crops are chosen by a Length Predictor: give both `directness` and `steps_between`.")
        if config.action_dim:
            raise VhdError("planners are trained on states only: set action_dim to 0 (the original's need not be).")
        self.spec, self.config, self.normalizer, self.data_fingerprint = spec, config, normalizer, data_fingerprint
        self.device, self._steps_between = torch.device(device), steps_between
        self.planning = (planning or PlanningOptions()).within(config)
        self.process = Process(config.diffusion_steps, config.prediction, self.device)
        self._motion: dict[str, Any] = {}
        with suppress(DataError):  # too short to tell
            self._motion = fastest_motion(episodes, spec).to_notes()
        states = normalizer.normalize(spec.planning_state(episodes.observations))  # (N, d)
        self.crops = Crops(states, episodes.ends, self.device)
        self.shortest, self.longest = self._crop_lengths()
        if steps_between is not None:
            self.longest = max(self.shortest, min(self.longest, self._longest_direct()))

    def _crop_lengths(self) -> tuple[int, int]:
        """L_min and T_max (or `longest`), or the fixed horizon twice; never longer than the data allows."""
        L_min, T_max = self.spec.L_min, min(self.spec.T_max, self.config.longest or self.spec.T_max)
        if self.config.horizon is not None:
            L_min = T_max = self.config.horizon
        if self.crops.longest < L_min:
            raise DataError(
                f"crops need at least {L_min} states and the longest episode has {self.crops.longest}. "
                "Lower L_min (or the horizon), or train on longer episodes."
            )
        if self.crops.longest < T_max:
            warn(f"the longest episode has {self.crops.longest} states: crops end there, not at {T_max} states.")
        return L_min, min(T_max, self.crops.longest)

    def _longest_direct(self) -> int:
        """No crop longer than this is direct: `directness` times the steps between the farthest of many states."""
        assert self._steps_between is not None
        assert self.config.directness is not None
        rows = torch.randint(
            len(self.crops.states), (2, 4096), generator=torch.Generator(self.device).manual_seed(0), device=self.device
        )
        farthest = self._steps_between(self.crops.states[rows[0]], self.crops.states[rows[1]]).max()
        return int(self.config.directness * farthest) + 1

    def make_network(self) -> nn.Module:
        """A fresh U-Net."""
        return TemporalUnet(self.spec.state_dim, self.config.dim, self.config.dim_mults)

    def draw(self, generator: torch.Generator) -> torch.Tensor:
        """Lines 2 to 4: L ~ Uniform{L_min..T_max}, start indices valid for it, and the crops tau^0 (B, K, d)."""
        stride = self.config.stride
        span = self.longest - self.shortest + 1
        L = self.shortest + int(torch.randint(span, (), generator=generator, device=self.device))
        fitting = (self.crops.longest - 1) // stride + 1  # rounding up must not ask for more than the data has
        K = min(knot_count(L, stride), fitting)
        if self._steps_between is None:
            return self.crops.draw(K, stride, self.config.batch_size, generator)
        return self.crops.cut(self._direct_starts((K - 1) * stride, generator), K, stride)

    def _direct_starts(self, steps: int, generator: torch.Generator) -> torch.Tensor:
        """(B,) starts of crops of that many steps, direct ones at random; where they are too few, the most direct."""
        assert self._steps_between is not None
        assert self.config.directness is not None
        starts = self.crops.draw_starts(steps + 1, _CANDIDATES * self.config.batch_size, generator)
        states = self.crops.states
        ratio = steps / self._steps_between(states[starts], states[starts + steps]).clamp(min=1.0)
        chance = torch.rand(ratio.shape, generator=generator, device=self.device)
        rank = torch.where(ratio <= self.config.directness, chance, ratio)  # a ratio above directness is above 1
        return starts[rank.topk(self.config.batch_size, largest=False).indices]

    def loss(
        self, network: nn.Module, ema: nn.Module, generator: torch.Generator, update: int
    ) -> tuple[torch.Tensor, dict[str, float | torch.Tensor]]:
        """Algorithm 1, lines 2 to 8, for one mini-batch."""
        tau0 = self.draw(generator)  # lines 2-4; (B, K, d)
        B, K, d = tau0.shape
        i = torch.randint(self.process.steps, (B,), generator=generator, device=self.device)  # line 5
        epsilon = torch.randn(tau0.shape, generator=generator, device=self.device)
        last = torch.tensor([K - 1], device=self.device)  # one length, hence one mask, for the batch
        mask = clamp_mask(last, K, d, self.config.clamped_dims(self.spec))  # (1, K, d)
        tau_i = clamp(self.process.noised(tau0, i, epsilon), tau0, mask)  # line 6, ends clean as in planning
        predicted = network(tau_i, i)  # line 7
        loss = denoising_loss(predicted, self.process.target(tau0, i, epsilon), mask)  # line 8
        with torch.no_grad():
            clean = self.process.clean(predicted.detach().float(), i, tau_i).clamp(-1, 1)
        # Comparable between predictions, which the loss is not.
        return loss, {"knots": float(K), "clean_mse": denoising_loss(clean, tau0, mask)}

    def state(self) -> dict[str, Any]:
        """Nothing changes during training beside the weights."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Nothing to continue from."""

    def header(self) -> ModelHeader:
        """The header of the trained planner's file."""
        return ModelHeader(
            kind="planner",
            spec=self.spec.to_json(),
            config=self.config.to_json(),
            normalizer=self.normalizer.to_json(),
            data_fingerprint=self.data_fingerprint,
            notes=self._motion,
            planning=self.planning.to_json(),
        )
