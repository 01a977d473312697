"""How much one visitor may ask for, and the reasons with which more is refused."""

from __future__ import annotations

from dataclasses import dataclass

from vhdiffuser.errors import VhdError


@dataclass(frozen=True)
class Limits:
    """Bounds on the size, number and time of requests."""

    body_bytes: int = 65_536
    """Bytes of a request's body."""
    waiting: int = 16
    """Pieces of work that may wait or run in one lane; further ones are refused."""
    seconds: float = 60.0
    """Time that one request may take, waiting included."""
    clients: int = 256
    """Pages whose sequence numbers are remembered; the one idle longest is forgotten first."""


class Refusal(VhdError):
    """A request that is not answered, with its HTTP status."""

    status = 422
    """HTTP status of the answer."""
    kind = "refused"
    """One word for programs."""


class NotReady(Refusal):
    """An environment that is known, but whose weights or simulator are not there."""

    status = 404
    kind = "not-ready"


class Stale(Refusal):
    """A request that a newer one of the same page has replaced."""

    status = 409
    kind = "stale"

    def __init__(self) -> None:
        super().__init__("a newer request of this page has replaced this one.")


class TooBusy(Refusal):
    """More work than the server takes on at once."""

    status = 429
    kind = "busy"

    def __init__(self) -> None:
        super().__init__("the server has too much to do at the moment. Try again in a second.")


class TooSlow(Refusal):
    """Work that was given up."""

    status = 503
    kind = "slow"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"this took longer than {seconds:g} s and was given up. Ask for fewer steps.")
