"""What a child is told to serve, as it crosses to it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Literal

Mode = Literal["chat", "embedding"]
LONGEST_ORDER = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """`socket` lies in a directory of its own, which goes with the child. `parent` is who started it."""

    model: str
    name: str
    mode: Mode
    socket: str
    key: str = field(repr=False)
    context_tokens: int
    threads: int
    parent: int

    def as_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @staticmethod
    def from_line(line: bytes) -> Order:
        return Order(**json.loads(line))
