"""A command in the machine, started here or taken up from a host that died."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Final

from crucible.errors import GuestSilent, ProtocolBroken
from crucible.sandbox.guest.channel import SMALL_S, GuestChannel
from crucible.sandbox.guest.stream import Stream
from crucible.sandbox.session import Channel, Chunk, Command, ExecInfo, Exit
from crucible.wire.answers import EXITED, HIT_MEMORY, HIT_PROCESSES, KILLED, Ended
from crucible.wire.notes import Attached, Resize, Signal, Started
from crucible.wire.requests import EXEC_INPUT, EXEC_MAKE_WORKDIR, EXEC_PTY, Exec, ExecIn

BACKSTOP_S: Final = 10.0
STATUS_TIMED_OUT: Final = 124
MAX_STATUS: Final = 255
MAX_SIGNAL: Final = 64
MAX_TIMEOUT_MS: Final = 2**32 - 1


class GuestProcess:
    """A Process. With a timeout, a guest that is BACKSTOP_S late with the end is GuestSilent.

    All of that is in the guest's time, which stands still while it is paused.
    """

    def __init__(
        self, stream: Stream, *, pid: int, input_offset: int = 0, timeout_s: float | None = None
    ) -> None:
        self.stream = stream.number
        self.pid = pid
        self.input_offset = input_offset
        self._stream = stream
        self._last_s: float | None = None
        if timeout_s is not None:
            self._last_s = stream.patience.now() + timeout_s + BACKSTOP_S

    @classmethod
    async def start(cls, channel: GuestChannel, command: Command) -> GuestProcess:
        stream = await channel.open(_request(command))
        try:
            note = await stream.note(Started, SMALL_S)
        except BaseException:
            stream.close()
            raise
        return cls(stream, pid=note.pid, timeout_s=command.timeout_s)

    @classmethod
    async def attach(
        cls, channel: GuestChannel, info: ExecInfo, *, output_offset: int, errors_offset: int
    ) -> GuestProcess:
        """Goes on reading at the offsets, or where the guest's memory begins; `Chunk.offset` tells.

        `input_offset` is how much input had arrived. Cancelled, it leaves the command as it is.
        """
        stream = await channel.attach(info.stream, output_offset, errors_offset)
        try:
            note = await stream.note(Attached, SMALL_S)
        except BaseException:
            stream.leave()
            raise
        return cls(stream, pid=info.pid, input_offset=note.input)

    async def read(self, *, grants: bool = True) -> Chunk | None:
        """Without `grants` the guest keeps what was read until `grant` says that it arrived."""
        piece = await self._stream.take(self._patience_s(), grants=grants)
        if piece is None:
            return None
        return Chunk(channel=Channel(piece.channel), offset=piece.offset, data=piece.data)

    def grant(self, channel: Channel, count: int) -> None:
        self._stream.acknowledge(channel, count)

    async def discard(self) -> None:
        """Reads and drops all output that is still to come."""
        while await self._stream.take(self._patience_s()) is not None:
            pass

    async def write(self, data: bytes) -> None:
        await self._stream.put(data, None)

    async def safe_input(self, beyond: int) -> int:
        return await self._stream.safe_input(beyond)

    async def close_input(self) -> None:
        await self._stream.put_end()

    async def signal(self, number: int) -> None:
        self._stream.put_note(Signal(number))

    async def resize(self, rows: int, columns: int) -> None:
        self._stream.put_note(Resize(rows, columns))

    async def wait(self) -> Exit:
        while True:
            seen = self._stream.frames_seen
            try:
                return _exit(await self._stream.answer(Ended, self._patience_s()))
            except GuestSilent:
                # The result comes after all output: a slow reader of ours may hold it up.
                if self._stream.frames_seen == seen and not self._stream.has_unread:
                    raise

    def within(self, seconds: float) -> AbstractAsyncContextManager[None]:
        return self._stream.patience.within(seconds)

    async def forget(self) -> None:
        self._stream.close()

    def _patience_s(self) -> float | None:
        if self._last_s is None:
            return None
        return max(self._last_s - self._stream.patience.now(), BACKSTOP_S)


def _request(command: Command) -> Exec | ExecIn:
    flags = (EXEC_PTY if command.has_terminal else 0) | (EXEC_INPUT if command.wants_input else 0)
    flags |= EXEC_MAKE_WORKDIR if command.makes_workdir else 0
    request = Exec(
        tuple(command.argv),
        tuple(command.environment.items()),
        command.workdir,
        command.user,
        flags,
        command.rows,
        command.columns,
        _timeout_ms(command.timeout_s),
        tuple(command.limits.items()),
    )
    return ExecIn(command.image, *request) if command.image else request


def _timeout_ms(timeout_s: float | None) -> int:
    """0 is no timeout to the guest, so the shortest is one millisecond."""
    if timeout_s is None:
        return 0
    return max(1, min(int(timeout_s * 1000), MAX_TIMEOUT_MS))


def _exit(ended: Ended) -> Exit:
    signal = None
    if ended.how == EXITED:
        status = ended.code
        if status > MAX_STATUS:
            raise ProtocolBroken(f"a command ended with status {status}")
    elif ended.how == KILLED:
        signal = ended.code
        if not 0 < signal <= MAX_SIGNAL:
            raise ProtocolBroken(f"a command was killed by signal {signal}")
        status = 128 + signal
    else:
        status = STATUS_TIMED_OUT
    return Exit(
        status=status,
        signal=signal,
        timed_out=status == STATUS_TIMED_OUT and ended.how not in (EXITED, KILLED),
        out_of_memory=bool(ended.hit & HIT_MEMORY),
        too_many_processes=bool(ended.hit & HIT_PROCESSES),
        wall_s=ended.wall_ns / 1e9,
        cpu_s=ended.cpu_ns / 1e9,
        peak_bytes=ended.peak_bytes,
    )
