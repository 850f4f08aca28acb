"""Blocking work beside the event loop that is left alone when nobody waits for it any more.

`asyncio.to_thread` would make the end of the program wait for it, and a registry can be silent for minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def beside(work: Callable[[], T]) -> T:
    """What the work returns or raises. The thread sees our context, and may outlive us."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def finish(settle: Callable[[], None]) -> None:
        if not done.done():
            settle()

    def run() -> None:
        settle: Callable[[], None]
        try:
            settle = partial(done.set_result, context.run(work))
        except BaseException as error:
            settle = partial(done.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(finish, settle)

    threading.Thread(target=run, name="beside", daemon=True).start()
    return await done
