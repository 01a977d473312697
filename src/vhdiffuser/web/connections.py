"""Connection limits: a client that is silent, sends slowly or does not read its response cannot block the server.

An open connection costs a file descriptor, but no thread. When too many are open, the one idle for longest is closed to
make room, preferably one from the same address.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from vhdiffuser.web.limits import Limits
from vhdiffuser.web.middleware import HEADERS

Base: Any = AutoHTTPProtocol


class BoundedConnection(Base):
    """uvicorn's HTTP protocol with read and write timeouts and a limit on open connections."""

    limits = Limits()
    """Limits of this class; `bounded` makes a class with others."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Accept the connection, closing an idle one if necessary, or refuse it."""
        super().connection_made(transport)
        self.peer = self.client[0] if self.client else ""
        self.quiet_since = self.loop.time()
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        others = [other for other in self.connections if other is not self]
        own = [other for other in others if getattr(other, "peer", None) == self.peer]
        for open_, most in ((own, self.limits.connections_per_peer), (others, self.limits.connections)):
            if len(open_) >= most and not _close_longest_idle(open_):
                self._refuse()
                return
        self._expect()

    def connection_lost(self, error: Exception | None) -> None:
        """Cancel the timers."""
        self._stop_reading_timer()
        self._stop_writing_timer()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Read data; the read timeout runs until the request is complete."""
        self.quiet_since = self.loop.time()
        super().data_received(data)
        if self.awaits_request or self.cycle.more_body:
            self._expect()
        else:
            self._stop_reading_timer()

    def on_response_complete(self) -> None:
        """Mark the connection as idle; uvicorn closes it after `idle_seconds`."""
        self.quiet_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client is not reading: start the write timeout."""
        super().pause_writing()
        if self._writing is None:
            self._writing = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again: stop the write timeout."""
        self._stop_writing_timer()
        super().resume_writing()

    @property
    def awaits_request(self) -> bool:
        """Whether no request is in progress on this connection."""
        return self.cycle is None or self.cycle.response_complete

    def _expect(self) -> None:
        """Start the read timeout."""
        if self._reading is None and not self.transport.is_closing():
            self._reading = self.loop.call_later(self.limits.read_seconds, self.transport.abort)

    def _stop_reading_timer(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _stop_writing_timer(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def _refuse(self) -> None:
        body = json.dumps({"kind": "connections", "reason": "too many open connections. Retry in one second."})
        headers = {"content-type": "application/json", "retry-after": "1", "connection": "close", **HEADERS}
        lines = [f"{name}: {value}\r\n" for name, value in {**headers, "content-length": str(len(body))}.items()]
        self.transport.write(f"HTTP/1.1 503 Service Unavailable\r\n{''.join(lines)}\r\n{body}".encode())
        self.transport.close()


def _close_longest_idle(connections: list[Any]) -> bool:
    """Close the connection that has been idle for longest; False if none is idle."""
    idle = [other for other in connections if other.awaits_request and not other.transport.is_closing()]
    if idle:
        min(idle, key=lambda other: other.quiet_since).transport.abort()
    return bool(idle)


def bounded(limits: Limits) -> type[asyncio.Protocol]:
    """Return the protocol class with these limits."""
    return type("BoundedConnection", (BoundedConnection,), {"limits": limits})
