# ruff: noqa: ASYNC210, ASYNC251, PT017 - it is a program of its own, and runs without pytest
"""Uses a sandbox through an unmodified `e2b` client, and tells of each verb whether it worked: a line of JSON each.

Run with the interpreter of an environment that has the client and nothing of ours.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
import traceback
from typing import Any

STYLE = sys.argv[1]


def main() -> None:
    if STYLE == "async":
        import asyncio

        asyncio.run(everything())
    else:
        coroutine = everything()
        try:
            coroutine.send(None)
        except StopIteration:
            return
        raise AssertionError("a synchronous client waited")


async def done(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def tell(verb: str, ok: bool, **detail: Any) -> None:
    sys.stdout.write(json.dumps({"verb": verb, "ok": ok, **detail}, default=str) + "\n")
    sys.stdout.flush()


async def attempt(verb: str, work: Any) -> None:
    try:
        detail = await work()
        tell(verb, True, **(detail or {}))
    except Exception as error:
        tell(verb, False, error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())


async def everything() -> None:
    from e2b import CommandExitException, NotFoundException
    from e2b_code_interpreter import AsyncSandbox, Sandbox

    kind: Any = AsyncSandbox if STYLE == "async" else Sandbox
    box: Any = await done(
        kind.create(timeout=600, metadata={"who": "test"}, envs={"FROM": "create"})
    )
    tell("create", True, id=box.sandbox_id)

    async def connect() -> None:
        again = await done(kind.connect(box.sandbox_id))
        assert again.sandbox_id == box.sandbox_id

    async def info() -> dict[str, Any]:
        told = await done(box.get_info())
        assert told.sandbox_id == box.sandbox_id
        assert told.metadata == {"who": "test"}
        assert await done(box.is_running())
        return {"template": told.template_id}

    async def listing() -> None:
        from e2b import SandboxQuery

        pages = kind.list(query=SandboxQuery(metadata={"who": "test"}))
        found = await done(pages.next_items())
        assert box.sandbox_id in [one.sandbox_id for one in found]
        none = kind.list(query=SandboxQuery(metadata={"who": "nobody"}))
        assert await done(none.next_items()) == []

    async def timeout() -> None:
        await done(box.set_timeout(1200))
        told = await done(box.get_info())
        assert (told.end_at - told.started_at).total_seconds() > 1000

    async def run() -> None:
        heard: list[str] = []
        result = await done(
            box.commands.run(
                "echo out; echo err >&2; echo $FROM; pwd; id -un", on_stdout=heard.append
            )
        )
        assert result.stdout == "out\ncreate\n/home/user\nuser\n", result
        assert result.stderr == "err\n"
        assert "".join(heard) == result.stdout
        rooted = await done(box.commands.run("id -un", user="root", envs={"A": "b"}, cwd="/"))
        assert rooted.stdout == "root\n"
        try:
            await done(box.commands.run("exit 7"))
        except CommandExitException as error:
            assert error.exit_code == 7
        else:
            raise AssertionError("a failed command raised nothing")

    async def background() -> None:
        handle = await done(box.commands.run("cat; echo ended", background=True, stdin=True))
        listed = await done(box.commands.list())
        assert handle.pid in [one.pid for one in listed], listed
        await done(box.commands.send_stdin(handle.pid, "typed\n"))
        if hasattr(box.commands, "close_stdin"):
            await done(box.commands.close_stdin(handle.pid))
            assert (await done(handle.wait())).stdout == "typed\nended\n"
        else:
            assert await done(handle.kill())
        sleeper = await done(box.commands.run("sleep 1000", background=True))
        assert await done(box.commands.kill(sleeper.pid))
        assert not await done(box.commands.kill(999_999))

    async def command_timeout() -> None:
        try:
            await done(box.commands.run("sleep 1000", timeout=2))
        except (
            Exception
        ) as error:  # some releases stop waiting before the server does, and say it otherwise
            assert "Timeout" in type(error).__name__, error
            return
        raise AssertionError("nothing timed out")

    async def terminal() -> None:
        from e2b import PtySize

        data = bytearray()
        if STYLE == "async":
            opened = await box.pty.create(PtySize(rows=30, cols=100), on_data=data.extend)
        else:
            opened = box.pty.create(PtySize(rows=30, cols=100))
        await done(box.pty.resize(opened.pid, PtySize(rows=31, cols=101)))
        await done(box.pty.send_stdin(opened.pid, b"stty size; exit\n"))
        try:
            if STYLE == "async":
                await opened.wait()
            else:
                opened.wait(on_pty=data.extend)
        except CommandExitException:
            pass
        assert b"31 101" in data, bytes(data)

    async def files() -> None:
        written = await done(box.files.write("dir/a.txt", "one"))
        assert written.path == "/home/user/dir/a.txt", written
        await done(box.files.write("/home/user/dir/b.bin", bytes(range(256))))
        assert await done(box.files.read("dir/a.txt")) == "one"
        assert bytes(await done(box.files.read("dir/b.bin", format="bytes"))) == bytes(range(256))
        many = await done(
            box.files.write_files([{"path": f"m/{n}", "data": str(n)} for n in range(3)])
        )
        assert len(many) == 3
        assert {one.name for one in await done(box.files.list("dir"))} == {"a.txt", "b.bin"}
        assert await done(box.files.exists("dir/a.txt"))
        assert not await done(box.files.exists("dir/none"))
        assert await done(box.files.make_dir("made/deep"))
        assert not await done(box.files.make_dir("made/deep"))
        moved = await done(box.files.rename("dir/a.txt", "dir/c.txt"))
        assert moved.path == "/home/user/dir/c.txt"
        if hasattr(box.files, "get_info"):
            told = await done(box.files.get_info("dir/c.txt"))
            assert (told.size, told.owner, told.permissions) == (3, "user", "-rw-r--r--"), told
        await done(box.files.remove("dir/c.txt"))
        assert not await done(box.files.exists("dir/c.txt"))
        try:
            await done(box.files.read("dir/c.txt"))
        except NotFoundException:
            return
        raise AssertionError("a file that is gone was read")

    async def watch() -> None:
        await done(box.files.make_dir("watched"))
        names: list[str] = []
        if STYLE == "async":
            handle = await box.files.watch_dir("watched", lambda event: names.append(event.name))
        else:
            handle = box.files.watch_dir("watched")
        await done(box.files.write("watched/new.txt", "x"))
        last = time.monotonic() + 60
        while "new.txt" not in names and time.monotonic() < last:
            if STYLE == "async":
                import asyncio

                await asyncio.sleep(0.05)
            else:
                names += [event.name for event in handle.get_new_events()]
                time.sleep(0.05)
        await done(handle.stop())
        assert "new.txt" in names

    async def signed() -> None:
        import urllib.request

        await done(box.files.write("signed.txt", "signature"))
        url = box.download_url("signed.txt", use_signature_expiration=600)
        with urllib.request.urlopen(url) as answer:
            assert answer.read() == b"signature"
        try:
            urllib.request.urlopen(url.replace("signed.txt", "other.txt"))
        except urllib.error.HTTPError as error:
            assert error.code == 401
        else:
            raise AssertionError("a signature opened another file")

    async def code() -> None:
        await done(box.run_code("x = 41"))
        ran = await done(box.run_code("print('hello')\nx + 1"))
        assert ran.text == "42", ran
        assert "".join(ran.logs.stdout) == "hello\n", ran.logs
        failed = await done(box.run_code("1 / 0"))
        assert failed.error.name == "ZeroDivisionError"
        rich = "class R:\n    def _repr_html_(self): return '<i>'\nR()"
        assert (await done(box.run_code(rich))).results[0].html == "<i>"

    async def contexts() -> None:
        made = await done(box.create_code_context(cwd="/tmp"))
        ran = await done(box.run_code("import os; os.getcwd()", context=made))
        assert ran.text == "/tmp", ran
        if hasattr(box, "list_code_contexts"):
            assert made.id in [one.id for one in await done(box.list_code_contexts())]
            await done(box.restart_code_context(made))
            await done(box.remove_code_context(made))

    async def metrics() -> None:
        (told,) = await done(box.get_metrics())
        assert told.mem_total > 0

    async def network() -> None:
        await done(box.update_network({"deny_out": ["0.0.0.0/0"], "allow_out": ["example.com"]}))

    async def snapshot() -> dict[str, Any]:
        taken = await done(box.create_snapshot())
        restored = await done(kind.create(taken.snapshot_id, timeout=300))
        assert await done(restored.files.read("signed.txt")) == "signature"
        await done(restored.kill())
        await done(kind.delete_snapshot(taken.snapshot_id))
        return {"tag": taken.snapshot_id}

    async def fork() -> None:
        (copy,) = await done(box.fork())
        assert (await done(copy.run_code("x"))).text == "41"
        await done(copy.kill())

    async def pause() -> None:
        await done((box.pause if hasattr(box, "pause") else box.beta_pause)())
        assert (await done(box.get_info())).state.value == "paused"
        tell("paused", True, id=box.sandbox_id)
        sys.stdin.readline()
        again = await done(kind.connect(box.sandbox_id))
        assert (await done(again.commands.run("echo back"))).stdout == "back\n"

    async def kill() -> None:
        assert await done(box.kill())
        assert not await done(box.is_running())
        assert not await done(kind.kill(box.sandbox_id))

    for verb, work, needs in (
        ("connect", connect, None),
        ("info", info, None),
        ("list", listing, None),
        ("timeout", timeout, None),
        ("commands", run, None),
        ("background", background, None),
        ("command timeout", command_timeout, None),
        ("terminal", terminal, None),
        ("files", files, None),
        ("watch", watch, None),
        ("signed addresses", signed, None),
        ("code", code, None),
        ("contexts", contexts, None),
        ("metrics", metrics, "get_metrics"),
        ("network", network, "update_network"),
        ("snapshot", snapshot, "create_snapshot"),
        ("fork", fork, "fork"),
        ("pause", pause, None),
        ("kill", kill, None),
    ):
        if needs is not None and not hasattr(box, needs):
            tell(verb, True, absent=True)
        else:
            await attempt(verb, work)


if __name__ == "__main__":
    main()
