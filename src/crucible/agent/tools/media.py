"""What a file is, by its first bytes and its name."""

from __future__ import annotations

import mimetypes
import posixpath
import struct

# Enough to see what a file is.
HEAD = 8192

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"BM", "image/bmp"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"\xfd7zXZ\x00", "application/x-xz"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (257, b"ustar", "application/x-tar"),
    (0, b"\x7fELF", "application/x-executable"),
    (0, b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (0, b"\x00asm", "application/wasm"),
    (0, b"OggS", "audio/ogg"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"fLaC", "audio/flac"),
    (8, b"WAVE", "audio/wav"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (0, b"PAR1", "application/vnd.apache.parquet"),
)
# These are what they are by name, and zip or text by their first bytes.
_BY_NAME = {
    ".csv": "text/csv",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".epub": "application/epub+zip",
    ".html": "text/html",
    ".jar": "application/java-archive",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".md": "text/markdown",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".svg": "image/svg+xml",
    ".tsv": "text/tab-separated-values",
    ".whl": "application/zip",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
PICTURES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_TEXT = "text/plain"
_BYTES = "application/octet-stream"


def media_type(path: str, head: bytes) -> str:
    """What a file says it is never makes it a picture or a page that its bytes do not bear out."""
    found = _by_magic(head)
    extension = posixpath.splitext(path)[1].lower()
    named = _BY_NAME.get(extension, "")
    if found == "application/zip":
        return named if named and not _is_text_type(named) else found
    if found:
        return found
    if is_binary(head):
        guessed = mimetypes.guess_type("x" + extension)[0] or ""
        return guessed if guessed.startswith(("font/", "audio/", "video/")) else _BYTES
    if named and _is_text_type(named):
        return named
    guessed = mimetypes.guess_type("x" + extension)[0] or ""
    return guessed if guessed.startswith("text/") else _TEXT


def is_binary(head: bytes) -> bool:
    if b"\0" in head:
        return True
    odd = sum(1 for byte in head if byte < 32 and byte not in (7, 8, 9, 10, 12, 13, 27))
    return odd * 10 > len(head)


def picture_size(head: bytes) -> tuple[int, int] | None:
    """Width and height, of the kinds that say so in their first bytes."""
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        width, height = struct.unpack(">II", head[16:24])
        return width, height
    if head.startswith(b"GIF8") and len(head) >= 10:
        width, height = struct.unpack("<HH", head[6:10])
        return width, height
    return None


def _by_magic(head: bytes) -> str:
    for offset, magic, kind in _MAGIC:
        if head[offset : offset + len(magic)] == magic and (kind != "image/bmp" or b"\0" in head):
            return kind
    return ""


def _is_text_type(kind: str) -> bool:
    return kind.startswith("text/") or kind in (
        "application/json",
        "application/jsonl",
        "image/svg+xml",
    )
