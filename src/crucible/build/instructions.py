"""What a build file asks for, one value for each instruction. `line` is where it stands in its file.

Texts are as they were written: quotes and variables in them are resolved when the step is reached (`words.expand`),
because only then is it known what the image below sets. Those of RUN, CMD and ENTRYPOINT are never touched.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class From(Instruction):
    """`name` is what later stages call this one; empty when nothing does."""

    image: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arg(Instruction):
    """`default` is None where the value has to come from elsewhere."""

    name: str
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Env(Instruction):
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label(Instruction):
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Instruction):
    """`argv` is complete, the shell included. `user` goes before the image's, where a recipe needs root."""

    argv: tuple[str, ...]
    text: str
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Instruction):
    """`stage` is where the files come from: a stage or an image; empty is the context. `chmod` is octal."""

    word: str
    sources: tuple[str, ...]
    target: str
    stage: str = ""
    chown: str = ""
    chmod: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workdir(Instruction):
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class User(Instruction):
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrypoint(Instruction):
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cmd(Instruction):
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expose(Instruction):
    ports: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFile:
    """A whole file. `escape` is the character that it escapes with; `origin` what errors call it."""

    origin: str
    escape: str
    instructions: tuple[Instruction, ...]
