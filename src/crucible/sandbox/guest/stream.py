"""One request under way: what it sends, what it gets, how it ends. Knows no verb's meaning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol, TypeVar

from crucible.errors import GuestSilent, ProtocolBroken, Refused, SandboxError
from crucible.sandbox.guest.exchange import WORTHWHILE_BYTES, Exchange
from crucible.sandbox.guest.inbound import Inbound, Piece
from crucible.sandbox.guest.patience import Patience
from crucible.sandbox.guest.refusals import refusal
from crucible.wire.answers import Answer, Fail, decode_answer, decode_fail
from crucible.wire.frames import MAX_PAYLOAD, TAKE_WINDOW_BYTES, WINDOW_BYTES, Frame, Kind, encode
from crucible.wire.notes import (
    Attached,
    Connected,
    Listening,
    Note,
    Place,
    Started,
    Watching,
    decode_note,
    decode_window,
    encode_note,
    encode_place,
)
from crucible.wire.requests import EXEC_PTY, Exec, ExecIn, Request, Verb, verb_of

AnswerT = TypeVar("AnswerT", bound=Answer)
NoteT = TypeVar("NoteT", bound=Note)

INPUT: Final = 0
OUTPUT: Final = 1
ERRORS: Final = 2
_HEARD: Final = {
    Verb.EXEC: (OUTPUT, ERRORS),
    Verb.READ: (OUTPUT,),
    Verb.LISTDIR: (OUTPUT,),
    Verb.TAR_OUT: (OUTPUT,),
    Verb.TREE: (OUTPUT,),
    Verb.DIAL: (OUTPUT,),
    Verb.LISTEN: (OUTPUT,),
    Verb.TAKE: (OUTPUT,),
    Verb.LAYER_OUT: (OUTPUT,),
    Verb.WATCH: (OUTPUT,),
}
_FED: Final = frozenset((Verb.EXEC, Verb.WRITE, Verb.TAR_IN, Verb.DIAL, Verb.TAKE))


class Carrier(Protocol):
    """What a stream needs of the channel that carries it."""

    name: str
    failure: SandboxError | None
    exchange: Exchange | None
    patience: Patience

    async def writable(self) -> None: ...
    def send(self, frame: bytes) -> None: ...
    def grant(self, stream: int, channel: int, limit: int) -> None: ...
    def drop(self, stream: int) -> None: ...


class Stream:
    """Left with `close`, which makes the guest drop it too. Waits raise what ended them."""

    def __init__(
        self, carrier: Carrier, number: int, request: Request, *, is_attached: bool = False
    ) -> None:
        self.number = number
        self.frames_seen = 0
        self._carrier = carrier
        self._request = request
        verb = verb_of(request)
        # In which image a command runs makes no difference to what is said of it.
        self._verb = Verb.EXEC if verb is Verb.EXEC_IN else verb
        self._expected_note = _expected_note(self._verb, is_attached)
        self._note: Note | None = None
        self._inbound = Inbound(_HEARD.get(self._verb, ()))
        self._must_end = _HEARD.get(self._verb, ())
        if isinstance(request, Exec | ExecIn) and request.flags & EXEC_PTY:
            self._must_end = (OUTPUT,)
        self._outcome: Answer | Fail | None = None
        self._sent = 0
        self._limit = TAKE_WINDOW_BYTES if self._verb is Verb.TAKE else WINDOW_BYTES
        self._is_fed = self._verb in _FED
        # Places in the exchange are held for a whole window's time, which small windows are not worth.
        self._uses_exchange = self._verb is not Verb.TAKE
        self._feeding = asyncio.Lock()
        self._waiters: set[asyncio.Future[None]] = set()
        self._is_closed = False

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def patience(self) -> Patience:
        return self._carrier.patience

    @property
    def has_unread(self) -> bool:
        return bool(self._inbound)

    @property
    def has_ended(self) -> bool:
        return self._outcome is not None or self._is_closed

    async def take(self, seconds: float | None, *, grants: bool = True) -> Piece | None:
        """The next bytes, None when all channels ended. A FAIL is raised after the last bytes.

        Without `grants` the guest keeps them for replay until `acknowledge` is called for them.
        """
        await self._until(self._has_piece_or_end, seconds)
        if self._inbound:
            piece = self._inbound.take()
            if grants:
                self.acknowledge(piece.channel, len(piece.data))
            return piece
        if isinstance(self._outcome, Fail):
            raise refusal(self._request, self._outcome)
        return None

    def acknowledge(self, channel: int, count: int) -> None:
        limit = self._inbound.acknowledge(channel, count)
        if limit is not None and self._outcome is None and not self._is_closed:
            self._carrier.grant(self.number, channel, limit)

    async def put(self, data: bytes, seconds: float | None) -> None:
        """Sends all of it, within the window. Input for a stream that ended is dropped."""
        rest = memoryview(data)
        async with self._feeding:
            while rest:
                await self._until(self._may_send, seconds)
                await self._writable(seconds)
                if not self._is_fed or self.has_ended:
                    return
                count = self._send_some(rest[: self._limit - self._sent])
                self._sent += count
                rest = rest[count:]

    def _send_some(self, data: memoryview) -> int:
        """By way of the exchange if there is one and it pays, else in the frame itself."""
        exchange = self._carrier.exchange
        if exchange is not None and self._uses_exchange and len(data) >= WORTHWHILE_BYTES:
            data = data[:WINDOW_BYTES]
            place = exchange.lay(self.number, data, self._sent + len(data))
            if place is not None:
                payload = encode_place(Place(place, len(data)))
                self._carrier.send(encode(Kind.FETCH, self.number, payload))
                return len(data)
        data = data[:MAX_PAYLOAD]
        self._carrier.send(encode(Kind.DATA, self.number, data, INPUT))
        return len(data)

    async def safe_input(self, beyond: int) -> int:
        """How much of the input the guest has acknowledged, once that is more than `beyond` or it has ended.

        It outlives this host. What was sent and not acknowledged does not.
        """
        await self._until(lambda: self._limit - WINDOW_BYTES > beyond or self.has_ended, None)
        return max(beyond, self._limit - WINDOW_BYTES)

    async def put_end(self) -> None:
        async with self._feeding:
            if self._is_fed and not self.has_ended:
                self._carrier.send(encode(Kind.END, self.number, b"", INPUT))
            self._is_fed = False

    def put_note(self, note: Note) -> None:
        if not self.has_ended:
            self._carrier.send(encode(Kind.NOTE, self.number, encode_note(note)))

    async def note(self, kind: type[NoteT], seconds: float | None) -> NoteT:
        """The note that begins this stream."""
        await self._until(lambda: self._note is not None or self.has_ended, seconds)
        if isinstance(self._note, kind):
            return self._note
        self.raise_end()
        raise ProtocolBroken(f"a {self._verb.name} ended before it began")

    async def answer(self, kind: type[AnswerT], seconds: float | None) -> AnswerT:
        await self._until(lambda: self.has_ended, seconds)
        if isinstance(self._outcome, kind):
            return self._outcome
        self.raise_end()
        raise TypeError(f"{self._verb.name} is answered by another kind than {kind.__name__}")

    @property
    def has_failed(self) -> bool:
        return isinstance(self._outcome, Fail)

    async def ended(self) -> None:
        """Returns when the stream has ended, or the channel with it."""
        await self._until(lambda: self.has_ended or self._carrier.failure is not None, None)

    def close(self) -> None:
        """Drops the stream on both sides. An exec lives on in the guest until this."""
        if self._is_closed:
            return
        self.leave()
        is_kept = self._verb is Verb.EXEC and not isinstance(self._outcome, Fail)
        if self._outcome is None or is_kept:
            self._carrier.send(encode(Kind.FORGET, self.number))

    def leave(self) -> None:
        """Drops the stream here only: what it is about goes on in the guest."""
        self._is_closed = True
        self._carrier.drop(self.number)
        self.wake()

    def begin_at(self, attached: Attached) -> None:
        """Takes up counting where a host before this one was."""
        for channel, offset in ((OUTPUT, attached.output), (ERRORS, attached.errors)):
            limit = self._inbound.begin_at(channel, offset)
            self._carrier.grant(self.number, channel, limit)
        self._sent = attached.input
        self._limit = max(self._limit, attached.input)

    def wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def receive(self, frame: Frame) -> None:
        """A frame of the guest, checked against all that this stream may be told."""
        self.frames_seen += 1
        match frame.kind:
            case Kind.DATA:
                self._check_begun()
                self._inbound.add(frame.channel, frame.payload)
            case Kind.END:
                self._check_begun()
                self._inbound.end(frame.channel)
            case Kind.WINDOW:
                if frame.channel != INPUT or self._verb not in _FED:
                    raise ProtocolBroken(
                        f"a window for channel {frame.channel} of a {self._verb.name}"
                    )
                self._receive_window(decode_window(frame.payload).limit)
            case Kind.NOTE:
                self._receive_note(decode_note(frame.payload))
            case Kind.RESULT:
                self._end(decode_answer(self._verb, frame.payload))
            case Kind.FAIL:
                self._end(decode_fail(frame.payload))
            case _:
                raise ProtocolBroken(f"a {frame.kind.name} frame came from the guest")
        self.wake()

    def _receive_window(self, limit: int) -> None:
        if limit > self._limit + TAKE_WINDOW_BYTES:
            self._uses_exchange = True
        self._limit = max(self._limit, limit)
        if self._carrier.exchange is not None:
            self._carrier.exchange.acknowledge(self.number, self._limit - WINDOW_BYTES)

    def _receive_note(self, note: Note) -> None:
        if self._note is not None or type(note) is not self._expected_note:
            raise ProtocolBroken(f"a {self._verb.name} was told {type(note).__name__!r}")
        self._note = note
        if isinstance(note, Attached):
            self.begin_at(note)

    def _check_begun(self) -> None:
        if self._expected_note is Attached and self._note is None:
            raise ProtocolBroken("an exec went on before it told from where")

    def _end(self, outcome: Answer | Fail) -> None:
        self._outcome = outcome
        self._carrier.drop(self.number)

    def _has_piece_or_end(self) -> bool:
        return bool(self._inbound) or self.has_ended or self._inbound.has_ended(self._must_end)

    def _may_send(self) -> bool:
        return self._sent < self._limit or self.has_ended or not self._is_fed

    def raise_end(self) -> None:
        if isinstance(self._outcome, Fail):
            raise refusal(self._request, self._outcome)
        if self._outcome is None:
            raise Refused(f"This {self._verb.name.lower()} was dropped here before it ended")

    async def _writable(self, seconds: float | None) -> None:
        try:
            async with self.patience.within(seconds):
                await self._carrier.writable()
        except TimeoutError:
            raise GuestSilent(self._carrier.name, seconds or 0) from None

    async def _until(self, is_ready: Callable[[], bool], seconds: float | None) -> None:
        if is_ready():
            return
        try:
            async with self.patience.within(seconds):
                while not is_ready():
                    await self._woken()
        except TimeoutError:
            # A host that did not run for so long hears the answer and its own alarm in the same moment.
            if not is_ready():
                raise GuestSilent(self._carrier.name, seconds or 0) from None

    async def _woken(self) -> None:
        if self._carrier.failure is not None:
            raise self._carrier.failure.with_traceback(None)
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)


def _expected_note(verb: Verb, is_attached: bool) -> type[Note] | None:
    if verb is Verb.EXEC:
        return Attached if is_attached else Started
    if verb is Verb.LISTEN:
        return Listening
    if verb is Verb.WATCH:
        return Watching
    return Connected if verb in (Verb.DIAL, Verb.TAKE) else None
