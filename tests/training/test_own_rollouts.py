"""Rounds of an inverse dynamics model on states that it visited itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_point import SPEC, SPEED, ToyEnv

from vhdiffuser.data.store import Dataset
from vhdiffuser.envs.environment import Environment
from vhdiffuser.recipes import train as trainings
from vhdiffuser.recipes.own_rollouts import own_rollouts
from vhdiffuser.recipes.recipe import get_recipe
from vhdiffuser.recipes.train import train_dynamics
from vhdiffuser.types import Episodes, Instance
from vhdiffuser.weights.format import load_model


def restore(env: ToyEnv, observation: np.ndarray, goal: np.ndarray) -> np.ndarray:
    return env.reset(Instance(observation, goal, 0))


def make_teacher():  # type: ignore[no-untyped-def]
    return lambda body, direction: SPEED * direction


ENVIRONMENT = Environment(
    replace(SPEC, name="taught"), simulator=ToyEnv, restore=restore, teacher=make_teacher, window_steps=8, simulators=8
)


@pytest.fixture
def dataset() -> Dataset:
    rng = np.random.default_rng(0)
    steps = SPEED * rng.uniform(-1, 1, (20, 60, 2))
    walks = np.concatenate([rng.uniform(0, 1, (20, 1, 2)), steps], axis=1).cumsum(axis=1).astype(np.float32)
    parts = [(walk, np.diff(walk, axis=0)) for walk in walks]
    return Dataset(ENVIRONMENT.spec, Episodes.from_parts(parts), "build")


@pytest.mark.slow
def test_every_round_trains_on_what_the_round_before_visited(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VHD_HOME", str(tmp_path))
    monkeypatch.setattr(trainings, "environment_of", lambda spec: ENVIRONMENT)
    recipe = get_recipe(ENVIRONMENT).changed(
        dynamics={"hidden": 16, "teacher_ahead": 4, "foreign": 0.5, "rounds": 2, "rollouts": 8, "batch_size": 64},
        dynamics_loop={"updates": 20},
    )
    path = train_dynamics(dataset, recipe)
    assert path == tmp_path / "runs" / "taught" / "dynamics" / "model.safetensors"
    rounds = [path.parent / f"round-{number}" / "model.safetensors" for number in range(3)]
    assert path.read_bytes() == rounds[2].read_bytes()
    assert rounds[1].read_bytes() != rounds[0].read_bytes()
    assert load_model(path, "dynamics")[1].config["rounds"] == 2
    before = path.stat().st_mtime_ns
    assert train_dynamics(dataset, recipe) == path, "a finished training is left as it is"
    assert path.stat().st_mtime_ns == before
    own = own_rollouts(path, ENVIRONMENT, dataset.episodes, 1, 8)
    assert len(own) == 8
    assert own.observations.shape == (8 * 25, 2)
    again = own_rollouts(path, ENVIRONMENT, dataset.episodes, 1, 8)
    np.testing.assert_array_equal(own.observations, again.observations)
