"""Runs inside a sandbox: keeps a Python state and runs pieces of code in it, one after the other.

Sent there whole, so it uses the standard library of any Python since 3.8 alone. Started with a directory of its own, it
listens on loopback, writes `address` there, and lives on by itself: whoever reads that file can speak to it, also in a
copy of the machine. A frame is four bytes of length, the highest first, and JSON. Each connection has one request.
"""

from __future__ import annotations

import ast
import builtins
import codecs
import fcntl
import io
import json
import os
import queue
import re
import select
import signal
import socket
import struct
import sys
import termios
import threading
import time
from _operator import _compare_digest as is_same  # of hmac, whose own import takes long

import display  # beside this file

# What is not needed for every piece of code is imported where it is: a start in an emulated machine is slow.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any

IS_COROUTINE = 0x80
MAX_REQUEST = 16 << 20
MAX_EVENT = 8 << 20
BATCH_CHARACTERS = 8_192
BATCH_S = 0.05
DRAIN_LOOKS = 2_000


class Job:
    """One piece of code, and the connection on which its events go."""

    def __init__(self, request: dict[str, Any], connection: socket.socket) -> None:
        self.code = str(request.get("code", ""))
        self.env = {str(key): str(value) for key, value in (request.get("env") or {}).items()}
        self.connection = connection
        self.sending = threading.Lock()
        self.is_dropped = False
        self.done = threading.Event()

    def tell(self, **event: Any) -> None:
        data = json.dumps(event, default=str).encode("utf-8", "surrogatepass")
        if len(data) > MAX_EVENT:
            cut = {"type": "stderr", "text": "A result of %d bytes is too large\n" % len(data)}
            data = json.dumps(cut).encode()
        with self.sending:
            if not self.is_dropped:
                try:
                    self.connection.sendall(struct.pack(">I", len(data)) + data)
                except OSError:
                    self.is_dropped = True


class Writer(io.TextIOBase):
    """`sys.stdout` or `sys.stderr`: what is written together goes out together."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, kernel: Kernel, name: str, descriptor: int) -> None:
        self.kernel = kernel
        self.name = name
        self.descriptor = descriptor
        self.pieces: list[str] = []
        self.size = 0
        self.buffer = Raw(self)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.descriptor

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        with self.kernel.writing:
            self.kernel.other(self).drain()
            self.pieces.append(text)
            self.size += len(text)
            if self.size > BATCH_CHARACTERS:
                self.drain()
        return len(text)

    def flush(self) -> None:
        with self.kernel.writing:
            self.drain()

    def drain(self) -> None:
        text, self.pieces, self.size = "".join(self.pieces), [], 0
        job = self.kernel.current
        # What a thread prints while no code runs belongs to nobody.
        if text and job is not None:
            job.tell(type=self.name, text=text)


class Raw(io.RawIOBase):
    """The bytes' way into a Writer, for programs that insist on `sys.stdout.buffer`."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.writer.write(self.decoder.decode(bytes(data)))
        return len(data)


class Pump(threading.Thread):
    """What child processes write to descriptor 1 or 2."""

    def __init__(self, writer: Writer, descriptor: int) -> None:
        super().__init__(daemon=True)
        self.source, target = os.pipe()
        os.dup2(target, descriptor)
        os.close(target)
        self.writer = writer
        self.is_busy = False

    def run(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            select.select([self.source], [], [])
            self.is_busy = (
                True  # before the pipe is empty, so that it never looks as if all was told
            )
            self.writer.write(decoder.decode(os.read(self.source, 65_536)))
            self.is_busy = False

    def is_empty(self) -> bool:
        waiting = bytearray(4)
        fcntl.ioctl(self.source, termios.FIONREAD, waiting)
        return not any(waiting) and not self.is_busy


class Kernel:
    def __init__(self) -> None:
        self.current: Job | None = None
        self.unwanted: Job | None = None
        self.jobs: queue.Queue[Job] = queue.Queue()
        self.writing = threading.RLock()
        self.count = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self.module = type(sys)("__main__")
        self.module.__dict__["display"] = self.display
        self.streams = (Writer(self, "stdout", 1), Writer(self, "stderr", 2))
        self.pumps: list[Pump] = []

    def take_over(self) -> None:
        """This process is the state from now on: its module is the main one, its output is told."""
        sys.modules["__main__"] = self.module
        sys.path[0] = ""
        sys.stdout, sys.stderr = self.streams
        self.pumps = [Pump(stream, stream.descriptor) for stream in self.streams]
        for pump in self.pumps:
            pump.start()
        signal.signal(signal.SIGINT, self.interrupted)
        display.prepare(self.display)
        threading.Thread(target=self.flush_now_and_then, daemon=True).start()

    def serve(self) -> None:
        while True:
            job = self.jobs.get()
            try:
                if not job.is_dropped:
                    self.run(job)
            except KeyboardInterrupt:
                pass
            finally:
                self.current = None
                job.done.set()

    def run(self, job: Job) -> None:
        self.count += 1
        self.current = job
        before = {key: os.environ.get(key) for key in job.env}
        os.environ.update(job.env)
        try:
            self.execute(job.code, "<cell %d>" % self.count)
            display.flush_figures(self.display)
        except BaseException as error:
            self.tell_error(job, error)
        finally:
            for key, value in before.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value
            self.drain()
            job.tell(type="end", execution_count=self.count)

    def execute(self, code: str, name: str) -> None:
        tree = parsed(code, name)
        import linecache

        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
            last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
        if tree.body:
            self.evaluate(tree, name, "exec")
        if last is not None:
            value = self.evaluate(last, name, "eval")
            if value is not None:
                self.module.__dict__["_"] = value
                self.drain()
                self.show(value, is_main=True)

    def evaluate(self, tree: ast.AST, name: str, mode: str) -> Any:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(tree, name, mode, flags=flags, dont_inherit=True)  # type: ignore[call-overload]
        value = eval(code, self.module.__dict__)
        if code.co_flags & IS_COROUTINE:
            if self.loop is None:
                import asyncio

                self.loop = asyncio.new_event_loop()
                asyncio.set_event_loop(self.loop)
            return self.loop.run_until_complete(value)
        return value

    def display(self, *values: Any) -> None:
        """Shows values in every form they have. A builtin of the code that runs here."""
        self.drain()
        for value in values:
            self.show(value, is_main=False)

    def show(self, value: Any, *, is_main: bool) -> None:
        forms = display.forms_of(value)
        with self.writing:
            for stream in self.streams:
                stream.drain()
            if self.current is not None:
                self.current.tell(type="result", is_main=is_main, forms=forms)

    def tell_error(self, job: Job, error: BaseException) -> None:
        import traceback

        trace = error.__traceback__
        while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<cell"):
            trace = trace.tb_next
        lines = traceback.format_exception(type(error), error, trace)
        self.drain()
        job.tell(
            type="error", name=type(error).__name__, value=str(error), traceback="".join(lines)
        )

    def other(self, writer: Writer) -> Writer:
        return self.streams[writer is self.streams[0]]

    def drain(self) -> None:
        """What was written before the end comes before the end, also by children.

        A child that writes for ever is not waited for that long: two seconds, not counting those in which a busy
        host lets nobody here run.
        """
        for _ in range(DRAIN_LOOKS):
            if all(pump.is_empty() for pump in self.pumps):
                break
            time.sleep(0.001)
        for stream in self.streams:
            stream.flush()

    def flush_now_and_then(self) -> None:
        while True:
            time.sleep(BATCH_S)
            if self.streams[0].pieces or self.streams[1].pieces:
                for stream in self.streams:
                    stream.flush()

    def interrupt(self, job: Job | None) -> None:
        self.unwanted = job
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def interrupted(self, *_: Any) -> None:
        """A signal that comes late must not hit the code that runs next."""
        if self.current is not None and self.current is self.unwanted:
            raise KeyboardInterrupt

    def hear(self, connection: socket.socket, token: str) -> None:
        """One connection, in a thread of its own."""
        with connection:
            try:
                request = received(connection)
                if not is_same(str(request.get("token", "")).encode(), token.encode()):
                    return
            except (OSError, ValueError, AttributeError, RecursionError):
                return
            if request.get("do") == "greet":
                Job(request, connection).tell(type="end", execution_count=self.count)
            elif request.get("do") == "interrupt":
                self.interrupt(self.current)
            elif request.get("do") == "run":
                self.attend(Job(request, connection))

    def attend(self, job: Job) -> None:
        """Until the code has run, or whoever asked for it is gone: then it is not wanted any more."""
        threading.Thread(target=self.expect_nothing, args=(job,), daemon=True).start()
        self.jobs.put(job)
        job.done.wait()
        try:
            job.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def expect_nothing(self, job: Job) -> None:
        try:
            job.connection.recv(1)
        except OSError:
            pass
        if not job.done.is_set():
            job.is_dropped = True
            self.interrupt(job)


SHELL_LINE = re.compile(r"^(\s*)!(.+)$", re.MULTILINE)
MAGIC_LINE = re.compile(r"^(\s*)%(pip|cd|matplotlib)\b(.*)$", re.MULTILINE)


def parsed(code: str, name: str) -> ast.Module:
    """Lines as notebooks have them (`!ls`, `%pip install x`) count only in what is not Python as it stands."""
    try:
        return ast.parse(code, name)
    except SyntaxError:
        builtins.__dict__["__notebook_line__"] = notebook_line
        changed = SHELL_LINE.sub(lambda found: call_of(found.group(1), "!", found.group(2)), code)
        changed = MAGIC_LINE.sub(lambda found: call_of(*found.groups()), changed)
        if changed == code:
            raise
        return ast.parse(changed, name)


def call_of(indent: str, kind: str, rest: str) -> str:
    return "%s__notebook_line__(%r, %r)" % (indent, kind, rest.strip())


def notebook_line(kind: str, rest: str) -> None:
    import subprocess

    if kind == "cd":
        os.chdir(os.path.expanduser(rest or "~"))
    elif kind == "pip":
        subprocess.run([sys.executable, "-m", "pip", *rest.split()], check=False)
    elif kind == "!":
        subprocess.run(["/bin/sh", "-c", rest], check=False)


def received(connection: socket.socket) -> Any:
    (length,) = struct.unpack(">I", exactly(connection, 4))
    if length > MAX_REQUEST:
        raise ValueError("too long")
    return json.loads(exactly(connection, length))


def exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(min(count - len(data), 1 << 20))
        if not piece:
            raise ValueError("cut short")
        data += piece
    return bytes(data)


def listen(kernel: Kernel, door: socket.socket, token: str) -> None:
    while True:
        connection, _ = door.accept()
        threading.Thread(target=kernel.hear, args=(connection, token), daemon=True).start()


def detach() -> int:
    """Lets the starting program go on once `ready` is written; returns where to write it."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        os._exit(0 if os.read(reader, 1) else 1)
    os.close(reader)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    return writer


def main(directory: str) -> None:
    facts = json.load(sys.stdin)
    token = str(facts["token"])
    ready = detach()
    door = socket.socket()
    door.bind(("127.0.0.1", 0))
    door.listen(64)
    kernel = Kernel()
    kernel.take_over()
    threading.Thread(target=listen, args=(kernel, door, token), daemon=True).start()
    facts.update(port=door.getsockname()[1], pid=os.getpid())
    aside = os.path.join(directory, ".address")
    with open(aside, "w") as file:
        json.dump(facts, file)
    os.rename(aside, os.path.join(directory, "address"))
    os.write(ready, b".")
    os.close(ready)
    kernel.serve()


if __name__ == "__main__":
    main(sys.argv[1])
