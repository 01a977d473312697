"""Jobs: work off the event loop, bounded in number, ended when nobody waits."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from vhdiffuser.web.jobs import Jobs, Token
from vhdiffuser.web.limits import Limits, Stale, TooBusy, TooSlow


async def here() -> bool:
    return False


def test_work_runs_in_another_thread_and_the_loop_goes_on():
    async def main() -> tuple[bool, str]:
        jobs, release = Jobs(Limits()), threading.Event()
        token = jobs.token(None, "x", 0)

        def work() -> tuple[bool, str]:
            return release.wait(60), threading.current_thread().name

        task = asyncio.create_task(jobs.run("quick", token, here, work))
        for _ in range(5):
            await asyncio.sleep(0.01)
        release.set()
        return await task

    released, name = asyncio.run(main())
    assert released, "the loop went on, and so let the work go"
    assert name.startswith("vhd-quick")


def test_a_full_lane_refuses_and_the_other_does_not():
    async def main() -> None:
        jobs, release = Jobs(Limits(waiting=3)), threading.Event()
        token = jobs.token(None, "x", 0)
        tasks = [asyncio.create_task(jobs.run("slow", token, here, lambda: release.wait(60))) for _ in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(TooBusy):
            await jobs.run("slow", token, here, lambda: None)
        assert await jobs.run("quick", token, here, lambda: 7) == 7
        release.set()
        assert all(await asyncio.gather(*tasks))
        assert await jobs.run("slow", token, here, lambda: 8) == 8

    asyncio.run(main())


def test_newer_numbers_end_older_tokens_of_the_same_page_only():
    jobs = Jobs(Limits(clients=3))
    first = jobs.token("page", "stream", 1)
    other = jobs.token("page", "field", 1)
    stranger = jobs.token("another", "stream", 1)
    second = jobs.token("page", "stream", 2)
    assert [token.ended for token in (first, other, stranger, second)] == [True, False, False, False]
    with pytest.raises(Stale):
        first.check()
    for late in (1, 2):
        with pytest.raises(Stale):
            jobs.token("page", "stream", late)
    assert not second.ended, "a late request does not end a newer one"
    for number in range(10):  # the oldest pages are forgotten, and may count from anywhere again
        jobs.token(f"visitor {number}", "stream", 0)
    jobs.token("page", "stream", 1)


def test_work_is_ended_when_the_visitor_is_gone():
    async def main() -> None:
        jobs = Jobs(Limits())
        token = jobs.token(None, "x", 0)

        async def gone() -> bool:
            return True

        def work() -> None:
            for _ in range(6000):
                token.check()
                time.sleep(0.01)
            raise AssertionError("nobody ended it")

        with pytest.raises(Stale):
            await jobs.run("slow", token, gone, work)

    asyncio.run(main())


def test_time_runs_out():
    token = Token(0.0)
    time.sleep(0.001)
    with pytest.raises(TooSlow, match="longer than 0 s"):
        token.check()
