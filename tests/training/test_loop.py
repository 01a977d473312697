"""The loop on a task small enough to know the answer of: y = 3x - 1."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import nn

from vhdiffuser.errors import DataError, Interrupted, VhdError, VhdWarning
from vhdiffuser.files import sha256
from vhdiffuser.locks import exclusive
from vhdiffuser.threads import torch_threads
from vhdiffuser.torch_network import state_dict
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.training.loop import SNAPSHOTS, train
from vhdiffuser.training.optimizer import learning_rate
from vhdiffuser.weights.format import ModelHeader, load_model, read_tensors, save_model, save_tensors

pytestmark = pytest.mark.usefixtures("each_precision")


class LineTask:
    """Learns y = 3x - 1; counts its updates as a task with state of its own would."""

    def __init__(self, width: int = 8, steps: int = 5, stop_at: int | None = None, bad_at: int | None = None) -> None:
        self.width, self.steps, self.stop_at, self.bad_at, self.seen = width, steps, stop_at, bad_at, 0

    def make_network(self):
        return nn.Sequential(nn.Linear(1, self.width), nn.ReLU(), nn.Linear(self.width, 1))

    def loss(self, network, ema, generator, update):
        assert not any(parameter.requires_grad for parameter in ema.parameters())
        if update == self.stop_at:
            os.kill(os.getpid(), signal.SIGTERM)
        x = torch.randn(32, 1, generator=generator)
        loss = ((network(x) - (3 * x - 1)) ** 2).mean()
        return loss * float("nan") if update == self.bad_at else loss, {"batch_mean": x.mean()}

    def observe(self, scalars, update):
        self.seen += 1

    def state(self):
        return {"seen": self.seen}

    def load_state(self, state):
        self.seen = state["seen"]

    def header(self):
        return ModelHeader(
            "planner", {"name": "line"}, {"width": self.width}, {}, "fingerprint", planning={"steps": (self.steps,)}
        )


CONFIG = LoopConfig(updates=300, learning_rate=0.02, warmup=10, threads=1, log_every=10, device="cpu")


def run(folder: Path, config: LoopConfig = CONFIG, **task):
    made = LineTask(**task)
    path = train(lambda device: made, config, folder, lambda status: None)
    return load_model(path, "planner"), made


def test_it_learns_and_logs(tmp_path):
    statuses = []
    path = train(lambda device: LineTask(), CONFIG, tmp_path, statuses.append)
    tensors, header = load_model(path, "planner")
    network = LineTask().make_network()
    network.load_state_dict(state_dict(tensors))
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
    torch.testing.assert_close(state_dict(tensors), state_dict(learned), atol=1e-6, rtol=0)
    assert header.updates == 1
    assert header.notes["began_with"] == {"sha256": sha256(model)[:12], "updates": 300}
    path = train(lambda device: LineTask(), few, tmp_path / "again", lambda status: None, begin_with=path)
    again = load_model(path, "planner")[1]
    assert (again.updates, again.notes["began_with"]["updates"], again.updates_in_all) == (1, 301, 302)
    with pytest.raises(DataError, match="do not fit"):
        train(lambda device: LineTask(width=4), few, tmp_path / "third", lambda status: None, begin_with=model)


def test_same_seed_same_weights_other_seed_others(tmp_path):
    (one, _), _ = run(tmp_path / "a")
    (two, _), _ = run(tmp_path / "b")
    (other, _), _ = run(tmp_path / "c", LoopConfig(**{**CONFIG.__dict__, "seed": 1}))
    assert all(np.array_equal(one[key], two[key]) for key in one)
    assert not np.array_equal(one["0.weight"], other["0.weight"])


def test_sigterm_writes_a_checkpoint_and_the_next_run_ends_at_the_same_weights(tmp_path):
    (whole, _), _ = run(tmp_path / "whole")
    with pytest.raises(Interrupted, match="Run the same command to continue") as stop:
        run(tmp_path / "stopped", stop_at=123)
    assert stop.value.signal == signal.SIGTERM
    (resumed, header), task = run(tmp_path / "stopped")
    assert all(np.array_equal(whole[key], resumed[key]) for key in whole)
    assert task.seen == 300, "the task's own state went on too"
    assert header.updates == 300
    updates = [json.loads(line)["update"] for line in (tmp_path / "stopped/log.jsonl").read_text().splitlines()]
    assert updates == list(range(10, 301, 10)), "no line twice, none missing"


def test_a_checkpoint_of_version_0_2_goes_on_unless_its_data_was_averaged(tmp_path):
    (whole, _), _ = run(tmp_path / "whole")
    folder = tmp_path / "old"
    with pytest.raises(Interrupted):
        run(folder, stop_at=123)
    tensors, header = read_tensors(folder / "checkpoint.safetensors")
    for evening in (8.0, 0.0):
        header["identity"]["config"]["evening"] = evening
        save_tensors(folder / "checkpoint.safetensors", tensors, header)
        if evening:
            with pytest.raises(DataError, match=r"averages the data's states .*--restart"):
                run(folder)
    (resumed, _), _ = run(folder)
    assert all(np.array_equal(whole[key], resumed[key]) for key in whole)


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
    assert changed.planning["steps"] == [9]
    assert changed.notes == header.notes, "minutes and loss are of the training, and there was none"
    assert all(np.array_equal(tensors[key], same[key]) for key in tensors)
    for spoil in (Path.unlink, lambda path: path.write_bytes(b"torn")):
        spoil(tmp_path / "model.safetensors")
        (again, written), _ = run(tmp_path)
        assert written.updates == 300
        assert written.notes["minutes"] == header.notes["minutes"]
        assert all(np.array_equal(tensors[key], again[key]) for key in tensors)


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
    assert all(np.array_equal(whole[key], resumed[key]) for key in whole)


def test_damaged_and_foreign_checkpoints_are_refused(tmp_path):
    with pytest.raises(Interrupted):
        run(tmp_path, stop_at=20)
    path = tmp_path / "checkpoint.safetensors"
    good = path.read_bytes()
    with pytest.raises(DataError, match="config.width was 8, now 16"):
        run(tmp_path, width=16)
    with pytest.raises(DataError, match=r"loop.ema was 0.999, now 0.5.*--restart"):
        run(tmp_path, replace(CONFIG, ema=0.5))
    path.write_bytes(good[:100])
    with pytest.raises(DataError, match="damaged.*--restart"):
        run(tmp_path)
    for place in range(len(good) // 2, len(good), len(good) // 10):
        path.write_bytes(flipped(good, place))
        with pytest.raises(DataError, match="damaged.*--restart"):
            run(tmp_path)
    save_model(path, {"a": np.zeros(1)}, LineTask().header())
    with pytest.raises(DataError, match="not a checkpoint"):
        run(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"update": -(2**63)},
        {"seconds": -1.0},
        {"mini_batches": 2**31},
        {"identity": {"model": [1]}},
        {"identity": {"loop": 0.5}},
    ],
)
def test_a_checkpoint_whose_header_was_edited_and_signed_anew_is_refused(tmp_path, change):
    with pytest.raises(Interrupted):
        run(tmp_path, stop_at=20)
    path = tmp_path / "checkpoint.safetensors"
    tensors, header = read_tensors(path)
    if "identity" in change:
        change = {"identity": {**header["identity"], **change["identity"]}}
    save_tensors(path, tensors, {**header, **change})
    with pytest.raises(DataError, match=r"not a checkpoint \(.*--restart"):
        run(tmp_path)


@pytest.mark.parametrize("slot", ["step", "exp_avg"])
def test_moments_of_another_shape_are_refused(tmp_path, slot):
    """As the campaign's checkpoint 68: a step count of a parameter's shape, signed anew."""
    with pytest.raises(Interrupted):
        run(tmp_path, stop_at=20)
    path = tmp_path / "checkpoint.safetensors"
    tensors, header = read_tensors(path)
    key = next(key for key in tensors if key.startswith("optimizer.") and key.endswith(f".{slot}"))
    other = tensors[key.replace(".step", ".exp_avg")] if slot == "step" else np.array(0.0, np.float32)
    save_tensors(path, {**tensors, key: other}, header)
    with pytest.raises(DataError, match=rf"does not fit .*optimiser's {slot} of parameter \d+ has shape"):
        run(tmp_path)


def test_a_damaged_checkpoint_falls_back_to_the_one_before_and_says_so(tmp_path):
    (whole, _), _ = run(tmp_path / "whole")
    folder = tmp_path / "run"
    for stop in (20, 40):
        with pytest.raises(Interrupted):
            run(folder, stop_at=stop)
    last, before = folder / "checkpoint.safetensors", folder / "checkpoint-before.safetensors"
    good = last.read_bytes()
    last.write_bytes(flipped(good, len(good) - 9))
    with pytest.warns(VhdWarning, match=r"damaged.*resumes from the previous checkpoint, update \d+"):
        (tensors, _), made = run(folder)
    assert made.seen == 300
    assert all(np.array_equal(tensors[key], whole[key]) for key in whole), "the same weights all the same"
    last.write_bytes(good[:50])
    before.write_bytes(good[:60])
    with pytest.raises(DataError, match=r"The previous checkpoint, .* is damaged as well.*--restart"):
        run(folder, replace(CONFIG, updates=301))
    last.unlink()
    before.write_bytes(good)
    with pytest.warns(VhdWarning, match="missing"):
        run(folder)


def test_a_restarted_run_does_not_fall_back_to_the_old_one(tmp_path):
    run(tmp_path)
    train(lambda device: LineTask(width=4), CONFIG, tmp_path, lambda status: None, restart=True)
    before = tmp_path / "checkpoint-before.safetensors"
    assert not before.exists() or read_tensors(before)[1]["identity"]["config"]["width"] == 4


def test_an_exploding_loss_stops_with_the_last_good_checkpoint(tmp_path):
    class Exploding(LineTask):
        def loss(self, network, ema, generator, update):
            loss, scalars = super().loss(network, ema, generator, update)
            return (loss * 1e9 if update >= 60 else loss), scalars

    with pytest.raises(Interrupted):
        run(tmp_path, stop_at=50)
    before = (tmp_path / "checkpoint.safetensors").read_bytes()
    with pytest.raises(VhdError, match=r"training diverged.*The checkpoint of update \d+"):
        train(lambda device: Exploding(), CONFIG, tmp_path, lambda status: None)
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before


def test_one_training_at_a_time_in_a_folder_and_no_lock_afterwards(tmp_path):
    with exclusive(tmp_path, "training in it"), pytest.raises(DataError, match="another process .* is training in it"):
        run(tmp_path)
    run(tmp_path)
    assert not (tmp_path / ".lock").exists()


def flipped(content: bytes, place: int) -> bytes:
    """One bit changed."""
    return content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :]


def test_what_diverged_is_not_saved_and_the_advice_works(tmp_path):
    with pytest.raises(VhdError, match=r"the loss is nan at update 40.*No checkpoint has been written.*lower --learn"):
        run(tmp_path, bad_at=39)
    assert not list(tmp_path.glob("*.safetensors"))
    with pytest.raises(Interrupted):
        run(tmp_path, stop_at=20)
    with pytest.raises(VhdError, match=r"The checkpoint of update 21 in .* is finite: run the same command"):
        run(tmp_path, bad_at=39)
    (tensors, header), _ = run(tmp_path, replace(CONFIG, learning_rate=0.005, precision="fp32"))
    assert header.updates == 300
    assert all(np.isfinite(value).all() for value in tensors.values())


@pytest.mark.parametrize("change", [{"updates": 35}, {"updates": 10**6, "minutes": 0.01}, {"checkpoint_minutes": 0.0}])
def test_a_rate_beyond_reason_ends_in_an_error_and_leaves_no_model(tmp_path, change):
    """Whether the loss is looked at by the log, at the end, or only when a checkpoint is due."""
    with pytest.raises(VhdError, match="training diverged"):
        run(tmp_path, replace(CONFIG, learning_rate=1e30, log_every=10**9, **change))
    assert not (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ema", float("nan")),
        ("ema", 1.5),
        ("learning_rate", -1.0),
        ("learning_rate", float("inf")),
        ("updates", 0),
        ("minutes", 0.0),
        ("threads", 0),
        ("clip", -1.0),
        ("accumulate", 0),
        ("seed", -1),
        ("log_every", 0),
    ],
)
def test_settings_that_cannot_train_are_refused(name, value):
    with pytest.raises(VhdError, match=f"{name} must be"):
        replace(CONFIG, **{name: value})


@pytest.mark.slow
def test_precisions_and_threads_can_change_within_a_process(tmp_path):
    """accelerate's state is one per process; a training must neither need it nor leave torch changed."""
    before = torch.get_num_threads()
    for number, precision in enumerate(("fp32", "bf16", "auto", "fp32")):
        (tensors, _), _ = run(tmp_path / str(number), replace(CONFIG, precision=precision, threads=number + 1))
        network = LineTask().make_network()
        network.load_state_dict(state_dict(tensors))
        x = torch.linspace(-1, 1, 9)[:, None]
        torch.testing.assert_close(network(x), 3 * x - 1, atol=0.1, rtol=0)
    assert torch.get_num_threads() == before


def test_choosing_the_number_of_threads_changes_no_update(tmp_path, monkeypatch):
    tried = []

    def choose(compute):
        tried.extend(map(compute, range(3)))
        return torch.get_num_threads()

    config = replace(CONFIG, updates=20)
    (fixed, _), _ = run(tmp_path / "fixed", config)
    monkeypatch.setattr("vhdiffuser.training.loop.use_faster_threads", choose)
    with torch_threads(1):
        (chosen, _), _ = run(tmp_path / "chosen", replace(config, threads=None))
    assert len(tried) == 3
    for name, tensor in fixed.items():
        np.testing.assert_array_equal(chosen[name], tensor)


def test_bf16_multiplies_in_bf16_and_answers_in_fp32(tmp_path, each_precision):
    inside, outside = [], []

    class Looked(LineTask):
        def make_network(self):
            network = super().make_network()
            network[0].register_forward_hook(lambda module, inputs, answer: inside.append(answer.dtype))
            return network

        def loss(self, network, ema, generator, update):
            outside.extend([network(torch.ones(1, 1)).dtype, ema(torch.ones(1, 1)).dtype])
            return super().loss(network, ema, generator, update)

    train(lambda device: Looked(), replace(CONFIG, updates=1), tmp_path, lambda status: None)
    assert set(inside) == {torch.bfloat16 if each_precision == "bf16" else torch.float32}
    assert set(outside) == {torch.float32}


def test_restart_keeps_the_old_run_until_the_new_one_has_a_checkpoint(tmp_path):
    run(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    names = ("model.safetensors", "checkpoint.safetensors", "log.jsonl")
    before = {name: (tmp_path / name).read_bytes() for name in names}

    def again(config: LoopConfig, **task):
        train(lambda device: LineTask(**task), config, tmp_path, lambda status: None, restart=True)

    for config, task in (
        (replace(CONFIG, device="warp9"), {}),
        (CONFIG, {"bad_at": 9}),
        (replace(CONFIG, learning_rate=1e30, updates=100), {}),
    ):
        with pytest.raises(VhdError):
            again(config, **task)
        assert {name: (tmp_path / name).read_bytes() for name in names} == before
    with pytest.raises(Interrupted):
        again(replace(CONFIG, seed=1), stop_at=14)
    assert not (tmp_path / "model.safetensors").exists()
    assert [json.loads(line)["update"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [10]
    run(tmp_path, replace(CONFIG, seed=1))  # goes on with the new run
    (fresh, _), _ = run(tmp_path / "fresh", replace(CONFIG, seed=1))
    (tensors, _), _ = run(tmp_path, replace(CONFIG, seed=1))
    assert all(np.array_equal(fresh[key], tensors[key]) for key in fresh)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_two_accumulated_batches_are_the_mean_of_their_gradients(tmp_path):
    """One update of plain descent, by hand: the mean of both batches' gradients, not clipped."""
    gradients = []

    class Whole(LineTask):
        def loss(self, network, ema, generator, update):
            loss, scalars = super().loss(network, ema, generator, update)
            gradients.append(torch.autograd.grad(loss, list(network.parameters()), retain_graph=True))
            return loss, scalars

    config = replace(CONFIG, updates=1, accumulate=2, clip=None, warmup=0, ema=0.0, weight_decay=0.0)
    seen = {}
    made = Whole()
    make = made.make_network

    def remembered():
        network = make()
        seen.setdefault("network", network)
        return network

    made.make_network = remembered
    train(lambda device: made, config, tmp_path, lambda status: None)
    mean = [(one + two) / 2 for one, two in zip(*gradients, strict=True)]
    assert len(gradients) == 2
    for weight, gradient in zip(seen["network"].parameters(), mean, strict=True):
        torch.testing.assert_close(weight.grad, gradient)


def test_the_average_waits_and_then_takes_every_tenth_update(tmp_path):
    def averages(updates: int) -> torch.Tensor:
        config = replace(CONFIG, updates=updates, ema=0.5, ema_every=10, ema_from=20, final_rate=1.0)
        (tensors, _), _ = run(tmp_path / str(updates), config)
        return tensors["0.weight"]

    def networks(updates: int) -> torch.Tensor:
        (tensors, _), _ = run(tmp_path / f"n{updates}", replace(CONFIG, updates=updates, ema=0.0, final_rate=1.0))
        return tensors["0.weight"]

    # Steps are made at updates 0, 10, 20, ...: the first two copy the network, the third averages.
    torch.testing.assert_close(averages(15), networks(11))
    torch.testing.assert_close(averages(25), 0.5 * networks(11) + 0.5 * networks(21))


def test_snapshots_are_the_models_of_shorter_runs(tmp_path):
    config = replace(CONFIG, updates=25, final_rate=1.0, snapshot_every=10)
    run(tmp_path / "long", config)
    snapshots = sorted((tmp_path / "long" / SNAPSHOTS).glob("*"))
    assert [path.name for path in snapshots] == ["00000010.safetensors", "00000020.safetensors"]
    for path, updates in zip(snapshots, (10, 20), strict=True):
        (expected, _), _ = run(tmp_path / str(updates), replace(config, updates=updates, snapshot_every=None))
        tensors, header = load_model(path, "planner")
        assert (header.updates, header.notes["loop"]["snapshot_every"]) == (updates, 10)
        assert all(np.array_equal(tensors[key], expected[key]) for key in expected)


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
    with pytest.raises(VhdError, match=r"device 'warp9' is not available.*auto or cpu"):
        run(tmp_path, LoopConfig(**{**CONFIG.__dict__, "device": "warp9"}))


def test_model_files_refuse_the_wrong_kind_and_damage(tmp_path):
    path = tmp_path / "m.safetensors"
    save_model(path, {"a": np.ones(2, np.float16)}, LineTask().header())
    tensors, header = load_model(path, "planner")
    assert tensors["a"].dtype == np.float32
    assert (header.config, header.planning) == ({"width": 8}, {"steps": [5]}), "a tuple comes back as a list"
    with pytest.raises(DataError, match="contains a planner model, but a length model"):
        load_model(path, "length")
    with pytest.raises(DataError, match="no such model file"):
        load_model(tmp_path / "none", "planner")
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(DataError, match="damaged"):
        load_model(path, "planner")


def test_the_same_model_is_the_same_file(tmp_path):
    tensors = {name: np.full(3, number, np.float32) for number, name in enumerate("zyxabc")}
    for number in range(20):
        save_model(tmp_path / f"{number}", tensors, LineTask().header())
    assert len({(tmp_path / f"{number}").read_bytes() for number in range(20)}) == 1


def test_every_flipped_bit_of_a_model_is_noticed(tmp_path):
    path = tmp_path / "m.safetensors"
    save_model(path, {"a": np.arange(40.0), "n": np.array(3)}, LineTask().header())
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(flipped(good, place))
        with pytest.raises(DataError):
            load_model(path, "planner")


def test_models_of_the_first_release_load_and_what_is_not_finite_never(tmp_path):
    path, header = tmp_path / "m.safetensors", LineTask().header()
    with pytest.raises(DataError, match="'a' contains NaN or infinity"):
        save_model(path, {"a": np.array([1.0, np.inf])}, header)
    assert not path.exists()
    text = json.dumps({"format": 1, **asdict(header)})
    for values, sound in ((np.ones(2), True), (np.array([np.nan]), False)):
        save_file({"a": values}, path, metadata={"vhdiffuser": text})
        if sound:
            assert np.array_equal(load_model(path, "planner")[0]["a"], values)
        else:
            with pytest.raises(DataError, match="NaN or infinity.*again"):
                load_model(path, "planner")
