"""`vhd serve` as a process: its address, the client example against it, its end; and wrong ports."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vhdiffuser.cli import run

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background of a shell inherit "ignore"
sys.path.insert(0, "tests/web")
from web_toys import toy_library
from vhdiffuser.web.library import Library
Library.of_weights = classmethod(lambda cls, source: toy_library())
from vhdiffuser.cli import main
sys.argv[1:1] = ["serve", "--port", "0", "--no-browser"]
main()
"""


@contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command as a process, and the first line that it prints."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", PROGRAM, *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def served() -> Iterator[tuple[subprocess.Popen[str], str]]:
    with serving() as (process, line):
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found is not None
        yield process, found[0]


@pytest.mark.slow
def test_it_serves_the_page_and_the_client_example_and_ends_on_ctrl_c(served):
    process, address = served
    with urllib.request.urlopen(address, timeout=60) as answer:
        assert b"VH&#8209;Diffuser" in answer.read()
    client = [sys.executable, str(ROOT / "examples/api_client.py"), address]
    told = subprocess.run(client, capture_output=True, text=True, timeout=120, check=True).stdout
    assert [line.split()[0] for line in told.splitlines()] == ["maze2d-umaze:", "horizon", "plan", "execution"]
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert (process.returncode, said) == (130, "vhd: the server has stopped.\n")


@pytest.mark.slow
def test_one_line_of_json_when_it_listens():
    with serving("--json", "--quiet") as (_, line):
        told = json.loads(line)
        assert told["models"] == ["maze2d-umaze"]  # the toy library has a large maze without weights
        with urllib.request.urlopen(told["address"], timeout=60) as answer:
            assert answer.status == 200


@pytest.mark.slow
def test_sigterm_ends_it_as_quietly():
    with serving("--quiet") as (process, _):
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
    assert (process.returncode, said) == (143, "vhd: the server has stopped.\n")


def test_a_taken_port_says_so(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run(["serve", "--no-browser", "--port", str(taken.getsockname()[1])]) == 1
    assert "Choose another --port" in capsys.readouterr().err


def test_a_wrong_port_is_refused(capsys):
    assert run(["serve", "--no-browser", "--port", "70000"]) == 1
    assert "0..65535" in capsys.readouterr().err
