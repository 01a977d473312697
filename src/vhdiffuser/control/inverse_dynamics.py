"""Inverse dynamics: predicts the action from the full observation and the plan ahead (antmaze, cube)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from vhdiffuser.arguments import check_fields, from_fields
from vhdiffuser.control.base import Controller, reference_states
from vhdiffuser.control.path import along_paths, nearest
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.files import sha256
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.runtime.mlp import dynamics_model, dynamics_shapes
from vhdiffuser.runtime.network import Network, OnnxNetwork, check_shapes
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, IntArray
from vhdiffuser.weights.format import Tensors, load_model

if TYPE_CHECKING:
    import torch

_BLOCK = 64
"""Rows per forward pass. Batches are padded to this size, so that actions are bitwise independent of the batch."""
_NEAR = 1e-3
"""Distance, in reach units, below which the direction to a point fades to 0."""


@dataclass(frozen=True)
class DynamicsConfig:
    """Network and training of the inverse dynamics model."""

    hidden: int = 512
    """Width of the hidden layers."""
    layers: int = 3
    """Number of hidden layers."""
    ahead: tuple[int, ...] = (1, 4, 8, 16, 24)
    """Control steps ahead at which the plan is read."""
    pace: float | None = None
    """Distance per control step, in units, at which `path_following` reads the plan from the point nearest to the
    robot. None: plans are read by index only."""
    teacher_ahead: int | None = None
    """Train on actions of the environment's teacher, heading for the plan's state this many control steps ahead. None:
    train on the data's own actions."""
    foreign: float = 0.0
    """With a teacher, fraction of training samples with the plan of another state, which may lead anywhere."""
    rounds: int = 0
    """With a teacher, number of DAgger rounds: the model follows recorded paths in the simulator, then trains with half
    of the samples from states it visited."""
    rollouts: int = 256
    """Recorded paths to follow per round."""
    directions: bool = False
    """Whether the network also sees the unit directions to the plan's states ahead."""
    ignore: tuple[int, ...] = ()
    """Observation dimensions hidden from the network, besides the goal dimensions (which are always relative to the
    plan)."""
    disturbed: float = 0.5
    """Fraction of perturbed training samples: the plan is ahead of the robot and shifted sideways."""
    max_lag: int = 12
    """Maximum lag of a perturbed sample, in control steps."""
    jitter: float = 0.015
    """Standard deviation of a perturbed sample's shift, in normalised units."""
    ending: float = 0.25
    """Fraction of training samples whose plan ends within the look-ahead."""
    held_out: float = 0.05
    """Fraction of episodes held out from training."""
    batch_size: int = 1024
    """Samples per update."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.ahead or min(self.ahead) < 1:
            raise VhdError(f"`ahead` needs at least one step >= 1; got {self.ahead}.")
        for name in ("disturbed", "ending", "held_out", "foreign"):
            if not 0 <= getattr(self, name) <= 1:
                raise VhdError(f"`{name}` is a fraction and must be in 0..1; got {getattr(self, name)}.")
        if self.pace is not None and not self.pace > 0:
            raise VhdError(f"`pace` must be positive, or None to read plans by index only; got {self.pace}.")
        if self.teacher_ahead is not None and self.teacher_ahead not in self.ahead:
            raise VhdError(f"`teacher_ahead` must be one of `ahead` {self.ahead}; got {self.teacher_ahead}.")
        if (self.foreign or self.rounds) and self.teacher_ahead is None:
            raise VhdError("`foreign` and `rounds` need a teacher, since the data's actions do not fit such plans.")
        if self.rounds < 0 or self.rollouts < 1:
            raise VhdError(f"`rounds` must be >= 0 and `rollouts` > 0; got {self.rounds} and {self.rollouts}.")
        if min(self.hidden, self.layers, self.batch_size) < 1 or self.max_lag < 0 or self.jitter < 0:
            raise VhdError("width, layers and batch size must be positive, lag and jitter not negative.")
        if self.layers > 100 or self.hidden > 2**16 or max(self.ahead) > 10_000 or len(self.ahead) > 1000:
            raise VhdError(
                "at most 100 layers of 65,536 units, and at most 1,000 steps `ahead` of at most 10,000 each."
            )

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> DynamicsConfig:
        """Inverse of `to_json`; unknown keys are refused."""
        return from_fields(cls, value, "config")


def proprioception_dims(spec: EnvSpec, config: DynamicsConfig) -> list[int]:
    """Observation dimensions seen by the network: all except goal dimensions (absolute position) and ignored ones."""
    absolute = {spec.state_dims[dim] for dim in spec.goal_dims}
    return [dim for dim in range(spec.observation_dim) if dim not in absolute and dim not in config.ignore]


def reach(normalizer: Normalizer, dims: list[int], config: DynamicsConfig) -> FloatArray:
    """(goal_dim,) scale of relative positions.

    Within the look-ahead a robot covers about a tenth of the space, so scaled inputs are near 1. Directions use one
    scale for all dimensions, to preserve angles.
    """
    scale = 0.1 * normalizer.scale[dims]
    return np.full_like(scale, scale.max()) if config.directions else scale


def seen_plan(relative: FloatArray, config: DynamicsConfig) -> FloatArray:
    """Network input for relative positions (B, ahead, goal_dim) in reach units: with `directions`, unit vectors are
    appended (B, ahead, 2 goal_dim)."""
    if not config.directions:
        return relative
    distance = np.linalg.norm(relative, axis=-1, keepdims=True)
    return np.concatenate([relative, relative / np.maximum(distance, _NEAR)], axis=-1)


class InverseDynamicsController(Controller):
    """Follows a plan with a trained inverse dynamics model.

    It reads the plan by its index (the paper's strict timing) or, with `by_path`, from the point nearest to the robot,
    at the robot's own pace.
    """

    def __init__(
        self,
        network: Network | torch.nn.Module,
        spec: EnvSpec,
        config: DynamicsConfig,
        normalizer: Normalizer,
        model: str = "",
        by_path: bool = False,
    ) -> None:
        """`normalizer` covers the full observation; `model` identifies the weights in results."""
        if by_path and config.pace is None:
            raise VhdError(
                f"{spec.name}: path following needs the robot's `pace`, and this inverse dynamics model was "
                "trained without one. Train it with `vhd train dynamics --pace`, or use the controller "
                "`inverse_dynamics`."
            )
        self.by_path = by_path
        self.network = _as_network(network, spec, config)
        self.spec, self.config, self.normalizer = spec, config, normalizer
        self._model = model
        self._body = proprioception_dims(spec, config)
        self._goal = [spec.state_dims[dim] for dim in spec.goal_dims]
        self.reach = reach(normalizer, self._goal, config)

    @classmethod
    def load(cls, path: Path, by_path: bool = False) -> InverseDynamicsController:
        """Load a model file made by `vhd train dynamics`."""
        tensors, header = load_model(path, "dynamics")
        spec, config = EnvSpec.from_json(header.spec), DynamicsConfig.from_json(header.config)
        try:
            network = _network(tensors, spec, config)
        except DataError as error:
            raise DataError(
                f"{path}: its weights do not match the settings in its header ({error}). Train it again."
            ) from error
        return cls(network, spec, config, Normalizer.from_json(header.normalizer), sha256(path)[:12], by_path)

    def act(self, observations: FloatArray, plans: Sequence[Plan], indices: IntArray) -> FloatArray:
        """(B, o), B plans, (B,) -> (B, m)."""
        body = self.normalizer.normalize(observations)[:, self._body]  # (B, p)
        here = observations[:, self._goal]  # (B, goal_dim)
        if not self.by_path or self.config.pace is None:
            targets = np.stack(
                [self.spec.goal_of(reference_states(plans, indices, step)) for step in self.config.ahead], axis=1
            )  # (B, ahead, goal_dim)
        else:
            distances = self.config.pace * np.asarray(self.config.ahead)
            targets = along_paths([plan.states for plan in plans], self.spec.goal_dims, here, distances)
        relative = targets - here[:, None]
        seen = seen_plan((relative / self.reach).astype(np.float32), self.config)
        return np.clip(self._forward(body, seen), -1.0, 1.0)

    def due(self, observations: FloatArray, plans: Sequence[Plan], indices: IntArray) -> FloatArray:
        """(B, d) reference states: those at the plans' indices; by path, those nearest to robots further along.

        A robot may be ahead of its plan. One that lags deviates from it, even on its path: it is stuck.
        """
        if not self.by_path:
            return super().due(observations, plans, indices)
        here = observations[:, self._goal]  # (B, goal_dim)
        along = [nearest(self.spec.goal_of(plan.states), place) for plan, place in zip(plans, here, strict=True)]
        return reference_states(plans, np.maximum(along, indices), ahead=0)

    def _forward(self, body: FloatArray, relative: FloatArray) -> FloatArray:
        rows = len(body)
        padding = ((0, -rows % _BLOCK), (0, 0))
        body, relative = np.pad(body, padding), np.pad(relative.reshape(rows, -1), padding)
        blocks = [slice(begin, begin + _BLOCK) for begin in range(0, rows, _BLOCK)]
        return np.concatenate([self.network(body[block], relative[block]) for block in blocks])[:rows]

    def describe(self) -> dict[str, Any]:
        """Name, weights and settings."""
        settings = {key: value for key, value in asdict(self.config).items() if value not in (None, False)}
        return {"name": "path_following" if self.by_path else "inverse_dynamics", "model": self._model, **settings}


def _network(tensors: Tensors, spec: EnvSpec, config: DynamicsConfig) -> Network:
    """Build the network of a model file; raises `DataError` if the tensors do not fit its settings."""
    body = len(proprioception_dims(spec, config))
    inputs = body + (1 + config.directions) * len(config.ahead) * spec.goal_dim
    check_shapes(tensors, dynamics_shapes(inputs, spec.action_dim, config.hidden, config.layers))
    return OnnxNetwork(dynamics_model(tensors, body), tensors)


def _as_network(network: Network | torch.nn.Module, spec: EnvSpec, config: DynamicsConfig) -> Network:
    """A network as a function of arrays; a torch module is copied."""
    if not hasattr(network, "state_dict"):
        return cast(Network, network)
    from vhdiffuser.torch_network import arrays

    return _network(arrays(cast("torch.nn.Module", network).state_dict()), spec, config)
