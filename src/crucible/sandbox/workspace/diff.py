"""Changes as a diff that people read and `patch` and `git apply` take.

Names and contents come from a guest: on a terminal nothing of them reaches it unescaped, and no name can pass for a
line of the diff.
"""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator

from crucible.errors import CrucibleError, GuestRefused
from crucible.sandbox.session import Entry
from crucible.sandbox.workspace.changes import Change, ChangeKind, Changes
from crucible.sandbox.workspace.names import quoted, shown

MAX_TEXT_BYTES = 1 << 20
_MAX_LINES = 20_000
# A guest could choose lines that keep the comparison busy for hours: equal pairs are counted first.
_MAX_EQUAL_PAIRS = 2_000_000
_NO_NEWLINE = "\\ No newline at end of file\n"
_TYPE_BITS = {"file": 0o100000, "symlink": 0o120000, "directory": 0o040000, "other": 0}

ReadOld = Callable[[bytes, Entry], bytes | None]
ReadNew = Callable[[bytes, int], bytes]


class _Unshowable(Exception):
    """Why the contents of a change are not shown; the text is a whole line."""


def render_diff(
    changes: Changes, read_old: ReadOld, read_new: ReadNew, *, is_terminal: bool
) -> Iterator[str]:
    """Lines with their ends. Bytes that are not UTF-8 come as surrogates: write with `errors="surrogateescape"`.

    `read_old(name, entry)` gives the host's file if it is still as the entry says, else None (`HostTree.read`).
    `read_new(name, size)` gives the guest's, at most so many bytes.
    """
    for change in changes.all:
        for line in _render(change, read_old, read_new):
            yield _safe(line) if is_terminal else line


def _render(change: Change, read_old: ReadOld, read_new: ReadNew) -> Iterator[str]:
    old, new = change.old, change.new
    if "directory" in (old.type if old else "", new.type if new else ""):
        yield from _render_directory(change)
    if old is not None and old.type not in ("file", "symlink"):
        old = None
    if new is not None and new.type not in ("file", "symlink"):
        if new.type == "other":
            yield f"Special file {quoted(change.name)} is not taken over\n"
        new = None
    # As git does: another type is the old one deleted and a new one added.
    sides = [(old, None), (None, new)] if change.kind is ChangeKind.TYPE else [(old, new)]
    for before, after in sides:
        if before is not None or after is not None:
            yield from _render_file(change.name, before, after, read_old, read_new)


def _render_directory(change: Change) -> Iterator[str]:
    name = quoted(change.name + b"/")
    match change.kind:
        case ChangeKind.ADDED:
            yield f"New directory {name}\n"
        case ChangeKind.DELETED:
            yield f"Deleted directory {name}\n"
        case ChangeKind.TYPE:
            was, now = change.old, change.new
            yield f"{quoted(change.name)} was a {was.type if was else ''}, is a {now.type if now else ''}\n"
        case ChangeKind.MODE | ChangeKind.MODIFIED:
            if change.old is not None and change.new is not None:
                yield f"Directory {name}: mode {change.old.mode:04o} → {change.new.mode:04o}\n"


def _render_file(
    name: bytes, old: Entry | None, new: Entry | None, read_old: ReadOld, read_new: ReadNew
) -> Iterator[str]:
    before, after = quoted(b"a/" + name), quoted(b"b/" + name)
    yield f"diff --git {before} {after}\n"
    yield from _mode_lines(old, new)
    if old is not None and new is not None and _content_key(old) == _content_key(new):
        return
    try:
        old_lines = _old_lines(name, old, read_old)
        new_lines = _new_lines(name, new, read_new)
    except _Unshowable as reason:
        yield str(reason)
        return
    if old_lines is None or new_lines is None:
        yield f"Binary file {quoted(name)} {_sizes(old, new)}\n"
        return
    head = (before if old else "/dev/null", after if new else "/dev/null")
    yield from _hunks(old_lines, new_lines, *head)


def _mode_lines(old: Entry | None, new: Entry | None) -> Iterator[str]:
    if old is None and new is not None:
        yield f"new file mode {_git_mode(new)}\n"
    elif new is None and old is not None:
        yield f"deleted file mode {_git_mode(old)}\n"
    elif old is not None and new is not None and old.type == "file" and old.mode != new.mode:
        yield f"old mode {_git_mode(old)}\n"
        yield f"new mode {_git_mode(new)}\n"


def _git_mode(entry: Entry) -> str:
    mode = 0 if entry.type == "symlink" else entry.mode & 0o7777
    return f"{_TYPE_BITS[entry.type] | mode:06o}"


def _content_key(entry: Entry) -> tuple[bytes, bytes]:
    return entry.sha256, entry.target


def _old_lines(name: bytes, entry: Entry | None, read_old: ReadOld) -> list[str] | None:
    if entry is None or entry.type == "symlink":
        return _lines(entry.target if entry else b"")
    if entry.size > MAX_TEXT_BYTES:
        return None
    data = read_old(name, entry)
    if data is None:
        raise _Unshowable(
            f"Conflict: {quoted(name)} was changed on the host since the sandbox got it\n"
        )
    return _lines(data)


def _new_lines(name: bytes, entry: Entry | None, read_new: ReadNew) -> list[str] | None:
    if entry is None or entry.type == "symlink":
        return _lines(entry.target if entry else b"")
    if entry.size > MAX_TEXT_BYTES:
        return None
    try:
        data = read_new(name, entry.size + 1)
    except CrucibleError as error:
        # By its code: through a connection the class is another.
        if error.code != GuestRefused.code:
            raise
        data = None
    if data is None or hashlib.sha256(data).digest() != entry.sha256:
        raise _Unshowable(f"{quoted(name)} is being changed in the sandbox just now\n")
    return _lines(data)


def _lines(data: bytes) -> list[str] | None:
    if b"\0" in data:
        return None
    text = data.decode("utf-8", "surrogateescape")
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    return lines if len(lines) <= _MAX_LINES else None


def _hunks(old: list[str], new: list[str], before: str, after: str) -> Iterator[str]:
    if _is_costly(old, new):
        yield from (f"--- {before}\n", f"+++ {after}\n")
        yield f"@@ -{_span(old)} +{_span(new)} @@\n"
        lines: Iterator[str] = iter([*(f"-{line}" for line in old), *(f"+{line}" for line in new)])
    else:
        lines = difflib.unified_diff(old, new, before, after)
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}"


def _is_costly(old: list[str], new: list[str]) -> bool:
    in_new = Counter(new)
    return sum(count * in_new[line] for line, count in Counter(old).items()) > _MAX_EQUAL_PAIRS


def _span(lines: list[str]) -> str:
    return f"1,{len(lines)}" if lines else "0,0"


def _sizes(old: Entry | None, new: Entry | None) -> str:
    if old is None or new is None:
        present = new or old
        size = _size(present.size if present else 0)
        return f"added ({size})" if old is None else f"deleted ({size})"
    return f"changed ({_size(old.size)} → {_size(new.size)})"


def _size(count: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"


def _safe(line: str) -> str:
    return "\n".join(
        "\t".join(shown(cell) for cell in part.split("\t")) for part in line.split("\n")
    )
