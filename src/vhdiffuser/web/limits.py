"""Limits on requests, and the errors with which they are refused."""

from __future__ import annotations

from dataclasses import dataclass

from vhdiffuser.errors import VhdError


@dataclass(frozen=True)
class Limits:
    """Bounds on the size, number and time of requests."""

    body_bytes: int = 65_536
    """Maximum bytes of a request's body."""
    waiting: int = 16
    """Maximum jobs waiting or running per lane; further ones are refused."""
    seconds: float = 60.0
    """Maximum seconds per request, including waiting."""
    clients: int = 256
    """Maximum pages whose sequence numbers are remembered; the longest idle is dropped first."""


class Refusal(VhdError):
    """A refused request, with its HTTP status."""

    status = 422
    """HTTP status of the response."""
    kind = "refused"
    """Machine-readable kind."""


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


class TooBusy(Refusal):
    """The queue is full."""

    status = 429
    kind = "busy"

    def __init__(self) -> None:
        super().__init__("the server has too much to do at the moment. Try again in a second.")


class TooSlow(Refusal):
    """The work exceeded its time limit."""

    status = 503
    kind = "slow"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"this took longer than {seconds:g} s and was given up. Ask for fewer steps.")
