"""`filesystem.Filesystem`: what is in a sandbox's directories, changed and watched."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.routing import BaseRoute

from crucible.errors import BadRequest, GuestRefused
from crucible.sandbox.session import Change, Entry
from crucible.server.wires.e2b import connect
from crucible.server.wires.e2b.answers import timestamp
from crucible.server.wires.e2b.connect import Values
from crucible.server.wires.e2b.inside import Inside, inside_of
from crucible.server.wires.e2b.watchers import EVENT_TYPES, Watchers

MOST_LISTED = 100_000
_TYPES = {
    "file": "FILE_TYPE_FILE",
    "directory": "FILE_TYPE_DIRECTORY",
    "symlink": "FILE_TYPE_SYMLINK",
    "other": "FILE_TYPE_UNSPECIFIED",
}
_LETTERS = {"file": "-", "directory": "d", "symlink": "L", "other": "?"}


async def stat(request: Request, asked: Values) -> Values:
    inside = await inside_of(request)
    return {"entry": await _look(inside, inside.path(asked.get("path", "")))}


async def make_dir(request: Request, asked: Values) -> Values:
    inside = await inside_of(request)
    path = inside.path(asked.get("path", ""))
    try:
        found = await inside.held.machine.files.stat(path)
    except GuestRefused as refused:
        if refused.guest_code != "not-found":
            raise
    else:
        what = "directory" if found.type == "directory" else "file"
        raise GuestRefused("exists", f"{what} already exists: {path.decode(errors='replace')}")
    await inside.held.machine.files.mkdir(path, owner=inside.user, parents=True)
    return {"entry": await _look(inside, path)}


async def move(request: Request, asked: Values) -> Values:
    inside = await inside_of(request)
    source, target = inside.path(asked.get("source", "")), inside.path(asked.get("destination", ""))
    files = inside.held.machine.files
    await files.stat(source, follow=False)
    await files.mkdir(posixpath.dirname(target), owner=inside.user, parents=True)
    await files.rename(source, target)
    return {"entry": await _look(inside, target)}


async def list_dir(request: Request, asked: Values) -> Values:
    inside = await inside_of(request)
    depth = asked.get("depth") or 1
    if not isinstance(depth, int) or not 1 <= depth <= 1000:
        raise BadRequest("depth is not a number from 1 to 1000")
    root = inside.path(asked.get("path", ""))
    told: list[Values] = []
    waiting = [(root, depth)]
    while waiting:
        directory, levels = waiting.pop(0)
        for entry in await inside.held.machine.files.list(directory):
            path = posixpath.join(directory, entry.name)
            told.append(described(inside, path, entry))
            if len(told) > MOST_LISTED:
                raise BadRequest(f"There are more than {MOST_LISTED} entries below")
            if entry.type == "directory" and levels > 1:
                waiting.append((path, levels - 1))
    return {"entries": told}


async def remove(request: Request, asked: Values) -> Values:
    inside = await inside_of(request)
    try:
        await inside.held.machine.files.remove(inside.path(asked.get("path", "")), recursive=True)
    except GuestRefused as refused:
        if refused.guest_code != "not-found":
            raise
    return {}


async def watch_dir(request: Request, asked: Values) -> AsyncIterator[Values]:
    inside = await inside_of(request)
    path = inside.path(asked.get("path", ""))
    watch = await inside.held.machine.watch(path, recursive=asked.get("recursive") is True)

    async def events() -> AsyncIterator[Values]:
        try:
            yield {"start": {}}
            while (change := await watch.next()) is not None:
                if change.kind != "overflow":
                    yield {"filesystem": await told(inside, path, change, asked)}
        finally:
            await watch.close()

    return events()


async def create_watcher(request: Request, asked: Values) -> Values:
    inside = await inside_of(request)
    path = inside.path(asked.get("path", ""))
    watch = await inside.held.machine.watch(path, recursive=asked.get("recursive") is True)

    async def describe(change: Change) -> Values:
        return await told(inside, path, change, asked)

    return {"watcherId": _watchers(request).add(inside.held.record.id, watch, describe)}


async def watcher_events(request: Request, asked: Values) -> Values:
    inside = await inside_of(request)
    return {"events": _watchers(request).take(inside.held.record.id, asked.get("watcherId", ""))}


async def remove_watcher(request: Request, asked: Values) -> Values:
    inside = await inside_of(request)
    await _watchers(request).remove(inside.held.record.id, asked.get("watcherId", ""))
    return {}


async def told(inside: Inside, root: bytes, change: Change, asked: Values) -> Values:
    event: Values = {
        "name": change.name.decode(errors="replace"),
        "type": EVENT_TYPES[change.kind],
    }
    if asked.get("includeEntry") is True:
        with contextlib.suppress(GuestRefused):  # it is gone again
            event["entry"] = await _look(inside, posixpath.join(root, change.name))
    return event


async def _look(inside: Inside, path: bytes) -> Values:
    files = inside.held.machine.files
    entry = await files.stat(path, follow=False)
    return described(inside, path, entry)


def described(inside: Inside, path: bytes, entry: Entry) -> Values:
    values: dict[str, Any] = {
        "name": posixpath.basename(path).decode(errors="replace") or "/",
        "type": _TYPES[entry.type],
        "path": path.decode(errors="replace"),
        "size": str(entry.size),
        "mode": entry.mode & 0o777,
        "permissions": _permissions(entry),
        "owner": inside.users.get(entry.uid, str(entry.uid)),
        "group": inside.groups.get(entry.gid, str(entry.gid)),
        "modifiedTime": timestamp(min(entry.mtime_ns / 1e9, 253402300799.0)),
    }
    if entry.type == "symlink":
        values["symlinkTarget"] = entry.target.decode(errors="replace")
    return values


def _permissions(entry: Entry) -> str:
    bits = "".join(
        letter if entry.mode >> (8 - at) & 1 else "-" for at, letter in enumerate("rwxrwxrwx")
    )
    return _LETTERS[entry.type] + bits


def _watchers(request: Request) -> Watchers:
    watchers: Watchers = request.app.state.watchers
    return watchers


_F = "/filesystem.Filesystem/"
routes: list[BaseRoute] = [
    connect.unary(f"{_F}Stat", stat),
    connect.unary(f"{_F}MakeDir", make_dir),
    connect.unary(f"{_F}Move", move),
    connect.unary(f"{_F}ListDir", list_dir),
    connect.unary(f"{_F}Remove", remove),
    connect.streaming(f"{_F}WatchDir", watch_dir, {"keepalive": {}}),
    connect.unary(f"{_F}CreateWatcher", create_watcher),
    connect.unary(f"{_F}GetWatcherEvents", watcher_events),
    connect.unary(f"{_F}RemoveWatcher", remove_watcher),
]
