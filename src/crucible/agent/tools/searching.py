"""A search through files of a sandbox from this host: they are read, and a process with limits looks for the lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from crucible.agent.tools.globs import Glob
from crucible.agent.tools.walking import walking
from crucible.agent.tools.wording import clean_text
from crucible.agent.workplace import FileFacts, Workplace
from crucible.errors import GuestRefused

TIMEOUT_S = 60.0
MOST_FILES = 20_000
LARGEST_FILE = 2 << 20
MOST_BYTES = 128 << 20
MOST_LINES = 20_000
_PROGRAM = Path(__file__).with_name("line_search.py")
_LONGEST_ANSWER = 16 << 20

Mode = Literal["content", "files_with_matches", "count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    pattern: str
    path: str
    glob: str
    names: Glob | None
    mode: Mode
    ignores_case: bool
    before: int
    after: int

    def takes(self, path: str) -> bool:
        """By its name beneath the place that is searched, or its own where that is a file."""
        if self.names is None:
            return True
        root = self.path.rstrip("/") + "/"
        name = path[len(root) :] if path.startswith(root) else path.rsplit("/", 1)[-1]
        return self.names.matches(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """`number` is how many match, where they are counted."""

    path: str
    number: int
    text: str
    is_match: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    lines: tuple[Line, ...]
    error: str = ""
    is_cut: bool = False
    has_context: bool = False


async def outside(search: Search, workplace: Workplace, *, is_file: bool) -> Found:
    lines: list[Line] = []
    is_cut = False
    files, room = 0, MOST_BYTES
    try:
        async with _searcher(search) as searcher, asyncio.timeout(TIMEOUT_S):
            async for path, size in _candidates(search, workplace, is_file=is_file):
                files += 1
                room -= min(size, LARGEST_FILE)
                if files > MOST_FILES or room < 0 or len(lines) > MOST_LINES:
                    is_cut = True
                    break
                try:
                    data = await workplace.read(path, length=LARGEST_FILE)
                except GuestRefused:
                    continue
                is_cut = is_cut or size > LARGEST_FILE
                answer = await searcher.ask(data)
                if "error" in answer:
                    return Found(lines=(), error=str(answer["error"]))
                lines += _lines(path, answer)
    except TimeoutError:
        error = f"it took longer than {TIMEOUT_S:g} s; search less with `path` or `glob`"
        return Found(lines=tuple(lines), error=error, is_cut=True)
    except (EOFError, ConnectionError, asyncio.IncompleteReadError):
        return Found(lines=(), error="the expression needs more memory or time than it is given")
    return Found(lines=tuple(lines), is_cut=is_cut, has_context=bool(search.before or search.after))


async def _candidates(
    search: Search, workplace: Workplace, *, is_file: bool
) -> AsyncIterator[tuple[str, int]]:
    if is_file:
        facts = await workplace.stat(search.path)
        yield search.path, facts.size if facts is not None else 0
        return
    async with aclosing(walking(workplace, search.path)) as walk:
        async for one in walk:
            if _is_candidate(one, search):
                yield one.path, one.size


def _is_candidate(one: FileFacts, search: Search) -> bool:
    return one.kind == "f" and one.size > 0 and search.takes(one.path)


def _lines(path: str, answer: dict[str, Any]) -> list[Line]:
    if "count" in answer:
        count = int(answer["count"])
        return [Line(path=path, number=count, text="", is_match=True)] if count else []
    return [
        Line(path=path, number=number, text=clean_text(text), is_match=bool(is_match))
        for number, is_match, text in answer["lines"]
    ]


class _Searcher:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None  # noqa: S101 - asked for below
        assert process.stdout is not None  # noqa: S101
        self._input, self._output = process.stdin, process.stdout

    async def ask(self, data: bytes) -> dict[str, Any]:
        self._input.write(len(data).to_bytes(4, "big") + data)
        await self._input.drain()
        length = int.from_bytes(await self._output.readexactly(4), "big")
        if length > _LONGEST_ANSWER:
            raise EOFError
        answer: dict[str, Any] = json.loads(await self._output.readexactly(length))
        return answer


@asynccontextmanager
async def _searcher(search: Search) -> AsyncIterator[_Searcher]:
    asked = {
        "pattern": search.pattern,
        "ignores_case": search.ignores_case,
        "before": search.before,
        "after": search.after,
        "counts": search.mode != "content",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(_PROGRAM), json.dumps(asked),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL, env={}, cwd=os.sep,
    )  # fmt: skip
    try:
        yield _Searcher(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
