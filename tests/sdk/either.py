"""One shape for both halves of the SDK: what waits in a thread can be awaited, too.

Tests are written for the asynchronous half; the other one is called through this, in a thread, name by name.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from types import GeneratorType
from typing import Any, cast

from crucible_client import AsyncSandbox

_END = object()
_OURS = "crucible"


def as_async(value: Any) -> Any:
    """Of the synchronous half, as if it were of the other."""
    if isinstance(value, GeneratorType):
        return _following(value)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [as_async(one) for one in value]
    has_verbs = hasattr(value, "_http") or hasattr(value, "http") or inspect.isclass(value)
    return _Awaited(value) if has_verbs and _is_ours(value) else value


class _Awaited:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not inspect.ismethod(found):
            return as_async(found)
        if inspect.isgeneratorfunction(found):
            return lambda *words, **named: _following(found(*words, **named))

        async def call(*words: Any, **named: Any) -> Any:
            plain = [_plain(word) for word in words]
            given = {key: _plain(value) for key, value in named.items()}
            return as_async(await asyncio.to_thread(found, *plain, **given))

        return call

    async def __aenter__(self) -> Any:
        return as_async(await asyncio.to_thread(self._inner.__enter__))

    async def __aexit__(self, *error: Any) -> None:
        await asyncio.to_thread(self._inner.__exit__, *error)


async def _following(generator: Iterator[Any]) -> AsyncIterator[Any]:
    try:
        while (found := await asyncio.to_thread(next, generator, _END)) is not _END:
            yield as_async(found)
    finally:
        cast(Any, generator).close()


def _plain(value: Any) -> Any:
    return value._inner if isinstance(value, _Awaited) else value


def _is_ours(value: Any) -> bool:
    kind = value if inspect.isclass(value) else type(value)
    is_async = "Async" in kind.__name__
    return kind.__module__.partition(".")[0].startswith(_OURS) and not is_async


def sandbox_class(kind: Any) -> type[AsyncSandbox]:
    """The class itself, in either half, as the asynchronous one."""
    return cast(type[AsyncSandbox], kind if issubclass(kind, AsyncSandbox) else as_async(kind))
