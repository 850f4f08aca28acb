"""A program of its own, which loads nothing of Crucible: searches files that it is sent, one after the other.

Its argument is a search in JSON. Files come as a length of four bytes and the bytes; each is answered likewise in JSON.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from typing import Any, BinaryIO

MEMORY = 1 << 30
CPU_S = 70
LONGEST_LINE = 20_000
LONGEST_SHOWN = 1600
MOST_LINES = 5000
HEAD = 8192


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    asked = json.loads(sys.argv[1])
    error, pattern = "", None
    try:
        pattern = re.compile(asked["pattern"], re.IGNORECASE if asked["ignores_case"] else 0)
    except (re.error, OverflowError, RecursionError, MemoryError) as failure:
        error = f"the expression is not understood: {failure}"[:300]
    while (data := received(sys.stdin.buffer)) is not None:
        answer: dict[str, Any] = {"error": error}
        if pattern is not None:
            answer = searched(pattern, data, asked)
        body = json.dumps(answer).encode()
        sys.stdout.buffer.write(len(body).to_bytes(4, "big") + body)
        sys.stdout.buffer.flush()


def received(source: BinaryIO) -> bytes | None:
    head = source.read(4)
    if len(head) < 4:
        return None
    return source.read(int.from_bytes(head, "big"))


def searched(pattern: re.Pattern[str], data: bytes, asked: dict[str, Any]) -> dict[str, Any]:
    if b"\0" in data[:HEAD]:
        return {"count": 0} if asked["counts"] else {"lines": []}
    lines = data.decode("utf-8", "backslashreplace").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    matching = [
        number
        for number, line in enumerate(lines, 1)
        if pattern.search(line.removesuffix("\r")[:LONGEST_LINE])
    ]
    if asked["counts"]:
        return {"count": len(matching)}
    return {"lines": around(lines, matching[:MOST_LINES], asked["before"], asked["after"])}


def around(lines: list[str], matching: list[int], before: int, after: int) -> list[list[Any]]:
    """Each line once, whichever matches it is near to."""
    matches, shown, last = set(matching), [], 0
    for number in matching:
        first = max(last + 1, number - before)
        for one in range(first, min(len(lines), number + after) + 1):
            text = lines[one - 1].removesuffix("\r")[:LONGEST_SHOWN]
            shown.append([one, one in matches, text])
            last = one
    return shown


if __name__ == "__main__":
    main()
