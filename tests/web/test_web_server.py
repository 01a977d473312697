"""The server on a real socket: clients that say nothing, send or read slowly, or leave; who may ask; its own schema."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi.testclient import TestClient
from web_toys import FREE, SlowController, toy_library

from vhdiffuser.cli import run
from vhdiffuser.web.app import create_app
from vhdiffuser.web.connections import bounded
from vhdiffuser.web.limits import Limits
from vhdiffuser.web.server import config_of, listen

LIMITS = Limits(connections_per_peer=8, connections=12, read_seconds=1.0, write_seconds=1.0)
TOKEN = "a-token-of-the-tests"


@contextmanager
def serving(limits: Limits = LIMITS, **options: Any) -> Iterator[int]:
    """The port of a server in a thread of this process."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)  # answers do not vanish in the system's buffers
    library = toy_library(options.pop("controller", None))
    server = uvicorn.Server(config_of(create_app(library, limits, **options), limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        port = listening.getsockname()[1]
        httpx.get(f"http://127.0.0.1:{port}/api/environments/maze2d-umaze", timeout=60).raise_for_status()
        yield port
    finally:
        server.should_exit = True
        thread.join(timeout=30)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as port:
        yield port


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_no_line_of_a_stream_waits_for_an_acknowledgement(host):
    """Nagle's algorithm would hold back the plan until the horizon's packet is acknowledged."""
    delays = []

    class Observed(bounded(LIMITS)):
        def connection_made(self, transport):
            super().connection_made(transport)
            own = transport.get_extra_info("socket")
            delays.append(not own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    if host == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    config = config_of(create_app(toy_library()), LIMITS)
    config.http = Observed
    server = uvicorn.Server(config)
    with listen(host, 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        with socket.create_connection(listening.getsockname()[:2], timeout=60) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.1 200"
        server.should_exit = True
        thread.join(timeout=30)
    assert delays == [False]


def connect(port: int, **options: int) -> socket.socket:
    made = socket.socket()
    for name, value in options.items():
        made.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
    made.connect(("127.0.0.1", port))
    made.settimeout(30)
    return made


def request(path: str, body: dict[str, Any]) -> bytes:
    text = json.dumps(body).encode()
    kind = f"content-type: application/json\r\ncontent-length: {len(text)}"
    return f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{kind}\r\n\r\n".encode() + text


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed it, once it says anything at all."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


def plan(port: int) -> int:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        return client.post("/api/plan", json=FREE).status_code


def test_silent_connections_make_room_and_are_closed_in_the_end(port):
    silent = [connect(port) for _ in range(30)]
    begun = time.monotonic()
    assert plan(port) == 200
    assert all(is_closed(connection) for connection in silent)
    assert time.monotonic() - begun < 25, "they were not waited for"


def test_a_request_that_never_ends_is_closed(port):
    begun = time.monotonic()
    for text in (b"POST /api/plan HTTP/1.1\r\n", b"POST /api/plan HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: "
                 b"application/json\r\ncontent-length: 50\r\n\r\n{"):  # fmt: skip
        with connect(port) as slow:
            slow.sendall(text)
            assert is_closed(slow)
    assert time.monotonic() - begun < 25
    assert plan(port) == 200


def test_a_client_that_does_not_read_is_dropped_and_holds_nobody(port):
    body = {**FREE, "points": 160}
    whole = httpx.post(f"http://127.0.0.1:{port}/api/field", json=body, timeout=60).content
    with connect(port, SO_RCVBUF=4096) as deaf:
        deaf.sendall(request("/api/field", body) * 10)
        assert plan(port) == 200
        time.sleep(3)
        received = 0
        try:
            while part := deaf.recv(1 << 20):
                received += len(part)
        except ConnectionError:  # it was reset
            pass
        assert received < 10 * len(whole), "it was dropped before all answers were sent"
    assert plan(port) == 200


def test_all_connections_in_use_are_told_when_to_come_back():
    slow = SlowController()
    with serving(replace(LIMITS, connections_per_peer=2), controller=slow) as port:
        busy = [connect(port) for _ in range(2)]
        for connection in busy:
            connection.sendall(request("/api/execute", {**FREE, "protocol": "rp"}))
        assert slow.begun.wait(60)
        time.sleep(0.2)
        with connect(port) as third:
            answer = b""
            while part := third.recv(65536):
                answer += part
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1\r\n" in answer
        assert b"nosniff" in answer
        for connection in busy:
            connection.close()
        begun = time.monotonic()
        assert plan(port) == 200, "who left holds nothing"
        assert time.monotonic() - begun < 20


def test_every_answer_has_the_headers_and_none_is_for_other_sites(port):
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        answers = [
            client.get("/"),
            client.get("/nothing"),
            client.get("/api/environments", headers={"origin": "http://elsewhere.example"}),
            client.options("/api/plan", headers={"origin": "http://elsewhere.example"}),
            client.post("/api/plan", content="{}"),
            client.post("/api/plan", json={}),
            client.get("/", headers={"host": "elsewhere.example"}),
        ]
    assert [answer.status_code for answer in answers] == [200, 404, 200, 405, 415, 422, 400]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert "server" not in answer.headers


def test_refusals_for_want_of_room_say_when_to_come_back():
    slow = SlowController()
    with TestClient(create_app(toy_library(slow), Limits(slow_share=1)), base_url="http://127.0.0.1") as client:
        assert client.post("/api/plan", json=FREE).status_code == 200
        body = {**FREE, "protocol": "rp", "client": "page", "sequence": 1}
        first = threading.Thread(target=client.post, args=("/api/execute",), kwargs={"json": body}, daemon=True)
        first.start()
        assert slow.begun.wait(60)
        refused = client.post("/api/compare", json=body)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 30
        assert refused.json()["kind"] == "share"
        client.post("/api/execute", json={**body, "sequence": 2})  # ends the first
        first.join(timeout=60)
        assert not first.is_alive()


def test_with_a_token_only_those_who_know_it_are_answered():
    with TestClient(create_app(toy_library(), token=TOKEN), base_url="http://127.0.0.1") as client:
        for path in ("/", "/api/environments", "/openapi.json", "/?token=another", f"/api/environments?token={TOKEN}"):
            refused = client.get(path)
            assert refused.status_code == 401, path
            assert refused.headers["www-authenticate"] == "Bearer"
        assert client.post("/api/plan", json=FREE).status_code == 401
        for wrong in ("Bearer another", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xff"):
            headers = {"authorization": wrong.encode("latin-1")}
            assert client.get("/api/environments", headers=headers).status_code == 401
        assert client.get("/api/environments", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        page = client.get(f"/?token={TOKEN}", follow_redirects=False)
        assert (page.status_code, page.headers["location"]) == (303, "/")
        assert all(part in page.headers["set-cookie"] for part in ("HttpOnly", "SameSite=Strict"))
        assert client.get("/").status_code == 200, "the browser has the cookie now"
        assert client.post("/api/plan", json=FREE).status_code == 200


def test_a_bad_token_is_refused_before_anything_listens(capsys):
    assert run(["serve", "--no-browser", "--token", "short"]) == 1
    assert "8 to 128" in capsys.readouterr().err


@pytest.mark.slow
def test_requests_made_from_the_schema_find_nothing():
    schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis (extra 'dev')")
    pytest.importorskip("schemathesis.checks")
    from hypothesis import HealthCheck, Phase, given, settings

    with serving(Limits(seconds=10)) as port:
        address = f"http://127.0.0.1:{port}"
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
        # A schema cannot say which points are free, how many numbers a start has, and which samplers are registered.
        unsaid = schemathesis.checks.positive_data_acceptance
        tried = 0
        for found in schema.get_all_operations():
            operation = found.ok()

            @given(case=operation.as_strategy())
            @settings(max_examples=8, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
                      suppress_health_check=list(HealthCheck))  # fmt: skip
            def check(case: Any) -> None:
                nonlocal tried
                tried += 1
                case.call_and_validate(base_url=address, excluded_checks=[unsaid])

            check()
    assert tried > 40
