"""Train the directional ant walker with SAC (stable-baselines3, extra `[walker]`).

The recipe is OGBench's for its data-collecting ant: the reward is the displacement along a random
unit direction that changes every 100 steps; actor and critics 256 x 256, batch 256. Ours differs
to suit two cores: several ants step at once with `updates_per_step` gradient updates
per step (simulation is cheap, updates are not), the learning rate is 3e-4 instead of 1e-4, and the
entropy coefficient starts near its final value.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.envs.antmaze.walker import PROPRIOCEPTION, Walker
from vhdiffuser.errors import DataError, needs_extra
from vhdiffuser.files import atomic_path, make_folder, writing


@dataclass(frozen=True)
class WalkerConfig:
    """How the walker is trained."""

    steps: int = 400_000
    """Total environment steps."""
    ants: int = 8
    """Ants stepped together."""
    updates_per_step: float = 0.5
    """Gradient updates per environment step."""
    checkpoint_every: int = 20_000
    """Environment steps between checkpoints (each is also evaluated and logged)."""
    threads: int = 1
    """Threads of the gradient updates."""
    seed: int = 0
    """Seed of the networks, the exploration and the directions."""


def make_directional_ant() -> Any:
    """OGBench's online ant, rewarded for walking along a direction that is part of its observation."""
    import gymnasium

    with needs_extra("ogbench", "the ant walker"):
        import ogbench.online_locomotion  # noqa: F401  (registers the environment)
        from ogbench.online_locomotion.wrappers import GymXYWrapper

    return GymXYWrapper(gymnasium.make("online-ant-v0"), resample_interval=100)


def evaluate_walker(walker: Walker, walks: int = 16, steps: int = 200, seed: int = 0) -> dict[str, float]:
    """Walk in `walks` fixed directions; returns metres per step along the direction, sideways drift, and falls."""
    env = make_directional_ant()
    along, aside, falls = [], [], 0
    for walk in range(walks):
        observation, _ = env.reset(seed=seed + walk)
        angle = 2 * np.pi * walk / walks
        direction = np.array([np.cos(angle), np.sin(angle)])
        start = env.unwrapped.data.qpos[:2].copy()
        walked, terminated = 0, False
        while walked < steps and not terminated:
            observation, _, terminated, _, _ = env.step(walker(observation[:PROPRIOCEPTION], direction))
            walked += 1
        falls += terminated
        moved = env.unwrapped.data.qpos[:2] - start
        along.append(float(moved @ direction) / walked)
        aside.append(abs(float(moved @ np.array([-direction[1], direction[0]]))) / walked)
    return {
        "speed_along": float(np.mean(along)),
        "slowest_along": float(np.min(along)),
        "drift_aside": float(np.mean(aside)),
        "fall_share": falls / walks,
    }


def train_walker(config: WalkerConfig, folder: Path, report: Callable[[dict[str, Any]], None]) -> Path:
    """Train (or resume training) in `folder`; returns the path of the actor.

    Every `checkpoint_every` steps the networks, their optimisers and the replay buffer are written, so that an
    interrupted run can be resumed. The ants are then reset: a resumed run is as good as an uninterrupted one, but not
    identical.
    """
    with needs_extra("walker", "training the ant walker"):
        from stable_baselines3 import SAC
        from stable_baselines3.common.vec_env import DummyVecEnv
    import torch

    torch.set_num_threads(config.threads)
    make_folder(folder)
    model = SAC(
        "MlpPolicy",
        DummyVecEnv([make_directional_ant] * config.ants),
        learning_rate=3e-4,
        batch_size=256,
        buffer_size=1_000_000,
        learning_starts=10_000,
        train_freq=8,
        gradient_steps=int(8 * config.ants * config.updates_per_step),
        tau=0.005,
        gamma=0.99,
        # Rewards are metres per step, about 0.1: with the usual initial coefficient of 1, the entropy term
        # would dominate them for the first 70,000 updates.
        ent_coef="auto_0.01",
        target_entropy=-0.5 * 8,
        policy_kwargs={"net_arch": [256, 256], "optimizer_kwargs": {"fused": True}},
        seed=config.seed,
    )
    _restore(model, config, folder)
    began, first = time.monotonic(), model.num_timesteps
    while model.num_timesteps < config.steps:
        chunk = min(config.checkpoint_every, config.steps - model.num_timesteps)
        model.learn(chunk, reset_num_timesteps=False)
        actor = _save(model, config, folder)
        rate = (model.num_timesteps - first) / (time.monotonic() - began)
        entry = {
            "steps": model.num_timesteps,
            **evaluate_walker(Walker.load(actor)),
            "seconds_left": (config.steps - model.num_timesteps) / rate,
        }
        with writing(folder / "log.jsonl", "The last checkpoint is kept."), open(folder / "log.jsonl", "a") as log:
            log.write(json.dumps(entry) + "\n")
        report(entry)
    return folder / "ant_walker.safetensors"


def _optimizers(model: Any) -> dict[str, Any]:
    return {
        "actor": model.actor.optimizer,
        "critic": model.critic.optimizer,
        "entropy": model.ent_coef_optimizer,
    }


def _save(model: Any, config: WalkerConfig, folder: Path) -> Path:
    """Write actor, training state and replay buffer; the small state file is written last and commits."""
    from safetensors.torch import save_file

    actor = folder / "ant_walker.safetensors"
    layers = [model.actor.latent_pi[0], model.actor.latent_pi[2], model.actor.mu]
    weights = {}
    for i, layer in enumerate(layers):
        weights[f"{i}.weight"] = layer.weight.detach().T.contiguous()
        weights[f"{i}.bias"] = layer.bias.detach().contiguous()
    with atomic_path(actor) as path:
        save_file(weights, path)

    buffer, filled = model.replay_buffer, model.replay_buffer.size()
    name = f"buffer-{model.num_timesteps}.npz"
    with atomic_path(folder / name) as path, open(path, "wb") as file:
        np.savez(
            file,
            **{key: getattr(buffer, key)[:filled] for key in _BUFFER_FIELDS},
            position=np.array([buffer.pos, buffer.full]),
        )
    state = {f"policy.{key}": value for key, value in model.policy.state_dict().items()}
    state["log_ent_coef"] = model.log_ent_coef.detach()
    for owner, optimizer in _optimizers(model).items():
        for index, slots in optimizer.state_dict()["state"].items():
            for slot, value in slots.items():
                state[f"optimizer.{owner}.{index}.{slot}"] = value
    meta = {"config": json.dumps(asdict(config)), "steps": str(model.num_timesteps), "buffer": name}
    with atomic_path(folder / "state.safetensors") as path:
        save_file({k: v.contiguous().clone() for k, v in state.items()}, path, metadata=meta)
    for old in folder.glob("buffer-*.npz"):
        if old.name != name:
            old.unlink()
    return actor


_BUFFER_FIELDS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def _restore(model: Any, config: WalkerConfig, folder: Path) -> None:
    """Continue from the folder's checkpoint, if it has one made with the same settings."""
    from safetensors import SafetensorError, safe_open

    path = folder / "state.safetensors"
    if not path.exists():
        return
    try:
        with safe_open(path, "pt") as file:
            meta = file.metadata()
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        with np.load(folder / meta["buffer"], allow_pickle=False) as arrays:
            fields = {key: arrays[key] for key in (*_BUFFER_FIELDS, "position")}
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise DataError(
            f"{path}: not a readable walker checkpoint ({error}). Delete {folder} to start over."
        ) from error
    saved, ours = json.loads(meta["config"]), asdict(config)
    fixed = ("ants", "updates_per_step", "seed")
    if any(saved[key] != ours[key] for key in fixed):
        raise DataError(
            f"{path} was made with { ({k: saved[k] for k in fixed}) }, not with { ({k: ours[k] for k in fixed}) }. "
            f"Use the same settings to continue, or delete {folder} to start over."
        )
    prefix = "policy."
    model.policy.load_state_dict({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})
    model.log_ent_coef.data.copy_(state["log_ent_coef"])
    for owner, optimizer in _optimizers(model).items():
        slots: dict[int, dict[str, Any]] = {}
        for key, value in state.items():
            if key.startswith(f"optimizer.{owner}."):
                index, slot = key.split(".")[2:]
                slots.setdefault(int(index), {})[slot] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})
    buffer = model.replay_buffer
    for key in _BUFFER_FIELDS:
        getattr(buffer, key)[: len(fields[key])] = fields[key]
    buffer.pos, buffer.full = int(fields["position"][0]), bool(fields["position"][1])
    model.num_timesteps = int(meta["steps"])
