"""Clients of the server: what each used lately, and which of them have a seat, which keeps their place in a crowd."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Literal

Lane = Literal["quick", "slow"]
"""Cheap and costly work."""
_HALF_LIFE = 10.0
"""Seconds after which half of what a client used is forgotten."""
_SEATS = 8
"""Clients that may keep their place while others are refused."""
_SEAT_SECONDS = 15.0
"""Seconds without a request after which a client loses its seat."""
_LIGHT = 0.25
"""Share of one worker that a client with a seat may use."""


@dataclass
class Usage:
    """Seconds of computing time that a client or an address used lately."""

    seconds: float = 0.0
    at: float = field(default_factory=time.monotonic)

    def now(self) -> float:
        """What is not forgotten yet."""
        return self.seconds * 0.5 ** ((time.monotonic() - self.at) / _HALF_LIFE)

    def add(self, seconds: float) -> None:
        """Charge for work."""
        self.seconds, self.at = self.now() + seconds, time.monotonic()


@dataclass
class Client:
    """A page, or all requests without an id from one address."""

    peer: Usage
    """Its address's, which it shares with other pages of that address."""
    used: Usage = field(default_factory=Usage)
    under_way: dict[Lane, int] = field(default_factory=lambda: {"quick": 0, "slow": 0})
    """Jobs waiting or running."""
    running: dict[Lane, int] = field(default_factory=lambda: {"quick": 0, "slow": 0})
    """Jobs running."""
    away_until: float = 0.0
    """When it may ask again, after a refusal."""
    seen: float = field(default_factory=time.monotonic)
    """When it last asked."""

    @property
    def light(self) -> bool:
        """Whether it used less than a seat's share of a worker lately."""
        return self.used.now() < _LIGHT * _HALF_LIFE / math.log(2)


class Clients:
    """The clients known, and which of them have a seat."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[tuple[str, str], Client] = OrderedDict()  # the longest idle first
        self._peers: OrderedDict[str, Usage] = OrderedDict()
        self._seated: list[Client] = []

    def get(self, peer: str, name: str) -> Client:
        """The client of that name at that address; it is asking now."""
        usage = self._peers.pop(peer, None) or Usage()
        self._peers[peer] = usage
        client = self._known.pop((peer, name), None) or Client(usage)
        self._known[peer, name] = client
        client.seen = time.monotonic()
        forget_oldest(self._peers, self._most)
        forget_oldest(self._known, self._most)
        return client

    def count(self) -> int:
        """Clients that asked lately."""
        now, count = time.monotonic(), 0
        for client in reversed(self._known.values()):
            if now - client.seen > _HALF_LIFE:
                break
            count += 1
        return count

    def seat(self, client: Client) -> None:
        """Give a client that was served a seat, if it uses little and one is free."""
        if client.light and not self.is_seated(client) and len(self._seated) < _SEATS:
            self._seated.append(client)

    def is_seated(self, client: Client) -> bool:
        """Whether it has a seat; those of the idle and of the greedy become free."""
        now = time.monotonic()
        self._seated = [other for other in self._seated if now - other.seen < _SEAT_SECONDS and other.light]
        return any(other is client for other in self._seated)


def forget_oldest(known: OrderedDict[Any, Any], most: int) -> None:
    """Keep the `most` newest entries."""
    while len(known) > most:
        known.popitem(last=False)
