"""Memories of saved machines that are ready to start from: filled once, sealed, shared by all."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from pathlib import Path

from crucible.backends.qemu import memory
from crucible.backends.qemu.saved import SavedMachine

_MOST = 8


class ShelvedMemory:
    """A descriptor that may be handed to a machine at once, though it is still being filled.

    QEMU takes longer to start than the filling lasts. The machine must not run before `wait` is over:
    only then is all of it there, and sealed.
    """

    def __init__(self, source: SavedMachine) -> None:
        size = source.memory_mib << 20
        self.descriptor = memory.create(size)
        # Not `to_thread`, which begins only when its caller waits for something.
        self._filling = asyncio.get_running_loop().run_in_executor(
            None, _fill, self.descriptor, source.memory, size
        )

    async def wait(self) -> None:
        await asyncio.shield(self._filling)

    @property
    def has_failed(self) -> bool:
        return self._filling.done() and self._filling.exception() is not None

    def close(self) -> None:
        """While it is filled its number must not come to mean another file."""
        self._filling.add_done_callback(self._closed)

    def _closed(self, filling: asyncio.Future[None]) -> None:
        os.close(self.descriptor)
        if not filling.cancelled():
            filling.exception()


class MemoryShelf:
    """What falls off is closed; machines hold their own mapping."""

    def __init__(self) -> None:
        self._memories: OrderedDict[tuple[Path, int], ShelvedMemory] = OrderedDict()

    def reach_for(self, source: SavedMachine) -> ShelvedMemory:
        """The memory of a saved machine. Its descriptor stays ours: use it before the next await."""
        key = (source.directory, source.state.stat().st_mtime_ns)
        found = self._memories.get(key)
        if found is not None and found.has_failed:
            found.close()
            found = None
        if found is None:
            found = self._memories[key] = ShelvedMemory(source)
        self._memories.move_to_end(key)
        while len(self._memories) > _MOST:
            self._memories.popitem(last=False)[1].close()
        return found

    def drop(self, directory: Path) -> None:
        """Closes the memory of a saved machine that nothing will start from any more."""
        for key in [key for key in self._memories if key[0] == directory]:
            self._memories.pop(key).close()

    def close(self) -> None:
        for unused in self._memories.values():
            unused.close()
        self._memories.clear()


def _fill(descriptor: int, path: Path, size: int) -> None:
    memory.fill(descriptor, path, size)
    memory.seal(descriptor)
