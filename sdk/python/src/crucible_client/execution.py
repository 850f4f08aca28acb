"""What code in a context showed, printed and raised."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crucible_client.reading import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A process that runs one piece of code after the other; what one leaves behind, the next one finds."""

    id: str
    language: str
    workdir: str

    @classmethod
    def read(cls, told: Any) -> Context:
        reader = Reader(told)
        names = ("id", "language", "workdir")
        return cls(**{name: reader.text(name) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeResult:
    """A value that code showed, in the forms it has. `is_main`: it is that of the last expression."""

    is_main: bool
    forms: Mapping[str, Any]

    @property
    def text(self) -> str | None:
        return self._form("text")

    @property
    def html(self) -> str | None:
        return self._form("html")

    @property
    def markdown(self) -> str | None:
        return self._form("markdown")

    @property
    def svg(self) -> str | None:
        return self._form("svg")

    @property
    def png(self) -> bytes | None:
        return self._picture("png")

    @property
    def jpeg(self) -> bytes | None:
        return self._picture("jpeg")

    @property
    def json(self) -> Any:
        return self.forms.get("json")

    @property
    def chart(self) -> Mapping[str, Any] | None:
        """The figures behind a plot: its type, title, axes and elements."""
        found = self.forms.get("chart")
        return found if isinstance(found, dict) else None

    def _form(self, name: str) -> str | None:
        found = self.forms.get(name)
        return found if isinstance(found, str) else None

    def _picture(self, name: str) -> bytes | None:
        """Forms come out of the sandbox: one that is no base64 is no picture."""
        try:
            return base64.b64decode(self._form(name) or "", validate=False) or None
        except (binascii.Error, ValueError):
            return None

    @classmethod
    def read(cls, told: Any) -> CodeResult:
        reader = Reader(told)
        return cls(is_main=reader.claim("is_main"), forms=reader.table("forms"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeError:
    """The exception that the code raised. That is a result, and no error of the sandbox."""

    name: str
    value: str
    traceback: str

    @classmethod
    def read(cls, told: Any) -> CodeError:
        reader = Reader(told)
        return cls(**{name: reader.text(name) for name in ("name", "value", "traceback")})


@dataclass(slots=True, kw_only=True)
class Execution:
    """What a piece of code did. `count` is how many its context has run so far."""

    results: list[CodeResult] = field(default_factory=list)
    stdout: str = ""
    stderr: str = ""
    error: CodeError | None = None
    count: int = 0

    @property
    def text(self) -> str | None:
        """Of the last expression, if it has a value."""
        return next((one.text for one in self.results if one.is_main), None)
