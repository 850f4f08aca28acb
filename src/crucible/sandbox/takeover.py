"""Takes over the machines of a holder that died, each to where its record and the host agree."""

from __future__ import annotations

import asyncio
import time
import traceback

from crucible.errors import CrucibleError, GuestGone, SandboxError, SecretMissing
from crucible.sandbox.backend import Backend, MachineHandle
from crucible.sandbox.doors.doors import Doors
from crucible.sandbox.holding import CONSOLE_NAME, Held, handle_of, holder
from crucible.sandbox.machines import plan_for
from crucible.sandbox.manager import Manager
from crucible.sandbox.output_log import OutputLog
from crucible.sandbox.records import SandboxRecord

_STOP_GRACE_S = 5.0
_DYING_S = 5.0
_LOOK_AGAIN_S = 0.02


async def take_all_over(manager: Manager) -> None:
    """Every named sandbox at once: one whose guest is silent does not keep the others waiting."""
    named = [record for record in manager.records.sandboxes() if not record.is_temporary]
    await asyncio.gather(*(take_over(manager, record) for record in named))


async def take_over(manager: Manager, record: SandboxRecord) -> None:
    """What cannot be taken over is marked as broken and its machine left alone; the log tells why."""
    try:
        async with manager.hands.lock(record.name):
            await _take_over(manager, record)
    except Exception as error:
        traceback.print_exception(error)
        why = error.message if isinstance(error, CrucibleError) else f"Crucible failed: {error!r}"
        manager.records.update(record.id, state="broken", note=why)


async def _take_over(manager: Manager, record: SandboxRecord) -> None:
    backend = manager.machines.backend(record.backend)
    handle = handle_of(record)
    is_reported = record.state in ("running", "paused", "stopping", "broken")
    if handle is None or not is_reported or not backend.is_alive(handle):
        await manager.remains.settle(record)
        return
    try:
        held = await _adopt(manager, record, backend, handle)
    except GuestGone as gone:
        await manager.remains.settle(record)
        manager.remains.mark_stopped(record, note=gone.why)
        if gone.console:
            (record.directory / CONSOLE_NAME).write_bytes(gone.console)
        return
    except CrucibleError as error:
        is_dying = isinstance(error, SandboxError) and await _ends_soon(backend, handle)
        if is_dying or record.state == "stopping":
            await manager.remains.settle(record)
            return
        raise
    manager.hands.hold(held)
    if record.state == "paused":
        # Its doors are opened when it can answer again.
        held.awake.clear()
    else:
        await manager.hands.open_doors(held)
    if record.state == "stopping":
        await manager.finish_stop(held, grace_s=_STOP_GRACE_S)


async def _ends_soon(backend: Backend, handle: MachineHandle) -> bool:
    """A machine that was killed a moment ago answers nobody any more, and is still there."""
    deadline = time.monotonic() + _DYING_S
    while backend.is_alive(handle):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_LOOK_AGAIN_S)
    return True


async def _adopt(
    manager: Manager, record: SandboxRecord, backend: Backend, handle: MachineHandle
) -> Held:
    image = manager.images.of(record.spec, backend)
    plan = plan_for(record, image, lifetime="sandbox", disk="kept")
    machine = await backend.adopt(plan, handle, is_paused=record.state == "paused")
    state = "running" if record.state == "broken" else record.state
    held = Held(
        record=manager.records.update(record.id, state=state, note="", **holder()),
        machine=machine,
        backend=backend,
        image=image,
        log=OutputLog(record.directory),
        doors=Doors(record.name, machine, record.directory, is_remote=backend.is_remote),
        has_strangers=True,
    )
    held.doors.secrets = manager.secrets.of(record)
    held.doors.accounts = manager.accounts
    if missing := manager.secrets.missing(record):
        note = SecretMissing(record.name, missing)
        held.record = manager.records.update(record.id, note=f"{note.message}. {note.hint}")
    return held
