"""What code in a context showed, printed and raised."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crucible_client.events import Event
from crucible_client.reading import Reader

LARGEST_EXECUTION = 64 << 20


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What a piece of code did. `count` is how many its context has run so far; `is_truncated`: it said and showed
    more than is kept, all of which callbacks were told.
    """

    results: Sequence[CodeResult]
    stdout: str
    stderr: str
    error: CodeError | None
    count: int
    is_truncated: bool = False

    @property
    def text(self) -> str | None:
        """Of the last expression, if it has a value."""
        return next((one.text for one in self.results if one.is_main), None)


class Noted:
    """An execution while it is told, within bounds: what comes out of a sandbox has none."""

    def __init__(self) -> None:
        self._printed: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._results: list[CodeResult] = []
        self._error: CodeError | None = None
        self._count = 0
        self._room = LARGEST_EXECUTION
        self._is_truncated = False

    def take(self, event: Event) -> None:
        match event.kind:
            case "stdout" | "stderr" as stream:
                text = Reader(event.data).text("text")
                if self._has_room(len(text)):
                    self._printed[stream].append(text)
            case "result":
                result = CodeResult.read(event.data)
                if self._has_room(len(json.dumps(result.forms))):
                    self._results.append(result)
            case "raised":
                self._error = CodeError.read(event.data)
            case "end":
                self._count = Reader(event.data).whole("count")

    def whole(self) -> Execution:
        return Execution(
            results=self._results,
            stdout="".join(self._printed["stdout"]),
            stderr="".join(self._printed["stderr"]),
            error=self._error,
            count=self._count,
            is_truncated=self._is_truncated,
        )

    def _has_room(self, size: int) -> bool:
        """Whatever comes after what did not fit is left out, too: nothing has holes."""
        # However little it is, it takes some.
        self._room -= size + 64
        self._is_truncated |= self._room < 0
        return not self._is_truncated
