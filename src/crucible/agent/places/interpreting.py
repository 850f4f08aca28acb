"""Code in the persistent interpreter of a session's sandbox: what it prints and shows, ended if it takes too long."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from crucible.agent.workplace import WORKSPACE, Channel, Evaluated, Heard, Shown
from crucible.errors import CrucibleError, InterpreterFailed
from crucible.sandbox.finishing import finish
from crucible.sandbox.holding import Held
from crucible.sandbox.interpreter import events
from crucible.sandbox.interpreter.contexts import Contexts

# For code that was interrupted; what has not ended by then loses its interpreter.
GRACE_S = 5.0
MOST_PRINTED = 4 << 20
MOST_SHOWN = 100
MOST_SHOWN_CHARACTERS = 32 << 20

LOST = "The interpreter did not let itself be interrupted and was ended: its variables are gone"

ENDED = (
    "It may have needed more memory than the sandbox has, or have ended itself: then its variables are gone, and the "
    "next code begins anew"
)

_MEDIA_TYPES = {
    "text": "text/plain",
    "html": "text/html",
    "markdown": "text/markdown",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpeg": "image/jpeg",
    "pdf": "application/pdf",
    "latex": "text/latex",
    "json": "application/json",
    "javascript": "application/javascript",
    "chart": "application/vnd.crucible.chart+json",
    "data": "application/vnd.crucible.data+json",
}


async def evaluate(held: Held, code: str, *, timeout_s: float, heard: Heard | None) -> Evaluated:
    contexts = Contexts(held.machine)
    began = time.monotonic()
    context = await contexts.default(**_surroundings(held))
    told = _Told(heard)
    telling = asyncio.ensure_future(_tell(contexts.run(context.id, code), told))
    try:
        await asyncio.wait({telling}, timeout=timeout_s)
        timed_out = not telling.done()
    except asyncio.CancelledError:
        await finish(_interrupt(contexts, context.id, telling, told))
        raise
    if timed_out:
        await finish(_interrupt(contexts, context.id, telling, told))
    else:
        try:
            telling.result()
        except InterpreterFailed as failed:
            told.error, told.traceback = f"{failed.message}. {ENDED}", ""
    return Evaluated(
        stdout="".join(told.printed["stdout"]),
        stderr="".join(told.printed["stderr"]),
        shown=tuple(told.shown),
        error=told.error,
        traceback=told.traceback,
        duration_s=time.monotonic() - began,
        timed_out=timed_out,
    )


class _Told:
    """What code told, as much as is kept of it."""

    def __init__(self, heard: Heard | None) -> None:
        self.printed: dict[Channel, list[str]] = {"stdout": [], "stderr": []}
        self.shown: list[Shown] = []
        self.error = ""
        self.traceback = ""
        self._rooms: dict[Channel, int] = dict.fromkeys(self.printed, MOST_PRINTED)
        self._room_shown = MOST_SHOWN_CHARACTERS
        self._heard = heard

    def take(self, event: events.Event) -> None:
        match event:
            case events.Printed(stream=stream, text=text):
                kept = text[: self._rooms[stream]]
                self._rooms[stream] -= len(kept)
                self.printed[stream].append(kept)
                if self._heard is not None:
                    self._heard(stream, text.encode("utf-8", "backslashreplace"))
            case events.Shown(forms=forms, is_main=is_main):
                named = {_MEDIA_TYPES.get(kind, kind): _text(form) for kind, form in forms.items()}
                self._room_shown -= sum(map(len, named.values()))
                if self._room_shown >= 0 and len(self.shown) < MOST_SHOWN:
                    self.shown.append(Shown(forms=named, is_main=is_main))
            case events.Raised(name=name, value=value, traceback=traceback):
                self.error, self.traceback = f"{name}: {value}", traceback
            case events.Finished():
                pass


async def _tell(running: AsyncGenerator[events.Event, None], told: _Told) -> None:
    async with aclosing(running):
        async for event in running:
            told.take(event)


async def _interrupt(
    contexts: Contexts, id: str, telling: asyncio.Future[None], told: _Told
) -> None:
    """Ends the code, by force where it does not listen. What it had told is kept."""
    with contextlib.suppress(CrucibleError, ConnectionError):
        await contexts.interrupt(id)
        await asyncio.wait({telling}, timeout=GRACE_S)
    if telling.done():
        with contextlib.suppress(CrucibleError):
            telling.result()
        return
    telling.cancel()
    await asyncio.gather(telling, return_exceptions=True)
    with contextlib.suppress(CrucibleError):
        await contexts.remove(id)
    told.error, told.traceback = LOST, ""


def _surroundings(held: Held) -> dict[str, Any]:
    """What a command of the sandbox would have."""
    spec, image = held.record.spec, held.image
    return {
        "user": spec.user or image.user or "root",
        "workdir": WORKSPACE,
        "environment": {**dict(image.environment), **held.doors.variables, **spec.environment},
    }


def _text(form: object) -> str:
    return form if isinstance(form, str) else json.dumps(form)
