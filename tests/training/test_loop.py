"""The loop on a task small enough to know the answer of: y = 3x - 1."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from vhdiffuser.errors import DataError, Interrupted, VhdError
from vhdiffuser.files import sha256
from vhdiffuser.modelfile import ModelHeader, load_model, save_model
from vhdiffuser.training.loop import LoopConfig, learning_rate, train


class LineTask:
    """Learns y = 3x - 1; counts its updates as a task with state of its own would."""

    def __init__(self, width: int = 8, steps: int = 5, stop_at: int | None = None, bad_at: int | None = None) -> None:
        self.width, self.steps, self.stop_at, self.bad_at, self.seen = width, steps, stop_at, bad_at, 0

    def make_network(self):
        return nn.Sequential(nn.Linear(1, self.width), nn.ReLU(), nn.Linear(self.width, 1))

    def loss(self, network, ema, generator, update):
        assert not any(parameter.requires_grad for parameter in ema.parameters())
        self.seen += 1
        if update == self.stop_at:
            os.kill(os.getpid(), signal.SIGTERM)
        x = torch.randn(32, 1, generator=generator)
        loss = ((network(x) - (3 * x - 1)) ** 2).mean()
        return loss * float("nan") if update == self.bad_at else loss, {"batch_mean": x.mean()}

    def state(self):
        return {"seen": self.seen}

    def load_state(self, state):
        self.seen = state["seen"]

    def header(self):
        return ModelHeader(
            "planner", {"name": "line"}, {"width": self.width, "steps": (self.steps,)}, {}, "fingerprint"
        )


CONFIG = LoopConfig(updates=300, learning_rate=0.02, warmup=10, threads=1, log_every=10, precision="fp32", device="cpu")


def run(folder: Path, config: LoopConfig = CONFIG, **task):
    made = LineTask(**task)
    path = train(lambda device: made, config, folder, lambda status: None)
    return load_model(path, "planner"), made


def test_it_learns_and_logs(tmp_path):
    statuses = []
    path = train(lambda device: LineTask(), CONFIG, tmp_path, statuses.append)
    tensors, header = load_model(path, "planner")
    network = LineTask().make_network()
    network.load_state_dict(tensors)
    x = torch.linspace(-1, 1, 9)[:, None]
    torch.testing.assert_close(network(x), 3 * x - 1, atol=0.1, rtol=0)
    assert header.updates == 300
    assert header.notes["loop"]["learning_rate"] == 0.02
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines] == list(range(10, 301, 10))
    assert {"loss", "gradient_norm", "batch_mean", "learning_rate", "seconds"} <= lines[0].keys()
    assert lines[-1]["loss"] < lines[0]["loss"] / 20
    assert statuses[-1].update == 300
    assert list((tmp_path / "tensorboard").iterdir())


def test_fine_tuning_begins_where_the_model_ended(tmp_path):
    (learned, _), _ = run(tmp_path / "first")
    model = tmp_path / "first" / "model.safetensors"
    few = replace(CONFIG, updates=1, learning_rate=1e-9)
    path = train(lambda device: LineTask(), few, tmp_path / "second", lambda status: None, begin_with=model)
    tensors, header = load_model(path, "planner")
    torch.testing.assert_close(tensors, learned, atol=1e-6, rtol=0)
    assert header.updates == 1
    assert header.notes["began_with"] == sha256(model)[:12]
    with pytest.raises(DataError, match="do not fit"):
        train(lambda device: LineTask(width=4), few, tmp_path / "third", lambda status: None, begin_with=model)


def test_same_seed_same_weights_other_seed_others(tmp_path):
    (one, _), _ = run(tmp_path / "a")
    (two, _), _ = run(tmp_path / "b")
    (other, _), _ = run(tmp_path / "c", LoopConfig(**{**CONFIG.__dict__, "seed": 1}))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert not torch.equal(one["0.weight"], other["0.weight"])


def test_sigterm_writes_a_checkpoint_and_the_next_run_ends_at_the_same_weights(tmp_path):
    (whole, _), _ = run(tmp_path / "whole")
    with pytest.raises(Interrupted, match="Run the same command to go on") as stop:
        run(tmp_path / "stopped", stop_at=123)
    assert stop.value.signal == signal.SIGTERM
    (resumed, header), task = run(tmp_path / "stopped")
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)
    assert task.seen == 300, "the task's own state went on too"
    assert header.updates == 300
    updates = [json.loads(line)["update"] for line in (tmp_path / "stopped/log.jsonl").read_text().splitlines()]
    assert updates == list(range(10, 301, 10)), "no line twice, none missing"


def test_a_finished_run_is_left_alone_to_the_byte(tmp_path):
    run(tmp_path)
    names = ("model.safetensors", "checkpoint.safetensors", "log.jsonl")
    before = {name: (tmp_path / name).read_bytes() for name in names}
    run(tmp_path)
    run(tmp_path, LoopConfig(**{**CONFIG.__dict__, "updates": 100, "minutes": 1.0, "log_every": 7}))
    assert {name: (tmp_path / name).read_bytes() for name in names} == before


def test_a_finished_run_gets_a_new_header_when_it_would_differ_and_its_model_when_it_is_gone(tmp_path):
    (tensors, header), _ = run(tmp_path)
    (same, changed), _ = run(tmp_path, steps=9)  # how to plan, not how to train
    assert changed.config["steps"] == [9]
    assert changed.notes == header.notes, "minutes and loss are of the training, and there was none"
    assert all(torch.equal(tensors[key], same[key]) for key in tensors)
    for spoil in (Path.unlink, lambda path: path.write_bytes(b"torn")):
        spoil(tmp_path / "model.safetensors")
        (again, written), _ = run(tmp_path)
        assert written.updates == 300
        assert written.notes["minutes"] == header.notes["minutes"]
        assert all(torch.equal(tensors[key], again[key]) for key in tensors)


@pytest.mark.slow
def test_kill_minus_nine_resumes_to_the_same_weights(tmp_path):
    (whole, _), _ = run(tmp_path / "whole")
    script = textwrap.dedent(
        f"""
        import os, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        from test_loop import CONFIG, LineTask, LoopConfig, train
        config = LoopConfig(**{{**CONFIG.__dict__, "checkpoint_minutes": 0.0}})
        def die(status):
            if status.update >= 150:
                os.kill(os.getpid(), 9)
        train(lambda device: LineTask(), config, Path({str(tmp_path / "killed")!r}), die)
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    (resumed, _), _ = run(tmp_path / "killed")
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)


def test_damaged_and_foreign_checkpoints_are_refused(tmp_path):
    with pytest.raises(Interrupted):
        run(tmp_path, stop_at=20)
    path = tmp_path / "checkpoint.safetensors"
    good = path.read_bytes()
    with pytest.raises(DataError, match="config.width was 8, now 16"):
        run(tmp_path, width=16)
    with pytest.raises(DataError, match=r"loop.learning_rate was 0.02, now 0.5.*--restart"):
        run(tmp_path, LoopConfig(**{**CONFIG.__dict__, "learning_rate": 0.5}))
    path.write_bytes(good[:100])
    with pytest.raises(DataError, match="damaged"):
        run(tmp_path)
    save_model(path, {"a": torch.zeros(1)}, LineTask().header())
    with pytest.raises(DataError, match="not a checkpoint"):
        run(tmp_path)


def test_a_loss_that_is_no_number_stops_with_advice(tmp_path):
    with pytest.raises(VhdError, match=r"loss became nan at update .* lower --learning-rate"):
        run(tmp_path, bad_at=39)
    assert not (tmp_path / "model.safetensors").exists()


def test_a_budget_in_minutes_ends_early_and_the_rate_has_decayed_by_then(tmp_path, monkeypatch):
    """On a clock on which an update takes a second."""
    now = [0.0]

    class SlowTask(LineTask):
        def loss(self, *values):
            now[0] += 1.0
            return super().loss(*values)

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    config = replace(CONFIG, updates=10**7, minutes=0.5, log_every=1)
    path = train(lambda device: SlowTask(), config, tmp_path, lambda status: None)
    assert load_model(path, "planner")[1].updates == 30
    rates = [json.loads(line)["learning_rate"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert rates == pytest.approx([learning_rate(config, update, update / 30) for update in range(30)])
    assert rates[-1] < 0.07 * config.learning_rate


def test_learning_rate_warms_up_and_decays():
    config = LoopConfig(updates=1000, learning_rate=1.0, warmup=100, final_rate=0.1)
    assert learning_rate(config, 0, 0.0) == pytest.approx(0.01)
    assert learning_rate(config, 99, 0.0) == pytest.approx(1.0)
    assert learning_rate(config, 500, 0.5) == pytest.approx(0.55)
    assert learning_rate(config, 1000, 1.0) == pytest.approx(0.1)


def test_unusable_device_is_said(tmp_path):
    with pytest.raises(VhdError, match=r"device 'warp9' cannot be used.*auto or cpu"):
        run(tmp_path, LoopConfig(**{**CONFIG.__dict__, "device": "warp9"}))


def test_model_files_refuse_the_wrong_kind_and_damage(tmp_path):
    path = tmp_path / "m.safetensors"
    save_model(path, {"a": torch.ones(2, dtype=torch.float16)}, LineTask().header())
    tensors, header = load_model(path, "planner")
    assert tensors["a"].dtype == torch.float32
    assert header.config == {"width": 8, "steps": [5]}, "a tuple comes back as a list"
    with pytest.raises(DataError, match="holds a planner model, but a length model"):
        load_model(path, "length")
    with pytest.raises(DataError, match="no such model file"):
        load_model(tmp_path / "none", "planner")
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(DataError, match="damaged"):
        load_model(path, "planner")
