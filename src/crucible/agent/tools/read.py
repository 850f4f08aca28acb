"""The tool `read`: a file of the sandbox with numbered lines, in parts where it is long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crucible.agent.tools import media
from crucible.agent.tools.base import Artifact, Context, Outcome
from crucible.agent.tools.parameters import Parameter
from crucible.agent.tools.paths import facts_of, missing, resolve
from crucible.agent.tools.wording import MOST_SHOWN, clean, cut_line, quoted, size_words
from crucible.agent.tools.work import Asked, WorkTool, failed
from crucible.agent.workplace import FileFacts, Workplace

DEFAULT_LINES = 2000
LONGEST_LINE = 2000
LARGEST_PICTURE = 5 << 20
# A file is looked through up to here for the line that was asked for.
MOST_SCANNED = 64 << 20
_PIECE = 256 << 10
_LINE_BYTES = 4 * LONGEST_LINE
_NUMBER_WIDTH = 8
_HEX_SHOWN = 256


class Read(WorkTool):
    name: ClassVar = "read"
    description: ClassVar = (
        "Reads a file of the sandbox. Lines are numbered as `     1\\tfirst line`; the number and the tab are not part "
        f"of the file. Gives up to {DEFAULT_LINES} lines from the start unless `offset` and `limit` say otherwise. Of "
        "a binary file it gives kind, size and first bytes; a picture is shown."
    )
    parameters: ClassVar = (
        Parameter(
            name="path",
            kind="text",
            description="Absolute, or relative to /workspace",
            is_required=True,
        ),
        Parameter(
            name="offset",
            kind="whole",
            description="The number of the first line to read",
            default=1,
            least=1,
            most=1 << 40,
        ),
        Parameter(
            name="limit",
            kind="whole",
            description="How many lines to read",
            default=DEFAULT_LINES,
            least=1,
            most=100_000,
        ),
    )

    def subject(self, asked: Asked) -> str:
        return resolve(asked["path"])

    async def work(self, asked: Asked, context: Context) -> Outcome:
        path, workplace = resolve(asked["path"]), context.workplace
        facts = await facts_of(workplace, path)
        if facts is None:
            return failed(await missing(workplace, path))
        if facts.kind == "d":
            return failed(f"{quoted(path)} is a directory; use `ls` to see what is in it.")
        if facts.kind != "f":
            return failed(f"{quoted(path)} is no regular file, so it cannot be read.")
        head = await workplace.read(path, length=media.HEAD)
        if head and media.is_binary(head):
            return await _binary(workplace, path, facts, head)
        lines = await _lines(workplace, path, first=asked["offset"], count=asked["limit"])
        return _shown(path, lines, first=asked["offset"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """`total` is how many there are, once the end was seen."""

    shown: tuple[str, ...]
    total: int | None


async def _lines(workplace: Workplace, path: str, *, first: int, count: int) -> Lines:
    """Draws the file in pieces; what is held is never more than what will be shown and one piece."""
    taken: list[str] = []
    number, at, room = 1, 0, MOST_SHOWN
    line, length = bytearray(), 0
    while at < MOST_SCANNED:
        piece = await workplace.read(path, offset=at, length=_PIECE)
        at += len(piece)
        parts = piece.split(b"\n")
        for index, part in enumerate(parts):
            line += part[: max(0, _LINE_BYTES - len(line))]
            length += len(part)
            is_at_end = not piece and length > 0
            if index == len(parts) - 1 and not is_at_end:
                break
            if number >= first:
                if len(taken) == count or room <= 0:
                    return Lines(shown=tuple(taken), total=None)
                taken.append(_line(bytes(line), length))
                room -= len(taken[-1]) + _NUMBER_WIDTH
            number += 1
            line.clear()
            length = 0
        if not piece:
            return Lines(shown=tuple(taken), total=number - 1)
    return Lines(shown=tuple(taken), total=None)


def _line(beginning: bytes, length: int) -> str:
    text = cut_line(clean(beginning.removesuffix(b"\r")), LONGEST_LINE)
    return f"{text} [the line has {size_words(length)}]" if length > len(beginning) else text


def _shown(path: str, lines: Lines, *, first: int) -> Outcome:
    if not lines.shown:
        if lines.total == 0:
            return Outcome(text=f"[{quoted(path)} is empty]")
        if lines.total is not None:
            return failed(
                f"{quoted(path)} has only {lines.total} lines; line {first} is beyond them."
            )
        return failed(f"Line {first} is more than {size_words(MOST_SCANNED)} into {quoted(path)}.")
    text = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines.shown, first))
    if lines.total is None:
        after = first + len(lines.shown)
        text += f"\n[the file goes on; read more with offset={after}]"
    return Outcome(text=text)


async def _binary(workplace: Workplace, path: str, facts: FileFacts, head: bytes) -> Outcome:
    kind = media.media_type(path, head)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        kind = "UTF-16 text (convert it with `iconv -f UTF-16 -t UTF-8`)"
    told = f"{quoted(path)} is binary: {kind}, {size_words(facts.size)}"
    if kind in media.PICTURES:
        size = media.picture_size(head)
        told += f", {size[0]}x{size[1]} pixels" if size else ""
        if facts.size <= LARGEST_PICTURE:
            data = await workplace.read(path, length=LARGEST_PICTURE)
            name = quoted(path.rsplit("/", 1)[-1])
            return Outcome(
                text=f"{told}. It is shown as a picture.",
                artifacts=(Artifact(name=name, media_type=kind, data=data),),
            )
    hexed = head[:_HEX_SHOWN].hex(" ", 2)
    return Outcome(text=f"{told}. It begins with:\n{hexed}")
