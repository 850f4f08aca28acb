"""One provider server for each module; its scripts are a test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.providers.server import ProviderServer


@pytest.fixture(scope="module")
def running_server() -> Iterator[ProviderServer]:
    with ProviderServer() as server:
        yield server


@pytest.fixture
def server(running_server: ProviderServer) -> ProviderServer:
    running_server.clear()
    return running_server
