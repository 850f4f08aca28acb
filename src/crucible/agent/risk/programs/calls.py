"""Judges a call by the table of its language: what it reaches, runs, reads, writes or deletes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from crucible.agent.risk.names import is_secret_name
from crucible.agent.risk.places import (
    HOLE,
    Place,
    host_of,
    is_local_host,
    is_metadata_host,
    place_of,
)
from crucible.agent.risk.programs.values import (
    BUILT,
    DECODED,
    FETCHED,
    SECRET,
    UNKNOWN,
    Value,
    joined_sources,
)
from crucible.agent.risk.report import Language
from crucible.agent.risk.shell.commands import Command, Word
from crucible.agent.risk.shell.files import delete_rules, read_rules, write_rules
from crucible.agent.risk.shell.wrappers import SHELLS

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from crucible.agent.risk.inspection import Inspection

_URL_NAMES = ("url", "uri", "host", "hostname", "base_url", "baseURL", "address", "uri_or_url")
_REMOTE_SCHEMES = (
    "http://",
    "https://",
    "ftp://",
    "s3://",
    "gs://",
    "ssh://",
    "sftp://",
    "ws://",
    "wss://",
)


class Calls:
    """`table` names what a call does by the dotted name of what is called; see `python_names` for its words."""

    def __init__(
        self, inspection: Inspection, table: Mapping[str, str], language: Language
    ) -> None:
        self._inspection = inspection
        self._table = table
        self._language = language

    def effect(self, path: str) -> str:
        """What the table says; `a.b.*` stands for every member of `a.b`."""
        found = self._table.get(path)
        if found is None and "." in path:
            found = self._table.get(path.rpartition(".")[0] + ".*")
        return found or ""

    def judge(
        self,
        effect: str,
        node: SgNode,
        callee: Value,
        arguments: Sequence[Value],
        named: Mapping[str, Value],
    ) -> None:
        for part in effect.split("; "):
            kind, _, rest = part.partition(" ")
            match kind:
                case "network":
                    self._network(node, callee, arguments, named)
                case "fetch-or-read":
                    self._fetch_or_read(node, arguments, named)
                case "tell":
                    self._inspection.find(rest, node)
                case "code":
                    self.code(node, _at(arguments, int(rest or 0)))
                case "load":
                    self._load(node, _at(arguments, 0))
                case "shell":
                    self.shell(node, _at(arguments, 0))
                case "argv":
                    self._argv(node, arguments, named)
                case "spawn":
                    self._spawn(node, arguments, named)
                case "open":
                    self._open(node, arguments, named)
                case "show":
                    self._show(node, [*arguments, *named.values()])
                case "read" | "list" | "write" | "delete" | "delete-tree" | "link-from" | "mode":
                    value = _file_value(rest, callee, arguments, named)
                    self._file(kind, node, value, arguments)

    def code(self, node: SgNode, value: Value) -> None:
        """`value` is run as a program."""
        if FETCHED in value.sources:
            self._inspection.find("fetched-code", node)
        elif DECODED in value.sources:
            self._inspection.find("decoded-code", node)
        elif value.known_text is None:
            self._inspection.find("dynamic-code", node)
        elif BUILT in value.sources:
            self._inspection.find("built-code", node)
        if value.known_text is not None:
            self._program(node, value.known_text, self._language)

    def shell(self, node: SgNode, value: Value) -> None:
        if value.text is None:
            self._source(node, value, otherwise="shell-built")
            return
        if HOLE in value.text:
            self._source(node, value, otherwise="shell-built")
        elif DECODED in value.sources:
            self._inspection.find("decoded-code", node)
        self._program(node, value.text.replace(HOLE, "${_}"), Language.SHELL)

    def environment(self, node: SgNode, name: str | None) -> None:
        """A variable of the environment is read."""
        if name is not None and is_secret_name(name):
            self._inspection.find("credential-variable", node)

    def _network(
        self, node: SgNode, callee: Value, arguments: Sequence[Value], named: Mapping[str, Value]
    ) -> None:
        given = [*arguments[:3], *(named[name] for name in _URL_NAMES if name in named)]
        if callee.holder is not None and callee.holder.text:
            given.append(callee.holder)
        given += [item for value in given for item in value.items or ()]
        hosts = [host_of(value.text) for value in given if value.text and _is_address(value.text)]
        if any(is_metadata_host(host) for host in hosts):
            self._inspection.find("cloud-metadata", node)
        if SECRET in joined_sources([*arguments, *named.values()]):
            self._inspection.find("exfiltration", node)
        known = [host for host in hosts if host]
        if not known or not all(is_local_host(host) for host in known):
            self._inspection.find("network-call", node)

    def _fetch_or_read(
        self, node: SgNode, arguments: Sequence[Value], named: Mapping[str, Value]
    ) -> None:
        text = _at(arguments, 0).text or ""
        if text.startswith(_REMOTE_SCHEMES):
            self._network(node, UNKNOWN, arguments, named)
        else:
            self._file("read", node, _at(arguments, 0), arguments)

    def _load(self, node: SgNode, value: Value) -> None:
        if value.sources & {DECODED, FETCHED}:
            self._inspection.find("unsafe-load", node)

    def _argv(self, node: SgNode, arguments: Sequence[Value], named: Mapping[str, Value]) -> None:
        """As Python's `subprocess` has it: a list, or a text for a shell, or a text that is one program."""
        command = arguments[0] if arguments else named.get("args", UNKNOWN)
        shell = named.get("shell")
        is_shell = shell is not None and shell.path != "False" and shell.number != 0
        if command.items is None and (is_shell or (command.text or "").find(" ") > 0):
            self.shell(node, command)
        elif command.items is not None and is_shell and command.items:
            self.shell(node, command.items[0])
        elif command.items is not None:
            self.command(node, command.items)
        elif command.text is not None:
            self.command(node, (command,))

    def _spawn(self, node: SgNode, arguments: Sequence[Value], named: Mapping[str, Value]) -> None:
        """A program, and its arguments as a list or one by one."""
        if not arguments:
            return
        program, *rest = arguments
        if program.text is not None and " " in program.text and not rest:
            self.shell(node, program)
            return
        listed = next((value.items for value in rest if value.items is not None), None)
        if listed is not None:
            # `execv` and its like repeat the name of the program as the first argument.
            own = [item for item in listed[:1] if item.text and program.text]
            is_repeated = bool(own) and (program.text or "").endswith(own[0].text or "?")
            self.command(node, (program, *(listed[1:] if is_repeated else listed)))
        else:
            self.command(node, (program, *(value for value in rest if value.text is not None)))

    def command(self, node: SgNode, values: Sequence[Value]) -> None:
        from crucible.agent.risk.shell.judging import Judge

        words = tuple(_word(value) for value in values)
        command = Command(words=words, node=node)
        if words and words[0].text == HOLE:
            # Which program it is, is often an argument; only what was hidden on purpose is told.
            self._source(node, values[0], otherwise="")
            return
        if command.name in SHELLS and len(words) == 1:
            self._inspection.find("interactive-shell", node)
        Judge(self._inspection, "").judge_alone(command)

    def _open(self, node: SgNode, arguments: Sequence[Value], named: Mapping[str, Value]) -> None:
        mode = arguments[1] if len(arguments) > 1 else named.get("mode", UNKNOWN)
        path = arguments[0] if arguments else named.get("file", UNKNOWN)
        is_write = any(letter in (mode.text or "r") for letter in "wax+")
        self._file("write" if is_write else "read", node, path, arguments)

    def _show(self, node: SgNode, values: Sequence[Value]) -> None:
        if any(value.path in ("os.environ", "process.env") for value in values):
            self._inspection.find("environment-dump", node)

    def _file(self, kind: str, node: SgNode, value: Value, arguments: Sequence[Value]) -> None:
        text = value.text
        if kind == "mode":
            self._mode(node, arguments)
            kind = "write"
        if text is None:
            if kind == "delete-tree" and DECODED in value.sources:
                self._inspection.find("delete-unknown", node)
            return
        for rule in _file_rules(kind, text):
            self._inspection.find(rule, node)

    def _mode(self, node: SgNode, arguments: Sequence[Value]) -> None:
        if any(value.number is not None and value.number & 0o6000 for value in arguments[1:]):
            self._inspection.find("set-id-bit", node)

    def _source(self, node: SgNode, value: Value, *, otherwise: str) -> None:
        if FETCHED in value.sources:
            self._inspection.find("fetched-code", node)
        elif DECODED in value.sources:
            self._inspection.find("decoded-code", node)
        elif otherwise:
            self._inspection.find(otherwise, node)

    def _program(self, node: SgNode, code: str, language: Language) -> None:
        self._inspection.program(code, language, at=node)


def is_credential(text: str) -> bool:
    return place_of(text) is Place.CREDENTIALS


def _file_rules(kind: str, text: str) -> list[str]:
    match kind:
        case "read":
            return list(read_rules(text))
        case "list":
            return ["outside-list" if rule == "outside-read" else rule for rule in read_rules(text)]
        case "write":
            return list(write_rules(text))
        case "link-from":
            is_out = place_of(text) not in (Place.INSIDE, Place.UNKNOWN)
            return ["outside-link"] if is_out else []
        case "delete" | "delete-tree":
            return list(delete_rules(text, is_tree=kind == "delete-tree"))
    return []


def _file_value(
    rest: str, callee: Value, arguments: Sequence[Value], named: Mapping[str, Value]
) -> Value:
    """Which one holds the path: a place among the arguments, `self`, or a name."""
    if rest == "self":
        return callee.holder or UNKNOWN
    if rest.isdigit() or not rest:
        position = int(rest or 0)
        if position < len(arguments):
            return arguments[position]
        return next((named[name] for name in ("path", "dst", "dir") if name in named), UNKNOWN)
    return named.get(rest, UNKNOWN)


def _at(arguments: Sequence[Value], position: int) -> Value:
    return arguments[position] if position < len(arguments) else UNKNOWN


def _word(value: Value) -> Word:
    text = value.text if value.text is not None else HOLE
    return Word(text=text, shape=text, sources=value.sources)


def _is_address(text: str) -> bool:
    return "://" in text or "." in text or ":" in text or text == "localhost"
