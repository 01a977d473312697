"""The server as a process: a socket, the application, and workers for its lanes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from vhdiffuser.errors import VhdError
from vhdiffuser.web.app import create_app
from vhdiffuser.web.clients import Lane
from vhdiffuser.web.connections import bounded
from vhdiffuser.web.library import Library
from vhdiffuser.web.limits import Limits
from vhdiffuser.web.workers import ProcessWorkers, ThreadWorkers, Workers, can_fork

_BACKLOG = 1024
_SLOW_NICENESS = 5
"""Slow work gives way to plans and to the server itself."""


def serve(
    library: Library,
    listening: socket.socket,
    hosts: tuple[str, ...],
    token: str | None,
    workers: int,
    on_start: Callable[[], None],
    limits: Limits | None = None,
) -> None:
    """Serve until a signal, with that many workers for each lane; `on_start` is called once it answers."""
    limits = limits or Limits()
    own: dict[Lane, Workers]
    if can_fork():
        own = {"quick": ProcessWorkers(library, workers), "slow": ProcessWorkers(library, workers, _SLOW_NICENESS)}
    else:
        own = {"quick": ThreadWorkers(library, workers), "slow": ThreadWorkers(library, workers)}
    server = uvicorn.Server(config_of(create_app(library, limits, hosts, token, own), limits))
    threading.Thread(target=_tell_when_started, args=(server, on_start), daemon=True).start()
    server.run(sockets=[listening])


def config_of(app: FastAPI, limits: Limits) -> uvicorn.Config:
    """uvicorn's settings, with limits on connections."""
    return uvicorn.Config(
        app,
        http=bounded(limits),
        # uvicorn's logging set-up closes all handlers, and absl's (MuJoCo's tools) then closes stderr.
        log_config=None,
        log_level="warning",
        backlog=_BACKLOG,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=2,
        server_header=False,
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there, or a `VhdError`."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        return listener
    except OSError as error:
        listener.close()
        raise VhdError(f"could not listen on {host}:{port} ({error.strerror}). Choose another --port.") from error


def _tell_when_started(server: uvicorn.Server, on_start: Callable[[], None]) -> None:
    while not server.started:
        if server.should_exit:
            return
        time.sleep(0.02)
    on_start()
