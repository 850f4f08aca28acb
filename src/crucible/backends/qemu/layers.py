"""The disk of a running machine: frozen, sealed, merged and tidied while it is in use.

A merge copies what frozen layers hold into the top, the only layer that is nobody else's. Afterwards
the disk is the same with those layers and without them: whoever dies before the last of them is
removed leaves a whole disk, and no record is needed to tell how far it came.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from crucible.backends.qemu import disks
from crucible.backends.qemu.command import WRITABLE_MARK, layer_fdset, layer_options
from crucible.backends.qemu.qmp import Monitor, MonitorError
from crucible.errors import DiskTooDeep, StateDamaged
from crucible.sandbox.backend import BootPlan
from crucible.sandbox.finishing import finish

_JOB = "merge"
_MERGE_DEADLINE_S = 3600.0
_LOOK_AGAIN_S = 0.02
# What a merge must leave free on the host's disk, beside what it takes itself.
_SPARE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDisk:
    """Layer N is the file disk-N in the directory and the nodes disk-N and file-N in the VMM."""

    name: str
    directory: Path
    monitor: Monitor
    is_disposable: bool

    @classmethod
    def of(cls, plan: BootPlan, monitor: Monitor) -> LiveDisk:
        return cls(
            name=plan.name,
            directory=plan.directory,
            monitor=monitor,
            is_disposable=plan.lifetime == "command",
        )

    async def resize(self, size: int) -> None:
        top = disks.number_of(disks.find_chain(self.directory).top)
        await self.monitor.execute("block_resize", {"node-name": f"disk-{top}", "size": size})

    async def push(self) -> tuple[Path, ...]:
        """Puts an empty layer on top of a machine that stands still; gives those that are frozen now."""
        chain = disks.find_chain(self.directory)
        below = disks.number_of(chain.top)
        number = below + 1
        path = disks.layer_path(self.directory, number)
        disks.create_layer(path, chain.size_bytes)
        await self._hand_over(path, os.O_RDWR, mark=WRITABLE_MARK)
        file, node = layer_options(number, is_top=True, is_disposable=self.is_disposable)
        await self.monitor.execute("blockdev-add", file)
        await self.monitor.execute("blockdev-add", {**node, "backing": None})
        await self.monitor.execute(
            "blockdev-snapshot", {"node": f"disk-{below}", "overlay": f"disk-{number}"}
        )
        return chain.layers

    async def merge_if_long(self) -> None:
        """A merge that fails leaves the disk as it was; only where it could not grow further is that an error."""
        layers = disks.find_chain(self.directory).layers
        taken = [disks.bytes_taken(layer) for layer in layers]
        base = disks.choose_base(taken)
        if base is None:
            return
        needed = sum(taken[base + 1 : -1]) + _SPARE_BYTES
        free = shutil.disk_usage(self.directory).free
        if free < needed:
            why: str | None = f"that takes {needed >> 20} MiB and {free >> 20} MiB are free"
        else:
            why = await self._merge(disks.number_of(layers[-1]), disks.number_of(layers[base]))
        if why is None:
            await self.tidy()
        elif len(layers) >= disks.MOST_LAYERS:
            raise DiskTooDeep(self.name, len(layers), why)

    async def give_up_merging(self) -> None:
        """Ends a merge that whoever asked for it does not wait for any more. What was copied stays, unused."""
        if await self._job() is None:
            return
        with contextlib.suppress(MonitorError):
            await self.monitor.execute("job-cancel", {"id": _JOB})
        await self._merged()

    async def tidy(self) -> None:
        """Removes layers that the machine does not use, and takes from it the power to write to frozen ones.

        May be repeated, and sets right what somebody who died had begun. QEMU closes descriptors only
        while the machine runs, so it must.
        """
        layers = disks.find_chain(self.directory).layers
        used = await self._used(layers)
        unused = [layer for layer in layers if layer not in used]
        if unused:
            # Until QEMU writes it down, where the merged data lies is known to itself alone.
            try:
                await self.monitor.execute("stop")
            finally:
                await self.monitor.execute("cont")
            await self._remove(unused)
        writable = await self._writable_descriptors()
        for below, layer in pairwise(used[:-1]):
            if layer in writable:
                await self._seal(layer, below, writable[layer])

    async def _merge(self, top: int, base: int) -> str | None:
        """None, or why it failed."""
        options = {"job-id": _JOB, "device": f"disk-{top}", "base-node": f"disk-{base}"}
        # The header names no backing file, now as before.
        options |= {"backing-file": ""}
        try:
            await self.monitor.execute("block-stream", {**options, "auto-dismiss": False})
            async with asyncio.timeout(_MERGE_DEADLINE_S):
                return await self._merged()
        except MonitorError as error:
            return error.message
        except TimeoutError:
            await self.give_up_merging()
            return f"it was not done within {_MERGE_DEADLINE_S:g} s"
        except asyncio.CancelledError:
            await finish(self.give_up_merging())
            raise

    async def _merged(self) -> str | None:
        while (job := await self._job()) is not None:
            if job["status"] == "concluded":
                await self.monitor.execute("job-dismiss", {"id": _JOB})
                return job.get("error")
            await asyncio.sleep(_LOOK_AGAIN_S)
        return "it was given up"

    async def _job(self) -> dict[str, Any] | None:
        jobs = await self.monitor.execute("query-jobs")
        return next((job for job in jobs if job["id"] == _JOB), None)

    async def _used(self, layers: Sequence[Path]) -> list[Path]:
        """Those that the machine's disk is made of: its top, and as many of the lowest as lie below it."""
        for block in await self.monitor.execute("query-block"):
            inserted = block.get("inserted", {})
            for place, layer in enumerate(layers):
                if inserted.get("node-name") == layer.stem:
                    depth = min(place, int(inserted["backing_file_depth"]))
                    return [*layers[:depth], layer]
        raise StateDamaged(f"The machine of sandbox {self.name!r} does not use the disk it has")

    async def _remove(self, layers: Sequence[Path]) -> None:
        found = await self.monitor.execute("query-named-block-nodes", {"flat": True})
        nodes = {node.get("node-name") for node in found}
        for layer in reversed(layers):
            number = disks.number_of(layer)
            # QEMU refuses if anything is still read from it, and then the file stays, too.
            for node in (f"disk-{number}", f"file-{number}"):
                if node in nodes:
                    await self.monitor.execute("blockdev-del", {"node-name": node})
            with contextlib.suppress(MonitorError):
                await self.monitor.execute("remove-fd", {"fdset-id": layer_fdset(number)})
            layer.unlink()

    async def _writable_descriptors(self) -> dict[Path, list[int]]:
        found: dict[Path, list[int]] = {}
        sets = {
            item["fdset-id"]: item["fds"] for item in await self.monitor.execute("query-fdsets")
        }
        for layer in disks.find_chain(self.directory).layers:
            descriptors = sets.get(layer_fdset(disks.number_of(layer)), [])
            marked = [item["fd"] for item in descriptors if item.get("opaque") == WRITABLE_MARK]
            if marked:
                found[layer] = marked
        return found

    async def _seal(self, layer: Path, below: Path, writable: Sequence[int]) -> None:
        """Has QEMU open the layer anew, by a descriptor that cannot write, and close those that can."""
        number = disks.number_of(layer)
        await self._hand_over(layer, os.O_RDONLY)
        file, node = layer_options(number, is_top=False, is_disposable=self.is_disposable)
        node["backing"] = f"disk-{disks.number_of(below)}"
        await self.monitor.execute("blockdev-reopen", {"options": [node, file]})
        for descriptor in writable:
            await self.monitor.execute(
                "remove-fd", {"fdset-id": layer_fdset(number), "fd": descriptor}
            )

    async def _hand_over(self, layer: Path, flags: int, *, mark: str = "") -> None:
        arguments: dict[str, Any] = {"fdset-id": layer_fdset(disks.number_of(layer))}
        if mark:
            arguments["opaque"] = mark
        with _opened(layer, flags) as descriptor:
            await self.monitor.execute("add-fd", arguments, fd=descriptor)


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
