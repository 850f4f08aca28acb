"""Contexts in real machines: they keep their state, also in copies, and what happens in them stays in them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from crucible.errors import ContextMissing, InterpreterFailed, LanguageUnknown
from crucible.sandbox.holding import Held
from crucible.sandbox.interpreter.contexts import PLACE, Contexts
from crucible.sandbox.interpreter.events import Event, Finished, Printed, Raised, Shown
from crucible.sandbox.manager import Manager
from crucible.sandbox.snapshots import Snapshots
from crucible.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.vm

ENDING = "import sys; sys.stdout.kernel.hear = lambda connection, token: connection.close()"
SILENT = """
import sys, time
kernel = sys.stdout.kernel
hear = kernel.hear
kernel.hear = lambda connection, token: setattr(kernel, "hear", hear)
"""
OUTLIVED = """
import os, time
if os.fork() == 0:
    os.setsid()
    os.closerange(0, 3)
    time.sleep(3600)
os._exit(1)
"""


async def told(
    contexts: Contexts, id: str, code: str, environment: Mapping[str, str] | None = None
) -> list[Event]:
    return [event async for event in contexts.run(id, code, environment)]


async def value(contexts: Contexts, id: str, code: str) -> str:
    events = await told(contexts, id, code)
    (shown,) = (event for event in events if isinstance(event, Shown))
    return str(shown.forms["text"])


async def new(box: Held) -> tuple[Contexts, str]:
    contexts = Contexts(box.machine)
    return contexts, (await contexts.create(user="user", workdir="/home/user")).id


async def test_a_context_keeps_its_state_and_shares_it_with_no_other(box: Held) -> None:
    contexts, one = await new(box)
    _, two = await new(box)
    assert await told(contexts, one, "x = 1") == [Finished(count=1)]
    assert await value(contexts, one, "x") == "1"
    (raised, _) = await told(contexts, two, "x")
    assert isinstance(raised, Raised)
    assert raised.name == "NameError"


async def test_code_runs_as_the_user_where_it_was_asked(box: Held) -> None:
    contexts, id = await new(box)
    assert (
        await value(contexts, id, "import os; os.getuid(), os.getcwd()") == "(1000, '/home/user')"
    )


async def test_the_default_context_is_found_again_and_made_again(box: Held) -> None:
    contexts = Contexts(box.machine)
    first = await contexts.default(user="user", workdir="/tmp")
    await told(contexts, first.id, "kept = 1")
    assert await contexts.default(user="user", workdir="/tmp") == first
    assert await value(contexts, first.id, "kept") == "1"
    with pytest.raises(InterpreterFailed):
        await told(contexts, first.id, "import os; os._exit(1)")
    again = await contexts.default(user="user", workdir="/tmp")
    (raised, _) = await told(contexts, again.id, "kept")
    assert isinstance(raised, Raised)


async def test_a_context_whose_process_is_ending_is_made_again(box: Held) -> None:
    """Its door may be open for a moment longer than its connections: who comes then is hung up on."""
    contexts = Contexts(box.machine)
    first = await contexts.default(user="user", workdir="/tmp")
    await told(contexts, first.id, "kept = 1")
    await told(contexts, first.id, ENDING)
    again = await contexts.default(user="user", workdir="/tmp")
    (raised, _) = await told(contexts, again.id, "kept")
    assert isinstance(raised, Raised)


async def test_a_context_that_does_not_answer_is_kept_while_its_process_lives(
    box: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crucible.sandbox.interpreter.contexts.ANSWER_S", 0.5)
    contexts = Contexts(box.machine)
    first = await contexts.default(user="user", workdir="/tmp")
    await told(contexts, first.id, "kept = 1" + SILENT)
    again = await contexts.default(user="user", workdir="/tmp")
    assert await value(contexts, again.id, "kept") == "1"


async def test_a_context_whose_door_a_child_holds_is_made_again(
    box: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crucible.sandbox.interpreter.contexts.ANSWER_S", 0.5)
    contexts = Contexts(box.machine)
    first = await contexts.default(user="user", workdir="/tmp")
    pid = int(await value(contexts, first.id, "kept = 1\nimport os\nos.getpid()"))
    running = asyncio.create_task(told(contexts, first.id, OUTLIVED))
    async with asyncio.timeout(60):
        while await contexts._exists(pid):
            pass
    running.cancel()
    again = await contexts.default(user="user", workdir="/tmp")
    (raised, _) = await told(contexts, again.id, "kept")
    assert isinstance(raised, Raised)


async def test_two_who_ask_at_once_get_the_same_default_context(box: Held) -> None:
    contexts = [Contexts(box.machine), Contexts(box.machine)]
    made = await asyncio.gather(*(one.default(user="user", workdir="/tmp") for one in contexts))
    pids = [await value(one, "default", "import os; os.getpid()") for one in contexts]
    assert made[0] == made[1]
    assert pids[0] == pids[1]


async def test_a_context_can_be_restarted_and_removed(box: Held) -> None:
    contexts, id = await new(box)
    await told(contexts, id, "x = 1")
    assert (await contexts.restart(id)).id == id
    (raised, _) = await told(contexts, id, "x")
    assert isinstance(raised, Raised)
    await contexts.remove(id)
    assert id not in {context.id for context in await contexts.all()}
    with pytest.raises(ContextMissing):
        await told(contexts, id, "1")


async def test_leaving_interrupts_the_code_and_keeps_the_state(box: Held) -> None:
    contexts, id = await new(box)
    await told(contexts, id, "x = 5")
    running = contexts.run(id, "print('in')\nwhile True: pass")
    first = await anext(running)
    assert isinstance(first, Printed)
    await running.aclose()
    assert await value(contexts, id, "x") == "5"


async def test_a_context_can_be_interrupted(box: Held) -> None:
    contexts, id = await new(box)
    running = contexts.run(id, "print('in')\nimport time\nwhile True: time.sleep(1)")
    await anext(running)
    await contexts.interrupt(id)
    while isinstance(raised := await anext(running), Printed):
        pass
    assert isinstance(raised, Raised)
    assert raised.name == "KeyboardInterrupt"
    await running.aclose()


async def test_only_python_is_spoken(box: Held) -> None:
    with pytest.raises(LanguageUnknown):
        await Contexts(box.machine).create(user="user", workdir="/", language="r")


@pytest.mark.parametrize("id", ["", "../contexts", "UPPER", "a/b", "nosuch", "x" * 65])
async def test_ids_that_are_none_lead_nowhere(box: Held, id: str) -> None:
    with pytest.raises(ContextMissing):
        await told(Contexts(box.machine), id, "1")


@pytest.mark.parametrize(
    "address",
    [
        b"",
        b"[" * 60_000,
        b'{"port": 22}',
        b'{"port": 0, "pid": 5, "user": "", "workdir": "", "token": "", "environment": {}}',
        b'{"port": 80, "pid": 1, "user": "", "workdir": "", "token": "", "environment": {}}',
        b'{"port": "80", "pid": 5, "user": "", "workdir": "", "token": "", "environment": {}}',
    ],
)
async def test_an_address_that_lies_is_no_context(box: Held, address: bytes) -> None:
    place = PLACE + b"/liar/address"
    await box.machine.files.write(place, address, make_parents=True)
    with pytest.raises(ContextMissing):
        await told(Contexts(box.machine), "liar", "1")


async def test_an_event_that_is_too_large_ends_the_run(box: Held) -> None:
    contexts, id = await new(box)
    forged = (
        "import sys\nkernel = sys.stdout.kernel\nkernel.current.connection.sendall(b'\\xff' * 8)"
    )
    with pytest.raises(InterpreterFailed):
        await told(contexts, id, forged)


async def test_a_fork_has_the_state_and_goes_its_own_way(manager: Manager) -> None:
    record = await manager.create("with-state", SandboxSpec())
    await manager.start(record.name)
    try:
        held = manager.held[record.id]
        contexts, id = await new(held)
        await told(contexts, id, "x = [1]")
        (copy,) = await Snapshots(manager).fork(record.name, ("state-copy",))
        try:
            copied = Contexts(copy.machine)
            await told(copied, id, "x.append(2)")
            assert await value(copied, id, "x") == "[1, 2]"
            assert await value(contexts, id, "x") == "[1]"
        finally:
            await manager.remove("state-copy", force=True)
    finally:
        await manager.remove("with-state", force=True)


async def test_many_contexts_run_at_once(box: Held) -> None:
    contexts = Contexts(box.machine)
    made = [(await new(box))[1] for _ in range(3)]
    values = await asyncio.gather(*(value(contexts, id, f"{n} * 10") for n, id in enumerate(made)))
    assert values == ["0", "10", "20"]
