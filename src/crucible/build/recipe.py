"""A recipe, the short way to say what an image is made of, as TOML → the instructions that a Dockerfile gives."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from shlex import join

from crucible.build.dockerfile import MAX_BYTES, SHELL
from crucible.build.instructions import (
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
from crucible.errors import BuildFileInvalid, suggestion

_ESCAPE = "\\"
_LINE = 0
_MOST = 1000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# No name of a package begins like an option, or holds what a shell would see.
_PACKAGE = re.compile(r"[A-Za-z0-9@][A-Za-z0-9@._+/:~^<>=!,\[\]-]{0,200}")
# Otherwise it would say that there is no such package.
_HAS_SOURCES = (
    "find /etc/apt/sources.list /etc/apt/sources.list.d -type f -size +0 2> /dev/null | grep -q . || {{"
    " echo 'This image has no package sources: COPY an /etc/apt/sources.list into one made from it' >&2; exit 100; }}"
)
# Whatever they fetch only to install it would stay in the layer. What a distribution forbids pip to do to the system
# that people work on is what an image is for.
_MANAGERS = {
    "apt": (
        f"{_HAS_SOURCES}; export DEBIAN_FRONTEND=noninteractive; apt-get update"
        " && apt-get install -y --no-install-recommends {} && apt-get clean && rm -rf /var/lib/apt/lists/*"
    ),
    "apk": "apk add --no-cache {}",
    "pip": (
        "export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1;"
        " python3 -m pip install --no-cache-dir {}"
    ),
    "npm": (
        "export npm_config_cache=/tmp/npm-cache NODE_DISABLE_COMPILE_CACHE=1;"
        " npm install --global --no-audit --no-fund --no-update-notifier {} && rm -rf /tmp/npm-cache"
    ),
}
KEYS = (
    "base", "packages", "env", "workdir", "files", "commands", "user", "labels", "entrypoint", "cmd", "expose",
)  # fmt: skip


def parse_recipe(data: bytes, *, origin: str = "recipe.toml") -> BuildFile:
    """Raises BuildFileInvalid with the name of the key that means nothing."""
    if len(data) > MAX_BYTES:
        raise BuildFileInvalid(origin, 0, f"it has more than {MAX_BYTES} bytes")
    try:
        fields = tomllib.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BuildFileInvalid(origin, 0, f"it is not readable: {str(error)[:200]}") from None
    recipe = _Recipe(fields, origin)
    return BuildFile(origin=origin, escape=_ESCAPE, instructions=tuple(recipe.instructions()))


class _Recipe:
    def __init__(self, fields: dict[str, object], origin: str) -> None:
        self._fields = fields
        self._origin = origin

    def instructions(self) -> Iterator[Instruction]:
        """Packages first, as they change least: what is below them is then found in the cache."""
        self._check_names(self._fields, KEYS, "")
        yield From(line=_LINE, image=_quoted(self._needed("base")))
        if pairs := self._pairs("env", _VARIABLE):
            yield Env(line=_LINE, pairs=pairs)
        yield from self._packages()
        if "workdir" in self._fields:
            yield Workdir(line=_LINE, path=_quoted(self._text("workdir")))
        for target, source in self._table("files").items():
            yield Copy(
                line=_LINE,
                word="COPY",
                sources=(_quoted(self._checked("files", source)),),
                target=_quoted(self._checked("files", target)),
            )
        for command in self._texts("commands"):
            yield Run(line=_LINE, argv=(*SHELL, command), text=command, user="0")
        yield from self._settings()

    def _settings(self) -> Iterator[Instruction]:
        """How it is to be run."""
        if "user" in self._fields:
            yield User(line=_LINE, user=_quoted(self._text("user")))
        if pairs := self._pairs("labels", None):
            yield Label(line=_LINE, pairs=pairs)
        if "entrypoint" in self._fields:
            yield Entrypoint(line=_LINE, argv=self._texts("entrypoint"))
        if "cmd" in self._fields:
            yield Cmd(line=_LINE, argv=self._texts("cmd"))
        if ports := self._ports():
            yield Expose(line=_LINE, ports=ports)

    def _packages(self) -> Iterator[Run]:
        table = self._table("packages")
        self._check_names(table, tuple(_MANAGERS), "packages.")
        for manager, command in _MANAGERS.items():
            names = self._listed(f"packages.{manager}", table.get(manager, []))
            for name in names:
                if not _PACKAGE.fullmatch(name):
                    raise self._bad(f"{name[:80]!r} in packages.{manager} is no name of a package")
            if names:
                script = command.format(join(names))
                text = f"{manager} install {join(names)}"
                yield Run(line=_LINE, argv=(*SHELL, script), text=text, user="0")

    def _ports(self) -> tuple[str, ...]:
        values = self._fields.get("expose", [])
        if not isinstance(values, list) or len(values) > _MOST:
            raise self._bad("expose is not a list of ports")
        return self._listed("expose", [str(v) if type(v) is int else v for v in values])

    def _pairs(self, key: str, pattern: re.Pattern[str] | None) -> tuple[tuple[str, str], ...]:
        pairs = []
        for name, value in self._table(key).items():
            if not name or (pattern is not None and not pattern.fullmatch(name)):
                raise self._bad(f"{name[:80]!r} in {key} is no name of a variable")
            pairs.append((_quoted(self._checked(key, name)), _quoted(self._checked(key, value))))
        return tuple(pairs)

    def _needed(self, key: str) -> str:
        if key not in self._fields:
            raise self._bad(f"{key} is missing")
        return self._text(key)

    def _text(self, key: str) -> str:
        return self._checked(key, self._fields[key])

    def _texts(self, key: str) -> tuple[str, ...]:
        return self._listed(key, self._fields.get(key, []))

    def _listed(self, key: str, values: object) -> tuple[str, ...]:
        if not isinstance(values, list) or len(values) > _MOST:
            raise self._bad(f"{key} is not a list of at most {_MOST} texts")
        return tuple(self._checked(key, value) for value in values)

    def _table(self, key: str) -> dict[str, object]:
        table = self._fields.get(key, {})
        if not isinstance(table, dict) or len(table) > _MOST:
            raise self._bad(f"{key} is not a table of at most {_MOST} entries")
        return table

    def _checked(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise self._bad(f"{key} cannot hold {json.dumps(value, default=str)[:80]}")
        return value

    def _check_names(self, table: dict[str, object], known: tuple[str, ...], prefix: str) -> None:
        for name in table:
            if name not in known:
                raise self._bad(
                    f"there is no key {prefix}{name[:80]}", hint=suggestion(name, known)
                )

    def _bad(self, why: str, *, hint: str = "") -> BuildFileInvalid:
        return BuildFileInvalid(self._origin, _LINE, why, hint=hint)


_SPECIAL: Callable[[str], bool] = f"\"'$ \t{_ESCAPE}".__contains__


def _quoted(text: str) -> str:
    """As it must be written in a Dockerfile to mean just itself: a recipe has no variables."""
    return "".join(f"{_ESCAPE}{letter}" if _SPECIAL(letter) else letter for letter in text)
