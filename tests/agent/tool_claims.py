"""What the built-in tools do, whatever workplace they work in: a directory of this host, or a sandbox.

Each works in a directory of its own, so that all of them can share one workplace.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from crucible.agent.tools.base import Context, Outcome
from crucible.agent.tools.builtin import builtin_tools
from crucible.agent.tools.calling import find_tool
from crucible.agent.workplace import WORKSPACE, Channel, Workplace

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_calls = itertools.count()


class Bench:
    """Calls tools by name, as the engine does. `heard` is what was told while they ran."""

    def __init__(
        self, workplace: Workplace, *, processes: Callable[[], Awaitable[bytes]] | None = None
    ) -> None:
        self.workplace = workplace
        self.processes = processes or self._processes
        self.heard: list[tuple[Channel, bytes]] = []

    async def call(self, tool: str, **arguments: Any) -> Outcome:
        found = find_tool(tool, await builtin_tools().tools())
        return await found.run(
            found.use(arguments),
            Context(
                session="s",
                call=f"call-{next(_calls)}",
                workplace=self.workplace,
                heard=lambda channel, data: self.heard.append((channel, data)),
            ),
        )

    async def ok(self, tool: str, **arguments: Any) -> str:
        outcome = await self.call(tool, **arguments)
        assert not outcome.is_error, outcome.text
        return outcome.text

    async def refused(self, tool: str, **arguments: Any) -> str:
        outcome = await self.call(tool, **arguments)
        assert outcome.is_error, outcome.text
        return outcome.text

    async def nothing_runs(self, words: str) -> None:
        """Waits until there is no such process. A killed one takes a moment to go."""
        while True:
            if words.encode() not in await self.processes():
                return
            await asyncio.sleep(0.05)

    async def _processes(self) -> bytes:
        look = "for one in /proc/[0-9]*; do tr '\\0' ' ' <$one/cmdline; echo; done 2>/dev/null"
        return (await self.workplace.run(("/bin/sh", "-c", look), timeout_s=60)).stdout


async def processes_of_host() -> bytes:
    """For a workplace whose commands see only themselves."""
    return await asyncio.to_thread(_processes_of_host)


def _processes_of_host() -> bytes:
    found = []
    for one in Path("/proc").iterdir():
        if one.name.isdecimal():
            with contextlib.suppress(OSError):
                found.append((one / "cmdline").read_bytes().replace(b"\0", b" "))
    return b"\n".join(found)


async def heard(bench: Bench, word: bytes, running: asyncio.Future[Outcome]) -> None:
    """Waits until what runs has said this."""
    while not any(word in data for _, data in bench.heard):
        assert not running.done(), running.result()
        await asyncio.sleep(0.01)


def long_sleep() -> str:
    """One like no other on this host."""
    return f"sleep 7{secrets.randbelow(10**8):08}"


Claim = Callable[[Bench], Awaitable[None]]


async def bash_gives_both_channels_in_order_and_the_status(bench: Bench) -> None:
    outcome = await bench.call("bash", command="echo one; echo two >&2; exit 3")
    assert outcome.exit_status == 3
    assert {"one", "two", "[exit status 3]"} <= set(outcome.text.splitlines())
    assert sorted(outcome.whole.split()) == [b"one", b"two"]
    assert ("stderr", b"two\n") in bench.heard


async def bash_remembers_where_it_was(bench: Bench) -> None:
    await bench.ok("bash", command="mkdir -p /workspace/where/deep && cd /workspace/where/deep")
    assert await bench.ok("bash", command="pwd") == f"{WORKSPACE}/where/deep"
    gone = await bench.ok("bash", command="cd .. && rm -r deep && cd /workspace && pwd")
    assert gone == WORKSPACE


async def bash_is_told_when_its_directory_is_gone(bench: Bench) -> None:
    await bench.ok("bash", command="mkdir -p /workspace/gone && cd /workspace/gone && rmdir $PWD")
    assert f"{WORKSPACE}/gone is gone" in await bench.ok("bash", command="pwd")
    assert await bench.ok("bash", command="pwd") == WORKSPACE


async def bash_does_not_keep_variables_or_what_exits(bench: Bench) -> None:
    await bench.call("bash", command="NAME=kept; export NAME; exit 0")
    assert await bench.ok("bash", command='echo "[$NAME]"') == "[]"


async def bash_cuts_what_is_long_and_leaves_it_to_be_read(bench: Bench) -> None:
    outcome = await bench.call("bash", command="seq -f 'line %g' 0 8999")
    assert outcome.text.startswith("line 0\n")
    assert outcome.text.endswith("line 8999")
    assert len(outcome.text) < 30_000
    assert outcome.whole.count(b"\n") == 9000
    path = outcome.text.split("the whole is in ")[1].split(",")[0]
    assert "line 4499" in await bench.ok("read", path=path, offset=4500, limit=1)


async def bash_shows_hostile_bytes_as_harmless_text(bench: Bench) -> None:
    text = await bench.ok(
        "bash", command=r"printf '\033[31mred\033[0m \033]0;title\007\377\000\b.'"
    )
    assert text == "red \\xff."


async def bash_without_output_says_so(bench: Bench) -> None:
    assert await bench.ok("bash", command="true") == "[no output]"


async def bash_ends_at_its_time_limit_with_all_it_started(bench: Bench) -> None:
    sleep = long_sleep()
    stubborn = f"trap '' TERM HUP; (trap '' TERM HUP; {sleep}) & {sleep}"
    outcome = await bench.call("bash", command=stubborn, timeout_s=0.5)
    assert outcome.is_error
    assert outcome.exit_status is None
    assert "time limit" in outcome.text
    await bench.nothing_runs(sleep)


async def cancelling_bash_kills_what_it_runs_and_its_children(bench: Bench) -> None:
    sleep = long_sleep()
    stubborn = f"trap '' TERM HUP; (trap '' TERM HUP; {sleep}) & echo begun; {sleep}"
    bench.heard.clear()
    running = asyncio.ensure_future(bench.call("bash", command=stubborn, timeout_s=600))
    await heard(bench, b"begun", running)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
    await bench.nothing_runs(sleep)


async def read_numbers_lines_and_goes_on_from_an_offset(bench: Bench) -> None:
    await bench.ok("write", path="r/three.txt", content="a\nb\r\nc")
    assert await bench.ok("read", path="r/three.txt") == "     1\ta\n     2\tb\n     3\tc"
    part = await bench.ok("read", path="r/three.txt", offset=2, limit=1)
    assert part == "     2\tb\n[the file goes on; read more with offset=3]"
    assert "has only 3 lines" in await bench.refused("read", path="r/three.txt", offset=9)


async def read_of_nothing_says_what_is_near(bench: Bench) -> None:
    await bench.ok("write", path="near/settings.json", content="{}")
    text = await bench.refused("read", path="near/setings.json")
    assert "/workspace/near/settings.json" in text
    assert "is a directory" in await bench.refused("read", path="near")
    assert "does not exist" in await bench.refused("read", path="near/settings.json/x")
    await bench.ok("write", path="near/empty", content="")
    assert await bench.ok("read", path="near/empty") == "[/workspace/near/empty is empty]"


async def read_cuts_lines_that_have_no_end(bench: Bench) -> None:
    await bench.workplace.write(f"{WORKSPACE}/long/line", b"x" * 700_000 + b"\nlast\n")
    text = await bench.ok("read", path="long/line")
    assert len(text) < 3000
    assert "683.6 KB" in text
    assert text.endswith("     2\tlast")


async def read_tells_what_a_binary_file_is_and_shows_pictures(bench: Bench) -> None:
    await bench.workplace.write(f"{WORKSPACE}/bin/dot.png", PNG)
    outcome = await bench.call("read", path="bin/dot.png")
    assert "image/png" in outcome.text
    assert "1x1 pixels" in outcome.text
    assert [(one.media_type, one.data) for one in outcome.artifacts] == [("image/png", PNG)]
    await bench.workplace.write(f"{WORKSPACE}/bin/raw", b"\0\1\2\xff" * 99)
    text = await bench.ok("read", path="bin/raw")
    assert "396 bytes" in text
    assert "0001 02ff" in text


async def write_makes_parents_and_tells_what_it_did(bench: Bench) -> None:
    made = await bench.ok("write", path="w/x/y.txt", content="one\ntwo\n")
    assert made == "Created /workspace/w/x/y.txt (8 bytes, 2 lines)."
    again = await bench.ok("write", path="/workspace/w/../w/x/y.txt", content="")
    assert again == "Overwrote /workspace/w/x/y.txt (0 bytes, 0 lines; it had 8 bytes)."
    assert "is a directory" in await bench.refused("write", path="w/x", content="")
    await bench.refused("write", path="w/x/y.txt/z", content="")


async def write_keeps_the_mode_of_a_file_and_follows_a_link(bench: Bench) -> None:
    await bench.ok(
        "bash",
        command="mkdir -p m && echo 1 >m/run && chmod 750 m/run && ln -s run m/link",
    )
    await bench.ok("write", path="m/link", content="echo 2\n")
    text = await bench.ok("bash", command="stat -c '%a %F' m/run; readlink m/link; cat m/run")
    assert text == "750 regular file\nrun\necho 2"


async def edit_replaces_what_matches_once(bench: Bench) -> None:
    await bench.ok("write", path="e/a.py", content="one = 1\ntwo = 2\n")
    text = await bench.ok("edit", path="e/a.py", old_string="two = 2", new_string="two = 3")
    assert "     2\ttwo = 3" in text
    assert "matches 2 times, at lines 1, 2" in await bench.refused(
        "edit", path="e/a.py", old_string=" = ", new_string="="
    )
    await bench.ok("edit", path="e/a.py", old_string=" = ", new_string="=", replace_all=True)
    assert await bench.workplace.read(f"{WORKSPACE}/e/a.py") == b"one=1\ntwo=3\n"


async def edit_keeps_line_ends_and_bytes_that_are_no_text(bench: Bench) -> None:
    await bench.workplace.write(f"{WORKSPACE}/e/dos", b"a\r\nb\xff\r\nc\r\n")
    await bench.ok("edit", path="e/dos", old_string="c\n", new_string="c\nd\n")
    assert await bench.workplace.read(f"{WORKSPACE}/e/dos") == b"a\r\nb\xff\r\nc\r\nd\r\n"


async def several_edits_are_all_made_or_none(bench: Bench) -> None:
    await bench.ok("write", path="e/many", content="a b c")
    good, bad = {"old_string": "a", "new_string": "A"}, {"old_string": "x", "new_string": "X"}
    assert "Edit 2 of 2 failed, and none was made" in await bench.refused(
        "edit", path="e/many", edits=[good, bad]
    )
    assert await bench.workplace.read(f"{WORKSPACE}/e/many") == b"a b c"
    await bench.ok("edit", path="e/many", edits=[good, {"old_string": "c", "new_string": "C"}])
    assert await bench.workplace.read(f"{WORKSPACE}/e/many") == b"A b C"
    assert "does not exist" in await bench.refused(
        "edit", path="e/none", old_string="a", new_string="b"
    )


async def grep_finds_lines_files_and_counts(bench: Bench) -> None:
    await bench.ok("write", path="g/src/a.py", content="import os\ndef f():\n    pass\n")
    await bench.ok("write", path="g/src/b.js", content="function f() {}\nfunction g() {}\n")
    await bench.ok("write", path="g/.git/c.py", content="def hidden(): pass\n")
    await bench.workplace.write(f"{WORKSPACE}/g/bin", b"def \0 f")
    lines = await bench.ok("grep", pattern=r"def\s+\w+", path="g", before=1)
    assert lines == "g/src/a.py\n  1- import os\n  2: def f():"
    files = await bench.ok("grep", pattern=r"\bf\(", path="g", output_mode="files_with_matches")
    assert files == "g/src/a.py\ng/src/b.js"
    counts = await bench.ok(
        "grep", pattern="FUNCTION", path="g", ignore_case=True, output_mode="count"
    )
    assert counts == "g/src/b.js: 2"
    assert (
        await bench.ok("grep", pattern="f", path="g", glob="*.py", output_mode="count")
        == "g/src/a.py: 1"
    )
    assert "b.js" in await bench.ok("grep", pattern="f", path="g", glob="src/*.{js,ts}")
    assert await bench.ok("grep", pattern="nowhere", path="g") == "No match in /workspace/g."
    assert "first 1 of 2" in await bench.ok("grep", pattern="function", path="g/src/b.js", limit=1)
    assert "does not exist" in await bench.refused("grep", pattern="x", path="g/none")
    assert await bench.refused("grep", pattern="(", path="g")
    # Nobody writes into it: who opens it waits.
    await bench.ok("bash", command="mkfifo g/pipe")
    assert "no file" in await bench.refused("grep", pattern="x", path="g/pipe")


async def grep_quotes_names_that_a_guest_chose(bench: Bench) -> None:
    name = "q/a\n\x1b[31mb\udcff"
    await bench.workplace.write(f"{WORKSPACE}/{name}", b"needle\n")
    quoted = r"$'/workspace/q/a\n\x1b[31mb\xff'"
    assert await bench.ok("glob", pattern="q/*") == quoted
    assert r"a\n\x1b[31mb\xff" in await bench.ok("grep", pattern="needle", path="q")
    assert await bench.ok("ls", path="q") == r"$'a\n\x1b[31mb\xff'"
    assert await bench.ok("read", path=name) == "     1\tneedle"


async def glob_gives_the_newest_first(bench: Bench) -> None:
    await bench.ok(
        "bash",
        command="mkdir -p /workspace/o/d && cd /workspace/o && touch -d 2001-01-01 a.py && touch -d 2003-01-01 d/c.py "
        "&& touch -d 2002-01-01 d/b.py && touch d/x.txt; cd /workspace",
    )  # fmt: skip
    text = await bench.ok("glob", pattern="**/*.py", path="o")
    assert text.splitlines() == [f"{WORKSPACE}/o/{name}" for name in ("d/c.py", "d/b.py", "a.py")]
    assert "the newest 1 of 3" in await bench.ok("glob", pattern="o/**/*.py", limit=1)
    assert await bench.ok("glob", pattern="/workspace/o/d/{b,x}.*") == (
        f"{WORKSPACE}/o/d/x.txt\n{WORKSPACE}/o/d/b.py"
    )
    assert "No file matches" in await bench.ok("glob", pattern="o/*.rs")
    assert "does not exist" in await bench.refused("glob", pattern="*", path="o/none")


async def ls_lists_a_tree(bench: Bench) -> None:
    await bench.ok("write", path="l/d/e.txt", content="12345")
    await bench.ok("bash", command="ln -s d /workspace/l/to")
    assert await bench.ok("ls", path="l") == "d/\nto@"
    assert await bench.ok("ls", path="l", depth=2) == "d/\n  e.txt\nto@"
    assert "5 bytes" in await bench.ok("ls", path="l/d", long=True)
    await bench.ok("bash", command="mkdir /workspace/l/empty")
    assert await bench.ok("ls", path="l/empty") == "[/workspace/l/empty is empty]"


async def python_keeps_its_variables_and_shows_values(bench: Bench) -> None:
    assert await bench.ok("python", code="x = 20\nprint('set')") == "set"
    assert await bench.ok("python", code="x + 1") == "21"


async def python_tells_its_errors(bench: Bench) -> None:
    text = await bench.refused("python", code="def f():\n    return 1 / 0\nf()")
    assert "ZeroDivisionError: division by zero" in text
    assert "line 2, in f" in text
    assert "SyntaxError" in await bench.refused("python", code="def")


async def python_shows_pages_and_pictures_as_artifacts(bench: Bench) -> None:
    code = (
        "class Rich:\n"
        "    def _repr_html_(self): return '<table></table>'\n"
        "class Dot:\n"
        f"    def _repr_png_(self): return {PNG!r}\n"
        "display(Dot())\nRich()"
    )
    outcome = await bench.call("python", code=code)
    assert [(one.name, one.media_type) for one in outcome.artifacts] == [
        ("figure-1.png", "image/png"),
        ("result-2.html", "text/html"),
    ]
    assert outcome.artifacts[0].data == PNG
    assert "shown to the user: figure-1.png, result-2.html" in outcome.text


async def python_is_interrupted_at_its_time_limit(bench: Bench) -> None:
    text = await bench.refused("python", code="while True: pass", timeout_s=0.5)
    assert "interrupted" in text
    assert await bench.ok("python", code="print('alive')") == "alive"


async def publish_hands_over_a_file_as_what_it_is(bench: Bench) -> None:
    await bench.workplace.write(f"{WORKSPACE}/p/chart.txt", PNG)
    outcome = await bench.call("publish", path="p/chart.txt")
    assert [(one.name, one.media_type, one.data) for one in outcome.artifacts] == [
        ("chart.txt", "image/png", PNG)
    ]
    assert "Pack it first" in await bench.refused("publish", path="p")
    assert "Near to it" in await bench.refused("publish", path="p/chart.tx")


# These ask nothing of a workplace that others do not.
OF_TOOLS_ALONE: tuple[Claim, ...] = (
    bash_does_not_keep_variables_or_what_exits,
    bash_without_output_says_so,
    read_cuts_lines_that_have_no_end,
    edit_replaces_what_matches_once,
    several_edits_are_all_made_or_none,
)
CLAIMS: tuple[Claim, ...] = (
    bash_gives_both_channels_in_order_and_the_status,
    bash_remembers_where_it_was,
    bash_is_told_when_its_directory_is_gone,
    bash_cuts_what_is_long_and_leaves_it_to_be_read,
    bash_shows_hostile_bytes_as_harmless_text,
    bash_ends_at_its_time_limit_with_all_it_started,
    cancelling_bash_kills_what_it_runs_and_its_children,
    read_numbers_lines_and_goes_on_from_an_offset,
    read_of_nothing_says_what_is_near,
    read_tells_what_a_binary_file_is_and_shows_pictures,
    write_makes_parents_and_tells_what_it_did,
    write_keeps_the_mode_of_a_file_and_follows_a_link,
    edit_keeps_line_ends_and_bytes_that_are_no_text,
    grep_finds_lines_files_and_counts,
    grep_quotes_names_that_a_guest_chose,
    glob_gives_the_newest_first,
    ls_lists_a_tree,
    python_keeps_its_variables_and_shows_values,
    python_tells_its_errors,
    python_shows_pages_and_pictures_as_artifacts,
    python_is_interrupted_at_its_time_limit,
    publish_hands_over_a_file_as_what_it_is,
)
