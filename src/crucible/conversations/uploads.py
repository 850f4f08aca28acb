"""Files that users give: taken in within bounds, kept under names of our own, gone when nobody needs them.

They lie in the state directory, readable for its user alone, and are never handed out again: what they are for is to be
written into a sandbox.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, delete, func, insert, select, update

from crucible.conversations.facts import Upload
from crucible.conversations.limits import Limits
from crucible.conversations.names import check_name
from crucible.conversations.sniffing import LOOKED_AT, media_type_of
from crucible.errors import HostDiskFull, UploadMissing, UploadQuotaSpent, UploadTooLarge
from crucible.store.database import Database
from crucible.store.tables import conversations as tables

UNUSED_S = 24 * 3600.0
_PIECE = 1 << 20
_ID = re.compile(r"up-[0-9a-f]{32}")
_table = tables.uploads.c


class Uploads:
    """Those of all users; what is another user's is missing."""

    def __init__(
        self,
        database: Database,
        directory: Path,
        limits: Limits,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._directory = directory
        self._now = now
        self._coming: Counter[str] = Counter()
        self.limits = limits

    async def take_in(self, user: str, name: str, data: AsyncIterator[bytes]) -> Upload:
        """Raises BadFileName, UploadTooLarge, UploadQuotaSpent, HostDiskFull; then nothing is left of it."""
        checked = check_name(name)
        id = f"up-{secrets.token_hex(16)}"
        path = self._directory / id
        coming = _Coming(self._coming, user)
        try:
            used = await self._database.read(lambda connection: _used(connection, user))
            size, beginning = await self._write(path, data, used, coming)
            new = Upload(
                id=id,
                user=user,
                conversation="",
                name=checked,
                media_type=media_type_of(checked, beginning),
                size=size,
                created_at=self._now(),
                path=path,
            )
            await self._database.run(lambda connection: self._add(connection, new))
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            coming.end()
        return new

    async def use(self, ids: Sequence[str], user: str, conversation: str) -> tuple[Upload, ...]:
        """From here on they belong to the conversation. Raises UploadMissing, and then none of them does."""

        def work(connection: Connection) -> tuple[Upload, ...]:
            found = tuple(self._own(connection, id, user) for id in dict.fromkeys(ids))
            for one in found:
                if one.conversation not in ("", conversation) or not one.path.is_file():
                    raise UploadMissing(one.id)
                connection.execute(
                    update(tables.uploads)
                    .where(_table.id == one.id)
                    .values(conversation=conversation)
                )
            return found

        return await self._database.run(work)

    async def let_go(self, ids: Sequence[str]) -> None:
        """No turn has used them after all."""

        def work(connection: Connection) -> None:
            wanted = update(tables.uploads).where(_table.id.in_(list(ids)))
            connection.execute(wanted.values(conversation=""))

        if ids:
            await self._database.run(work)

    async def remove(self, id: str, user: str) -> None:
        """Raises UploadMissing."""

        def work(connection: Connection) -> None:
            self._own(connection, id, user)
            self._drop(connection, [id])

        await self._database.run(work)

    async def remove_of(self, conversation: str) -> None:
        def work(connection: Connection) -> None:
            own = select(_table.id).where(_table.conversation == conversation)
            self._drop(connection, list(connection.execute(own).scalars()))

        if conversation:
            await self._database.run(work)

    async def sweep(self) -> None:
        """What no turn has used for a day goes, and what a program that died left half."""
        before = self._now() - UNUSED_S

        def work(connection: Connection) -> None:
            old = select(_table.id).where(_table.conversation == "", _table.created_at <= before)
            self._drop(connection, list(connection.execute(old).scalars()))
            known = set(connection.execute(select(_table.id)).scalars())
            for path in self._files():
                if path.name not in known and path.stat().st_mtime <= before:
                    path.unlink(missing_ok=True)

        await self._database.run(work)

    async def _write(
        self, path: Path, data: AsyncIterator[bytes], used: int, coming: _Coming
    ) -> tuple[int, bytes]:
        size, beginning, waiting = 0, bytearray(), bytearray()
        with await asyncio.to_thread(_create, path) as file:
            async for piece in data:
                size += len(piece)
                if size > self.limits.file_bytes:
                    raise UploadTooLarge(self.limits.file_bytes)
                if used + coming.add(len(piece)) > self.limits.user_bytes:
                    raise UploadQuotaSpent(self.limits.user_bytes)
                beginning += piece[: LOOKED_AT - len(beginning)]
                waiting += piece
                if len(waiting) >= _PIECE:
                    await asyncio.to_thread(_put, file, bytes(waiting))
                    waiting.clear()
            await asyncio.to_thread(_put, file, bytes(waiting))
        return size, bytes(beginning)

    def _add(self, connection: Connection, new: Upload) -> None:
        # Others may have come to their end since this one began.
        if _used(connection, new.user) + new.size > self.limits.user_bytes:
            raise UploadQuotaSpent(self.limits.user_bytes)
        row = {
            "id": new.id,
            "user_id": new.user,
            "conversation": new.conversation,
            "name": new.name,
            "media_type": new.media_type,
            "size": new.size,
            "created_at": new.created_at,
        }
        connection.execute(insert(tables.uploads), [row])

    def _own(self, connection: Connection, id: str, user: str) -> Upload:
        row: Any = None
        if _ID.fullmatch(id):
            wanted = select(tables.uploads).where(_table.id == id, _table.user_id == user)
            row = connection.execute(wanted).one_or_none()
        if row is None:
            raise UploadMissing(id)
        return Upload(
            id=row.id,
            user=row.user_id,
            conversation=row.conversation,
            name=row.name,
            media_type=row.media_type,
            size=row.size,
            created_at=row.created_at,
            path=self._directory / row.id,
        )

    def _drop(self, connection: Connection, ids: list[str]) -> None:
        for id in ids:
            (self._directory / id).unlink(missing_ok=True)
        if ids:
            connection.execute(delete(tables.uploads).where(_table.id.in_(ids)))

    def _files(self) -> list[Path]:
        try:
            return [path for path in self._directory.iterdir() if _ID.fullmatch(path.name)]
        except FileNotFoundError:
            return []


class _Coming:
    """What one upload has brought so far, counted with all that come from its user at the same time."""

    def __init__(self, all: Counter[str], user: str) -> None:
        self._all = all
        self._user = user
        self._own = 0

    def add(self, size: int) -> int:
        """How much that is with all others."""
        self._own += size
        self._all[self._user] += size
        return self._all[self._user]

    def end(self) -> None:
        self._all[self._user] -= self._own
        if self._all[self._user] <= 0:
            del self._all[self._user]


def _used(connection: Connection, user: str) -> int:
    wanted = select(func.coalesce(func.sum(_table.size), 0)).where(_table.user_id == user)
    return int(connection.execute(wanted).scalar_one())


def _create(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0)


def _put(file: IO[bytes], data: bytes) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise HostDiskFull(str(Path(os.fsdecode(file.name)).parent)) from None
        raise
