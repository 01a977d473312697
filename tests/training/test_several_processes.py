"""The loop on two processes: whatever their clocks and signals, they make the same updates and end together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from vhdiffuser.cli import run
from vhdiffuser.weights.format import load_model
from vhdiffuser.weights.places import run_folder

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("each_precision")]

# Each process writes what it ended with. An update takes a second on the first one's clock, 1.6 on the second's. Both
# leave without torch's own exit, whose threads aborted once on a busy machine; the command line's is tested below.
WORKER = f"""
    import json, os, sys, time
    sys.path.insert(0, {str(Path(__file__).parent)!r})
    from dataclasses import replace
    from pathlib import Path
    from test_loop import CONFIG, Interrupted, LineTask, train

    folder, minutes, signalled = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    rank, networks, updates, caught = os.environ["RANK"], [], [], 0

    class Watched(LineTask):
        def make_network(self):
            networks.append(super().make_network())
            return networks[-1]

        def loss(self, network, ema, generator, update):
            updates.append(update)
            return super().loss(network, ema, generator, update)

    time.monotonic = lambda: len(updates) * (1.6 if rank == "1" else 1.0)
    config = replace(CONFIG, updates=10**6, minutes=minutes) if minutes else CONFIG
    try:
        task = Watched(stop_at=7 if rank == signalled else None)
        train(lambda device: task, config, folder, lambda status: None)
    except Interrupted as stop:
        caught = stop.signal
    weights = [parameter.tolist() for parameter in networks[0].parameters()]
    end = dict(updates=updates[-1] + 1, signal=caught, weights=weights)
    (folder / f"end-{{rank}}.json").write_text(json.dumps(end))
    while not (folder / f"end-{{1 - int(rank)}}.json").exists():
        time.sleep(0.05)
    os._exit(0)
"""


def on_two(*arguments: str) -> str:
    """Stdout of a program that torchrun started twice; nobody is left behind should it hang."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(launch, env=environment, text=True, start_new_session=True, **pipes)
    try:
        printed, said = process.communicate(timeout=600)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said
    return printed


def ends(folder: Path, minutes: float = 0, signalled: str = "nobody") -> list[dict]:
    folder.mkdir()
    script = folder / "worker.py"
    script.write_text(textwrap.dedent(WORKER))
    on_two(str(script), str(folder), str(minutes), signalled)
    return [json.loads((folder / f"end-{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("signalled", ["0", "1"])
def test_a_signal_to_one_stops_all_at_one_update(tmp_path, signalled):
    first, second = ends(tmp_path / "run", signalled=signalled)
    assert first == second
    assert (first["updates"], first["signal"]) == (8, 15)
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_clocks_that_disagree_give_one_learning_rate_and_one_end(tmp_path):
    first, second = ends(tmp_path / "run", minutes=0.5)
    assert first == second
    assert first["updates"] == 30, "the first one's clock counts"
    assert first["signal"] == 0
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_the_command_line_on_two_speaks_once_and_begins_again_when_asked(vhd_home):
    assert run(["data", "get", "maze2d-umaze", "--source", "build", "--size", "2000", "--quiet"]) == 0
    folder = run_folder("maze2d-umaze", "pair")
    folder.mkdir(parents=True)
    (folder / "checkpoint.safetensors").write_bytes(b"torn")
    vhd = str(Path(sys.executable).with_name("vhd"))
    train = [vhd, "train", "length", "maze2d-umaze", "--name", "pair", "--restart", "--json", "--quiet"]
    loop = ["--updates", "3", "--log-every", "1", "--device", "cpu", "--threads", "1"]
    told = json.loads(on_two(*train, *loop))
    assert told["update"] == 3
    assert load_model(Path(told["model"]), "length")[1].updates == 3
