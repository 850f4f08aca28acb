"""Files of a sandbox. Paths are absolute and of the sandbox; whole trees go in and out as archives."""

# Made of the file of this name in `_async` by scripts/python_sdk.py; `make docs` writes it anew.

from __future__ import annotations

import builtins
import os
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

from crucible_client import trees
from crucible_client._sync.http import SILENCE_S, Http
from crucible_client._sync.waiting import beside
from crucible_client.errors import BadAnswer, ConnectionLost, FileMissing
from crucible_client.reading import Reader
from crucible_client.values import FileChange, FileEntry

LARGEST_READ = 1 << 30
LARGEST_DOWNLOAD = 4 << 30


class Files:
    def __init__(self, http: Http, path: str) -> None:
        self._http = http
        self._path = f"{path}/files"
        self._archive = f"{path}/archive"

    def read(
        self, path: str, *, offset: int = 0, length: int = 0, max_bytes: int = LARGEST_READ
    ) -> bytes:
        """All of a file from `offset` on, or its next `length` bytes. Raises FileMissing."""
        data = bytearray()
        with closing(self.stream(path, offset=offset, length=length)) as pieces:
            for piece in pieces:
                data += piece
                if len(data) > max_bytes:
                    raise BadAnswer(
                        f"The file has more than {max_bytes} bytes", hint="Use `stream`"
                    )
        return bytes(data)

    def read_text(self, path: str, *, encoding: str = "utf-8") -> str:
        return (self.read(path)).decode(encoding)

    def stream(self, path: str, *, offset: int = 0, length: int = 0) -> Generator[bytes]:
        """The bytes of a file of any size, as they come."""
        asked = {"path": path, "offset": offset, "length": length}
        with self._http.pieces(self._path, params=asked) as pieces:
            for piece in pieces:
                yield piece

    def write(
        self,
        path: str,
        data: str | bytes | Iterator[bytes],
        *,
        mode: int = 0o644,
        owner: str = "",
        append: bool = False,
        parents: bool = True,
    ) -> int:
        """Makes or replaces a file, and the directories it lies in. Gives how many bytes were written."""
        content = data.encode() if isinstance(data, str) else data
        asked = {"path": path, "mode": mode, "owner": owner, "append": append, "parents": parents}
        told = self._http.call(
            "PUT", self._path, params=asked, content=content, timeout_s=SILENCE_S
        )
        return Reader(told).whole("size")

    def list(self, path: str) -> builtins.list[FileEntry]:
        told = self._http.call("GET", f"{self._path}/list", params={"path": path})
        return [FileEntry.read(one) for one in Reader(told).items("items")]

    def stat(self, path: str, *, follow: bool = True) -> FileEntry:
        """Raises FileMissing. Without `follow` a symbolic link itself is looked at."""
        asked = {"path": path, "follow": follow}
        return FileEntry.read(self._http.call("GET", f"{self._path}/stat", params=asked))

    def exists(self, path: str) -> bool:
        try:
            self.stat(path, follow=False)
        except FileMissing:
            return False
        return True

    def mkdir(self, path: str, *, mode: int = 0o755, owner: str = "", parents: bool = True) -> None:
        asked = {"path": path, "mode": mode, "owner": owner, "parents": parents}
        self._http.call("POST", f"{self._path}/mkdir", json=asked)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        asked = {"path": path, "recursive": recursive}
        self._http.call("DELETE", self._path, params=asked)

    def rename(self, source: str, target: str) -> None:
        asked = {"source": source, "target": target}
        self._http.call("POST", f"{self._path}/move", json=asked)

    def watch(self, path: str, *, recursive: bool = False) -> Generator[FileChange]:
        """What changes below a directory from the first step of this on, until the directory is gone.

        Changes are told from the moment that `ready` would be: take the first step before you change anything,
        with `watching`.
        """
        with closing(self.watching(path, recursive=recursive)) as changes:
            for change in changes:
                if change is not None:
                    yield change

    def watching(self, path: str, *, recursive: bool = False) -> Generator[FileChange | None]:
        """The same, beginning with None: what is changed after that is told."""
        asked = {"path": path, "recursive": recursive}
        told = self._http.events("GET", f"{self._path}/watch", params=asked)
        with closing(told) as following:
            for event in following:
                if event.kind == "ready":
                    yield None
                elif event.kind == "change":
                    yield FileChange.read(event.data)
                elif event.kind == "end":
                    return
        raise ConnectionLost("The server stopped telling of changes")

    def upload(self, source: str | os.PathLike[str], path: str, *, owner: str = "") -> int:
        """A file, or a directory and all that is in it, from here to `path`. Gives how many entries there are."""
        local = Path(source)
        if not beside(local.is_dir):
            with beside(lambda: local.open("rb")) as file:
                mode = os.fstat(file.fileno()).st_mode & 0o777
                self.write(path, _pieces(file), mode=mode, owner=owner)
            return 1
        self.mkdir(path, owner=owner)
        with beside(lambda: trees.packed(local)) as file:
            told = self._http.call(
                "PUT",
                self._archive,
                params={"path": path, "owner": owner},
                content=_pieces(file),
                timeout_s=self._http.timeout_s * 10,
            )
        return Reader(told).whole("entries")

    def download(
        self, path: str, target: str | os.PathLike[str], *, max_bytes: int = LARGEST_DOWNLOAD
    ) -> None:
        """A file, or a directory and all that is in it, from the sandbox to here. Nothing leaves `target`."""
        local = Path(target)
        entry = self.stat(path)
        if not entry.is_directory:
            with beside(lambda: local.open("wb")) as file:
                with closing(self.stream(path)) as pieces:
                    _save(pieces, file, max_bytes)
            return
        with trees.scratch() as file:
            with self._http.pieces(self._archive, params={"path": path}) as pieces:
                _save(pieces, file, max_bytes)
            beside(lambda: trees.unpack(file, local))


def _save(pieces: Iterator[bytes], file: IO[bytes], most: int) -> None:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > most:
            raise BadAnswer(f"There are more than {most} bytes", hint="Give a larger `max_bytes`")
        file.write(piece)


def _pieces(file: trees.Readable) -> Iterator[bytes]:
    while data := beside(lambda: file.read(trees.PIECE)):
        yield data
