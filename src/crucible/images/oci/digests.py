"""Digests as OCI writes them, `sha256:` and 64 digits, and the hash objects that check them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import _Hash

_LENGTHS = {"sha256": 64, "sha512": 128}
_HEX = re.compile(r"[0-9a-f]+")


def is_digest(text: str) -> bool:
    """Whether it names content by an algorithm that we trust. Upper case digits are not canonical."""
    algorithm, colon, digits = text.partition(":")
    return bool(
        colon and _LENGTHS.get(algorithm) == len(digits) and _HEX.fullmatch(digits) is not None
    )


def hasher(digest: str) -> _Hash:
    """A new hash object of the digest's algorithm."""
    return hashlib.new(digest.partition(":")[0])


def digest_of(data: bytes, like: str = "sha256:") -> str:
    """The data's digest by the algorithm of `like`."""
    algorithm = like.partition(":")[0]
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


def digest_of_file(path: Path, like: str = "sha256:") -> str:
    algorithm = like.partition(":")[0]
    with path.open("rb") as stream:
        return f"{algorithm}:{hashlib.file_digest(stream, algorithm).hexdigest()}"


def short(digest: str) -> str:
    """The twelve digits people compare by eye."""
    return digest.partition(":")[2][:12]
