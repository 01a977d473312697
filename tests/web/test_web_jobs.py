"""Jobs: bounded in number, shared among clients by what they use, ended when nobody waits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from web_toys import FREE, SlowController, toy_library

from vhdiffuser.web.jobs import Jobs, Token
from vhdiffuser.web.limits import Limits, Refused, Stale, TooBusy, TooMany
from vhdiffuser.web.requests import ExecuteRequest, PlanRequest
from vhdiffuser.web.work import Answer, Work
from vhdiffuser.web.workers import ProcessWorkers, can_fork


class Functions:
    """Workers that call the work's argument with its token; each call costs its client a second of computing."""

    def __init__(self, count: int, used: float = 1.0) -> None:
        self.count, self.used, self._pool = count, used, ThreadPoolExecutor(count)

    def submit(self, work: Work, token: Any) -> Future[Answer]:
        return self._pool.submit(lambda: Answer(str(work.argument(token)), used=self.used))

    def close(self) -> None:
        self._pool.shutdown(wait=False)


def made_jobs(limits: Limits | None = None, count: int = 2, used: float = 1.0) -> Jobs:
    return Jobs(limits or Limits(), {"quick": Functions(count, used), "slow": Functions(count, used)})


def work(call: Callable[[Token], object]) -> Work:
    return Work("call", "nowhere", argument=call)


async def here() -> bool:
    return False


async def under_way(jobs: Jobs, lane: str, running: int, waiting: int) -> None:
    """Until that many run and wait."""
    for _ in range(600):
        state = jobs._lanes[lane]
        if (len(state.active), len(state.waiting)) == (running, waiting):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{len(state.active)} run and {len(state.waiting)} wait")


def test_a_full_lane_refuses_and_says_when_to_come_back_and_the_other_lane_does_not():
    async def main() -> None:
        jobs, release = made_jobs(Limits(waiting=1)), threading.Event()
        block = work(lambda token: release.wait(60))
        tokens = [jobs.token(f"peer {n}", None, "x", 0) for n in range(4)]
        tasks = [asyncio.create_task(jobs.run("slow", token, here, block)) for token in tokens[:3]]
        await under_way(jobs, "slow", 2, 1)
        with pytest.raises(TooBusy) as refused:
            await jobs.run("slow", tokens[3], here, block)
        assert refused.value.status == 503
        assert 1 <= refused.value.retry_after <= 30
        assert await jobs.run("quick", tokens[3], here, work(lambda token: 7)) == "7"
        release.set()
        assert await asyncio.gather(*tasks) == ["True"] * 3
        assert await jobs.run("slow", tokens[3], here, work(lambda token: 8)) == "8"

    asyncio.run(main())


def test_a_client_has_a_share_and_runs_one_slow_job_at_a_time():
    async def main() -> None:
        jobs, release = made_jobs(Limits(slow_share=2)), threading.Event()
        block = work(lambda token: release.wait(60))
        mine = [jobs.token("here", "page", f"channel {n}", 0) for n in range(3)]
        tasks = [asyncio.create_task(jobs.run("slow", token, here, block)) for token in mine[:2]]
        await under_way(jobs, "slow", 1, 1)  # a worker is free, and kept for others
        with pytest.raises(TooMany) as refused:
            await jobs.run("slow", mine[2], here, block)
        assert (refused.value.status, refused.value.kind) == (429, "share")
        other = jobs.token("here", "another", "x", 0)
        assert await jobs.run("slow", other, here, work(lambda token: "at once")) == "at once"
        release.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_who_used_least_is_served_first_and_who_used_most_gives_way():
    async def main() -> None:
        jobs, release, order = made_jobs(Limits(waiting=2), count=1), threading.Event(), []
        note: Callable[[str], Work] = lambda name: work(lambda token: order.append(name))  # noqa: E731
        for _ in range(9):
            await jobs.run("quick", jobs.token("greedy", None, "x", 0), here, note("before"))
        order.clear()
        block = jobs.token("holds the worker", None, "x", 0)
        held = asyncio.create_task(jobs.run("quick", block, here, work(lambda token: release.wait(60))))
        await under_way(jobs, "quick", 1, 0)

        async def ask(name: str, token: Token) -> None:
            await jobs.run("quick", token, here, note(name))

        greedy, frugal = (jobs.token(name, None, "x", 0) for name in ("greedy", "frugal"))
        page = jobs.token("greedy", "page", "x", 0)
        assert page.client.peer is greedy.client.peer
        tasks = [asyncio.create_task(ask(*pair)) for pair in (("greedy", greedy), ("page", page))]
        await under_way(jobs, "quick", 1, 2)
        tasks.append(asyncio.create_task(ask("frugal", frugal)))
        with pytest.raises(TooBusy):  # displaced: its client used nine seconds, the other page of its address nothing
            await tasks[0]
        with pytest.raises(TooBusy):
            await ask("greedy", jobs.token("greedy", None, "x", 0))
        release.set()
        await asyncio.gather(held, *tasks[1:])
        assert order == ["frugal", "page"]

    asyncio.run(main())


def test_a_seat_keeps_its_place_and_the_impatient_come_last():
    async def main() -> None:
        jobs, release, order = made_jobs(Limits(waiting=1), count=1, used=0.1), threading.Event(), []
        regular = jobs.token("regular", "page", "x", 0)
        await jobs.run("quick", regular, here, work(lambda token: 0))  # served once: it has a seat
        block = jobs.token("holds the worker", None, "x", 0)
        held = asyncio.create_task(jobs.run("quick", block, here, work(lambda token: release.wait(60))))
        await under_way(jobs, "quick", 1, 0)
        newcomer, crowd = (jobs.token(name, None, "x", 0) for name in ("newcomer", "crowd"))
        waits = asyncio.create_task(jobs.run("quick", newcomer, here, work(lambda token: order.append("newcomer"))))
        await under_way(jobs, "quick", 1, 1)
        with pytest.raises(TooBusy):
            await jobs.run("quick", crowd, here, work(lambda token: 0))
        assert jobs.token("crowd", None, "x", 0).impatient, "it was told to come back later"
        again = jobs.token("regular", "page", "x", 1)
        assert again.seated
        served = asyncio.create_task(jobs.run("quick", again, here, work(lambda token: order.append("regular"))))
        with pytest.raises(TooBusy):
            await waits
        release.set()
        await asyncio.gather(held, served)
        assert order == ["regular"]

    asyncio.run(main())


def test_newer_numbers_end_older_tokens_of_the_same_page_only():
    jobs = made_jobs(Limits(clients=4))
    first = jobs.token("here", "page", "stream", 1)
    other = jobs.token("here", "page", "field", 1)
    stranger = jobs.token("here", "another", "stream", 1)
    elsewhere = jobs.token("there", "page", "stream", 2)
    second = jobs.token("here", "page", "stream", 2)
    assert [token.ended for token in (first, other, stranger, elsewhere, second)] == [True, False, False, False, False]
    for late in (1, 2):
        with pytest.raises(Stale):
            jobs.token("here", "page", "stream", late)
    assert not second.ended, "a late request does not end a newer one"
    for number in range(10):  # the oldest pages are forgotten, and may count from anywhere again
        jobs.token("here", f"visitor {number}", "stream", 0)
    jobs.token("here", "page", "stream", 1)


def test_work_is_ended_when_the_visitor_is_gone_also_while_it_waits():
    async def main() -> None:
        jobs, left = made_jobs(count=1), threading.Event()

        async def gone() -> bool:
            return left.is_set()

        def busy(token: Token) -> None:
            for _ in range(6000):
                if token.ended:
                    raise Stale
                time.sleep(0.01)

        runs, waits = (jobs.token("here", name, "x", 0) for name in ("runs", "waits"))
        tasks = [asyncio.create_task(jobs.run("quick", token, gone, work(busy))) for token in (runs, waits)]
        await under_way(jobs, "quick", 1, 1)
        left.set()
        with pytest.raises(Stale):
            await tasks[1]
        await asyncio.wait(tasks, timeout=30)
        assert runs.ended
        assert tasks[0].exception() is not None

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.skipif(not can_fork(), reason="worker processes are forked")
def test_worker_processes_answer_refuse_stop_when_cancelled_and_are_replaced():
    workers = ProcessWorkers(toy_library(SlowController()), 1)
    jobs = Jobs(Limits(), {"quick": workers, "slow": workers})

    def ask(operation: str, body: PlanRequest, token: Token, argument: object = None) -> str:
        return asyncio.run(jobs.run("slow", token, here, Work(operation, "maze2d-umaze", body, argument)))

    def token() -> Token:
        return jobs.token("here", None, "x", 0)

    try:
        assert '"length"' in ask("horizon", PlanRequest(**FREE), token())
        with pytest.raises(Refused) as refused:
            ask("horizon", PlanRequest(**{**FREE, "goal": [2.0, 2.0]}), token())
        assert refused.value.status == 422

        cancelled, seconds = token(), []

        async def cancel() -> None:
            asked = ExecuteRequest(**FREE, protocol="rp")  # its controller would take minutes
            task = asyncio.create_task(jobs.run("slow", cancelled, here, Work("execute", "maze2d-umaze", asked)))
            await asyncio.sleep(0.5)
            begun = time.monotonic()
            cancelled.end()
            with pytest.raises(Refused):
                await task
            seconds.append(time.monotonic() - begun)

        asyncio.run(cancel())
        assert seconds[0] < 5, "it stopped long before its end"

        for process in list(workers._pool._processes.values()):
            process.kill()
        answers = []
        for _ in range(50):  # the pool notices in its own time
            try:
                answers.append(ask("horizon", PlanRequest(**FREE), token()))
            except TooBusy:
                break
        assert '"length"' in ask("horizon", PlanRequest(**FREE), token())
    finally:
        jobs.close()
