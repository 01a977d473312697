"""Job queue: work runs off the event loop, in one lane per cost class, with fair sharing and cancellation.

Cheap work (plans with few reverse steps, lengths) and expensive work (executions, comparisons, DDPM-256) use separate
lanes, so that an ant's rollout does not delay a drag. Within a lane, clients with a seat come first: they were served
recently and use little, so new clients cannot push them out. The others follow, lightest usage first; clients that
retry too early come last. Each page numbers its requests, and a new request cancels older ones.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from vhdiffuser.web.clients import Client, Clients, Lane, Usage, forget_oldest
from vhdiffuser.web.limits import Limits, Refused, Stale, TooBusy, TooMany
from vhdiffuser.web.work import Answer, Work
from vhdiffuser.web.workers import Workers

_log = logging.getLogger(__name__)

_LOOK_EVERY = 0.04
"""Seconds between checks whether the client is still connected."""
_LOADED_EVERY = 0.1
"""Seconds between checks whether an environment has been loaded."""
_LONGEST_PAUSE = 30
"""Longest Retry-After, in seconds."""


class Token:
    """Cancellation token of a request; long work checks it regularly."""

    def __init__(self, seconds: float, client: Client | None = None) -> None:
        self.client = client or Client(Usage())
        self.impatient = time.monotonic() < self.client.away_until
        """Whether the request came before the client's Retry-After."""
        self.seated = False
        """Whether the client holds a seat."""
        self.admitted: set[Lane] = set()
        """Lanes that have accepted a job of this request; they accept its later jobs as well."""
        self.ended = False
        """Whether the work is cancelled."""
        self._deadline = time.monotonic() + seconds
        self._calls: list[Callable[[], None]] = []

    def end(self) -> None:
        """Cancel the request's work."""
        self.ended = True
        for call in self._calls:
            call()
        self._calls = []

    def when_ended(self, call: Callable[[], None]) -> None:
        """Register a callback for cancellation."""
        self._calls.append(call)

    @property
    def seconds_left(self) -> float:
        """Seconds left in the request's time limit."""
        return self._deadline - time.monotonic()


@dataclass(eq=False)
class _Job:
    """A job, waiting in a lane or running on one of its workers."""

    token: Token
    work: Work
    done: asyncio.Future[Answer]

    @property
    def rank(self) -> tuple[int, float, float]:
        """Sort key, smallest first: seats, then patient clients, then the rest; within each, by recent usage of address
        and client."""
        client = self.token.client
        return 0 if self.token.seated else 2 if self.token.impatient else 1, client.peer.now(), client.used.now()

    def fail(self, error: Exception) -> None:
        """Finish the job with an error."""
        if not self.done.done():
            self.done.set_exception(error)


class _Lane:
    """A set of workers and the jobs waiting for them. Used on the event loop only."""

    def __init__(self, name: Lane, workers: Workers, most_waiting: int, running_share: int, clients: Clients) -> None:
        self.clients = clients
        self.name, self.workers, self.most_waiting, self.running_share = name, workers, most_waiting, running_share
        self.waiting: list[_Job] = []
        self.active: set[_Job] = set()
        self.mean = 0.05  # running mean of a job's seconds

    def retry_after(self) -> int:
        """Seconds in which every recently active client could be served once."""
        turns = max(len(self.waiting) + len(self.active), self.clients.count())
        return min(max(1, math.ceil(self.mean * turns / self.workers.count)), _LONGEST_PAUSE)

    def enter(self, job: _Job) -> None:
        """Queue the job or raise `TooBusy`. In a full lane, the job of the heaviest client is dropped."""
        for other in [other for other in self.waiting if other.token.ended]:
            self.leave(other)
        full = len(self.waiting) >= self.most_waiting and self.name not in job.token.admitted
        if full:
            last = max((other for other in self.waiting if self.name not in other.token.admitted),
                       key=lambda other: other.rank, default=None)  # fmt: skip
            if last is None or job.rank >= last.rank:
                raise self._refusal(job)
            self.waiting.remove(last)
            last.fail(self._refusal(last))
        self.waiting.append(job)
        self.serve()

    def _refusal(self, job: _Job) -> TooBusy:
        pause = self.retry_after()
        job.token.client.away_until = time.monotonic() + pause
        return TooBusy(pause)

    def leave(self, job: _Job) -> None:
        """Remove a job that was cancelled or waited too long."""
        if job in self.waiting:
            self.waiting.remove(job)
            job.fail(Stale() if job.token.ended else self._refusal(job))

    def serve(self) -> None:
        """Start waiting jobs while workers are free, by rank, then first come, first served."""
        while self.waiting and len(self.active) < self.workers.count:
            eligible = [job for job in self.waiting if job.token.client.running[self.name] < self.running_share]
            if not eligible:
                return
            job = min(eligible, key=lambda job: job.rank)
            self.waiting.remove(job)
            self._start(job)

    def _start(self, job: _Job) -> None:
        client = job.token.client
        job.token.admitted.add(self.name)
        self.active.add(job)
        client.running[self.name] += 1
        begun = time.monotonic()
        running = asyncio.wrap_future(self.workers.submit(job.work, job.token))

        def ended(running: asyncio.Future[Answer]) -> None:
            self.active.discard(job)
            client.running[self.name] -= 1
            self.mean += 0.1 * (time.monotonic() - begun - self.mean)
            if running.cancelled():
                job.fail(Stale())
            elif running.exception() is not None:  # the worker died
                _log.error("a worker died: %r", running.exception())
                job.fail(TooBusy(self.retry_after()))
            else:
                client.used.add(running.result().used)
                client.peer.add(running.result().used)
                self.clients.seat(client)
                if not job.done.done():
                    job.done.set_result(running.result())
            self.serve()

        running.add_done_callback(ended)


class Jobs:
    """Accepts requests and passes their jobs to the lanes."""

    def __init__(self, limits: Limits, workers: dict[Lane, Workers]) -> None:
        self._limits = limits
        self._clients = Clients(limits.clients)
        self._shares: dict[Lane, int] = {"quick": limits.quick_share, "slow": limits.slow_share}
        running: dict[Lane, int] = {"quick": limits.quick_share, "slow": 1}
        self._lanes = {
            name: _Lane(name, own, limits.waiting, running[name], self._clients) for name, own in workers.items()
        }
        self._newest: OrderedDict[tuple[str, str, str], tuple[int, Token]] = OrderedDict()

    def token(self, peer: str, client: str | None, channel: str, sequence: int) -> Token:
        """Create the token of a new request; cancels older requests of the same page and channel."""
        token = Token(self._limits.seconds, self._clients.get(peer, client or ""))
        token.seated = self._clients.is_seated(token.client)
        if client is None:
            return token
        key = (peer, client, channel)
        number, older = self._newest.pop(key, (-1, None))
        if older is not None and sequence <= number:
            self._newest[key] = (number, older)
            raise Stale
        if older is not None:
            older.end()
        self._newest[key] = (sequence, token)
        forget_oldest(self._newest, self._limits.clients)
        return token

    async def run(self, lane: Lane, token: Token, gone: Callable[[], Awaitable[bool]], work: Work) -> str:
        """Run `work` and return its reply as JSON. Cancelled if the client disconnects."""
        if lane == "quick":
            work = replace(work, most_evaluations=self._limits.quick_evaluations)
        while True:
            done = await self._run_once(lane, token, gone, work)
            if done.too_costly:
                lane, work = "slow", replace(work, most_evaluations=None)
            elif done.later:
                await asyncio.sleep(_LOADED_EVERY)
            elif done.refusal is not None:
                raise Refused(*done.refusal)
            else:
                return done.text

    async def _run_once(self, lane: Lane, token: Token, gone: Callable[[], Awaitable[bool]], work: Work) -> Answer:
        client, queue = token.client, self._lanes[lane]
        if client.under_way[lane] >= self._shares[lane]:
            raise TooMany(self._shares[lane], queue.retry_after())
        job = _Job(token, work, asyncio.get_running_loop().create_future())
        queue.enter(job)
        begun = time.monotonic()
        client.under_way[lane] += 1
        try:
            while not (await asyncio.wait([job.done], timeout=_LOOK_EVERY))[0]:
                if await gone():
                    token.end()
                if token.ended or time.monotonic() - begun > self._limits.waiting_seconds:
                    queue.leave(job)
            return job.done.result()
        except asyncio.CancelledError:  # the server dropped the response, usually because the client disconnected
            token.end()
            queue.leave(job)
            job.done.add_done_callback(forget)
            raise
        finally:
            client.under_way[lane] -= 1

    def close(self) -> None:
        """Cancel all work."""
        for lane in self._lanes.values():
            for job in [*lane.active, *lane.waiting]:
                job.token.end()
                lane.leave(job)
            lane.workers.close()


def forget(future: asyncio.Future[Any]) -> None:
    """Consume the result of cancelled work; otherwise asyncio logs an unhandled error."""
    if not future.cancelled():
        future.exception()
