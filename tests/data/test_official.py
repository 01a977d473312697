"""Downloads, against a server on loopback that misbehaves in every way we know."""

from __future__ import annotations

import hashlib
import socket
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import h5py
import numpy as np
import pytest
from toy_point import SPEC

from vhdiffuser.data import official
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError


@pytest.fixture
def server():
    answers: dict[str, tuple[int, dict[str, str], bytes]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/slow":
                released.wait(60)
                return
            status, headers, body = answers.get(self.path, (404, {}, b"nothing here"))
            self.send_response(status)
            for key, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    released = threading.Event()
    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{web.server_port}/", answers
    released.set()
    web.shutdown()
    web.server_close()


def ignore(file, done, total):
    pass


def test_a_good_download_arrives_whole_and_reports_progress(server, tmp_path):
    url, answers = server
    body = bytes(range(256)) * 9000
    answers["/a"] = (200, {"X-Linked-ETag": f'"{hashlib.sha256(body).hexdigest()}"'}, body)
    calls = []
    official.download(url + "a", tmp_path / "a", lambda *call: calls.append(call), 5)
    assert (tmp_path / "a").read_bytes() == body
    assert calls[-1] == ("a", len(body), len(body))


@pytest.mark.parametrize(
    ("path", "answer", "message"),
    [
        ("gone", None, "answered 404"),
        ("forbidden", (403, {}, b"no"), "answered 403"),
        ("digest", (200, {"X-Linked-ETag": "0" * 64}, b"other"), "SHA-256 differs"),
        ("short", (200, {"Content-Length": "1000"}, b"only this"), "cannot be reached|of 1000 bytes"),
        ("slow", None, "cannot be reached"),
    ],
)
def test_bad_downloads_leave_nothing_behind(server, tmp_path, path, answer, message):
    url, answers = server
    if answer is not None:
        answers[f"/{path}"] = answer
    patience = 0.5 if path == "slow" else 60
    with pytest.raises(DataError, match=message):
        official.download(url + path, tmp_path / "file", ignore, timeout=patience)
    assert list(tmp_path.glob("*file*")) == []


def test_no_network_is_said(tmp_path):
    with socket.socket() as nobody:  # holds a port, and does not listen
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(DataError, match="cannot be reached"):
            official.download(f"http://127.0.0.1:{nobody.getsockname()[1]}/none", tmp_path / "file", ignore, timeout=60)


def maze_file(path, rows, scale):
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.normal(size=(rows, 4)) * 0.001, 0)
    states = (states - states.mean(0)) / states.std(0) * scale
    with h5py.File(path, "w") as file:
        file["observations"] = states.astype(np.float32)
        file["actions"] = rng.uniform(-1, 1, (rows, 2)).astype(np.float32)
    return path.read_bytes()


def test_mirrors_are_tried_in_order_and_statistics_checked(server, tmp_path, vhd_home):
    url, answers = server
    environment = get_environment("maze2d-umaze")
    assert environment.official is not None
    name = "maze2d-umaze-sparse-v1.hdf5"
    spec, files = environment.spec, replace(environment.official, hosts=(url + "gone/", url))
    answers["/" + name] = (200, {}, maze_file(tmp_path / name, 3000, files.std))
    dataset = official.get_official(spec, files, ignore)
    assert dataset.source == "official"
    assert dataset.details["address"] == url + name
    assert dataset.details[name] == hashlib.sha256(answers["/" + name][2]).hexdigest()

    with pytest.raises(DataError, match="SHA-256 is .* was expected"):
        official.get_official(spec, files, ignore, digests={name: "0" * 64})

    (vhd_home / "downloads" / name).write_bytes(maze_file(tmp_path / "b.hdf5", 3000, (0.1, 0.1, 0.1, 0.1)))
    with pytest.raises(DataError, match="times the published one"):
        official.get_official(spec, files, ignore)


def test_all_addresses_failing_names_each(server):
    url, _ = server
    cube = get_environment("cube")
    assert cube.official is not None
    files = replace(cube.official, hosts=(url + "one/", url + "two/"))
    with pytest.raises(DataError, match=r"one/cube.*: the server answered 404.*two/cube.*: the server answered 404"):
        official.get_official(cube.spec, files, ignore)


def test_an_environment_without_published_data_says_so():
    with pytest.raises(DataError, match="toy has no published data"):
        official.get_official(SPEC, None, ignore)
