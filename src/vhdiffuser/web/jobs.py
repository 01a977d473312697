"""Job queue: work runs off the event loop, in two lanes, and each request has a token that can cancel it.

Plans are quick and executions are slow; each kind has its own lane of threads, so that a running ant does
not delay a drag. A page numbers its requests: a new one cancels the older ones.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar

from vhdiffuser.web.limits import Limits, Stale, TooBusy, TooSlow

Lane = Literal["quick", "slow"]
Result = TypeVar("Result")

_THREADS: dict[Lane, int] = {"quick": 2, "slow": 2}
_LOOK_EVERY = 0.05
"""Seconds between two checks whether the client is still connected."""


class Token:
    """A cancellation token, which long work checks regularly."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._ended = threading.Event()

    def end(self) -> None:
        """Cancel the work."""
        self._ended.set()

    @property
    def ended(self) -> bool:
        """Whether the work is cancelled."""
        return self._ended.is_set()

    def check(self) -> None:
        """Raise if the work is cancelled or takes too long."""
        if self._ended.is_set():
            raise Stale
        if time.monotonic() > self._deadline:
            raise TooSlow(self._seconds)


class Jobs:
    """Accepts requests and runs their work in threads."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pools = {lane: ThreadPoolExecutor(count, f"vhd-{lane}") for lane, count in _THREADS.items()}
        self._pending: dict[Lane, int] = dict.fromkeys(_THREADS, 0)
        self._newest: OrderedDict[tuple[str, str], tuple[int, Token]] = OrderedDict()

    def token(self, client: str | None, channel: str, sequence: int) -> Token:
        """The token of a new request; cancels older requests of the same page and channel."""
        token = Token(self._limits.seconds)
        if client is None:
            return token
        number, older = self._newest.pop((client, channel), (-1, None))
        if older is not None and sequence <= number:
            self._newest[client, channel] = (number, older)
            raise Stale
        if older is not None:
            older.end()
        self._newest[client, channel] = (sequence, token)
        while len(self._newest) > self._limits.clients:
            self._newest.popitem(last=False)
        return token

    async def run(
        self, lane: Lane, token: Token, gone: Callable[[], Awaitable[bool]], work: Callable[[], Result]
    ) -> Result:
        """Run `work()` in a thread of the lane. The token is cancelled when the client disconnects."""
        if self._pending[lane] >= self._limits.waiting:
            raise TooBusy
        self._pending[lane] += 1
        future = asyncio.get_running_loop().run_in_executor(self._pools[lane], _checked, token, work)
        try:
            while not (await asyncio.wait([future], timeout=_LOOK_EVERY))[0]:
                if await gone():
                    token.end()
            return future.result()
        except asyncio.CancelledError:  # the server dropped the response, usually because the client disconnected
            token.end()
            future.add_done_callback(_forget)
            raise
        finally:
            self._pending[lane] -= 1

    def close(self) -> None:
        """Cancel all work."""
        for _, token in self._newest.values():
            token.end()
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)


def _forget(future: asyncio.Future[Any]) -> None:
    """Retrieve the outcome of cancelled work, which asyncio would otherwise log as an unhandled error."""
    if not future.cancelled():
        future.exception()


def _checked(token: Token, work: Callable[[], Result]) -> Result:
    token.check()
    return work()
