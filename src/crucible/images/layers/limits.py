"""How much an image may hold. Real ones stay far below; what is above is a bomb or a mistake."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_NAME = 255
LONGEST_PATH = 4096
# An id of all ones means "leave it as it is" to the kernel, and so belongs to nobody.
LARGEST_ID = (1 << 32) - 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`total_bytes` and `entries` are for all layers together, also for what a later one removes again.

    A layer that unpacks to more than `ratio` times its size is refused, once that is more than `free_bytes`.
    """

    total_bytes: int = 64 << 30
    entries: int = 1_000_000
    layers: int = 512
    depth: int = 128
    header_bytes: int = 1 << 20
    attribute_bytes: int = 64 << 10
    all_attribute_bytes: int = 64 << 20
    symlink_hops: int = 40
    lookups: int = 50_000_000
    ratio: int = 300
    free_bytes: int = 1 << 30


DEFAULT = Limits()
