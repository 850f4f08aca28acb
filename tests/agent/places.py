"""A workplace for fast tests: a directory of this host with real processes in it, each in namespaces of its own.

Only tests use it: it is no sandbox, merely close enough to one for what is built above. Unlike in a sandbox, what a
command puts into the background ends with it, and the interpreter begins anew after it was interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from crucible.agent.workplace import (
    WORKSPACE,
    Channel,
    Evaluated,
    FileFacts,
    Heard,
    Place,
    Ran,
    Shown,
)
from crucible.errors import CommandNotFound, GuestRefused

_OF_HOST = ("usr", "etc")
_LINKS = ("bin", "sbin", "lib", "lib64")
_PIECE = 65_536

# What `evaluate` speaks with: one line of JSON in, lines of JSON out.
_INTERPRETER = """
import ast, io, json, sys, traceback
names = {"__name__": "__main__"}
out = sys.stdout
class Told(io.TextIOBase):
    def __init__(self, stream): self.stream = stream
    def write(self, text):
        print(json.dumps({"type": self.stream, "text": text}), file=out, flush=True)
        return len(text)
def show(value, is_main=False):
    forms = {"text/plain": repr(value)}
    for kind, method in (("text/html", "_repr_html_"), ("image/png", "_repr_png_")):
        if hasattr(value, method):
            form = getattr(value, method)()
            if isinstance(form, bytes):
                import base64
                form = base64.b64encode(form).decode()
            forms[kind] = form
    print(json.dumps({"type": "shown", "forms": forms, "is_main": is_main}), file=out, flush=True)
names["display"] = show
sys.stdout, sys.stderr = Told("stdout"), Told("stderr")
for line in sys.stdin:
    said = {"type": "end", "error": "", "traceback": ""}
    try:
        tree = ast.parse(json.loads(line))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
            if value is not None:
                show(value, is_main=True)
    except BaseException as error:
        said["error"] = type(error).__name__ + ": " + str(error)
        said["traceback"] = traceback.format_exc()
    print(json.dumps(said), file=out, flush=True)
"""


@asynccontextmanager
async def local_workplace() -> AsyncIterator[LocalWorkplace]:
    """One that is gone with all it held when the block ends."""
    place = LocalWorkplace()
    try:
        yield place
    finally:
        await place.close()


class LocalWorkplace:
    """`root` is the sandbox's `/` on this host. Opened when it is first needed."""

    def __init__(self) -> None:
        self.root = Path()
        self._place: Place | None = None
        self._interpreter: asyncio.subprocess.Process | None = None
        self._evaluating = asyncio.Lock()

    @property
    def place(self) -> Place | None:
        return self._place

    async def open(self) -> Place:
        if self._place is None:
            self.root = Path(tempfile.mkdtemp(prefix="crucible-place-"))
            for name in (*_OF_HOST, "proc", "dev", "tmp", "workspace"):
                (self.root / name).mkdir()
            for name in _LINKS:
                (self.root / name).symlink_to(f"usr/{name}")
            self._place = Place(
                sandbox="local",
                name="local",
                image="host",
                image_digest="",
                isolation="namespace",
                backend="local",
            )
        return self._place

    async def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout_s: float,
        input: bytes = b"",
        workdir: str = WORKSPACE,
        environment: Mapping[str, str] | None = None,
        max_output: int = 1 << 24,
        heard: Heard | None = None,
    ) -> Ran:
        process = await self._start(argv, workdir, environment or {})
        kept: dict[Channel, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        sizes: dict[Channel, int] = {"stdout": 0, "stderr": 0}

        async def draw(channel: Channel, source: asyncio.StreamReader | None) -> None:
            assert source is not None
            while data := await source.read(_PIECE):
                sizes[channel] += len(data)
                kept[channel] += data[: max(0, max_output - len(kept[channel]))]
                if heard is not None:
                    heard(channel, data)

        began, timed_out = time.monotonic(), False
        try:
            async with asyncio.timeout(timeout_s):
                async with asyncio.TaskGroup() as group:
                    group.create_task(_feed(process, input))
                    group.create_task(draw("stdout", process.stdout))
                    group.create_task(draw("stderr", process.stderr))
                await process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            await _end(process)
        if process.returncode == 127 and b"bwrap: execvp" in kept["stderr"]:
            raise CommandNotFound("not-found", f"The sandbox has no command {argv[0]!r}")
        return Ran(
            exit_status=None if timed_out else process.returncode,
            stdout=bytes(kept["stdout"]),
            stderr=bytes(kept["stderr"]),
            duration_s=time.monotonic() - began,
            timed_out=timed_out,
            reason="timed out" if timed_out else "",
            is_cut=any(size > max_output for size in sizes.values()),
        )

    async def evaluate(
        self, code: str, *, timeout_s: float, heard: Heard | None = None
    ) -> Evaluated:
        began = time.monotonic()
        async with self._evaluating:
            if self._interpreter is None:
                argv = (_python(), "-u", "-c", _INTERPRETER)
                self._interpreter = await self._start(argv, WORKSPACE, {})
            told = _Told(heard)
            try:
                async with asyncio.timeout(timeout_s):
                    end = await self._converse(self._interpreter, code, told)
            except BaseException as error:
                await self._end_interpreter()
                if not isinstance(error, TimeoutError):
                    raise
                end = {"error": "TimeoutError", "timed_out": True}
        return Evaluated(
            stdout="".join(told.texts["stdout"]),
            stderr="".join(told.texts["stderr"]),
            shown=tuple(told.shown),
            error=str(end.get("error", "")),
            traceback=str(end.get("traceback", "")),
            duration_s=time.monotonic() - began,
            timed_out=bool(end.get("timed_out")),
        )

    async def converse(
        self, argv: tuple[str, ...], *, environment: Mapping[str, str] | None = None
    ) -> LocalLine:
        return LocalLine(await self._start(argv, WORKSPACE, environment or {}))

    async def read(self, path: str, *, offset: int = 0, length: int = 0) -> bytes:
        await self.open()
        with _refusals(path), self._on_host(path).open("rb") as file:
            file.seek(offset)
            return file.read(length or -1)

    async def write(self, path: str, data: bytes | AsyncIterator[bytes]) -> None:
        await self.open()
        if not isinstance(data, bytes):
            data = b"".join([piece async for piece in data])
        target = self._on_host(path)
        with _refusals(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir():
                raise IsADirectoryError
            target = target.resolve() if target.is_symlink() else target
            mode = target.stat().st_mode & 0o7777 if target.exists() else 0o644
            aside = target.with_name(f".{target.name[:100]}.new")
            aside.write_bytes(data)
            aside.chmod(mode)
            aside.replace(target)

    async def stat(self, path: str) -> FileFacts | None:
        await self.open()
        try:
            with _refusals(path):
                return _facts(path, self._on_host(path).stat())
        except GuestRefused as error:
            if error.guest_code == "not-found":
                return None
            raise

    async def walk(self, path: str) -> AsyncGenerator[FileFacts, None]:
        for one in await self.list(path):
            yield one
            if one.kind == "d":
                async for below in self.walk(one.path):
                    yield below

    async def list(self, path: str) -> tuple[FileFacts, ...]:
        await self.open()
        with _refusals(path):
            entries = sorted(self._on_host(path).iterdir())
            return tuple(
                _facts(f"{path.rstrip('/')}/{entry.name}", entry.lstat()) for entry in entries
            )

    async def close(self, *, keep: bool = False) -> None:
        await self._end_interpreter()
        if self._place is not None and not keep:
            shutil.rmtree(self.root)
            self._place = None

    def _on_host(self, path: str) -> Path:
        assert path.startswith("/"), path
        return self.root / path.lstrip("/")

    async def _start(
        self, argv: tuple[str, ...], workdir: str, environment: Mapping[str, str]
    ) -> asyncio.subprocess.Process:
        await self.open()
        if not self._on_host(workdir).is_dir():
            raise GuestRefused("no-such-workdir", f"{workdir} is not a directory in the sandbox")
        own = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
        words = ["bwrap", "--bind", str(self.root), "/", "--proc", "/proc", "--dev", "/dev"]
        for name in _OF_HOST:
            words += ["--ro-bind", f"/{name}", f"/{name}"]
        words += ["--ro-bind", sys.base_prefix, sys.base_prefix, "--clearenv"]
        for key, value in {**own, **environment}.items():
            words += ["--setenv", key, value]
        words += ["--unshare-pid", "--unshare-net", "--die-with-parent", "--new-session"]
        return await asyncio.create_subprocess_exec(
            *words, "--chdir", workdir, "--", *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 26,
            start_new_session=True,
        )  # fmt: skip

    async def _converse(
        self, process: asyncio.subprocess.Process, code: str, told: _Told
    ) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(code).encode() + b"\n")
        await process.stdin.drain()
        while line := await process.stdout.readline():
            said: dict[str, Any] = json.loads(line)
            if said["type"] == "end":
                return said
            told.take(said)
        raise GuestRefused("gone", "the interpreter has ended")

    async def _end_interpreter(self) -> None:
        if self._interpreter is not None:
            process, self._interpreter = self._interpreter, None
            await _end(process)


class _Told:
    def __init__(self, heard: Heard | None) -> None:
        self.texts: dict[Channel, list[str]] = {"stdout": [], "stderr": []}
        self.shown: list[Shown] = []
        self._heard = heard

    def take(self, said: dict[str, Any]) -> None:
        if said["type"] == "shown":
            self.shown.append(Shown(forms=said["forms"], is_main=said["is_main"]))
            return
        channel: Channel = said["type"]
        self.texts[channel].append(said["text"])
        if self._heard is not None:
            self._heard(channel, said["text"].encode())


def _python() -> str:
    return str(Path(sys.executable).resolve())


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError):
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    """With its process all that are in its namespace end; its pipes are let go of with it."""
    # By its group: before the child has asked to die with its parent, it would wait for a dead one for ever.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # A pipe that is full and that nobody reads would never be seen to end.
    transport: Any = process._transport  # type: ignore[attr-defined]
    transport.close()
    await process.wait()


@contextlib.contextmanager
def _refusals(path: str) -> Any:
    codes: dict[type, str] = {
        FileNotFoundError: "not-found",
        NotADirectoryError: "not-a-directory",
        IsADirectoryError: "is-a-directory",
        PermissionError: "permission",
    }
    try:
        yield
    except OSError as error:
        code = next((codes[kind] for kind in type(error).__mro__ if kind in codes), "failed")
        raise GuestRefused(code, f"{path!r} in the sandbox: {code}") from None


def _facts(path: str, found: os.stat_result) -> FileFacts:
    import stat

    kinds: dict[int, Any] = {stat.S_IFREG: "f", stat.S_IFDIR: "d", stat.S_IFLNK: "l"}
    return FileFacts(
        path=path,
        kind=kinds.get(stat.S_IFMT(found.st_mode), "o"),
        size=found.st_size,
        mode=found.st_mode & 0o7777,
        modified_at=found.st_mtime,
    )


class LocalLine:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.complaints = b""
        self._process = process
        self._hearing = asyncio.create_task(self._hear())

    async def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def receive(self) -> bytes:
        assert self._process.stdout is not None
        if data := await self._process.stdout.read(_PIECE):
            return data
        await asyncio.shield(self._hearing)
        return b""

    async def close(self) -> None:
        await _end(self._process)
        await self._hearing

    async def _hear(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(_PIECE):
            self.complaints = (self.complaints + data)[-_PIECE:]
