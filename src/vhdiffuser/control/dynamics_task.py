"""Training of the inverse dynamics model on the planner's data.

A robot that executes a plan lags behind it and drifts off it, which the data never does. So some samples are perturbed:
the plan is read a few steps ahead (lag) and shifted sideways (drift), while the target remains the data's own action.

If the policy that generated the data is available (a *teacher*: body and direction in, action out), it relabels every
sample with the action that heads for the plan. Then any plan can be used, and the labels are free of noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import nn

from vhdiffuser.control.dynamics_network import InverseDynamics
from vhdiffuser.control.inverse_dynamics import (
    DynamicsConfig,
    InverseDynamicsController,
    proprioception_dims,
    reach,
    seen_plan,
)
from vhdiffuser.errors import DataError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, Episodes, FloatArray
from vhdiffuser.weights.format import ModelHeader

Teacher = Callable[[FloatArray, FloatArray], FloatArray]
"""(n, p) observations without position, (n, goal_dim) unit directions -> (n, m) actions."""


class DynamicsTask:
    """The `training.task.Task` of an inverse dynamics model."""

    def __init__(
        self,
        episodes: Episodes,
        spec: EnvSpec,
        config: DynamicsConfig,
        normalizer: Normalizer,
        data_fingerprint: str,
        device: torch.device | str = "cpu",
        teacher: Teacher | None = None,
        own: Episodes | None = None,
    ) -> None:
        """`normalizer` covers the full observation; `teacher` labels samples if the config asks for one. If `own`
        (rollouts of the model itself) is given, half of the samples come from it."""
        if episodes.actions.shape[1] != spec.action_dim or spec.action_dim == 0:
            raise DataError(
                f"{spec.name}: inverse dynamics needs {spec.action_dim or 'some'} action dimensions in the "
                f"data; got {episodes.actions.shape[1]}."
            )
        if config.teacher_ahead is not None and teacher is None:
            raise DataError(
                f"{spec.name}: no teacher policy is available to label its data. Train on the data's own "
                "actions (`vhd train dynamics --teacher-ahead None --foreign 0`), or set `Environment.teacher`."
            )
        self.spec, self.config, self.normalizer, self.data_fingerprint = spec, config, normalizer, data_fingerprint
        self._teacher = teacher
        training, _ = episodes.split(config.held_out)
        recorded = len(training.observations)
        if own is not None:
            training = training.joined(own)
        goal = [spec.state_dims[dim] for dim in spec.goal_dims]
        scale = self._reach = reach(normalizer, goal, config)
        body = normalizer.normalize(training.observations)[:, proprioception_dims(spec, config)]
        self._proprioception = training.observations[:, proprioception_dims(spec, DynamicsConfig())]  # (N, p), in units
        lengths = np.diff(training.ends, prepend=0)
        last = np.repeat(training.ends - 1, lengths)  # index of the last state in each row's episode
        self._body = torch.as_tensor(body, device=device)  # (N, p)
        self._places = torch.as_tensor(training.observations[:, goal] / scale, device=device)  # (N, goal_dim)
        self._actions = torch.as_tensor(training.actions, device=device)  # (N, m)
        self._last = torch.as_tensor(last, device=device)  # (N,)
        usable = np.flatnonzero(np.arange(len(last)) != last)  # rows with an action
        self._rows = torch.as_tensor(usable[usable < recorded], device=device)
        self._own_rows = torch.as_tensor(usable[usable >= recorded], device=device)
        self._ahead = torch.as_tensor(config.ahead, device=device)
        # The shift is in normalised units; the network sees positions divided by `reach`.
        self._jitter = torch.as_tensor(config.jitter * normalizer.scale[goal] / scale, device=device)

    def make_network(self) -> nn.Module:
        """A fresh MLP."""
        return InverseDynamics(self.spec, self.config)

    def sample(self, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Sample body (B, p), relative plan (B, ahead, goal_dim) and action (B, m)."""
        config, device = self.config, self._rows.device
        size = (config.batch_size,)

        def uniform() -> torch.Tensor:
            return torch.rand(size, generator=generator, device=device)

        row = self._rows[torch.randint(len(self._rows), size, generator=generator, device=device)]
        if len(self._own_rows):
            own = self._own_rows[torch.randint(len(self._own_rows), size, generator=generator, device=device)]
            row = torch.where(uniform() < 0.5, own, row)
        disturbed = uniform() < config.disturbed
        lag = torch.where(disturbed, (uniform() * (config.max_lag + 1)).long(), 0)
        # A plan may end early; past its end, its last state is read.
        reading = max(config.ahead)
        remaining = torch.where(uniform() < config.ending, 1 + (uniform() * reading).long(), reading)
        steps = torch.minimum(self._ahead[None, :], remaining[:, None])  # (B, ahead)
        seen = row  # the row whose future is the plan
        if config.foreign:
            other = self._rows[torch.randint(len(self._rows), size, generator=generator, device=device)]
            seen = torch.where(uniform() < config.foreign, other, row)
        target = torch.minimum(seen[:, None] + lag[:, None] + steps, self._last[seen][:, None])
        shift = torch.randn((*size, self._places.shape[1]), generator=generator, device=device) * self._jitter
        relative = self._places[target] - self._places[seen][:, None]  # (B, ahead, goal_dim)
        relative = relative + torch.where(disturbed[:, None], shift, 0.0)[:, None]
        action = self._actions[row] if config.teacher_ahead is None else self._taught(row, relative)
        return self._body[row], relative, action

    def _taught(self, row: torch.Tensor, relative: torch.Tensor) -> torch.Tensor:
        """(B, m) actions of the teacher in the states of rows (B,), heading for the plan (B, ahead, goal_dim)."""
        assert self._teacher is not None
        assert self.config.teacher_ahead is not None
        way = relative[:, self.config.ahead.index(self.config.teacher_ahead)].cpu().numpy() * self._reach
        direction = way / (np.linalg.norm(way, axis=1, keepdims=True) + 1e-6)
        action = self._teacher(self._proprioception[row.cpu().numpy()], direction)
        return torch.as_tensor(np.clip(action, -1, 1), dtype=torch.float32, device=relative.device)

    def loss(
        self, network: nn.Module, ema: nn.Module, generator: torch.Generator, update: int
    ) -> tuple[torch.Tensor, dict[str, float | torch.Tensor]]:
        """Mean squared action error of one mini-batch."""
        body, relative, action = self.sample(generator)
        seen = torch.as_tensor(seen_plan(relative.cpu().numpy(), self.config), device=relative.device)
        error = network(body, seen) - action
        loss = error.square().mean()
        return loss, {"action_mae": error.detach().abs().mean()}

    def observe(self, scalars: dict[str, torch.Tensor], update: int) -> None:
        """No-op: only the weights change."""

    def state(self) -> dict[str, Any]:
        """Empty: only the weights change during training."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """No-op."""

    def header(self) -> ModelHeader:
        """Header of the model file."""
        return ModelHeader(
            kind="dynamics",
            spec=self.spec.to_json(),
            config=asdict(self.config),
            normalizer=self.normalizer.to_json(),
            data_fingerprint=self.data_fingerprint,
        )


def held_out_actions(
    controller: InverseDynamicsController, episodes: Episodes, rng: np.random.Generator, samples: int = 4096
) -> tuple[FloatArray, FloatArray]:
    """(n, m) predicted and (n, m) actual actions on held-out data, with the data's own future as the plan."""
    _, held = episodes.split(controller.config.held_out)
    last = np.repeat(held.ends - 1, np.diff(held.ends, prepend=0))
    usable = np.flatnonzero(np.arange(len(last)) != last)
    rows = rng.choice(usable, size=min(samples, len(usable)), replace=False)
    states = controller.spec.planning_state(held.observations)
    reading = max(controller.config.ahead)
    futures = [states[row : min(row + reading, last[row]) + 1] for row in rows]
    plans = [Plan(future, controller.spec.goal_of(future[-1])) for future in futures]
    return controller.act(held.observations[rows], plans, np.zeros(len(rows), np.int64)), held.actions[rows]


def action_error(predicted: FloatArray, actual: FloatArray) -> dict[str, float]:
    """Mean absolute error, root mean squared error and R^2 of (n,) or (n, m) actions.

    `r2` is 0 for the mean action and 1 for perfect prediction.
    """
    error = predicted - actual
    return {
        "mae": float(np.abs(error).mean()),
        "rmse": float(np.sqrt(np.square(error).mean())),
        "r2": float(1 - np.square(error).sum() / max(np.square(actual - actual.mean(axis=0)).sum(), 1e-12)),
    }
