"""Shell commands that read, write, link or delete files, judged by where their paths lead."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from crucible.agent.risk.names import words_of
from crucible.agent.risk.places import HOLE, WORKSPACE, Place, normalize, place_of
from crucible.agent.risk.shell.commands import Command, Redirect

_READERS = words_of(
    "cat head tail less more cut grep egrep fgrep rg sed awk gawk sort uniq wc od xxd hexdump strings base64 nl tac "
    "rev paste join comm diff cmp jq tar zip gzip bzip2 xz cp mv rsync scp install source . split column bat vim vi "
    "nano emacs sha256sum md5sum openssl python python3 node"
)
_LISTERS = words_of("ls dir find du tree stat file locate")
_FIRST_IS_PATTERN = words_of("grep egrep fgrep rg sed awk gawk jq find")
_LAST_IS_TARGET = words_of("cp mv install rsync ln")
_ALL_ARE_TARGETS = words_of("tee touch mkdir truncate")
_DELETERS = words_of("rm rmdir unlink shred srm")
_WRITE_RULES = {
    Place.CREDENTIALS: "credential-file",
    Place.DISK: "disk-write",
    Place.STARTUP: "startup-write",
    Place.TRACES: "erase-traces",
    Place.OUTSIDE: "outside-write",
    Place.HARMLESS: "outside-write",
}
_READ_RULES = {
    Place.CREDENTIALS: "credential-file",
    Place.DISK: "outside-read",
    Place.STARTUP: "outside-read",
    Place.TRACES: "outside-read",
    Place.OUTSIDE: "outside-read",
}


def judge_files(command: Command) -> Iterator[str]:
    """The rules that it breaks."""
    name, directory = command.name, command.directory
    if name in _DELETERS:
        yield from _deleting(command)
        return
    if name == "find" and _deletes_found(command):
        yield from _finding_to_delete(command)
    if name == "dd":
        yield from _copying_blocks(command)
    elif name in ("chmod", "chown", "chgrp"):
        yield from _changing_rights(command)
    elif name in _ALL_ARE_TARGETS:
        for path in _paths(command):
            yield from write_rules(path, directory)
    elif name in _LAST_IS_TARGET:
        yield from _copying(command)
    elif name == "sed" and any(text.startswith(("-i", "--in-place")) for text in command.texts):
        for path in _paths(command)[1:]:
            yield from write_rules(path, directory)
    elif name == "tar":
        yield from _unpacking(command)
    elif name in _READERS or name in _LISTERS:
        yield from _reading(command)
    for text in command.texts:
        if _names_credentials(text, command):
            yield "credential-file"


def judge_redirect(redirect: Redirect, directory: str) -> Iterator[str]:
    target = redirect.target.text
    if target.startswith(("/dev/tcp/", "/dev/udp/")):
        yield "raw-socket"
        yield "reverse-shell"
    elif redirect.is_write:
        yield from write_rules(target, directory)
    elif "<" in redirect.operator:
        yield from read_rules(target, directory)


def write_rules(path: str, directory: str = WORKSPACE) -> Iterator[str]:
    place = place_of(path, directory=directory)
    if place in _WRITE_RULES and not _is_stream(path):
        yield _WRITE_RULES[place]


def read_rules(path: str, directory: str = WORKSPACE) -> Iterator[str]:
    place = place_of(path, directory=directory)
    if place in _READ_RULES:
        yield _READ_RULES[place]


def delete_rules(path: str, directory: str = WORKSPACE, *, is_tree: bool) -> Iterator[str]:
    """`path` may end with a pattern of the shell, which then is all that lies in a directory."""
    place = place_of(path, directory=directory)
    if place is Place.UNKNOWN or directory == HOLE:
        if is_tree:
            yield "delete-unknown"
        return
    if place is Place.TRACES:
        yield "erase-traces"
    elif place is Place.DISK:
        yield "disk-write"
    elif place is not Place.INSIDE:
        yield "delete-outside"
    elif is_tree and _is_whole_workspace(path, directory):
        yield "delete-workspace"


def _deleting(command: Command) -> Iterator[str]:
    options = [text for text in command.texts if text.startswith("-")]
    is_tree = any(
        text == "--recursive" or ("r" in text.lower() and text[:2] != "--") for text in options
    )
    for path in _paths(command):
        yield from delete_rules(path, command.directory, is_tree=is_tree)


def _deletes_found(command: Command) -> bool:
    texts = command.texts
    runs = ("-exec", "-execdir")
    return "-delete" in texts or any(
        option in runs and value.rpartition("/")[2] in _DELETERS
        for option, value in pairwise(texts)
    )


def _finding_to_delete(command: Command) -> Iterator[str]:
    for text in command.texts:
        if text.startswith(("-", "(", "!")):
            return
        for rule in delete_rules(text, command.directory, is_tree=False):
            yield "delete-outside" if rule == "erase-traces" else rule


def _copying_blocks(command: Command) -> Iterator[str]:
    for text in command.texts:
        key, _, path = text.partition("=")
        if key == "of":
            yield from write_rules(path, command.directory)
        elif key == "if" and place_of(path, directory=command.directory) is not Place.HARMLESS:
            yield from read_rules(path, command.directory)


def _changing_rights(command: Command) -> Iterator[str]:
    paths = _paths(command)
    mode, *targets = paths or [""]
    if command.name == "chmod" and _sets_id(mode):
        yield "set-id-bit"
    is_tree = any(text in ("-R", "--recursive") or text.startswith("-R") for text in command.texts)
    for path in targets:
        for _ in write_rules(path, command.directory):
            yield "mode-change-outside" if is_tree else "outside-write"


def _copying(command: Command) -> Iterator[str]:
    paths = _paths(command)
    if not paths:
        return
    *origins, target = paths if len(paths) > 1 else [*paths, "."]
    if not _is_remote(target):
        yield from write_rules(target, command.directory)
    if command.name == "ln":
        for origin in origins:
            is_out = place_of(origin, directory=command.directory) is not Place.INSIDE
            if is_out and origin.startswith(("/", "~")):
                yield "outside-link"
        return
    for origin in origins:
        if _is_remote(origin):
            continue
        is_moved = (
            command.name == "mv" and place_of(origin, directory=command.directory) is Place.HARMLESS
        )
        if is_moved:
            yield "outside-write"
        yield from read_rules(origin, command.directory)


def _unpacking(command: Command) -> Iterator[str]:
    texts = command.texts
    is_extracting = bool(texts) and ("x" in texts[0].lstrip("-")[:4] or "--extract" in texts)
    for option, value in pairwise(texts):
        if option in ("-C", "--directory") and is_extracting:
            yield from write_rules(value, command.directory)
    for path in _paths(command):
        yield from read_rules(path, command.directory)


def _reading(command: Command) -> Iterator[str]:
    paths = _paths(command)
    if command.name in _FIRST_IS_PATTERN and command.name != "find":
        has_file = any(text in ("-f", "-e") for text in command.texts)
        paths = paths if has_file else paths[1:]
    for path in paths:
        if "/" not in path and not path.startswith("~") and command.directory == WORKSPACE:
            continue
        for rule in read_rules(path, command.directory):
            if rule == "outside-read" and command.name in _LISTERS:
                yield "outside-list"
            else:
                yield rule


def _names_credentials(text: str, command: Command) -> bool:
    """Also behind `--option=` and `@`, as `curl -d @file` has it."""
    path = (
        text.rpartition("=")[2].rpartition("@")[2] if text.startswith("-") or "@" in text else text
    )
    if not path or " " in path or "\n" in path or not ("/" in path or path.startswith((".", "~"))):
        return False
    if command.name in ("echo", "printf", "ssh-keygen", "git", "mkdir", "test", "["):
        return False
    return place_of(path, directory=command.directory) is Place.CREDENTIALS


def _paths(command: Command) -> list[str]:
    """What is no option."""
    texts = command.texts
    paths: list[str] = []
    for number, text in enumerate(texts):
        if text == "--":
            return paths + texts[number + 1 :]
        if not text.startswith("-") or text == "-":
            paths.append(text)
    return [path for path in paths if path not in ("-", "")]


def _sets_id(mode: str) -> bool:
    if mode.isdigit():
        return (
            len(mode.lstrip("0")) >= 4
            and int(mode.lstrip("0")[0]) in (2, 4, 5, 6, 7)
            and len(mode) <= 6
        )
    return any("s" in part.partition("+")[2] for part in mode.split(","))


def _is_whole_workspace(path: str, directory: str) -> bool:
    base = path
    while base.rpartition("/")[2] in ("*", ".*", ".", ""):
        if not base or base == "/":
            break
        base = base.rpartition("/")[0]
    return normalize(base or ".", directory=directory) in (WORKSPACE, "/tmp")  # noqa: S108


def _is_stream(path: str) -> bool:
    return path.startswith("/dev/") and place_of(path) is Place.HARMLESS


def _is_remote(path: str) -> bool:
    head = path.partition("/")[0]
    return ":" in head or path.startswith("rsync://")
