"""Clients of the server: recent usage of each, and which of them hold a seat, i.e. keep being served under load."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Literal

Lane = Literal["quick", "slow"]
"""Lane of cheap or of expensive work."""
_HALF_LIFE = 10.0
"""Half-life of a client's usage, in seconds."""
_SEATS = 8
"""Number of clients that keep being served while others are refused."""
_SEAT_SECONDS = 15.0
"""A client loses its seat after this many seconds without a request."""
_LIGHT = 0.25
"""Largest fraction of one worker that a client with a seat may use."""


@dataclass
class Usage:
    """Recent computing time of a client or an address, in seconds, with exponential decay."""

    seconds: float = 0.0
    at: float = field(default_factory=time.monotonic)

    def now(self) -> float:
        """Current value after decay."""
        return self.seconds * 0.5 ** ((time.monotonic() - self.at) / _HALF_LIFE)

    def add(self, seconds: float) -> None:
        """Add computing time."""
        self.seconds, self.at = self.now() + seconds, time.monotonic()


@dataclass
class Client:
    """One page, or all requests without a client id from one address."""

    peer: Usage
    """Usage of its address, shared with all pages from that address."""
    used: Usage = field(default_factory=Usage)
    under_way: dict[Lane, int] = field(default_factory=lambda: {"quick": 0, "slow": 0})
    """Jobs waiting or running, per lane."""
    running: dict[Lane, int] = field(default_factory=lambda: {"quick": 0, "slow": 0})
    """Jobs running, per lane."""
    away_until: float = 0.0
    """After a refusal, the time before which it should not retry."""
    seen: float = field(default_factory=time.monotonic)
    """Time of its last request."""

    @property
    def light(self) -> bool:
        """Whether its recent usage is below a seat's share of a worker."""
        return self.used.now() < _LIGHT * _HALF_LIFE / math.log(2)


class Clients:
    """All known clients and the current seats."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[tuple[str, str], Client] = OrderedDict()  # longest idle first
        self._peers: OrderedDict[str, Usage] = OrderedDict()
        self._seated: list[Client] = []

    def get(self, peer: str, name: str) -> Client:
        """Return the client with this name at this address and mark it as active."""
        usage = self._peers.pop(peer, None) or Usage()
        self._peers[peer] = usage
        client = self._known.pop((peer, name), None) or Client(usage)
        self._known[peer, name] = client
        client.seen = time.monotonic()
        forget_oldest(self._peers, self._most)
        forget_oldest(self._known, self._most)
        return client

    def count(self) -> int:
        """Number of recently active clients."""
        now, count = time.monotonic(), 0
        for client in reversed(self._known.values()):
            if now - client.seen > _HALF_LIFE:
                break
            count += 1
        return count

    def seat(self, client: Client) -> None:
        """Give a served client a seat if its usage is light and a seat is free."""
        if client.light and not self.is_seated(client) and len(self._seated) < _SEATS:
            self._seated.append(client)

    def is_seated(self, client: Client) -> bool:
        """Whether the client holds a seat. Seats of idle or heavy clients are freed."""
        now = time.monotonic()
        self._seated = [other for other in self._seated if now - other.seen < _SEAT_SECONDS and other.light]
        return any(other is client for other in self._seated)


def forget_oldest(known: OrderedDict[Any, Any], most: int) -> None:
    """Drop the oldest entries until `most` remain."""
    while len(known) > most:
        known.popitem(last=False)
