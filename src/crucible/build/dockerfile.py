"""A Dockerfile's text → instructions. What is not of the subset is refused by name and line; nothing is passed over."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from crucible.build.instructions import (
    Arg,
    BuildFile,
    Cmd,
    Copy,
    Entrypoint,
    Env,
    Expose,
    From,
    Instruction,
    Label,
    Run,
    User,
    Workdir,
)
from crucible.build.words import BadWord, split
from crucible.errors import BuildFileInvalid, suggestion

MAX_BYTES = 1 << 20
MAX_INSTRUCTIONS = 1000
SHELL = ("/bin/sh", "-c")
WORDS = (
    "FROM", "RUN", "COPY", "ADD", "ENV", "ARG", "WORKDIR", "USER", "ENTRYPOINT", "CMD", "LABEL", "EXPOSE",
)  # fmt: skip
_OTHERS = ("MAINTAINER", "VOLUME", "ONBUILD", "STOPSIGNAL", "HEALTHCHECK", "SHELL")
_COPY_FLAGS = ("from", "chown", "chmod")

_DIRECTIVE = re.compile(r"#\s*([A-Za-z][A-Za-z0-9]*)\s*=\s*(\S.*?)?\s*\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_STAGE = re.compile(r"[a-z][a-z0-9_.-]{0,127}\Z")
_FLAG = re.compile(r"--([a-z][a-z-]*)(?:=(.*))?\Z", re.DOTALL)
_HEREDOC = re.compile(r"\d*<<-?[\"']?[A-Za-z_]")
_MODE = re.compile(r"[0-7]{3,4}\Z")
_REMOTE = re.compile(r"(?:https?|ftp|git|ssh)://|git@|\S+\.git(?:#|\Z)")


def parse_dockerfile(data: bytes, *, origin: str = "Dockerfile") -> BuildFile:
    """Raises BuildFileInvalid, with the line where something is wrong."""
    return _Parser(_text(data, origin), origin).parse()


def _text(data: bytes, origin: str) -> str:
    if len(data) > MAX_BYTES:
        raise BuildFileInvalid(origin, 0, f"it has more than {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BuildFileInvalid(origin, 0, "it is not UTF-8") from None
    if "\0" in text:
        raise BuildFileInvalid(origin, text[: text.index("\0")].count("\n") + 1, "it holds a NUL")
    return text


class _Parser:
    def __init__(self, text: str, origin: str) -> None:
        self._lines = [line.rstrip("\r") for line in text.split("\n")]
        self._origin = origin
        self._escape = "\\"
        self._line = 0

    def parse(self) -> BuildFile:
        self._read_directives()
        found: list[Instruction] = []
        for line, text in self._logical_lines():
            self._line = line
            if len(found) == MAX_INSTRUCTIONS:
                raise self._bad(f"it has more than {MAX_INSTRUCTIONS} instructions")
            instruction = self._instruction(text)
            if not isinstance(instruction, From | Arg) and not _has_stage(found):
                raise self._bad("the first instruction has to be FROM (only ARG may come before)")
            found.append(instruction)
        if not _has_stage(found):
            self._line = 0
            raise self._bad("it has no FROM")
        return BuildFile(origin=self._origin, escape=self._escape, instructions=tuple(found))

    def _read_directives(self) -> None:
        """Only in the first lines, and each once. Those that choose another reader of the file change nothing here."""
        for number, line in enumerate(self._lines, 1):
            match = _DIRECTIVE.match(line.strip())
            if match is None:
                return
            if match[1].lower() == "escape":
                self._line = number
                if match[2] not in ("\\", "`"):
                    raise self._bad("`escape` can be \\ or `")
                self._escape = match[2]
            elif match[1].lower() not in ("syntax", "check"):
                return

    def _logical_lines(self) -> Iterator[tuple[int, str]]:
        """Lines joined where they are continued. Comments and empty lines inside are left out, as everywhere."""
        pieces: list[str] = []
        first = 0
        for number, line in enumerate(self._lines, 1):
            if line.lstrip().startswith("#") or not line.strip():
                continue
            first = first if pieces else number
            bare = line.rstrip()
            if bare.endswith(self._escape):
                pieces.append(bare[: -len(self._escape)])
                continue
            pieces.append(line)
            yield first, "".join(pieces).strip()
            pieces = []
        if "".join(pieces).strip():
            yield first, "".join(pieces).strip()

    def _instruction(self, text: str) -> Instruction:
        word, rest = (*text.split(None, 1), "")[:2]
        name = word.upper()
        if name in _OTHERS:
            raise self._bad(f"{name} is not supported", hint=f"There are: {', '.join(WORDS)}")
        if name not in WORDS:
            raise self._bad(f"{word[:40]!r} is no instruction", hint=suggestion(name, WORDS))
        if not rest:
            raise self._bad(f"{name} has nothing behind it")
        try:
            return self._of(name, rest)
        except BadWord as problem:
            raise self._bad(str(problem)) from None

    def _of(self, name: str, rest: str) -> Instruction:
        match name:
            case "FROM":
                return self._from(rest)
            case "RUN":
                return self._run(rest)
            case "COPY" | "ADD":
                return self._copy(name, rest)
            case "ENV":
                return Env(line=self._line, pairs=self._pairs(name, rest, _NAME))
            case "LABEL":
                return Label(line=self._line, pairs=self._pairs(name, rest, None))
            case "ARG":
                return self._arg(rest)
            case "WORKDIR":
                return Workdir(line=self._line, path=rest)
            case "USER":
                return User(line=self._line, user=self._single(name, rest))
            case "ENTRYPOINT":
                return Entrypoint(line=self._line, argv=self._argv(rest))
            case "CMD":
                return Cmd(line=self._line, argv=self._argv(rest))
            case _:
                return Expose(line=self._line, ports=split(rest, self._escape))

    def _from(self, rest: str) -> From:
        words = split(self._without_flags("FROM", rest, ())[1], self._escape)
        match words:
            case (image,):
                return From(line=self._line, image=image)
            case (image, middle, name) if middle.upper() == "AS":
                if not _STAGE.match(name.lower()):
                    raise self._bad(f"{name[:60]!r} is no name for a stage")
                return From(line=self._line, image=image, name=name.lower())
        raise self._bad("FROM is followed by an image, and perhaps by AS and a name")

    def _run(self, rest: str) -> Run:
        _, rest = self._without_flags("RUN", rest, ())
        self._refuse_heredocs("RUN", rest.split())
        if not rest:
            raise self._bad("RUN has nothing behind it")
        return Run(line=self._line, argv=self._argv(rest), text=rest)

    def _copy(self, name: str, rest: str) -> Copy:
        allowed = _COPY_FLAGS if name == "COPY" else _COPY_FLAGS[1:]
        flags, rest = self._without_flags(name, rest, allowed)
        listed = _json_texts(rest)
        # In a list blanks and quotes are plain letters; written like this they stay so.
        words = list(split(rest, self._escape)) if listed is None else [*map(self._quoted, listed)]
        self._refuse_heredocs(name, words)
        if len(words) < 2 or not all(words):
            raise self._bad(f"{name} needs what to copy and where to")
        *sources, target = words
        for source in sources:
            if name == "ADD" and _REMOTE.match(source.strip("\"'")):
                raise self._bad(
                    f"ADD of {source[:80]!r} is not supported",
                    hint="Fetch it in a RUN step, where the network's policy holds",
                )
        if "chmod" in flags and not _MODE.match(flags["chmod"]):
            raise self._bad("--chmod takes a mode in octal digits, such as 755")
        return Copy(
            line=self._line,
            word=name,
            sources=tuple(sources),
            target=target,
            stage=flags.get("from", ""),
            chown=flags.get("chown", ""),
            chmod=flags.get("chmod", ""),
        )

    def _pairs(
        self, name: str, rest: str, pattern: re.Pattern[str] | None
    ) -> tuple[tuple[str, str], ...]:
        words = split(rest, self._escape)
        if "=" not in words[0]:  # the older way: one name, and all the rest is its value
            key, value = (*rest.split(None, 1), "")[:2]
            if not value:
                raise self._bad(f"{name} needs NAME=VALUE")
            pairs = [(key, value)]
        else:
            pairs = []
            for word in words:
                key, equals, value = word.partition("=")
                if not equals or not key:
                    raise self._bad(f"{word[:60]!r} is not NAME=VALUE")
                pairs.append((key, value))
        for key, _ in pairs:
            if pattern is not None and not pattern.match(key):
                raise self._bad(f"{key[:60]!r} is no name of a variable")
        return tuple(pairs)

    def _arg(self, rest: str) -> Arg:
        name, equals, value = self._single("ARG", rest).partition("=")
        if not _NAME.match(name):
            raise self._bad(f"{name[:60]!r} is no name of a variable")
        return Arg(line=self._line, name=name, default=value if equals else None)

    def _argv(self, rest: str) -> tuple[str, ...]:
        listed = _json_texts(rest)
        if listed is None:
            return (*SHELL, rest)
        if any("\0" in word for word in listed):
            raise self._bad("a word holds a NUL")
        return listed

    def _single(self, name: str, rest: str) -> str:
        words = split(rest, self._escape)
        if len(words) != 1:
            raise self._bad(f"{name} takes one word")
        return words[0]

    def _without_flags(
        self, name: str, rest: str, allowed: tuple[str, ...]
    ) -> tuple[dict[str, str], str]:
        flags: dict[str, str] = {}
        while rest.startswith("--"):
            word, rest = (*rest.split(None, 1), "")[:2]
            match = _FLAG.match(word)
            if match is None or match[1] not in allowed:
                raise self._bad(f"{name} with {word[:60].partition('=')[0]} is not supported")
            if match[1] in flags or not match[2]:
                raise self._bad(f"--{match[1]} is given twice or without a value")
            flags[match[1]] = match[2]
        return flags, rest

    def _refuse_heredocs(self, name: str, words: list[str]) -> None:
        if any(_HEREDOC.match(word) for word in words):
            raise self._bad(
                f"{name} with a here-document is not supported",
                hint="Continue lines with a backslash, or COPY a file",
            )

    def _quoted(self, text: str) -> str:
        letters = (f"{self._escape}{x}" if x in f"\"' \t{self._escape}" else x for x in text)
        return "".join(letters)

    def _bad(self, why: str, *, hint: str = "") -> BuildFileInvalid:
        return BuildFileInvalid(self._origin, self._line, why, hint=hint)


def _json_texts(text: str) -> tuple[str, ...] | None:
    """A list of texts as JSON; anything else is no list, and then plain words."""
    if not text.startswith("["):
        return None
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        return None
    try:
        "".join(listed).encode()
    except UnicodeEncodeError:
        return None
    return tuple(listed)


def _has_stage(found: list[Instruction]) -> bool:
    return any(isinstance(each, From) for each in found)
