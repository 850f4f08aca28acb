"""Where a text stands in a file, exactly once; and if it does not, why: what is near to it and how that differs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from crucible.agent.tools.calling import short
from crucible.agent.tools.likeness import likeness, pairs_of
from crucible.agent.tools.wording import clean_text, cut_line
from crucible.errors import BadToolCall

MOST_LINES_COMPARED = 5000
_MOST_LINES_WANTED = 500
_MOST_LINES_SQUEEZED = 20_000
_MOST_SHOWN = 5
_NEAR = 0.6
_SHOWN_LINE = 160
_NUMBERED = re.compile(r"^ {0,6}\d{1,7}\t", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    old: str
    new: str
    is_everywhere: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """`lines` are those of the new text at which what was put in begins."""

    text: str
    lines: tuple[int, ...]


def apply(text: str, edit: Edit) -> Edited:
    """Raises BadToolCall, with what helps to mend the call, unless it matches as was asked."""
    if edit.old == edit.new:
        raise BadToolCall("`old_string` and `new_string` are the same, so nothing would change.")
    if not edit.old:
        raise BadToolCall("`old_string` is empty: give the text that shall be replaced.")
    old, new = _with_line_ends_of(text, edit)
    found = text.count(old)
    if not found:
        raise BadToolCall(_why_not(text, edit.old))
    if found > 1 and not edit.is_everywhere:
        raise BadToolCall(_why_many(text, old, found))
    lines, position = [], 0
    for before in _positions(text, old):
        lines.append(text.count("\n", 0, before) + 1 + position)
        position += new.count("\n") - old.count("\n")
        if len(lines) == _MOST_SHOWN:
            break
    return Edited(text=text.replace(old, new), lines=tuple(lines))


def _with_line_ends_of(text: str, edit: Edit) -> tuple[str, str]:
    """A file whose lines end as Windows has it is matched by what was shown of it, and keeps its ends."""
    is_windows = text.count("\r\n") * 2 >= max(1, text.count("\n"))
    if is_windows and "\r\n" not in edit.old and (old := _windows(edit.old)) in text:
        return old, _windows(edit.new)
    return edit.old, edit.new


def _windows(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _positions(text: str, old: str) -> Iterator[int]:
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + len(old))


def _why_many(text: str, old: str, found: int) -> str:
    numbers = []
    for at in _positions(text, old):
        numbers.append(text.count("\n", 0, at) + 1)
        if len(numbers) == 2 * _MOST_SHOWN:
            break
    shown = ", ".join(map(str, numbers)) + (", …" if found > len(numbers) else "")
    return (
        f"`old_string` matches {found} times, at lines {shown}. Give more of the lines around the one you mean, "
        "or set `replace_all` to change all of them."
    )


def _why_not(text: str, old: str) -> str:
    told = "`old_string` does not occur in the file."
    if _NUMBERED.search(old) and _NUMBERED.sub("", old) in text:
        return f"{told} It does without the line numbers: they are shown by `read` and are not part of the file."
    lines = text.splitlines()
    if blank := _only_blanks_differ(lines, old):
        return f"{told} {blank}"
    near = _near(lines, old)
    if not near:
        return f"{told} Nothing near to it was found: `read` the file again, it may have changed."
    shown = "\n".join(f"{number:6}\t{_line(lines[number - 1])}" for number in near)
    return f"{told} The nearest to its first line {short(_first(old))}:\n{shown}"


def _only_blanks_differ(lines: list[str], old: str) -> str:
    wanted = [_squeezed(line) for line in old.strip("\r\n").splitlines()]
    if not any(wanted) or len(wanted) > _MOST_LINES_WANTED:
        return ""
    squeezed = [_squeezed(line) for line in lines[:_MOST_LINES_SQUEEZED]]
    for start in range(len(squeezed) - len(wanted) + 1):
        if squeezed[start : start + len(wanted)] == wanted:
            return _told_blanks(lines, start, old.strip("\r\n").splitlines())
    return ""


def _told_blanks(lines: list[str], start: int, wanted: list[str]) -> str:
    told = f"It does at line {start + 1} but for blanks"
    for offset, line in enumerate(wanted):
        actual = lines[start + offset]
        if actual != line:
            return (
                f"{told}. Line {start + offset + 1} of the file is {actual[:_SHOWN_LINE]!a}, "
                f"`old_string` has {line[:_SHOWN_LINE]!a}."
            )
    return f"{told} at the ends of its lines."


def _near(lines: list[str], old: str) -> list[int]:
    """Numbers of lines that are like the first one that was looked for."""
    wanted = pairs_of(_first(old).strip())
    found: list[tuple[float, int]] = []
    for number, line in enumerate(lines[:MOST_LINES_COMPARED], 1):
        candidate = line.strip()
        if candidate and (likeness_to := likeness(wanted, pairs_of(candidate))) >= _NEAR:
            found.append((-likeness_to, number))
    return sorted(number for _, number in sorted(found)[:_MOST_SHOWN])


def _first(old: str) -> str:
    return next((line for line in old.splitlines() if line.strip()), old)


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _line(line: str) -> str:
    return cut_line(clean_text(line), _SHOWN_LINE)
