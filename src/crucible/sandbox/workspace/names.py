"""Names of files as bytes: checked before they are used, made harmless before they are shown."""

from __future__ import annotations

from crucible.errors import PathRefused

MAX_COMPONENT_BYTES = 255
_QUOTES = {
    0x07: "\\a",
    0x08: "\\b",
    0x09: "\\t",
    0x0A: "\\n",
    0x0B: "\\v",
    0x0C: "\\f",
    0x0D: "\\r",
}
_QUOTES |= {0x22: '\\"', 0x5C: "\\\\"}


def split_name(name: bytes, *, max_bytes: int = 4096, max_depth: int = 256) -> tuple[bytes, ...]:
    """The components of a relative name. `./a//b/` is `a`, `b`; the root itself has none.

    Raises PathRefused for a name that is absolute, climbs with `..`, holds a NUL or passes a limit.
    """
    if len(name) > max_bytes:
        raise PathRefused(f"A name of {len(name)} bytes is too long ({shown(name[:40])}…)")
    if b"\0" in name:
        raise PathRefused(f"The name {shown(name)!r} holds a NUL")
    if name.startswith(b"/"):
        raise PathRefused(f"{shown(name)} is absolute; only names beneath the target are taken")
    parts = tuple(part for part in name.split(b"/") if part not in (b"", b"."))
    if b".." in parts:
        raise PathRefused(f"{shown(name)} climbs out with `..`")
    if len(parts) > max_depth:
        raise PathRefused(f"{shown(name[:80])}… is nested deeper than {max_depth} directories")
    if any(len(part) > MAX_COMPONENT_BYTES for part in parts):
        raise PathRefused(
            f"A part of {shown(name[:80])}… is longer than {MAX_COMPONENT_BYTES} bytes"
        )
    return parts


def shown(text: bytes | str) -> str:
    """For people and terminals: whatever does not print is escaped, so nothing steers the terminal."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def quoted(name: bytes) -> str:
    """As git writes a name into a diff: unchanged where that is safe, else in quotes with C's escapes."""
    text = name.decode("utf-8", "surrogateescape")
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return (
        '"'
        + "".join(_QUOTES.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in name)
        + '"'
    )


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
