"""Algorithm 1: variable-horizon diffusion training, one update at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import nn

from vhdiffuser.data.crops import Crops
from vhdiffuser.data.motion import fastest_motion
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.interpolation import knot_count
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.process import Process, clamp, denoising_loss
from vhdiffuser.diffusion.sampler import clamp_mask
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.errors import DataError, VhdError, warn
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import EnvSpec, Episodes
from vhdiffuser.weights.format import ModelHeader

StepsBetween = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Normalised states (n, d) and (n, d) -> (n,) predicted steps from the first to the goal dimensions of the second."""

_CANDIDATES = 8
"""Crops drawn per crop kept, if crops are selected."""


class PlannerTask:
    """The planner as a task of the training loop. States are normalised once and kept on the device."""

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
        """`steps_between`, from a trained Length Predictor, is needed if `config.directness` selects crops. `planning`
        holds the planner's default options, with at most `diffusion_steps` steps."""
        if (config.directness is None) != (steps_between is None):
            raise VhdError("crops are selected by a Length Predictor: pass both `directness` and `steps_between`.")
        if config.action_dim:
            raise VhdError(
                "planners are trained on states only: set action_dim to 0 (other values are for imported checkpoints)."
            )
        self.spec, self.config, self.normalizer, self.data_fingerprint = spec, config, normalizer, data_fingerprint
        self.device, self._steps_between = torch.device(device), steps_between
        self.planning = (planning or PlanningOptions()).within(config)
        self.process = Process(config.diffusion_steps, config.prediction, self.device)
        self._motion: dict[str, Any] = {}
        with suppress(DataError):  # episodes too short to measure a speed
            self._motion = fastest_motion(episodes, spec).to_notes()
        states = normalizer.normalize(spec.planning_state(episodes.observations))  # (N, d)
        self.crops = Crops(states, episodes.ends, self.device)
        self.shortest, self.longest = self._crop_lengths()
        if steps_between is not None:
            self.longest = max(self.shortest, min(self.longest, self._longest_direct()))

    def _crop_lengths(self) -> tuple[int, int]:
        """L_min and T_max (or `longest`), or the fixed horizon twice; limited by the longest episode."""
        L_min, T_max = self.spec.L_min, min(self.spec.T_max, self.config.longest or self.spec.T_max)
        if self.config.horizon is not None:
            L_min = T_max = self.config.horizon
        if self.crops.longest < L_min:
            raise DataError(
                f"crops need at least {L_min} states, but the longest episode has {self.crops.longest}. Lower "
                "L_min (or the horizon), or train on longer episodes."
            )
        if self.crops.longest < T_max:
            warn(f"the longest episode has {self.crops.longest} states, which limits crops to fewer than {T_max}.")
        longest = min(T_max, self.crops.longest)
        if (gap := self.config.gap) is not None and gap[0] <= L_min and gap[1] > longest:
            raise VhdError(f"the gap {gap} leaves no length between {L_min} and {longest} states.")
        return L_min, longest

    def _longest_direct(self) -> int:
        """Maximum length of a direct crop: `directness` times the largest distance among many states."""
        assert self._steps_between is not None
        assert self.config.directness is not None
        rows = torch.randint(
            len(self.crops.states), (2, 4096), generator=torch.Generator(self.device).manual_seed(0), device=self.device
        )
        farthest = self._steps_between(self.crops.states[rows[0]], self.crops.states[rows[1]]).max()
        return int(self.config.directness * farthest) + 1

    def make_network(self) -> nn.Module:
        """Create a U-Net."""
        return TemporalUnet(self.spec.state_dim, self.config.dim, self.config.dim_mults)

    def draw(self, generator: torch.Generator) -> torch.Tensor:
        """Lines 2 to 4: L ~ Uniform{L_min..T_max}, start indices valid for it, and the crops tau^0 (B, K, d)."""
        stride = self.config.stride
        L = self._draw_length(generator)
        fitting = (self.crops.longest - 1) // stride + 1  # rounding up must not exceed the longest episode
        K = min(knot_count(L, stride), fitting)
        if self._steps_between is None:
            first = self.config.demonstration_first
            return self._framed(self.crops.draw(K, stride, self.config.batch_size, generator, first))
        return self._framed(self.crops.cut(self._direct_starts((K - 1) * stride, generator), K, stride))

    def _framed(self, crops: torch.Tensor) -> torch.Tensor:
        """(B, K, d) normalised crops, with positions relative to their starts if the config has a frame."""
        if self.config.frame is None:
            return crops
        goal = list(self.spec.goal_dims)
        width = torch.as_tensor(self.normalizer.scale[goal] / self.config.frame, device=crops.device)
        crops[..., goal] = (crops[..., goal] - crops[:, :1, goal]) * width
        return crops

    def _draw_length(self, generator: torch.Generator) -> int:
        """L ~ Uniform{L_min..T_max}, excluding the lengths of a gap."""
        low, high = self.config.gap or (self.longest + 1, self.longest + 1)
        low, high = max(low, self.shortest), min(high, self.longest + 1)
        missing = max(high - low, 0)
        span = self.longest - self.shortest + 1 - missing
        L = self.shortest + int(torch.randint(span, (), generator=generator, device=self.device))
        return L + missing if missing and low <= L else L

    def _direct_starts(self, steps: int, generator: torch.Generator) -> torch.Tensor:
        """(B,) starts of crops of that many steps: random direct ones, filled up with the most direct of the others."""
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
        ends = clamp_mask(np.array([K - 1]), K, d, self.config.clamped_dims(self.spec))
        mask = torch.from_numpy(ends).to(self.device)  # (1, K, d): the batch has one length, hence one mask
        tau_i = clamp(self.process.noised(tau0, i, epsilon), tau0, mask)  # line 6, ends clean as in planning
        predicted = network(tau_i, i)  # line 7
        loss = denoising_loss(predicted, self.process.target(tau0, i, epsilon), mask)  # line 8
        with torch.no_grad():
            clean = self.process.clean(predicted.detach().float(), i, tau_i).clamp(-1, 1)
        # Comparable across prediction types, unlike the loss.
        return loss, {"knots": float(K), "clean_mse": denoising_loss(clean, tau0, mask)}

    def observe(self, scalars: dict[str, torch.Tensor], update: int) -> None:
        """No-op: only the weights change."""

    def state(self) -> dict[str, Any]:
        """Empty: only the weights change during training."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """No-op."""

    def header(self) -> ModelHeader:
        """Header of the trained planner's file."""
        return ModelHeader(
            kind="planner",
            spec=self.spec.to_json(),
            config=self.config.to_json(),
            normalizer=self.normalizer.to_json(),
            data_fingerprint=self.data_fingerprint,
            notes=self._motion,
            planning=self.planning.to_json(),
        )
