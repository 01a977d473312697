"""Limits on connections and requests, and the errors raised when they are exceeded."""

from __future__ import annotations

from dataclasses import dataclass

from vhdiffuser.errors import VhdError


@dataclass(frozen=True)
class Limits:
    """Limits on the number, size and duration of connections and requests."""

    connections: int = 512
    """Open connections; beyond that, the one idle for longest is closed."""
    connections_per_peer: int = 256
    """Open connections per address."""
    read_seconds: float = 10.0
    """Seconds for a request to arrive completely, from its first byte or from the opening of the connection."""
    write_seconds: float = 10.0
    """Seconds a client may take to read a response."""
    idle_seconds: int = 10
    """Seconds a connection may stay idle between requests."""
    body_bytes: int = 65_536
    """Bytes per request body."""
    waiting: int = 16
    """Waiting jobs per lane. In a full lane, the job of the heaviest client is dropped."""
    waiting_seconds: float = 10.0
    """Seconds a job may wait for a worker."""
    quick_share: int = 8
    """Jobs per client in the quick lane, waiting or running."""
    slow_share: int = 2
    """Jobs per client in the slow lane; only one of them runs at a time."""
    quick_evaluations: int = 32
    """Network evaluations per plan in the quick lane: reverse steps times candidates."""
    quick_points: int = 96
    """Grid points along the longer side of a distance field in the quick lane."""
    seconds: float = 60.0
    """Seconds per request, including waiting."""
    clients: int = 1024
    """Clients remembered; the one idle for longest is dropped first."""


class Refusal(VhdError):
    """A refused request and its HTTP status."""

    status = 422
    """HTTP status of the response."""
    kind = "refused"
    """Machine-readable reason."""
    retry_after: int | None = None
    """Seconds to wait before retrying; None if retrying does not help."""


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
    """A newer request from the same page has superseded this one."""

    status = 409
    kind = "stale"

    def __init__(self) -> None:
        super().__init__("superseded by a newer request from this page.")


class TooMany(Refusal):
    """This client has too many jobs in progress."""

    status = 429
    kind = "share"

    def __init__(self, share: int, retry_after: int) -> None:
        super().__init__(
            f"you have {share} requests in progress, the limit per client. Wait for one to finish, then retry."
        )
        self.retry_after = retry_after


class TooBusy(Refusal):
    """The lane is full."""

    status = 503
    kind = "busy"

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the server is busy. Retry in {retry_after} s; earlier retries go to the end of the queue.")
        self.retry_after = retry_after


class TooSlow(Refusal):
    """The work exceeded its time limit."""

    status = 503
    kind = "slow"
    retry_after = 10

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"stopped after {max(round(seconds), 1)} s, the time limit of a request. Use fewer reverse steps."
        )
