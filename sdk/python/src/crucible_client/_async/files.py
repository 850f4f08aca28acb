"""Files of a sandbox. Paths are absolute and of the sandbox; whole trees go in and out as archives."""

from __future__ import annotations

import builtins
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import IO

from crucible_client import trees
from crucible_client._async.http import SILENCE_S, AsyncHttp
from crucible_client._async.waiting import beside
from crucible_client.errors import BadAnswer, ConnectionLost, FileMissing
from crucible_client.reading import Reader
from crucible_client.values import FileChange, FileEntry

LARGEST_READ = 1 << 30
LARGEST_DOWNLOAD = 4 << 30


class AsyncFiles:
    def __init__(self, http: AsyncHttp, path: str) -> None:
        self._http = http
        self._path = f"{path}/files"
        self._archive = f"{path}/archive"

    async def read(
        self, path: str, *, offset: int = 0, length: int = 0, max_bytes: int = LARGEST_READ
    ) -> bytes:
        """All of a file from `offset` on, or its next `length` bytes. Raises FileMissing."""
        data = bytearray()
        async with aclosing(self.stream(path, offset=offset, length=length)) as pieces:
            async for piece in pieces:
                data += piece
                if len(data) > max_bytes:
                    raise BadAnswer(
                        f"The file has more than {max_bytes} bytes", hint="Use `stream`"
                    )
        return bytes(data)

    async def read_text(self, path: str, *, encoding: str = "utf-8") -> str:
        return (await self.read(path)).decode(encoding)

    async def stream(self, path: str, *, offset: int = 0, length: int = 0) -> AsyncGenerator[bytes]:
        """The bytes of a file of any size, as they come."""
        asked = {"path": path, "offset": offset, "length": length}
        async with self._http.pieces(self._path, params=asked) as pieces:
            async for piece in pieces:
                yield piece

    async def write(
        self,
        path: str,
        data: str | bytes | AsyncIterator[bytes],
        *,
        mode: int = 0o644,
        owner: str = "",
        append: bool = False,
        parents: bool = True,
    ) -> int:
        """Makes or replaces a file, and the directories it lies in. Gives how many bytes were written."""
        content = data.encode() if isinstance(data, str) else data
        asked = {"path": path, "mode": mode, "owner": owner, "append": append, "parents": parents}
        told = await self._http.call(
            "PUT", self._path, params=asked, content=content, timeout_s=SILENCE_S
        )
        return Reader(told).whole("size")

    async def list(self, path: str) -> builtins.list[FileEntry]:
        told = await self._http.call("GET", f"{self._path}/list", params={"path": path})
        return [FileEntry.read(one) for one in Reader(told).items("items")]

    async def stat(self, path: str, *, follow: bool = True) -> FileEntry:
        """Raises FileMissing. Without `follow` a symbolic link itself is looked at."""
        asked = {"path": path, "follow": follow}
        return FileEntry.read(await self._http.call("GET", f"{self._path}/stat", params=asked))

    async def exists(self, path: str) -> bool:
        try:
            await self.stat(path, follow=False)
        except FileMissing:
            return False
        return True

    async def mkdir(
        self, path: str, *, mode: int = 0o755, owner: str = "", parents: bool = True
    ) -> None:
        asked = {"path": path, "mode": mode, "owner": owner, "parents": parents}
        await self._http.call("POST", f"{self._path}/mkdir", json=asked)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        asked = {"path": path, "recursive": recursive}
        await self._http.call("DELETE", self._path, params=asked)

    async def rename(self, source: str, target: str) -> None:
        asked = {"source": source, "target": target}
        await self._http.call("POST", f"{self._path}/move", json=asked)

    async def watch(self, path: str, *, recursive: bool = False) -> AsyncGenerator[FileChange]:
        """What changes below a directory from the first step of this on, until the directory is gone.

        Changes are told from the moment that `ready` would be: take the first step before you change anything,
        with `watching`.
        """
        async with aclosing(self.watching(path, recursive=recursive)) as changes:
            async for change in changes:
                if change is not None:
                    yield change

    async def watching(
        self, path: str, *, recursive: bool = False
    ) -> AsyncGenerator[FileChange | None]:
        """The same, beginning with None: what is changed after that is told."""
        asked = {"path": path, "recursive": recursive}
        told = self._http.events("GET", f"{self._path}/watch", params=asked)
        async with aclosing(told) as following:
            async for event in following:
                if event.kind == "ready":
                    yield None
                elif event.kind == "change":
                    yield FileChange.read(event.data)
                elif event.kind == "end":
                    return
        raise ConnectionLost("The server stopped telling of changes")

    async def upload(self, source: str | os.PathLike[str], path: str, *, owner: str = "") -> int:
        """A file, or a directory and all that is in it, from here to `path`. Gives how many entries there are."""
        local = Path(source)
        if not await beside(local.is_dir):
            with await beside(lambda: local.open("rb")) as file:
                mode = os.fstat(file.fileno()).st_mode & 0o777
                await self.write(path, _pieces(file), mode=mode, owner=owner)
            return 1
        await self.mkdir(path, owner=owner)
        with await beside(lambda: trees.packed(local)) as file:
            told = await self._http.call(
                "PUT",
                self._archive,
                params={"path": path, "owner": owner},
                content=_pieces(file),
                timeout_s=self._http.timeout_s * 10,
            )
        return Reader(told).whole("entries")

    async def download(
        self, path: str, target: str | os.PathLike[str], *, max_bytes: int = LARGEST_DOWNLOAD
    ) -> None:
        """A file, or a directory and all that is in it, from the sandbox to here. Nothing leaves `target`."""
        local = Path(target)
        entry = await self.stat(path)
        if not entry.is_directory:
            with await beside(lambda: local.open("wb")) as file:
                async with aclosing(self.stream(path)) as pieces:
                    await _save(pieces, file, max_bytes)
            return
        with trees.scratch() as file:
            async with self._http.pieces(self._archive, params={"path": path}) as pieces:
                await _save(pieces, file, max_bytes)
            await beside(lambda: trees.unpack(file, local))


async def _save(pieces: AsyncIterator[bytes], file: IO[bytes], most: int) -> None:
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > most:
            raise BadAnswer(f"There are more than {most} bytes", hint="Give a larger `max_bytes`")
        file.write(piece)


async def _pieces(file: trees.Readable) -> AsyncIterator[bytes]:
    while data := await beside(lambda: file.read(trees.PIECE)):
        yield data
