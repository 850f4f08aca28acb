"""What a file is, by its first bytes. What it is called only decides between kinds that look alike."""

from __future__ import annotations

from typing import Final

LOOKED_AT: Final = 4096
UNKNOWN: Final = "application/octet-stream"

_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PAR1", "application/vnd.apache.parquet"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"BZh", "application/x-bzip2"),
)
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
_ZIPPED: Final = {
    "xlsx": f"{_OFFICE}spreadsheetml.sheet",
    "docx": f"{_OFFICE}wordprocessingml.document",
    "pptx": f"{_OFFICE}presentationml.presentation",
}
_TEXTS: Final = {
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "json": "application/json",
    "md": "text/markdown",
    "html": "text/html",
    "htm": "text/html",
    "svg": "image/svg+xml",
    "xml": "application/xml",
    "py": "text/x-python",
    "yaml": "application/yaml",
    "yml": "application/yaml",
}


def media_type_of(name: str, beginning: bytes) -> str:
    """`beginning` has the first LOOKED_AT bytes, or all there are."""
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    for magic, media_type in _MAGIC:
        if beginning.startswith(magic):
            return media_type
    if beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP":
        return "image/webp"
    if beginning.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _ZIPPED.get(ending, "application/zip")
    if _is_text(beginning):
        return _TEXTS.get(ending, "text/plain")
    return UNKNOWN


def _is_text(beginning: bytes) -> bool:
    if b"\0" in beginning:
        return False
    try:
        beginning.decode()
    except UnicodeDecodeError as error:
        # A character that goes on after what was looked at is whole in the file.
        return len(beginning) - error.start < 4 and error.reason == "unexpected end of data"
    return True
