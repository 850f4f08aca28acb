"""One shape, four ways: without a server or over HTTP, waiting or not. Each way has one machine for all its tests."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.conftest import CommandLine, Run
from tests.sdk.either import as_async, sandbox_class
from tests.server.test_serve import served

import crucible
import crucible_client
from crucible_client import AsyncSandbox, Exit, Output, errors

pytestmark = pytest.mark.vm


class Way(NamedTuple):
    sandbox: Any
    client: Any
    is_local: bool


WAYS = {
    "local-sync": Way(crucible.Sandbox, crucible.LocalClient, True),
    "local-async": Way(crucible.AsyncSandbox, crucible.AsyncLocalClient, True),
    "http-sync": Way(crucible_client.Sandbox, crucible_client.Client, False),
    "http-async": Way(crucible_client.AsyncSandbox, crucible_client.AsyncClient, False),
}
every_way = pytest.mark.parametrize("box", list(WAYS), indirect=True)
one_of_each = pytest.mark.parametrize("box", ["local-async", "http-sync"], indirect=True)


class Place(NamedTuple):
    command_line: CommandLine
    url: str
    token: str


@pytest.fixture(scope="module")
def place(module_home: Path) -> Iterator[Place]:
    """A server, whose socket is also where those go that need none."""
    command_line = CommandLine(module_home)
    command_line.environment |= {"CRUCIBLE_POOL_MIN": "0", "CRUCIBLE_POOL_MAX": "0"}
    with served(command_line) as url:
        token = command_line.ok("token", "create", "sdk", "--scope", "run").strip()
        yield Place(command_line, url, token)


@pytest.fixture(scope="module")
def box(request: pytest.FixtureRequest, run: Run, place: Place) -> Iterator[AsyncSandbox]:
    """A temporary sandbox, made in the way that is asked for."""
    way = WAYS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRUCIBLE_HOME", str(place.command_line.home))
        patch.setenv("CRUCIBLE_URL", place.url)
        patch.setenv("CRUCIBLE_TOKEN", place.token)
        made = run(sandbox_class(way.sandbox).create(network="off", environment={"A": "b"}))
        yield made
        run(made.close())
    assert made.name not in place.command_line.ok("list")


@every_way
async def test_commands(run: Run, box: AsyncSandbox, place: Place) -> None:
    assert box.name in place.command_line.ok("list"), "the command line sees the same sandboxes"
    heard: list[str] = []
    done = await box.run("echo $A; echo ü >&2; exit 7", on_stderr=heard.append)
    assert (done.exit_code, done.stdout, done.stderr, heard) == (7, "b\n", "ü\n", ["ü\n"])
    data = bytes(range(256))
    assert (await box.run(["cat"], input=data)).stdout_bytes == data
    told = [one async for one in box.commands.stream(["echo", "streamed"])]
    assert [type(one) for one in told] == [Output, Exit]
    late = await box.run("sleep 600", timeout_s=0.5)
    assert (late.exit_code, late.exit.timed_out) == (124, True)
    with pytest.raises(errors.CommandNotFound) as caught:
        await box.run(["no-such-program"])
    assert caught.value.request_id


@every_way
async def test_commands_that_go_on_by_themselves(run: Run, box: AsyncSandbox) -> None:
    started = await box.commands.start("read x; echo got $x; exec sleep 600", stdin=True)
    await started.write("abc\n")
    again = await box.commands.connect(started.id)
    async with aclosing(again.stream()) as following:
        first = await anext(aiter(following))
    assert isinstance(first, Output)
    assert first.text == "got abc\n"
    running = [one.id for one in await box.commands.list() if one.state == "running"]
    assert started.id in running
    await box.commands.kill(started.id)
    ended = await again.wait()
    assert (ended.stdout, ended.exit.signal) == ("got abc\n", signal.SIGHUP)
    assert (await again.refresh()).state == "ended"
    with pytest.raises(errors.CommandEnded):
        await started.write("too late")
    with pytest.raises(errors.CommandMissing):
        await box.commands.connect(999_999)


@every_way
async def test_terminals(run: Run, box: AsyncSandbox) -> None:
    terminal = await box.pty.start(rows=11, columns=44)
    await terminal.write("stty size; exit 5\n")
    ended = await terminal.wait()
    assert (ended.exit_code, "11 44" in ended.stdout) == (5, True)


@every_way
async def test_files(run: Run, box: AsyncSandbox, tmp_path: Path) -> None:
    files = box.files
    assert await files.write("/workspace/new/a.txt", "héllo") == 6
    assert await files.read_text("/workspace/new/a.txt") == "héllo"
    assert await files.read("/workspace/new/a.txt", offset=3, length=2) == b"ll"
    await files.write("/workspace/new/a.txt", b"!", append=True)
    assert (await files.stat("/workspace/new/a.txt")).size == 7
    await files.rename("/workspace/new/a.txt", "/workspace/new/b.txt")
    assert [one.name for one in await files.list("/workspace/new")] == ["b.txt"]
    assert [await files.exists(f"/workspace/new/{name}.txt") for name in "ab"] == [False, True]
    with pytest.raises(errors.FileMissing):
        await files.read("/workspace/nowhere")
    await files.mkdir("/workspace/new/sub")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.sh").write_text("echo ran\n")
    (tmp_path / "out" / "run.sh").chmod(0o755)
    (tmp_path / "out" / "link").symlink_to("run.sh")
    await files.upload(tmp_path / "out", "/workspace/new/sub")
    assert (await box.run("/workspace/new/sub/link")).stdout == "ran\n"
    await files.download("/workspace/new", tmp_path / "in")
    assert (tmp_path / "in" / "sub" / "link").read_text() == "echo ran\n"
    await files.remove("/workspace/new", recursive=True)
    assert not await files.exists("/workspace/new")


@every_way
async def test_directories_are_watched(run: Run, box: AsyncSandbox) -> None:
    async with aclosing(box.files.watching("/workspace", recursive=True)) as changes:
        assert await anext(aiter(changes)) is None
        await box.files.write("/workspace/seen", "")
        change = await anext(aiter(changes))
    assert change is not None
    assert (change.kind, change.name) == ("created", "seen")


@one_of_each
async def test_code_remembers(run: Run, box: AsyncSandbox) -> None:
    heard: list[str] = []
    first = await box.run_code("x = 41; print('told')", on_stdout=heard.append)
    assert (first.text, first.stdout, heard, first.count) == (None, "told\n", ["told\n"], 1)
    shown = (
        "class Rich:\n"
        "    def _repr_html_(self): return '<b>x</b>'\n"
        "    def _repr_png_(self): return b'png'\n"
        "    def _repr_json_(self): return {'x': x}\n"
        "Rich()"
    )
    rich = (await box.run_code(shown)).results[0]
    assert (rich.html, rich.png, rich.json) == ("<b>x</b>", b"png", {"x": 41})
    raised = await box.run_code("x + '1'")
    assert raised.error is not None
    assert (raised.error.name, raised.results) == ("TypeError", [])
    with pytest.raises(errors.DeadlineOver):
        await box.run_code("import time\nwhile True: time.sleep(0.01)", timeout_s=1)
    assert (await box.run_code("x + 1")).text == "42"


@pytest.mark.parametrize("box", ["http-sync"], indirect=True)
async def test_code_runs_in_contexts(run: Run, box: AsyncSandbox) -> None:
    own = await box.contexts.create(workdir="/tmp", environment={"OWN": "yes"})
    where = "import os; x = 1; (os.getcwd(), os.environ['OWN'], os.environ['A'])"
    assert (await box.run_code(where, context=own)).text == "('/tmp', 'yes', 'b')"
    assert own.id in [one.id for one in await box.contexts.list()]
    await box.contexts.restart(own)
    forgotten = await box.run_code("x", context=own.id)
    assert forgotten.error is not None
    assert forgotten.error.name == "NameError"
    await box.contexts.remove(own)
    with pytest.raises(errors.ContextMissing):
        await box.run_code("1", context=own)


@pytest.mark.parametrize("box", ["http-async"], indirect=True)
async def test_copies_go_on_where_the_sandbox_was(
    run: Run, box: AsyncSandbox, place: Place
) -> None:
    going = await box.commands.start("read x; echo $x", stdin=True)
    async with await box.fork() as copy:
        assert copy.is_temporary
        twin = await copy.commands.connect(going.id)
        await twin.write("copy\n")
        assert (await twin.wait()).stdout == "copy\n"
    assert copy.name not in place.command_line.ok("list")
    await box.pause()
    with pytest.raises(errors.WrongState):
        await box.run("true")
    await box.resume()
    await going.write("original\n")
    assert (await going.wait()).stdout == "original\n"


@pytest.mark.parametrize("box", ["local-sync"], indirect=True)
async def test_snapshots_are_taken_and_restored(run: Run, box: AsyncSandbox, place: Place) -> None:
    await box.run("echo kept > /workspace/moment")
    moment = await box.snapshot("sdk-moment")
    try:
        restored = await type_of(box).restore(moment.tag, name="restored")
        assert restored.info.settings["ttl_s"] == 0, "the original's end is not its own"
        assert (await restored.files.read_text("/workspace/moment")) == "kept\n"
        found = await type_of(box).connect("restored")
        await restored.close()
        assert "restored" in place.command_line.ok("list"), "what has a name stays"
        async with found:
            pass
        assert "restored" in place.command_line.ok("list"), "what was found is left alone"
        found = await type_of(box).connect("restored")
        await found.remove()
        await found.close()
        with pytest.raises(errors.SandboxMissing):
            await type_of(box).connect("restored")
    finally:
        await box.client.remove_snapshot(moment.tag)


@pytest.mark.parametrize("box", ["http-sync"], indirect=True)
async def test_ports_are_told(run: Run, box: AsyncSandbox) -> None:
    listening = await box.commands.start(["python3", "-m", "http.server", "8123"])
    await box.ports.wait(8123, timeout_s=200)
    with pytest.raises(errors.PortMissing):
        await box.ports.find(8123)
    await listening.kill()


@pytest.mark.parametrize("box", ["local-async"], indirect=True)
async def test_one_command_needs_no_sandbox_of_its_own(run: Run, box: AsyncSandbox) -> None:
    done = await box.client.run(["cat"], input="in and out", settings={"network": "off"})
    assert done.check().stdout == "in and out"
    with pytest.raises(errors.ImageMissing):
        await box.client.run("true", image="no-such-image-here")


@pytest.mark.parametrize("box", ["http-async"], indirect=True)
async def test_a_command_ends_with_whoever_waited_for_it(run: Run, box: AsyncSandbox) -> None:
    started = asyncio.Event()
    waiting = asyncio.ensure_future(
        box.run("echo begun; exec sleep 600", on_stdout=lambda _: started.set())
    )
    await asyncio.wait_for(started.wait(), 120)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(120):
        while any(one.state == "running" for one in await box.commands.list()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def type_of(box: Any) -> type[AsyncSandbox]:
    inner = getattr(box, "_inner", box)
    found: type[AsyncSandbox] = as_async(type(inner))
    return found
