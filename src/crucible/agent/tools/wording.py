"""Bytes of a sandbox as a model may read them: nothing that a terminal obeys, honest names, long things cut."""

from __future__ import annotations

import re

# What one answer may hold: about eight thousand tokens. With its notes it stays below what the engine cuts at.
MOST_SHOWN = 28_000
_HEAD_SHARE = 0.6
_COMMANDS = re.compile(
    # Of a terminal: control sequences, strings for it (titles, links), other escapes; then every control
    # character but the tab and the line feed.
    r"\x1b\[[0-?]{0,64}[ -/]{0,16}[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]{0,16}[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]"
    # Marks that turn the direction of writing, so that a line reads as another.
    r"|[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]"
)
_PLAIN_NAME = re.compile(r"[\w.@%+=:,/~^\[\]{}()!-]+", re.ASCII)


def clean(data: bytes) -> str:
    """As text: what is no UTF-8 is shown as its bytes, lines that were written over show their last state."""
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(_last_state(line) for line in text.split("\n"))
    return _COMMANDS.sub("", text)


def clean_text(text: str) -> str:
    """The same of text that comes from a sandbox; a half of a character that is none is shown as its number."""
    return clean(
        text.encode("utf-8", "surrogateescape" if _is_escaped(text) else "backslashreplace")
    )


def quoted(name: str) -> str:
    """A path of a sandbox in one line, as a shell would take it."""
    if name and (
        _PLAIN_NAME.fullmatch(name) or (name.isprintable() and not set(" '\"\\") & set(name))
    ):
        return name
    if name.isprintable() and "'" not in name:
        return f"'{name}'"
    shown = "".join(_in_dollar_quotes(char) for char in name)
    return f"$'{shown}'"


def cut(text: str, most: int = MOST_SHOWN, *, where: str = "") -> str:
    """Its beginning and its end, with a note of what is left out between them and `where` the whole is."""
    if len(text) <= most:
        return text
    head = _at_line_end(text[: int(most * _HEAD_SHARE)])
    tail = _at_line_start(text[-(most - int(most * _HEAD_SHARE)) :])
    left = len(text) - len(head) - len(tail)
    return f"{head}\n[… {left} of {len(text)} characters left out{where} …]\n{tail}"


def shown(data: bytes, total: int, *, where: str = "", most: int = MOST_SHOWN) -> str:
    """What a program wrote, cleaned and cut. Of `total` bytes these were kept, at least the first and the last ones."""
    if total <= most:
        return cut(clean(data), most, where=where)
    head, tail = data[: int(most * _HEAD_SHARE)], data[-(most - int(most * _HEAD_SHARE)) :]
    # What is no text is longer as text.
    first = _at_line_end(clean(head)[: len(head)])
    last = _at_line_start(clean(tail)[-len(tail) :])
    left = total - len(head) - len(tail)
    return f"{first}\n[… about {size_words(left)} of {size_words(total)} left out{where} …]\n{last}"


def cut_line(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[:most]}… [{len(line) - most} more characters]"


def size_words(count: int) -> str:
    """`812 bytes`, `1.2 KB`, `3.4 MB`."""
    if count < 1024:
        return f"{count} byte{'' if count == 1 else 's'}"
    for power, unit in ((20, "KB"), (30, "MB")):
        if count < 1 << power:
            return f"{count / (1 << (power - 10)):.1f} {unit}"
    return f"{count / (1 << 30):.1f} GB"


def _last_state(line: str) -> str:
    parts = [part for part in line.split("\r") if part]
    return parts[-1] if parts else ""


def _is_escaped(text: str) -> bool:
    return all("\udc80" <= char <= "\udcff" for char in text if "\ud800" <= char <= "\udfff")


def _in_dollar_quotes(char: str) -> str:
    if char in "'\\":
        return f"\\{char}"
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    if char.isprintable():
        return char
    known = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    if char in known:
        return known[char]
    return f"\\x{ord(char):02x}" if ord(char) < 128 else f"\\u{ord(char):04x}"


def _at_line_end(text: str) -> str:
    """Up to its last whole line, unless that would lose much."""
    end = text.rfind("\n")
    return text[:end] if end > len(text) * 3 // 4 else text


def _at_line_start(text: str) -> str:
    start = text.find("\n")
    return text[start + 1 :] if 0 <= start < len(text) // 4 else text
