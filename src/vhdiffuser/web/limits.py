"""Limits on connections and requests, and the errors with which they are refused."""

from __future__ import annotations

from dataclasses import dataclass

from vhdiffuser.errors import VhdError


@dataclass(frozen=True)
class Limits:
    """Bounds on the number, size and time of connections and requests."""

    connections: int = 512
    """Maximum open connections; beyond it, the longest idle one is closed for a new one."""
    connections_per_peer: int = 256
    """The same for one address."""
    read_seconds: float = 10.0
    """Maximum seconds in which a request must have arrived, from its first byte or from the connection's beginning."""
    write_seconds: float = 10.0
    """Maximum seconds for which a client may leave an answer unread."""
    idle_seconds: int = 10
    """Seconds for which a connection stays open between two requests."""
    body_bytes: int = 65_536
    """Maximum bytes of a request's body."""
    waiting: int = 16
    """Maximum jobs waiting per lane. In a full lane, the client that used the server most gives way."""
    waiting_seconds: float = 10.0
    """Maximum seconds that a job waits for a worker."""
    quick_share: int = 8
    """Maximum jobs of one client, waiting or running, in the quick lane."""
    slow_share: int = 2
    """The same in the slow lane, where one of a client's jobs runs at a time."""
    quick_evaluations: int = 32
    """Maximum network evaluations of a plan in the quick lane: reverse steps times candidates."""
    quick_points: int = 96
    """Maximum points along a distance field's longer side in the quick lane."""
    seconds: float = 60.0
    """Maximum seconds per request, including waiting."""
    clients: int = 1024
    """Maximum clients remembered; the longest idle is dropped first."""


class Refusal(VhdError):
    """A refused request, with its HTTP status."""

    status = 422
    """HTTP status of the response."""
    kind = "refused"
    """Machine-readable kind."""
    retry_after: int | None = None
    """Seconds after which it is worth asking again, where waiting helps."""


class Refused(Refusal):
    """A worker refused the request."""

    def __init__(self, status: int, kind: str, reason: str, retry_after: int | None) -> None:
        super().__init__(reason)
        self.status, self.kind, self.retry_after = status, kind, retry_after


class NotReady(Refusal):
    """The environment is known, but its weights or simulator are missing."""

    status = 404
    kind = "not-ready"


class Stale(Refusal):
    """A newer request of the same page has superseded this one."""

    status = 409
    kind = "stale"

    def __init__(self) -> None:
        super().__init__("a newer request of this page has replaced this one.")


class TooMany(Refusal):
    """This client has its share of jobs under way."""

    status = 429
    kind = "share"

    def __init__(self, share: int, retry_after: int) -> None:
        super().__init__(
            f"{share} requests of yours are under way, which is a client's share. Wait for one of them, then ask again."
        )
        self.retry_after = retry_after


class TooBusy(Refusal):
    """The lane is full."""

    status = 503
    kind = "busy"

    def __init__(self, retry_after: int) -> None:
        super().__init__(
            f"the server has too much to do at the moment. Try again in {retry_after} s; those who ask earlier are "
            "served last."
        )
        self.retry_after = retry_after


class TooSlow(Refusal):
    """The work exceeded its time limit."""

    status = 503
    kind = "slow"
    retry_after = 10

    def __init__(self, seconds: float) -> None:
        super().__init__(f"this took longer than {max(round(seconds), 1)} s and was given up. Ask for fewer steps.")
