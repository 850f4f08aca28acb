"""Memories of saved machines that are ready to start from: filled once, sealed, shared by all."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from pathlib import Path

from crucible.backends.qemu import memory
from crucible.backends.qemu.saved import SavedMachine

_MOST = 8


class MemoryShelf:
    """Descriptors by saved machine. What falls off is closed; machines hold their own mapping."""

    def __init__(self) -> None:
        self._ready: OrderedDict[tuple[Path, int], int] = OrderedDict()
        self._turns: dict[tuple[Path, int], asyncio.Lock] = {}

    async def take(self, saved: SavedMachine) -> int:
        """A sealed descriptor of the memory, to be used before the next await and not closed."""
        key = (saved.directory, saved.state.stat().st_mtime_ns)
        async with self._turns.setdefault(key, asyncio.Lock()):
            if key not in self._ready:
                size = saved.memory_mib << 20
                self._ready[key] = await asyncio.to_thread(memory.load, saved.memory, size)
        self._ready.move_to_end(key)
        descriptor = self._ready[key]
        while len(self._ready) > _MOST:
            old, unused = self._ready.popitem(last=False)
            self._turns.pop(old, None)
            os.close(unused)
        return descriptor

    def close(self) -> None:
        for descriptor in self._ready.values():
            os.close(descriptor)
        self._ready.clear()
        self._turns.clear()
