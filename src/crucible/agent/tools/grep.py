"""The tool `grep`: lines of files that match a regular expression, with what is around them.

By the sandbox's own grep where that knows such expressions. Else the files are read and searched in a process of this
host that is ended when its time is over: no expression, however hostile, holds up anybody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crucible.agent.tools import searching
from crucible.agent.tools.base import Context, Outcome
from crucible.agent.tools.globs import Glob, expand
from crucible.agent.tools.parameters import Parameter
from crucible.agent.tools.paths import facts_of, missing, relative, resolve
from crucible.agent.tools.searching import Found, Line, Search
from crucible.agent.tools.transcript import Transcript
from crucible.agent.tools.wording import clean, cut, cut_line, quoted
from crucible.agent.tools.work import Asked, WorkTool, failed
from crucible.agent.workplace import WORKSPACE, Workplace
from crucible.errors import BadToolCall, CommandNotFound

LONGEST_PATTERN = 2000
MOST_CONTEXT = 50
DEFAULT_LIMIT = 200
MOST_LIMIT = 5000
TIMEOUT_S = 60.0
_LONGEST_LINE = 400
_MOST_OUTPUT = 2 << 20
_UNABLE = 97
# The first grep proves that the second one will be understood.
_SCRIPT = (
    f"echo a | grep -qsP -e a 2>/dev/null || exit {_UNABLE}; "
    'LC_ALL=C.UTF-8 exec grep -rsIHP --null "$@"'
)


class Grep(WorkTool):
    name: ClassVar = "grep"
    description: ClassVar = (
        "Searches files of the sandbox for a Perl-like regular expression (`log.*Error`, `def\\s+\\w+`), line by line. "
        "Binary files and .git are passed over. `output_mode`: `content` gives the lines, `files_with_matches` the "
        "names, `count` how many lines match in each."
    )
    parameters: ClassVar = (
        Parameter(
            name="pattern",
            kind="text",
            description="The regular expression",
            is_required=True,
            least=1,
            most=LONGEST_PATTERN,
        ),
        Parameter(name="path", kind="text", description="A file or a directory", default=WORKSPACE),
        Parameter(
            name="glob",
            kind="text",
            description="Only files whose names match, such as `*.py` or `src/**/*.{ts,tsx}`",
        ),
        Parameter(
            name="output_mode",
            kind="text",
            description="What to give",
            default="content",
            choices=("content", "files_with_matches", "count"),
        ),
        Parameter(name="ignore_case", kind="flag", description="Take A for a", default=False),
        Parameter(
            name="before",
            kind="whole",
            description="How many lines before each match to show",
            default=0,
            most=MOST_CONTEXT,
        ),
        Parameter(
            name="after",
            kind="whole",
            description="How many lines after each match to show",
            default=0,
            most=MOST_CONTEXT,
        ),
        Parameter(
            name="limit",
            kind="whole",
            description="How many matching lines, or files, to give at most",
            default=DEFAULT_LIMIT,
            least=1,
            most=MOST_LIMIT,
        ),
    )

    def subject(self, asked: Asked) -> str:
        _search(asked)
        pattern: str = asked["pattern"]
        return pattern

    async def work(self, asked: Asked, context: Context) -> Outcome:
        search, workplace = _search(asked), context.workplace
        facts = await facts_of(workplace, search.path)
        if facts is None:
            return failed(await missing(workplace, search.path))
        if facts.kind == "o":
            # A pipe or a device may have no end.
            return failed(f"{quoted(search.path)} is no file and no directory.")
        try:
            found = await _inside(search, workplace)
        except CommandNotFound:
            found = None
        if found is None:
            found = await searching.outside(search, workplace, is_file=facts.kind == "f")
        if found.error and not found.lines:
            return failed(f"grep: {found.error}")
        return Outcome(text=_told(found, search, asked["limit"]))


def _search(asked: Asked) -> Search:
    pattern: str = asked["pattern"]
    if "\0" in pattern or "\n" in pattern:
        raise BadToolCall(
            "`pattern` has a line feed or a NUL in it, but lines are searched one by one"
        )
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise BadToolCall("`pattern` has half a character in it (a lone surrogate)") from None
    is_content = asked["output_mode"] == "content"
    return Search(
        pattern=pattern,
        path=resolve(asked["path"]),
        glob=asked["glob"] or "",
        names=None if not asked["glob"] else Glob(_anywhere(asked["glob"])),
        mode=asked["output_mode"],
        ignores_case=asked["ignore_case"],
        before=asked["before"] if is_content else 0,
        after=asked["after"] if is_content else 0,
    )


def _anywhere(pattern: str) -> str:
    """A pattern without a slash is of names, wherever they are."""
    if "\0" in pattern or not pattern.strip("/"):
        raise BadToolCall("`glob` is no pattern of names")
    return pattern if "/" in pattern else f"**/{pattern}"


async def _inside(search: Search, workplace: Workplace) -> Found | None:
    """By the sandbox's grep; None if it has none that understands Perl's expressions."""
    heard, said = Transcript(head=_MOST_OUTPUT, tail=0), Transcript(head=4096, tail=0)
    ran = await workplace.run(
        ("/bin/sh", "-c", _SCRIPT, "grep", *_words(search)),
        timeout_s=TIMEOUT_S,
        max_output=0,
        heard=lambda channel, data: (heard if channel == "stdout" else said).hear(channel, data),
        workdir="/",
    )
    if ran.exit_status in (_UNABLE, 127):
        return None
    lines = tuple(_parsed(heard.head(), search))
    error = clean(said.head()).strip().removeprefix("grep: ") if ran.exit_status == 2 else ""
    if ran.timed_out:
        error = f"it took longer than {TIMEOUT_S:g} s; search less with `path` or `glob`"
    return Found(
        lines=lines,
        error=error,
        is_cut=heard.total > _MOST_OUTPUT or ran.timed_out,
        has_context=bool(search.before or search.after),
    )


def _words(search: Search) -> list[str]:
    words = ["-i"] if search.ignores_case else []
    if search.mode == "content":
        words += ["-n", f"-B{search.before}", f"-A{search.after}"]
    else:
        words.append("-l" if search.mode == "files_with_matches" else "-c")
    if "/.git" not in search.path:
        words.append("--exclude-dir=.git")
    if search.glob:
        # A name that the whole pattern takes is taken by its last part; the rest is looked at afterwards.
        last = {one.rsplit("/", 1)[-1] for one in expand(search.glob)}
        if not last & {"**", ""}:
            words += [f"--include={one}" for one in sorted(last)]
    return [*words, "-e", search.pattern, "--", search.path]


def _parsed(output: bytes, search: Search) -> list[Line]:
    """Each is a name, a NUL, and: a number, `:` or `-` and the line; or a count; or nothing."""
    lines: list[Line] = []
    at = 0
    while (end := output.find(b"\0", at)) >= 0:
        name = output[at:end].removeprefix(b"--\n").decode("utf-8", "surrogateescape")
        at = end + 1
        if search.mode == "files_with_matches":
            lines.append(Line(path=name, number=1, text="", is_match=True))
            continue
        stop = output.find(b"\n", at)
        stop = len(output) if stop < 0 else stop
        rest = output[at:stop]
        at = stop + 1
        digits = len(rest) - len(rest.lstrip(b"0123456789"))
        if not 0 < digits < 19:
            continue
        number = int(rest[:digits])
        if search.mode == "count":
            if number:
                lines.append(Line(path=name, number=number, text="", is_match=True))
            continue
        lines.append(
            Line(
                path=name,
                number=number,
                text=clean(rest[digits + 1 : digits + 1 + 4 * _LONGEST_LINE]),
                is_match=rest[digits : digits + 1] == b":",
            )
        )
    return [line for line in lines if search.takes(line.path)]


@dataclass(slots=True)
class _Told:
    lines: list[str]
    matches: int = 0
    given: int = 0


def _told(found: Found, search: Search, limit: int) -> str:
    told = _Told(lines=[])
    if search.mode == "content":
        _tell_lines(found, limit, told)
    else:
        ordered = sorted(found.lines, key=lambda one: one.path)
        told.matches, told.given = len(ordered), min(limit, len(ordered))
        for one in ordered[:limit]:
            count = f": {one.number}" if search.mode == "count" else ""
            told.lines.append(f"{quoted(relative(one.path))}{count}")
    notes = [found.error] if found.error else []
    if told.matches > told.given:
        notes.append(f"the first {told.given} of {told.matches} matches")
    if found.is_cut:
        notes.append("not everything was searched; name a deeper `path` or a `glob`")
    note = f"\n[{'; '.join(notes)}]" if notes else ""
    if not told.lines:
        return f"No match in {quoted(search.path)}.{note}"
    return cut("\n".join(told.lines)) + note


def _tell_lines(found: Found, limit: int, told: _Told) -> None:
    """File by file. What is beyond the limit is counted."""
    path, last = "", 0
    for one in sorted(found.lines, key=lambda one: one.path):
        told.matches += one.is_match
        if told.given >= limit:
            continue
        told.given += one.is_match
        if one.path != path:
            told.lines.append(quoted(relative(one.path)))
            path, last = one.path, 0
        elif last and one.number > last + 1 and found.has_context:
            told.lines.append("  --")
        last = one.number
        sign = ":" if one.is_match else "-"
        told.lines.append(f"  {one.number}{sign} {cut_line(one.text, _LONGEST_LINE)}")
