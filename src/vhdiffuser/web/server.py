"""The server process: listening socket, application and workers."""

from __future__ import annotations

import gc
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from vhdiffuser.errors import VhdError
from vhdiffuser.web.app import LOOPBACK, create_app
from vhdiffuser.web.clients import Lane
from vhdiffuser.web.connections import bounded
from vhdiffuser.web.library import Library
from vhdiffuser.web.limits import Limits
from vhdiffuser.web.workers import ProcessWorkers, ThreadWorkers, Workers, can_fork
from vhdiffuser.workers import available_cores

_BACKLOG = 1024
_LOCAL = ("127.0.0.1", "localhost", "::1")
_MOST_WORKERS = 4
"""Workers by default."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{8,128}")
_SLOW_NICENESS = 5
"""Niceness of slow workers, so that they yield to plans and to the server itself."""


def own_token(host: str, given: str | None) -> str | None:
    """The token that requests must know: the given one, none on loopback, a random one on other addresses."""
    if given is None:
        return None if host in _LOCAL else secrets.token_urlsafe(18)
    if not _TOKEN.fullmatch(given):
        raise VhdError("a token has 8 to 128 letters, digits, dashes and underscores.")
    return given


def known_hosts(host: str) -> tuple[str, ...]:
    """Hosts by which the server may be called. Beyond loopback any name may lead to it, and the token says who may."""
    return (*LOOPBACK, host) if host in _LOCAL else ("*",)


def worker_count(workers: int) -> int:
    """That many workers; 0: one per core, up to a few."""
    if workers < 0:
        raise VhdError(f"--workers must be 1 or more, or 0 for one per core, got {workers}.")
    return workers or min(available_cores(), _MOST_WORKERS)


def serve(
    library: Library,
    listening: socket.socket,
    hosts: tuple[str, ...],
    token: str | None,
    workers: int,
    on_start: Callable[[], None],
    limits: Limits | None = None,
) -> None:
    """Serve until a signal arrives, with this many workers per lane; calls `on_start` once requests are accepted."""
    limits = limits or Limits()
    own: dict[Lane, Workers]
    if can_fork():
        gc.freeze()  # a garbage collection writes to all objects, which would copy the memory that processes share
        own = {"quick": ProcessWorkers(library, workers), "slow": ProcessWorkers(library, workers, _SLOW_NICENESS)}
    else:
        own = {"quick": ThreadWorkers(library, workers), "slow": ThreadWorkers(library, workers)}
    server = uvicorn.Server(config_of(create_app(library, limits, hosts, token, own), limits))
    threading.Thread(target=_tell_when_started, args=(server, on_start), daemon=True).start()
    server.run(sockets=[listening])


def config_of(app: FastAPI, limits: Limits) -> uvicorn.Config:
    """uvicorn's configuration, with limits on connections."""
    return uvicorn.Config(
        app,
        http=bounded(limits),
        # uvicorn's logging setup closes all handlers, and absl's handler (from MuJoCo's tools) then closes stderr.
        log_config=None,
        log_level="warning",
        backlog=_BACKLOG,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=2,
        server_header=False,
    )


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; raises `VhdError` if the address is not available.

    The protocol is set explicitly, because asyncio disables Nagle's algorithm only for sockets declared as TCP. With
    Nagle's algorithm, the second line of a streamed reply waits for the client's delayed acknowledgement of the first,
    up to 40 ms.
    """
    if not 0 <= port <= 65535:
        raise VhdError(f"--port must lie in 0..65535, got {port}.")
    addresses = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(addresses, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        return listener
    except OSError as error:
        listener.close()
        raise VhdError(f"cannot listen on {host}:{port} ({error.strerror}). Choose another --port.") from error


def _tell_when_started(server: uvicorn.Server, on_start: Callable[[], None]) -> None:
    while not server.started:
        if server.should_exit:
            return
        time.sleep(0.02)
    on_start()
