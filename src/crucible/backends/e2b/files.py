"""Files of a sandbox elsewhere. The SDK's own verbs have no modes, owners, parts and bytes in names; a shell has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final

from crucible.backends.e2b import scripts
from crucible.backends.e2b.process import INPUT_PIECE
from crucible.backends.e2b.promises import unsupported
from crucible.backends.e2b.starting import shown
from crucible.errors import GuestRefused, RemoteUnreachable
from crucible.sandbox.session import Channel, Command, Entry, EntryType, Process
from crucible.values import replace

START = Callable[[Command], Awaitable[Process]]

MAX_LISTING: Final = 64 << 20
_TYPES: Final[dict[bytes, EntryType]] = {b"f": "file", b"d": "directory", b"l": "symlink"}
_DIGEST_CHARACTERS: Final = 64
_SENTENCES: Final = {
    "not-found": "{} does not exist in the sandbox",
    "exists": "{} exists already in the sandbox",
    "not-a-directory": "{} is not a directory in the sandbox",
    "is-a-directory": "{} is a directory in the sandbox",
    "permission": "The sandbox does not permit this on {}",
    "not-empty": "{} is not empty in the sandbox",
    "no-space": "{} could not be written whole in the sandbox",
    "unsafe-archive": "The archive for {} leads out of it",
}


class E2BFiles:
    def __init__(self, start: START) -> None:
        self._start = start

    async def read(self, path: bytes, *, offset: int = 0, length: int = 0) -> AsyncIterator[bytes]:
        words = (b"%d" % (offset + 1), b"%d" % length)
        async with aclosing(self._pieces(scripts.READ, path, *words)) as pieces:
            async for piece in pieces:
                yield piece

    async def write(
        self,
        path: bytes,
        data: AsyncIterator[bytes] | bytes,
        *,
        mode: int = 0o644,
        owner: str = "",
        append: bool = False,
        make_parents: bool = False,
    ) -> int:
        words = (b"%o" % mode, owner.encode(), _flag(append), _flag(make_parents))
        process = await self._begin(scripts.WRITE, path, *words, wants_input=True)
        try:
            sent = await _pour(process, data)
            await self._finish(process, path)
        finally:
            await process.forget()
        return sent

    async def stat(self, path: bytes, *, follow: bool = True) -> Entry:
        output = await self._output(scripts.STAT, path, b"-H" if follow else b"-P")
        entries = _entries(output)
        if len(entries) != 1:
            raise RemoteUnreachable("The sandbox told nonsense of a file")
        return replace(entries[0], name=path.rstrip(b"/").rpartition(b"/")[2] or b"/")

    async def list(self, path: bytes) -> list[Entry]:
        return _entries(await self._output(scripts.LIST, path))

    async def remove(self, path: bytes, *, recursive: bool = False) -> None:
        await self._output(scripts.REMOVE, path, _flag(recursive))

    async def rename(self, old: bytes, new: bytes) -> None:
        _check(new)
        await self._output(scripts.RENAME, old, new)

    async def mkdir(
        self, path: bytes, *, mode: int = 0o755, owner: str = "", parents: bool = False
    ) -> None:
        await self._output(scripts.MKDIR, path, b"%o" % mode, owner.encode(), _flag(parents))

    async def tar_out(self, root: bytes, names: Sequence[bytes] = ()) -> AsyncIterator[bytes]:
        async with aclosing(self._pieces(scripts.TAR_OUT, root, *(names or (b".",)))) as pieces:
            async for piece in pieces:
                yield piece

    def layer_out(self) -> AsyncIterator[bytes]:
        raise unsupported("cannot tell what of its disk was changed")

    async def tar_in(self, root: bytes, data: AsyncIterator[bytes], *, owner: str = "") -> int:
        process = await self._begin(scripts.TAR_IN, root, owner.encode(), wants_input=True)
        try:
            await _pour(process, data)
            told = await self._finish(process, root)
        finally:
            await process.forget()
        return int(told) if told.strip().isdigit() and len(told) < 12 else 0

    async def tree(self, root: bytes, *, hashed: bool = False) -> AsyncIterator[Entry]:
        entries = _entries(await self._output(scripts.TREE, root))
        digests = _digests(await self._output(scripts.DIGESTS, root)) if hashed else {}
        for entry in sorted(entries, key=lambda entry: entry.name):
            digest = digests.get(entry.name)
            yield entry if digest is None else replace(entry, sha256=digest)

    async def _output(self, script: str, path: bytes, *words: bytes) -> bytes:
        process = await self._begin(script, path, *words)
        try:
            return await self._finish(process, path)
        finally:
            await process.forget()

    async def _pieces(self, script: str, path: bytes, *words: bytes) -> AsyncGenerator[bytes, None]:
        process = await self._begin(script, path, *words)
        try:
            while (chunk := await process.read()) is not None:
                if chunk.channel is Channel.OUTPUT:
                    yield chunk.data
            _refuse((await process.wait()).status, path)
        finally:
            await process.forget()

    async def _begin(
        self, script: str, path: bytes, *words: bytes, wants_input: bool = False
    ) -> Process:
        _check(path)
        argv = [b"/bin/sh", b"-c", script.encode(), b"sh", path, *words]
        return await self._start(Command(argv=argv, user="root", wants_input=wants_input))

    async def _finish(self, process: Process, path: bytes) -> bytes:
        output = bytearray()
        while (chunk := await process.read()) is not None:
            if chunk.channel is Channel.OUTPUT:
                output += chunk.data
                if len(output) > MAX_LISTING:
                    raise GuestRefused("bad-request", f"{shown(path)} holds too much to be told")
        _refuse((await process.wait()).status, path)
        return bytes(output)


async def _pour(process: Process, data: AsyncIterator[bytes] | bytes) -> int:
    """Each write is a request of its own, so that small pieces are sent together."""
    sent = 0
    waiting = bytearray()
    if isinstance(data, bytes):
        waiting += data
    else:
        async for piece in data:
            waiting += piece
            if len(waiting) >= INPUT_PIECE:
                await process.write(bytes(waiting))
                sent += len(waiting)
                waiting.clear()
    await process.write(bytes(waiting))
    await process.close_input()
    return sent + len(waiting)


def _check(path: bytes) -> None:
    if not path.startswith(b"/") or b"\0" in path or len(path) > 4096:
        raise GuestRefused("bad-request", f"{shown(path)!r} is not an absolute path")


def _flag(value: bool) -> bytes:
    return b"1" if value else b"0"


def _refuse(status: int, path: bytes) -> None:
    if status == 0:
        return
    code = scripts.CODES.get(status, "bad-request")
    sentence = _SENTENCES.get(code, "The sandbox refused this on {}")
    raise GuestRefused(code, sentence.format(shown(path)))


def _entries(output: bytes) -> list[Entry]:
    """What `find` told. It runs among strangers: whatever is not as it should be is refused as a whole."""
    fields = output.split(b"\0")
    if fields.pop() or len(fields) % scripts.FIELDS:
        raise RemoteUnreachable("The sandbox told nonsense of its files")
    try:
        return [
            _entry(*fields[at : at + scripts.FIELDS])
            for at in range(0, len(fields), scripts.FIELDS)
        ]
    except ValueError:
        raise RemoteUnreachable("The sandbox told nonsense of its files") from None


def _entry(
    kind: bytes, mode: bytes, size: bytes, at: bytes, uid: bytes, gid: bytes, to: bytes, name: bytes
) -> Entry:
    seconds, _, fraction = at.partition(b".")
    return Entry(
        name=name,
        type=_TYPES.get(kind, "other"),
        mode=int(mode, 8),
        size=int(size),
        mtime_ns=int(seconds) * 10**9 + int(fraction[:9].ljust(9, b"0") or b"0"),
        uid=int(uid),
        gid=int(gid),
        target=to,
        sha256=b"",
    )


def _digests(output: bytes) -> dict[bytes, bytes]:
    found = {}
    for line in output.split(b"\0"):
        digest, _, name = line.partition(b"  ")
        if len(digest) == _DIGEST_CHARACTERS:
            try:
                found[name.removeprefix(b"./")] = bytes.fromhex(digest.decode("ascii"))
            except ValueError:
                raise RemoteUnreachable("The sandbox told nonsense of its files") from None
    return found
