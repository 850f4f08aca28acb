"""A command and its watchers, over a real session with a scripted guest at its other end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.sandbox.scripted_guest import ScriptedGuest, meeting

from crucible.sandbox.execution import Execution
from crucible.sandbox.holding import Held
from crucible.sandbox.output_log import OutputLog
from crucible.sandbox.session import Channel, Command
from crucible.wire.frames import WINDOW_BYTES, Kind
from crucible.wire.notes import decode_window

OUTPUT, ERRORS = 1, 2


@contextmanager
def _used() -> Any:
    yield


@asynccontextmanager
async def executing(
    directory: Path, *, output_mib: int = 0
) -> AsyncIterator[tuple[ScriptedGuest, Execution, int]]:
    async with meeting() as (guest, session):
        starting = asyncio.create_task(session.start(Command(argv=[b"x"])))
        stream = await guest.started()
        process = await starting
        spec = SimpleNamespace(output_mib=output_mib)
        held = SimpleNamespace(used=_used, record=SimpleNamespace(spec=spec), machine=session)
        kept = OutputLog(directory).follow(stream, {})
        execution = Execution(
            cast(Held, held), process, kept=kept, facts=kept.facts, ended=lambda one: None
        )
        try:
            yield guest, execution, stream
        finally:
            await execution.close()


async def limit_of(guest: ScriptedGuest) -> int:
    return decode_window((await guest.expect(Kind.WINDOW)).payload).limit


def test_what_one_watcher_has_not_taken_holds_the_command_back(tmp_path: Path) -> None:
    async def scene() -> None:
        async with executing(tmp_path) as (guest, execution, stream):
            quick, slow = execution.watch(), execution.watch()
            data = b"x" * 65_536
            for _ in range(WINDOW_BYTES // len(data)):
                guest.send(Kind.DATA, stream, data, OUTPUT)
            for watcher in (quick, slow):
                for _ in range(WINDOW_BYTES // len(data)):
                    assert await watcher.next() is not None
            granting = asyncio.create_task(limit_of(guest))
            quick.take(Channel.OUTPUT, WINDOW_BYTES)
            await asyncio.sleep(0.1)
            assert not granting.done()
            slow.take(Channel.OUTPUT, WINDOW_BYTES)
            assert await granting > WINDOW_BYTES

    asyncio.run(scene())


def test_a_watcher_that_leaves_holds_nothing_back(tmp_path: Path) -> None:
    async def scene() -> None:
        async with executing(tmp_path) as (guest, execution, stream):
            with execution.watching() as watcher:
                guest.send(Kind.DATA, stream, b"x" * 65_536, OUTPUT)
                guest.send(Kind.DATA, stream, b"x" * 65_536, OUTPUT)
                assert await watcher.next() is not None
            assert await limit_of(guest) > WINDOW_BYTES

    asyncio.run(scene())


def test_who_comes_late_gets_what_was_said_and_then_what_comes(tmp_path: Path) -> None:
    async def scene() -> None:
        async with executing(tmp_path) as (guest, execution, stream):
            with execution.watching() as first:
                guest.send(Kind.DATA, stream, b"before ", OUTPUT)
                guest.send(Kind.DATA, stream, b"!", ERRORS)
                assert await first.next() is not None
                assert await first.next() is not None
            with execution.watching({Channel.OUTPUT: 3, Channel.ERRORS: 1}) as late:
                guest.send(Kind.DATA, stream, b"after", OUTPUT)
                told = [await late.next(), await late.next()]
            assert [(one.offset, one.data) for one in told if one] == [(3, b"ore "), (7, b"after")]
            assert late.begins == {Channel.OUTPUT: 3, Channel.ERRORS: 1}

    asyncio.run(scene())


def test_who_says_to_have_more_than_there_is_gets_nothing_twice(tmp_path: Path) -> None:
    async def scene() -> None:
        async with executing(tmp_path) as (guest, execution, stream):
            with execution.watching({Channel.OUTPUT: 1 << 60, Channel.ERRORS: 0}) as watcher:
                guest.send(Kind.DATA, stream, b"a" * 1000, OUTPUT)
                guest.send(Kind.DATA, stream, b"b", ERRORS)
                told = await watcher.next()
            assert told is not None
            assert (told.channel, told.data) == (Channel.ERRORS, b"b")

    asyncio.run(scene())
