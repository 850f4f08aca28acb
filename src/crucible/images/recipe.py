"""A recipe: the packages and the few settings an image is made of, read from a TOML file."""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from crucible.errors import BadSetting

BASE = Path(__file__).with_name("base.toml")

_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_PATH = re.compile(r"/[A-Za-z0-9._/*+-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIRST_ORDINARY_UID = 1000
_LAST_UID = 59999


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`digest` is that of the recipe's text: another text is another image."""

    name: str
    user: str
    uid: int
    workdir: str
    packages: tuple[str, ...]
    exclude: tuple[str, ...]
    keep: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    digest: str


def read_recipe(path: Path = BASE) -> Recipe:
    return parse_recipe(path.read_text(encoding="utf-8"), origin=path.name)


def parse_recipe(text: str, *, origin: str) -> Recipe:
    """Raises BadSetting with the name of the field that means nothing."""
    try:
        fields = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(f"{origin} is not readable: {error}") from None
    reader = _Reader(fields, origin)
    recipe = Recipe(
        name=reader.text("name", _NAME),
        user=reader.text("user", _USER),
        uid=reader.uid("uid"),
        workdir=reader.text("workdir", _PATH),
        packages=reader.texts("packages", _PACKAGE),
        exclude=reader.texts("exclude", _PATH),
        keep=reader.texts("keep", _PATH),
        environment=reader.variables("environment"),
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )
    reader.refuse_the_rest()
    return recipe


class _Reader:
    """Takes known fields out of a table, one by one; what is left at the end is a mistake."""

    def __init__(self, fields: dict[str, object], origin: str) -> None:
        self._fields = dict(fields)
        self._origin = origin

    def text(self, name: str, pattern: re.Pattern[str]) -> str:
        return self._matching(name, self._fields.pop(name, None), pattern)

    def texts(self, name: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
        values = self._fields.pop(name, [])
        if not isinstance(values, list):
            raise self._bad(name, values)
        return tuple(self._matching(name, value, pattern) for value in values)

    def uid(self, name: str) -> int:
        value = self._fields.pop(name, None)
        if type(value) is not int or not _FIRST_ORDINARY_UID <= value <= _LAST_UID:
            raise self._bad(name, value)
        return value

    def variables(self, name: str) -> tuple[tuple[str, str], ...]:
        table = self._fields.pop(name, {})
        if not isinstance(table, dict):
            raise self._bad(name, table)
        for key, value in table.items():
            self._matching(name, key, _VARIABLE)
            if not isinstance(value, str) or "\0" in value:
                raise self._bad(f"{name}.{key}", value)
        return tuple(sorted(table.items()))

    def refuse_the_rest(self) -> None:
        for name, value in self._fields.items():
            raise self._bad(name, value)

    def _matching(self, name: str, value: object, pattern: re.Pattern[str]) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value) or ".." in value:
            raise self._bad(name, value)
        return value

    def _bad(self, name: str, value: object) -> BadSetting:
        return BadSetting(
            f"{name} = {value!r} in {self._origin} is not understood",
            hint="The fields of a recipe are explained in src/crucible/images/base.toml",
        )
