"""Processes share the mini-batches of an update: the same curve on one as on two, also after one of them was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_loop import CONFIG, LineTask

from vhdiffuser.errors import VhdError
from vhdiffuser.training.loop import train
from vhdiffuser.training.precision import PRECISION_VARIABLE
from vhdiffuser.weights.format import load_model, read_tensors

SHORT = replace(CONFIG, updates=36, log_every=1, checkpoint_minutes=0.0)
WORKER = f"""
    import os, signal, sys
    sys.path.insert(0, {str(Path(__file__).parent)!r})
    from pathlib import Path
    from test_loop import LineTask, train
    from test_shared_updates import SHORT
    from vhdiffuser.errors import Interrupted, VhdError

    folder, end, at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

    class Ending(LineTask):
        def loss(self, network, ema, generator, update):
            if update == at and os.environ["RANK"] == "1":
                os.kill(os.getpid(), getattr(signal, end))
            return super().loss(network, ema, generator, update)

    try:
        train(lambda device: Ending(), SHORT, folder, lambda status: None)
    except (Interrupted, VhdError) as error:
        print(f"told: {{error}}", flush=True)
        sys.exit(1)
"""


def on_two(script: Path, *arguments: str) -> str:
    """What two processes print until their second one ends itself; nobody is left behind should they hang."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen([*launch, *arguments], env=environment, text=True, start_new_session=True, **pipes)
    try:
        printed, _ = process.communicate(timeout=300)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode != 0
    return printed


def curve(folder: Path) -> tuple[list[int], torch.Tensor, torch.Tensor]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    means = torch.tensor([line["batch_mean"] for line in lines])
    return [line["update"] for line in lines], torch.tensor([line["loss"] for line in lines]), means


@pytest.mark.slow
def test_two_processes_one_killed_one_stopped_and_one_alone_make_the_updates_of_one(tmp_path, monkeypatch):
    monkeypatch.setenv(PRECISION_VARIABLE, "fp32")
    alone = tmp_path / "alone"
    train(lambda device: LineTask(), replace(SHORT, accumulate=2), alone, lambda status: None)

    shared, script = tmp_path / "shared", tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER))
    told = on_two(script, str(shared), "SIGKILL", "12")
    assert "told: another process of this training ended" in told
    assert "run the same command to continue" in told.replace("\n", " ")
    assert read_tensors(shared / "checkpoint.safetensors")[1]["update"] == 12
    told = on_two(script, str(shared), "SIGTERM", "24")
    assert "stopped at update 25" in told, "it went on, and a signal to one stopped both"
    # One process goes on, with both mini-batches of each update.
    path = train(lambda device: LineTask(), SHORT, shared, lambda status: None)

    updates, losses, means = curve(shared)
    expected = curve(alone)
    assert updates == expected[0] == list(range(1, 37))
    torch.testing.assert_close(losses, expected[1], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(means, expected[2], rtol=1e-4, atol=1e-6)  # the same mini-batches
    for name, value in load_model(path, "planner")[0].items():
        torch.testing.assert_close(value, load_model(alone / "model.safetensors", "planner")[0][name])


def test_more_processes_than_mini_batches_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(PRECISION_VARIABLE, "fp32")
    train(lambda device: LineTask(), replace(SHORT, updates=1), tmp_path, lambda status: None)
    monkeypatch.setattr("vhdiffuser.training.loop.Processes", lambda device: Four(device))
    with pytest.raises(VhdError, match="has 1 mini-batches, which 4 processes cannot share"):
        train(lambda device: LineTask(), SHORT, tmp_path, lambda status: None)


class Four:
    """Four processes, of which this is the first."""

    def __init__(self, device):
        self.device, self.count, self.index, self.first = device, 4, 0, True
