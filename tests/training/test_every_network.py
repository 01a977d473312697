"""Planner, Length Predictor and inverse dynamics on the real loop: both precisions in turn, in one process."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from plane_toys import plane

from vhdiffuser.control.dynamics_task import DynamicsTask
from vhdiffuser.control.inverse_dynamics import DynamicsConfig
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.task import PlannerTask
from vhdiffuser.errors import DataError
from vhdiffuser.length.config import LengthConfig, RelayGraphConfig
from vhdiffuser.length.task import LengthTask
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.training.loop import Status, train
from vhdiffuser.types import Episodes
from vhdiffuser.weights.format import load_model, read_tensors, save_tensors

SPEC = plane("glider", T_max=32)


@pytest.fixture(scope="module")
def glides() -> Episodes:
    """A body pushed about by smooth random forces: 12 episodes of 80 states."""
    rng, parts = np.random.default_rng(0), []
    for _ in range(12):
        force = np.cumsum(rng.normal(0, 0.3, (79, 2)), axis=0).clip(-1, 1)
        velocity = np.concatenate([np.zeros((1, 2)), np.cumsum(force * 0.1, axis=0)])
        place = np.concatenate([rng.uniform(-1, 1, (1, 2)), np.zeros((79, 2))])
        place[1:] = place[0] + np.cumsum(velocity[1:] * 0.1, axis=0)
        parts.append((np.concatenate([place, velocity], axis=1).astype(np.float32), force.astype(np.float32)))
    return Episodes.from_parts(parts)


def make(kind: str, glides: Episodes):
    normalizer = Normalizer.fit(glides.observations)
    if kind == "planner":
        config = PlannerConfig(dim=8, dim_mults=(1, 2), stride=2, batch_size=16)
        return lambda device: PlannerTask(glides, SPEC, config, normalizer, "toy", device)
    if kind == "length":
        config = replace(LengthConfig(), batch=64, relay_graph=None)
        config = replace(config, expansion=replace(config.expansion, graph=False))
        config = replace(config, strengthening=replace(config.strengthening, graph=False))
        return lambda device: LengthTask(glides, SPEC, config, normalizer, "toy", device)
    config = DynamicsConfig(hidden=32, layers=2, ahead=(1, 4), batch_size=64)
    return lambda device: DynamicsTask(glides, SPEC, config, normalizer, "toy", device)


def losses(kind: str, glides: Episodes, folder: Path, precision: str) -> list[float]:
    told: list[Status] = []
    loop = LoopConfig(updates=120, learning_rate=2e-3, warmup=10, threads=1, log_every=1, device="cpu")
    path = train(make(kind, glides), replace(loop, precision=precision), folder, told.append)
    assert path.is_file()
    return [status.metrics["loss"] for status in told]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["planner", "length", "dynamics"])
def test_both_precisions_learn_alike_in_one_process(kind: str, glides: Episodes, tmp_path: Path) -> None:
    fp32 = losses(kind, glides, tmp_path / "fp32", "fp32")
    bf16 = losses(kind, glides, tmp_path / "bf16", "bf16")
    again = losses(kind, glides, tmp_path / "again", "fp32")
    assert fp32 == again, "a training in another precision leaves nothing behind"
    assert np.mean(fp32[-20:]) < 0.8 * np.mean(fp32[:3])
    assert fp32 != bf16
    # The first updates are the same but for rounding: bf16 has 8 bits.
    assert bf16[0] == pytest.approx(fp32[0], rel=0.05)
    assert np.mean(bf16[-20:]) == pytest.approx(np.mean(fp32[-20:]), rel=0.15)


def test_a_length_checkpoint_of_version_0_2_goes_on(glides: Episodes, tmp_path: Path) -> None:
    """It calls quantiles `levels`; what it was trained with must still be what is asked for."""
    normalizer = Normalizer.fit(glides.observations)
    loop = LoopConfig(updates=6, warmup=1, threads=1, device="cpu", precision="fp32")

    def go_on(folder: Path, updates: int, quantile: float = 0.15) -> dict[str, np.ndarray]:
        config = replace(LengthConfig(), batch=16, relay_graph=RelayGraphConfig(landmarks=20, quantile=quantile))
        task = partial(LengthTask, glides, SPEC, config, normalizer, "toy")
        return load_model(train(task, replace(loop, updates=updates), folder, lambda status: None), "length")[0]

    go_on(tmp_path / "new", 6)
    shutil.copytree(tmp_path / "new", tmp_path / "old")
    path = tmp_path / "old" / "checkpoint.safetensors"
    tensors, header = read_tensors(path)
    config = header["identity"]["config"]
    config["levels"] = config.pop("quantiles")
    config["relay_graph"]["level"] = config["relay_graph"].pop("quantile")
    save_tensors(path, tensors, header)
    with pytest.raises(DataError, match="config.relay_graph was"):
        go_on(tmp_path / "old", 9, quantile=0.5)
    new, old = go_on(tmp_path / "new", 9), go_on(tmp_path / "old", 9)
    assert all(np.array_equal(new[key], old[key]) for key in new)


def test_auto_follows_the_variable_and_then_the_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    from vhdiffuser.errors import UnknownNameError
    from vhdiffuser.training.precision import PRECISION_VARIABLE, pick_precision

    cpu = torch.device("cpu")
    for native, expected in ((True, "bf16"), (False, "fp32")):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda native=native: native)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
        monkeypatch.delenv(PRECISION_VARIABLE, raising=False)
        assert pick_precision("auto", cpu) == expected
        for forced in ("fp32", "bf16"):
            monkeypatch.setenv(PRECISION_VARIABLE, forced)
            assert pick_precision("auto", cpu) == forced
            assert pick_precision("fp32", cpu) == "fp32", "an explicit choice wins"
    monkeypatch.setenv(PRECISION_VARIABLE, "fp8")
    with pytest.raises(UnknownNameError, match="unknown precision 'fp8'. Known: auto, fp32, bf16"):
        pick_precision("auto", cpu)
