"""Both halves of the SDK, against servers that are scripted, bare, or hold machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.sdk.either import as_async, sandbox_class
from tests.sdk.scripted import Scripted, scripted_server

import crucible_client
from crucible_client import AsyncClient, AsyncSandbox


class Half:
    """The synchronous or the asynchronous half, in the shape of the latter."""

    def __init__(self, client: Any, sandbox: Any) -> None:
        self._client = client
        self.Sandbox: type[AsyncSandbox] = sandbox_class(sandbox)

    def client(self, url: str, **options: Any) -> AsyncClient:
        made: AsyncClient = as_async(self._client(url, **options))
        return made


HALVES = {
    "sync": Half(crucible_client.Client, crucible_client.Sandbox),
    "async": Half(crucible_client.AsyncClient, crucible_client.AsyncSandbox),
}


@pytest.fixture(params=list(HALVES))
def half(request: pytest.FixtureRequest) -> Half:
    return HALVES[request.param]


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with scripted_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_settings_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CRUCIBLE_URL", "CRUCIBLE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
