"""The warm pool: fills itself one machine at a time, hands each out once, and gives way when memory is short."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from crucible.errors import CrucibleError, GuestRefused, ImageMissing, NameTaken
from crucible.images.catalog import Image, load_image
from crucible.sandbox import admission, log
from crucible.sandbox.backend import Backend, Machine
from crucible.sandbox.finishing import finish
from crucible.sandbox.identity import new_identity
from crucible.sandbox.machines import Machines, hostname_for, plan_for
from crucible.sandbox.new_records import NewRecords, new_id
from crucible.sandbox.placing import Placement, place_elsewhere, place_here
from crucible.sandbox.pool.demand import Demand
from crucible.sandbox.pool.shape import Shape, shape_of
from crucible.sandbox.records import LOCAL, Records, SandboxRecord
from crucible.sandbox.remains import Remains
from crucible.sandbox.session import Command
from crucible.sandbox.spec import SandboxSpec
from crucible.values import dataclass

_TICK_S = 1.0
_AFTER_FAILURE_S = 10.0
# Commands go first: while there are any, a machine is restored for later only so often, and not in the moment in which
# the last one is answered.
_PATIENCE_S = 0.5
_ANSWER_S = 0.05
# By the third time the emulator has translated nearly all that starting a command takes.
_WARM_UP = (b"true",)
_WARM_UPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """`pressure_mib`: with less memory than that left on the host, nothing waits."""

    minimum: int
    maximum: int
    age_s: float = 1800.0
    pressure_mib: int = 1024


@dataclass(slots=True, kw_only=True)
class Warm:
    """A machine of ours that nobody has used, standing still; or just handed out, and running."""

    record: SandboxRecord
    machine: Machine
    backend: Backend
    image: Image
    shape: Shape
    since: float

    async def given(self) -> Machine:
        return self.machine


class Pool:
    """Not for a process that ends with its command: what waits here dies with this one."""

    def __init__(
        self,
        *,
        limits: PoolLimits,
        records: Records,
        machines: Machines,
        new_records: NewRecords,
        remains: Remains,
        available_mib: Callable[[], int] = admission.available_mib,
    ) -> None:
        self._limits = limits
        self._records = records
        self._machines = machines
        self._new_records = new_records
        self._remains = remains
        self._available_mib = available_mib
        self._demand = Demand(minimum=limits.minimum, maximum=limits.maximum)
        self._waiting: dict[Shape, list[Warm]] = {}
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.in_use = 0
        self._hits = 0
        self._misses = 0

    async def take(
        self, spec: SandboxSpec, image: Image, name: str, owner: str = LOCAL
    ) -> Warm | None:
        """A machine under that name, reseeded and running, or None if none of its shape waits."""
        placed = await place_here(self._machines, spec)
        shape = shape_of(placed.backend.name, spec, image)
        self._demand.asked(shape, time.monotonic())
        self._changed.set()
        self._machines.admit(spec.memory_mib)
        while waiting := self._waiting.get(shape):
            warm = waiting.pop()
            try:
                await self._hand_out(warm, spec, placed, name, owner)
            except NameTaken:
                waiting.append(warm)
                raise
            except CrucibleError as error:
                log.tell(f"a waiting machine was of no use: {error.message}")
                await finish(self._discard(warm))
                continue
            except BaseException:
                await finish(self._discard(warm))
                raise
            self._hits += 1
            return warm
        self._misses += 1
        return None

    @contextmanager
    def used(self) -> Iterator[None]:
        """Around every temporary sandbox, whether its machine came from here or not."""
        self.in_use += 1
        self._mind_load()
        try:
            yield
        finally:
            self.in_use -= 1
            self._mind_load()

    def _mind_load(self) -> None:
        if self.in_use:
            self._idle.clear()
        else:
            self._idle.set()

    async def run(self, first: SandboxSpec) -> None:
        """Keeps as many machines waiting as are wanted, until it is cancelled; then none is left."""
        try:
            await self._expect(first)
            while True:
                self._changed.clear()
                pause = _TICK_S
                try:
                    await self._tidy()
                    while (shape := self._lacking()) is not None:
                        await self._fill(shape)
                except CrucibleError as error:
                    log.tell(f"the pool could not be filled: {error.message}")
                    pause = _AFTER_FAILURE_S
                    self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._changed.wait()
                        if pause > _TICK_S:
                            await asyncio.sleep(pause)
        finally:
            await finish(self._discard_all())

    def facts(self) -> dict[str, object]:
        asked = self._hits + self._misses
        return {
            "warm": sum(len(waiting) for waiting in self._waiting.values()),
            "in_use": self.in_use,
            "min": self._limits.minimum,
            "max": self._limits.maximum,
            "hits": self._hits,
            "misses": self._misses,
            "hit_rate": round(self._hits / asked, 4) if asked else None,
            "shapes": [
                {**shape._asdict(), "warm": len(waiting)}
                for shape, waiting in self._waiting.items()
                if waiting
            ],
        }

    async def _expect(self, first: SandboxSpec) -> None:
        """The shape that most will ask for waits before anybody has."""
        with contextlib.suppress(CrucibleError):
            if await place_elsewhere(self._machines, first) is not None:
                return  # machines elsewhere cannot be kept waiting
            image = load_image(self._records.home, first.image)
            placed = await place_here(self._machines, first)
            self._demand.expect(shape_of(placed.backend.name, first, image), time.monotonic())

    async def _hand_out(
        self, warm: Warm, spec: SandboxSpec, placed: Placement, name: str, owner: str
    ) -> None:
        """The record changes first: whoever finds it after us knows what to clean up."""
        warm.record = self._records.hand_out(
            warm.record.id, name, spec, placed.isolation, placed.why, owner
        )
        await warm.machine.become(name, new_identity(hostname_for(name)))

    def _lacking(self) -> Shape | None:
        """The shape of which one more should wait, if the host has room for it."""
        for shape, count in self._demand.wanted(time.monotonic()).items():
            if len(self._waiting.get(shape, ())) < count and self._has_room(shape):
                return shape
        return None

    def _has_room(self, shape: Shape) -> bool:
        return self._available_mib() >= self._limits.pressure_mib + shape.memory_mib

    async def _fill(self, shape: Shape) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self._idle.wait()
        await asyncio.sleep(_ANSWER_S)
        try:
            image = load_image(self._records.home, shape.image)
        except ImageMissing:
            self._demand.forget(shape)
            return
        if image.digest != shape.digest:
            self._demand.forget(shape)
            return
        warm = await self._warmed(shape, image)
        self._waiting.setdefault(shape, []).append(warm)

    async def _warmed(self, shape: Shape, image: Image) -> Warm:
        backend = self._machines.backend(shape.backend)
        record_id = new_id()
        record = await self._new_records.add(
            record_id, f"run-{record_id}", shape.spec(), image, is_temporary=True, is_warm=True
        )
        try:
            plan = plan_for(record, image, lifetime="command", disk="fresh")
            machine = await self._machines.boot(backend, plan)
            try:
                handle = machine.handle
                record = self._records.update(
                    record.id, pid=handle.pid, pid_started=handle.started, pid_detail=handle.detail
                )
                await _warm_up(machine, image)
                await machine.pause()
            except BaseException:
                await finish(machine.close())
                raise
        except BaseException:
            backend.bury(record.directory, record.id, None)
            self._remains.erase(record)
            raise
        return Warm(
            record=record, machine=machine, backend=backend, image=image, shape=shape,
            since=time.monotonic(),
        )  # fmt: skip

    async def _tidy(self) -> None:
        """Throws away what is too old, of no more use, or more than is wanted or fits."""
        now = time.monotonic()
        wanted = self._demand.wanted(now)
        is_short = self._available_mib() < self._limits.pressure_mib
        for shape, waiting in list(self._waiting.items()):
            keeps = 0 if is_short or self._is_outdated(shape) else wanted.get(shape, 0)
            for warm in list(waiting):
                is_old = now - warm.since > self._limits.age_s
                if is_old or warm.machine.has_ended or waiting.index(warm) >= keeps:
                    waiting.remove(warm)
                    await self._discard(warm)
            if not waiting:
                del self._waiting[shape]

    def _is_outdated(self, shape: Shape) -> bool:
        try:
            return load_image(self._records.home, shape.image).digest != shape.digest
        except CrucibleError:
            return True

    async def _discard(self, warm: Warm) -> None:
        try:
            await warm.machine.close()
        except Exception:
            warm.backend.bury(warm.record.directory, warm.record.id, warm.machine.handle)
        self._remains.erase(warm.record)

    async def _discard_all(self) -> None:
        for waiting in self._waiting.values():
            while waiting:
                await self._discard(waiting.pop())
        self._waiting.clear()


async def _warm_up(machine: Machine, image: Image) -> None:
    """What every command needs is translated once. An image without this program is merely a little slower."""
    command = Command(argv=_WARM_UP, user=image.user, workdir=image.workdir.encode(), timeout_s=30)
    with contextlib.suppress(GuestRefused):
        for _ in range(_WARM_UPS):
            await machine.run(command)
