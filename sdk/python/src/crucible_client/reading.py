"""Fields of a server's answer, each of the kind it must be; anything else is a BadAnswer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from crucible_client.errors import BadAnswer

Choice = TypeVar("Choice", bound=str)


class Reader:
    def __init__(self, told: Any) -> None:
        if not isinstance(told, dict):
            raise BadAnswer("The server's answer is not the JSON object it should be")
        self._told: dict[str, Any] = told

    def text(self, name: str) -> str:
        found = self._told.get(name)
        if isinstance(found, str):
            return found
        raise self._bad(name, "text")

    def text_or_none(self, name: str) -> str | None:
        return None if self._told.get(name) is None else self.text(name)

    def texts(self, name: str) -> Sequence[str]:
        found = self.items(name)
        if not all(isinstance(one, str) for one in found):
            raise self._bad(name, "texts")
        return found

    def whole(self, name: str) -> int:
        found = self._told.get(name)
        if isinstance(found, int) and not isinstance(found, bool):
            return found
        raise self._bad(name, "a whole number")

    def whole_or_none(self, name: str) -> int | None:
        return None if self._told.get(name) is None else self.whole(name)

    def number(self, name: str) -> float:
        found = self._told.get(name)
        if isinstance(found, int | float) and not isinstance(found, bool):
            return found
        raise self._bad(name, "a number")

    def number_or_none(self, name: str) -> float | None:
        return None if self._told.get(name) is None else self.number(name)

    def claim(self, name: str) -> bool:
        found = self._told.get(name)
        if isinstance(found, bool):
            return found
        raise self._bad(name, "true or false")

    def one_of(self, name: str, choices: Sequence[Choice]) -> Choice:
        found = self.text(name)
        for choice in choices:
            if found == choice:
                return choice
        raise self._bad(name, f"one of {', '.join(choices)}")

    def table(self, name: str) -> Mapping[str, Any]:
        found = self._told.get(name)
        if isinstance(found, dict):
            return found
        raise self._bad(name, "an object")

    def table_or_none(self, name: str) -> Mapping[str, Any] | None:
        return None if self._told.get(name) is None else self.table(name)

    def items(self, name: str) -> Sequence[Any]:
        found = self._told.get(name)
        if isinstance(found, list):
            return found
        raise self._bad(name, "a list")

    def _bad(self, name: str, wanted: str) -> BadAnswer:
        return BadAnswer(f"In the server's answer {name!r} is not {wanted}")
