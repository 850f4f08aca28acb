"""Work beside the loop: its result, its error, its context, and leaving it."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from crucible.sandbox.abandonable import beside

VALUE: ContextVar[str] = ContextVar("value", default="")


async def test_it_gives_what_the_work_gives(run: object) -> None:
    VALUE.set("seen")
    assert await beside(VALUE.get) == "seen"


async def test_it_raises_what_the_work_raises(run: object) -> None:
    with pytest.raises(ZeroDivisionError):
        await beside(lambda: 1 // 0)


def test_the_loop_ends_without_waiting_for_work_that_was_left() -> None:
    began, let_go = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        let_go.wait()

    async def leave() -> None:
        task = asyncio.create_task(beside(work))
        await asyncio.to_thread(began.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    let_go.set()
    for thread in threading.enumerate():
        if thread.name == "beside":
            thread.join()
