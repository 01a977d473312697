"""Plan for your own Gymnasium environment: log data, train, drive.

    python examples/drive_your_own_gymnasium_env.py

The environment here, `PondEnv`, is a boat on a pond with a current; use your own. Toy-sized: a few hundred updates.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import gymnasium
import numpy as np

import vhdiffuser
from vhdiffuser.cli import run as vhd
from vhdiffuser.control.pd import PDConfig, PDController
from vhdiffuser.data.store import Dataset, save_dataset
from vhdiffuser.envs.importing import own_spec
from vhdiffuser.types import Episodes

DT = 0.1


class PondEnv(gymnasium.Env):
    """Observation (x, y, vx, vy) on a pond of 10 x 10 m, action: thrust in [-1, 1]^2."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place = np.array((options or {}).get("place", self.np_random.uniform(1, 9, 2)), float)
        self.velocity = np.zeros(2)
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        current = 0.15 * np.array([self.place[1] - 5, 5 - self.place[0]]) / 5  # clockwise
        self.velocity += DT * (2.0 * np.clip(action, -1, 1) + current - 0.5 * self.velocity)
        self.place += DT * self.velocity
        return self._observation(), 0.0, False, False, {}

    def _observation(self) -> np.ndarray:
        return np.concatenate([self.place, self.velocity]).astype(np.float32)


def log_trajectories(env: gymnasium.Env, episodes: int, length: int) -> Episodes:
    """Data from whatever drives it today: here, a pilot who steers to random buoys."""
    rng, parts = np.random.default_rng(0), []
    for number in range(episodes):
        state, _ = env.reset(seed=number)
        states, actions, buoy = [state], [], rng.uniform(0.5, 9.5, 2)
        for _ in range(length):
            if np.linalg.norm(buoy - state[:2]) < 0.5:
                buoy = rng.uniform(0.5, 9.5, 2)
            action = np.clip(buoy - state[:2] - state[2:] + 0.3 * rng.standard_normal(2), -1, 1)
            state, *_ = env.step(action)
            states.append(state)
            actions.append(action)
        parts.append((np.array(states), np.array(actions)))
    return Episodes.from_parts(parts)


def main() -> None:
    os.environ.setdefault("VHD_HOME", tempfile.mkdtemp())  # leaves your own cache alone
    data = log_trajectories(PondEnv(), episodes=30, length=400)
    spec = own_spec("pond", data, goal_dims=(0, 1), velocity_dims=(2, 3), control_dt=DT, T_max=128)
    save_dataset(Dataset(spec, data, "import"))

    # Train with the commands that you would type.
    quick = ["--warmup", "20", "--ema", "0.98", "--threads", "1", "--quiet"]
    vhd(["train", "planner", "pond", "--updates", "300", "--dim", "16", "--batch-size", "32", *quick])
    vhd(["train", "length", "pond", "--updates", "150", *quick])

    # Drive. Thrust is an acceleration, so a PD controller works; otherwise, write your own `Controller`.
    planner = vhdiffuser.load_planner("pond", source="trained")
    pilot = PDController(spec, PDConfig(position_gain=3.0, velocity_gain=2.0))
    hits, rng = 0, np.random.default_rng(1)
    for _ in range(5):
        start, goal = rng.uniform(1, 9, (2, 2))
        rollout = vhdiffuser.drive(planner, PondEnv(), goal, pilot, options={"place": start})
        hits += rollout.success
        print(f"from {start.round(1)}: {rollout}")
    print(f"{hits} of 5 reached")


if __name__ == "__main__":
    main()
