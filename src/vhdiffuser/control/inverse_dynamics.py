"""Inverse dynamics: predicts the action from the full observation and the plan ahead (antmaze, cube)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from vhdiffuser.control.base import Controller, reference_states
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.files import sha256
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.threads import torch_threads
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, IntArray
from vhdiffuser.weights.format import load_model

_BLOCK = 64
"""Rows per forward pass. Always exactly this many (padded), so that actions are bitwise independent of the batch."""


@dataclass(frozen=True)
class DynamicsConfig:
    """Network and training of the inverse dynamics model."""

    hidden: int = 512
    """Width of the hidden layers."""
    layers: int = 3
    """Hidden layers."""
    ahead: tuple[int, ...] = (1, 4, 8, 16, 24)
    """Control steps ahead at which the plan is read."""
    pace: float | None = None
    """Distance per control step, in the environment's units, at which the path is followed from the point nearest to
    the robot, regardless of the plan's timing; None: the plan is read by time."""
    ignore: tuple[int, ...] = ()
    """Observation dimensions hidden from the network, besides the goal dimensions (always relative to the plan)."""
    disturbed: float = 0.5
    """Share of perturbed training samples: the plan is ahead of the robot and shifted sideways."""
    max_lag: int = 12
    """Maximum lag of a perturbed sample, in control steps."""
    jitter: float = 0.015
    """Standard deviation of a perturbed sample's shift, in normalised units."""
    ending: float = 0.25
    """Share of training samples whose plan ends within the look-ahead."""
    held_out: float = 0.05
    """Share of episodes held out from training."""
    batch_size: int = 1024
    """Samples per update."""

    def __post_init__(self) -> None:
        if not self.ahead or min(self.ahead) < 1:
            raise VhdError(f"`ahead` needs at least one step of 1 or more, got {self.ahead}.")
        for name in ("disturbed", "ending", "held_out"):
            if not 0 <= getattr(self, name) <= 1:
                raise VhdError(f"`{name}` is a share and must lie in 0..1, got {getattr(self, name)}.")
        if self.pace is not None and not self.pace > 0:
            raise VhdError(f"`pace` must be positive, or None to read the plan by time, got {self.pace}.")
        if min(self.hidden, self.layers, self.batch_size) < 1 or self.max_lag < 0 or self.jitter < 0:
            raise VhdError("widths, layers and batch size must be positive, lag and jitter not negative.")

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> DynamicsConfig:
        """The inverse of `dataclasses.asdict`; unknown keys are refused."""
        known = {field.name for field in fields(cls)}
        if unknown := set(value) - known:
            raise DataError(f"inverse dynamics settings unknown to this version: {', '.join(sorted(unknown))}.")
        values: dict[str, Any] = {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}
        return cls(**values)


def proprioception_dims(spec: EnvSpec, config: DynamicsConfig) -> list[int]:
    """Observation dimensions the network sees: all except goal dimensions (absolute position) and ignored ones."""
    absolute = {spec.state_dims[dim] for dim in spec.goal_dims}
    return [dim for dim in range(spec.observation_dim) if dim not in absolute and dim not in config.ignore]


class InverseDynamics(nn.Module):
    """MLP: [proprioception, relative plan at each step ahead] -> action."""

    def __init__(self, spec: EnvSpec, config: DynamicsConfig) -> None:
        super().__init__()
        width = len(proprioception_dims(spec, config)) + len(config.ahead) * spec.goal_dim
        layers: list[nn.Module] = []
        for _ in range(config.layers):
            layers += [nn.Linear(width, config.hidden), nn.LayerNorm(config.hidden), nn.ReLU()]
            width = config.hidden
        self.layers = nn.Sequential(*layers, nn.Linear(width, spec.action_dim))

    def forward(self, body: torch.Tensor, relative: torch.Tensor) -> torch.Tensor:
        """body (B, p) normalised, relative (B, ahead, goal_dim) in reach units -> (B, m)."""
        return self.layers(torch.cat([body, relative.flatten(1)], dim=1))


def reach(normalizer: Normalizer, dims: list[int]) -> FloatArray:
    """(goal_dim,) scale of relative positions.

    A robot covers about a tenth of the space within the look-ahead, so scaled inputs are near 1.
    """
    return 0.1 * normalizer.scale[dims]


def along_path(path: FloatArray, place: FloatArray, distances: FloatArray) -> FloatArray:
    """(n, g) points of a path (L, g), `distances` (n,) further along it than its point nearest to `place`.

    Beyond the end of the path, its end.
    """
    rest = path[np.square(path - place).sum(axis=1).argmin() :]
    travelled = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(rest, axis=0), axis=1))])
    return np.stack([np.interp(distances, travelled, coordinate) for coordinate in rest.T], axis=1)


class InverseDynamicsController(Controller):
    """Follows a plan with a trained `InverseDynamics` network."""

    def __init__(
        self,
        network: InverseDynamics,
        spec: EnvSpec,
        config: DynamicsConfig,
        normalizer: Normalizer,
        device: str = "cpu",
        model: str = "",
    ) -> None:
        """`normalizer` covers the full observation; `model` identifies the weights in results."""
        self.network = network.to(device).eval()
        self.spec, self.config, self.normalizer = spec, config, normalizer
        self._device, self._model = device, model
        self._body = proprioception_dims(spec, config)
        self._goal = [spec.state_dims[dim] for dim in spec.goal_dims]
        self._reach = reach(normalizer, self._goal)

    @classmethod
    def load(cls, path: Path, device: str = "cpu") -> InverseDynamicsController:
        """From a model file made by `vhd train dynamics`."""
        tensors, header = load_model(path, "dynamics")
        spec, config = EnvSpec.from_json(header.spec), DynamicsConfig.from_json(header.config)
        network = InverseDynamics(spec, config)
        try:
            network.load_state_dict(tensors)
        except RuntimeError as error:
            raise DataError(f"{path}: its weights do not match the settings in its header. Train it again.") from error
        return cls(network, spec, config, Normalizer.from_json(header.normalizer), device, sha256(path)[:12])

    def act(self, observations: FloatArray, plans: Sequence[Plan], indices: IntArray) -> FloatArray:
        """(B, o), B plans, (B,) -> (B, m)."""
        body = self.normalizer.normalize(observations)[:, self._body]  # (B, p)
        here = observations[:, self._goal]  # (B, goal_dim)
        if self.config.pace is None:
            targets = np.stack(
                [self.spec.goal_of(reference_states(plans, indices, step)) for step in self.config.ahead], axis=1
            )  # (B, ahead, goal_dim)
        else:
            distances = self.config.pace * np.asarray(self.config.ahead)
            targets = np.stack(
                [
                    along_path(self.spec.goal_of(plan.states), place, distances)
                    for plan, place in zip(plans, here, strict=True)
                ]
            )
        relative = targets - here[:, None]
        return np.clip(self._forward(body, (relative / self._reach).astype(np.float32)), -1.0, 1.0)

    def _forward(self, body: FloatArray, relative: FloatArray) -> FloatArray:
        rows = len(body)
        padding = -rows % _BLOCK
        body = np.pad(body, ((0, padding), (0, 0)))
        relative = np.pad(relative, ((0, padding), (0, 0), (0, 0)))
        with torch.inference_mode(), torch_threads(1):
            actions = [
                self.network(
                    torch.as_tensor(body[begin : begin + _BLOCK], device=self._device),
                    torch.as_tensor(relative[begin : begin + _BLOCK], device=self._device),
                )
                for begin in range(0, rows, _BLOCK)
            ]
        return torch.cat(actions)[:rows].float().cpu().numpy()

    def describe(self) -> dict[str, Any]:
        """Name, weights and settings."""
        settings = {key: value for key, value in asdict(self.config).items() if value is not None}
        return {"name": "inverse_dynamics", "model": self._model, **settings}
