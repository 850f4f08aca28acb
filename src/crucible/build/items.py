"""What a COPY takes: files of the context or of an image, seen alike, and the patterns that name them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from crucible.errors import PathRefused
from crucible.images.layers.headers import Kind, Parts

MOST_ITEMS = 1_000_000
_WILD = re.compile(rb"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One file. `parts` is its path below what was named, empty for that itself; `read` gives its bytes each time."""

    parts: Parts
    kind: Kind
    mode: int
    uid: int
    gid: int
    mtime_s: int
    size: int = 0
    target: bytes = b""
    attributes: tuple[tuple[bytes, bytes], ...] = ()
    read: Callable[[], Iterable[bytes]] = tuple


class Source(Protocol):
    """Where files come from. Paths are parts below its root, none of them `..`."""

    def names(self, parts: Parts) -> list[bytes]:
        """What a directory holds, sorted; nothing where there is no directory."""
        ...

    def kind(self, parts: Parts) -> Kind | None: ...
    def items(self, parts: Parts) -> Iterator[Item]:
        """It and all below it, a directory before what it holds."""
        ...


def parts_of(text: str) -> Parts:
    """`/a//b/.` → a, b. Raises PathRefused for what leads upwards."""
    parts = tuple(part for part in text.encode().split(b"/") if part not in (b"", b"."))
    if b".." in parts or b"\0" in text.encode():
        raise PathRefused(f"{text[:200]!r} leads out of where files may be copied from")
    return parts


def matches(source: Source, pattern: str) -> list[Parts]:
    """What a pattern names: itself, if that is there, else what its wildcards fit. Raises PathRefused for nothing."""
    parts = parts_of(pattern)
    if source.kind(parts) is not None:
        return [parts]
    found: list[Parts] = [()]
    for part in parts:
        if _WILD.search(part):
            expression = re.compile(wildcard(part), re.DOTALL)
            found = [
                (*above, name)
                for above in found
                for name in source.names(above)
                if expression.fullmatch(name)
            ]
        else:
            found = [(*above, part) for above in found]
    found = [parts for parts in found if source.kind(parts) is not None]
    if not found:
        raise PathRefused(
            f"There is no {pattern[:200]!r} to copy",
            hint="Paths are those of the context, without what .dockerignore names",
        )
    return found


def wildcard(pattern: bytes) -> bytes:
    """`*`, `?` and `[a-z]` within one name, as an expression."""
    words = re.findall(rb"\\.|\*+|\?|\[\^?\]?[^\]]*\]|.", pattern, re.DOTALL)
    return b"".join(map(_expression, words))


def _expression(word: bytes) -> bytes:
    if word.startswith(b"*"):
        return rb"[^/]*"
    if word == b"?":
        return rb"[^/]"
    if word.startswith(b"[") and len(word) > 1:
        inner = word[1:-1].replace(b"\\", b"\\\\").replace(b"[", b"\\[")
        caret = b"^" if inner.startswith(b"^") else b""
        return rb"(?!/)[" + caret + inner.removeprefix(b"^").replace(b"^", b"\\^") + rb"]"
    return re.escape(word[1:] if word.startswith(b"\\") and len(word) > 1 else word)


def digest_of(items: Iterable[Item]) -> str:
    """Of everything about them that a layer would show, but for their times."""
    state = hashlib.sha256()
    for item in items:
        head = (item.parts, item.kind.value, item.mode, item.uid, item.gid, item.size, item.target)
        state.update(repr((head, item.attributes)).encode())
        for data in item.read():
            state.update(data)
    return state.hexdigest()
