"""A command in a sandbox, joined to this process: its input, output, signals and terminal.

When the owner dies in the middle, the next one is asked to go on where our output stops.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from crucible.client import protocol, terminal
from crucible.client.answers import Exit, ServiceError, Started, table
from crucible.client.exchange import (
    PIECE_BYTES,
    TICK_MS,
    TRIES,
    Connect,
    Exchange,
    Progress,
    Upload,
)
from crucible.client.flows import DescriptorSink, Outbound
from crucible.client.link import LinkLost
from crucible.client.signals import Wakeup
from crucible.errors import CrucibleError, OwnerUnreachable
from crucible.values import dataclass

STDIN, STDOUT, STDERR = 0, 1, 2
DETACH_WAIT_S = 30.0
# A command that runs is not given up because owners die one after the other, or while they wait for its sandbox.
PATIENCE_S = 30.0
_HELD_S = 5.0
_LONGEST_PAUSE_S = 1.0

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_WATCHED = (signal.SIGINT, *_ENDING, signal.SIGWINCH, signal.SIGCONT)


Wait = Callable[[], object]


def wait_for_nothing() -> None:
    """For connections behind which nothing of this process has to end."""


class Interrupted(Exception):
    """A person or the system ended us; what was to be ended with us is ended."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Detached(Exception):
    """The command goes on without us."""

    def __init__(self, started: Started) -> None:
        super().__init__(started.stream)
        self.started = started


class OutputLost(CrucibleError):
    """Our standard output or errors cannot be written: a full disk, not a closed pipe."""

    code = "output-lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """How this process stands to the command.

    A command that `outlives_us` is in a sandbox the owner holds: it is told when we go, and found again by the
    name of its sandbox when the owner dies. One that `has_another_way` is asked for anew if nobody took it.
    """

    outlives_us: bool = False
    has_another_way: bool = False
    sandbox: str = ""
    has_terminal: bool = False
    wants_input: bool = True
    can_detach: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    exit: Exit
    started: Started
    answer: dict[str, Any]


def run_command(
    connect: Connect,
    request: dict[str, Any],
    *,
    conduct: Conduct,
    progress: Progress,
    upload: Upload | None = None,
    wait: Wait = wait_for_nothing,
) -> Ended:
    """Raises Interrupted, Detached, BrokenPipeError, and the errors of the service.

    `wait` is called when the connection is closed, before signals have their ordinary meaning again.
    """
    with Wakeup(_WATCHED) as wakeup:
        joined = _Joined(connect, request, conduct, progress, upload, wakeup)
        try:
            with joined.raw:
                return joined.until_ended()
        finally:
            progress.clear()
            joined.close()
            wait()


class _Joined:
    def __init__(
        self,
        connect: Connect,
        request: dict[str, Any],
        conduct: Conduct,
        progress: Progress,
        upload: Upload | None,
        wakeup: Wakeup,
    ) -> None:
        self.raw = terminal.RawTerminal(STDIN)
        self._connect = connect
        self._request = request
        self._conduct = conduct
        self._progress = progress
        self._upload = upload
        self._wakeup = wakeup
        self._output = DescriptorSink(STDOUT, wakeup.nudge)
        self._errors = DescriptorSink(STDERR, wakeup.nudge)
        self._keys = terminal.DetachKeys() if conduct.can_detach else None
        # A command that is begun gets our size with the request; one that runs already has another's.
        is_new = request["verb"] != "attach"
        self._size = terminal.window_size(STDOUT, STDIN) if is_new else None
        self._started: Started | None = None
        self._is_in_background = False
        self._interrupts = 0
        self._lost_links = 0
        self._losing_since = self._opened_at = time.monotonic()
        self._detach_deadline: float | None = None
        self._exchange = self._open(request)

    def until_ended(self) -> Ended:
        while True:
            try:
                self._step()
                answer = self._exchange.answer
                if answer is not None and self._exchange.is_written:
                    return self._ended(answer)
            except LinkLost as error:
                self._mend(str(error))
            except ServiceError:
                self._drain()
                raise
            except BrokenPipeError:
                self._leave(signal.SIGKILL)
                raise
            except OSError as error:
                self._leave(signal.SIGKILL)
                raise OutputLost(f"The output could not be written: {error.strerror}") from None

    def close(self) -> None:
        self._exchange.link.close()

    @property
    def _is_running(self) -> bool:
        """Whether there is a command behind this very connection, now."""
        return self._exchange.started is not None and self._exchange.answer is None

    def _open(self, request: dict[str, Any], resumed: Outbound | None = None) -> Exchange:
        upload = None if self._upload is None or self._started else self._upload()
        connection = self._connect()
        self._opened_at = time.monotonic()
        return Exchange(
            connection,
            request,
            sinks={protocol.OUTPUT: self._output, protocol.ERRORS: self._errors},
            progress=self._progress,
            upload=upload,
            resumed=resumed,
            began=self._begin,
        )

    def _step(self) -> None:
        exchange = self._exchange
        uploads = exchange.wants_upload
        reads = self._reads_input()
        poller = select.poll()
        poller.register(self._wakeup, select.POLLIN)
        if exchange.answer is None:
            writes = select.POLLOUT if exchange.link.unsent else 0
            poller.register(exchange.link, select.POLLIN | writes)
        if reads:
            poller.register(STDIN, select.POLLIN)
        ready = dict(poller.poll(0 if uploads else self._patience_ms()))

        if self._wakeup.fileno() in ready:
            self._heed(self._wakeup.numbers())
        if exchange.link.fileno() in ready:
            exchange.link.flush()
            exchange.receive()
        exchange.acknowledge()
        if uploads:
            exchange.send_upload()
        if STDIN in ready:
            self._read_input()
        elif self._keys is not None and self._keys.is_overdue and self._is_running:
            exchange.link.send(exchange.outbound.frame(self._keys.release()))
        if self._started is None:
            self._progress.tick()
        if self._detach_deadline is not None:
            self._check_patience(self._detach_deadline)

    def _patience_ms(self) -> int | None:
        if self._keys is not None and self._keys.is_holding:
            return int(terminal.HELD_KEY_S * 1000)
        if self._started is None or self._is_in_background or self._detach_deadline is not None:
            return TICK_MS
        return None

    def _begin(self, started: Started) -> None:
        """Before the first output: that of a guest's terminal is meant for a raw one."""
        self._started = started
        self._progress.clear()
        if self._conduct.has_terminal:
            self.raw.begin()
            self._resize()

    def _reads_input(self) -> bool:
        exchange = self._exchange
        if not self._is_running or not self._conduct.wants_input:
            return False
        if exchange.outbound.room <= 0 or exchange.link.unsent or self._detach_deadline is not None:
            return False
        self._is_in_background = os.isatty(STDIN) and terminal.is_in_background(STDIN)
        return not self._is_in_background

    def _read_input(self) -> None:
        exchange = self._exchange
        try:
            data = os.read(STDIN, min(PIECE_BYTES, exchange.outbound.room))
        except BlockingIOError:
            return  # somebody made our standard input non-blocking and took what was there
        except OSError:
            data = b""  # the terminal has hung up, or the descriptor cannot be read
        if not data:
            exchange.link.send(exchange.outbound.end())
            return
        if self._keys is not None:
            data = self._keys.feed(data)
        if data:
            exchange.link.send(exchange.outbound.frame(data))
        if self._keys is not None and self._keys.is_complete:
            exchange.link.send(protocol.json_frame({"detach": True}))
            self._detach_deadline = time.monotonic() + DETACH_WAIT_S

    def _heed(self, numbers: list[int]) -> None:
        for number in numbers:
            if number == signal.SIGINT:
                self._interrupt()
            elif number in _ENDING:
                self._leave(number)
                raise Interrupted(number)
            elif number == signal.SIGWINCH:
                self._resize()
            elif number == signal.SIGCONT and self._conduct.has_terminal and self._started:
                if not terminal.is_in_background(STDIN):
                    self.raw.begin()
                self._resize()

    def _interrupt(self) -> None:
        """Once is for the command; twice ends what was started for it; three times ends us in any case."""
        self._interrupts += 1
        if self._is_running and self._interrupts == 1:
            self._send({"signal": int(signal.SIGINT)})
        elif self._is_running and self._interrupts == 2 and self._conduct.outlives_us:
            self._send({"signal": int(signal.SIGKILL)})
        else:
            raise Interrupted(signal.SIGINT)

    def _resize(self) -> None:
        size = terminal.window_size(STDOUT, STDIN)
        if self._conduct.has_terminal and self._is_running and size and size != self._size:
            self._send({"resize": list(size)})
            self._size = size

    def _leave(self, number: int) -> None:
        """Tells the command before the connection goes; a temporary sandbox goes with the connection anyway."""
        if self._conduct.outlives_us and self._is_running:
            self._send({"signal": int(number)})

    def _send(self, message: dict[str, Any]) -> None:
        self._exchange.link.send(protocol.json_frame(message))

    def _check_patience(self, deadline: float) -> None:
        """A command that was not let go would end with us; then we do not go."""
        if self._exchange.answer is None and time.monotonic() >= deadline:
            raise OwnerUnreachable(
                f"The command was not taken over within {DETACH_WAIT_S:g} s, and was ended",
                hint="Read owner.log in the state directory",
            )

    def _mend(self, why: str) -> None:
        now = time.monotonic()
        is_untouched = not self._exchange.link.has_received
        # Nothing is said while a sandbox is paused: a link that was held for a while was a good one, too.
        if not is_untouched or now - self._opened_at >= _HELD_S:
            self._lost_links, self._losing_since = 0, now
        self._lost_links += 1
        if self._conduct.outlives_us:
            is_mendable = self._started is not None or is_untouched
        else:
            is_mendable = self._conduct.has_another_way and is_untouched
        is_patient = self._started is not None and now - self._losing_since < PATIENCE_S
        if not is_mendable or (self._lost_links > TRIES and not is_patient):
            raise OwnerUnreachable(
                f"The program that holds the sandbox ended while the command ran: {why}",
                hint="Look at the state with `crucible list`",
            )
        self._exchange.link.close()
        if self._lost_links > TRIES:
            time.sleep(min(0.02 * 2**self._lost_links, _LONGEST_PAUSE_S))
        if self._started is None:
            self._exchange = self._open(self._request)
        else:
            self._resume(self._started)

    def _resume(self, started: Started) -> None:
        self._drain()
        outbound = self._exchange.outbound
        request = {
            "verb": "attach",
            "name": started.name or self._conduct.sandbox,
            "stream": started.stream,
            "output": started.output + self._output.written,
            "errors": started.errors + self._errors.written,
            "waits": True,
        }
        self._exchange = self._open(request, resumed=outbound)

    def _drain(self) -> None:
        """What has come is written before more is asked for, so that nothing is written twice."""
        while not self._exchange.is_written:
            with contextlib.suppress(InterruptedError):
                select.select([self._wakeup], [], [], TICK_MS / 1000)
            self._heed(self._wakeup.numbers())
            self._output.check()
            self._errors.check()

    def _ended(self, answer: dict[str, Any]) -> Ended:
        if self._detach_deadline is not None and self._started is not None:
            raise Detached(self._started)
        if self._started is None:
            raise protocol.BrokenFrame("A command ended that had never begun")
        return Ended(exit=Exit(table(answer, "exit")), started=self._started, answer=answer)
