"""Zstandard: Python's own from 3.14 on, its backport before. Import it where it is used: that takes a while."""

from __future__ import annotations

try:
    from compression.zstd import (  # type: ignore[import-not-found,unused-ignore]
        ZstdDecompressor,
        ZstdError,
        ZstdFile,
    )
except ImportError:
    from backports.zstd import ZstdDecompressor, ZstdError, ZstdFile

__all__ = ["ZstdDecompressor", "ZstdError", "ZstdFile", "decompressed"]


def decompressed(data: bytes, most: int) -> bytes:
    """One frame and nothing after it, of at most so many bytes; anything else is a ValueError."""
    stream = ZstdDecompressor()
    try:
        plain: bytes = stream.decompress(data, most + 1)
    except ZstdError as error:
        raise ValueError(str(error)) from None
    if not stream.eof or len(plain) > most or stream.unused_data:
        raise ValueError("more than it may be, or cut short")
    return plain
