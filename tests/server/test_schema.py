"""Schemathesis lets requests rain on every operation that the description has, sensible ones and others.

There is no image in this home, so that a request that makes sense is refused at the latest when a machine would start.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import CheckContext, GenerationMode, Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.server.conftest import Server, serving

from crucible.server.app import openapi_document


@schemathesis.serializer("application/x-tar")
def as_it_is(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


SCHEMA = schemathesis.openapi.from_dict(openapi_document())
# The one goes on for as long as its caller is there, the other would ask a registry.
LEFT_OUT = {"followEvents", "pullImage", "pullImageStream", "pushImage"}
OPERATIONS: list[Any] = [
    found
    for found in (result.ok() for result in cast(Any, SCHEMA.get_all_operations()))
    if found.definition.raw["operationId"] not in LEFT_OUT
]


def is_no_defect(context: CheckContext, response: Response, case: Any) -> bool | None:
    """Other statuses above 500 are typed answers too: a host that is full, a registry that is silent."""
    assert response.status_code != 500, response.text
    assert "Traceback" not in response.text
    return None


CHECKS = [
    is_no_defect, status_code_conformance, content_type_conformance, response_schema_conformance,
]  # fmt: skip


@pytest.fixture(scope="module")
def rained_on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address and a token of doors that another thread's loop serves."""
    home: Path = tmp_path_factory.mktemp("schema") / "home"
    ready, leaving = threading.Event(), asyncio.Event()
    found: list[tuple[asyncio.AbstractEventLoop, Server]] = []

    async def serve() -> None:
        async with serving(home) as server:
            found.append((asyncio.get_running_loop(), server))
            ready.set()
            await leaving.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(60)
    loop, server = found[0]
    making: asyncio.Future[str] = asyncio.run_coroutine_threadsafe(_token(server), loop)  # type: ignore[assignment]
    yield server.url, making.result()
    loop.call_soon_threadsafe(leaving.set)
    thread.join(300)
    assert not thread.is_alive()


async def _token(server: Server) -> str:
    return server.token()


@pytest.mark.parametrize("mode", list(GenerationMode), ids=str)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: str(one.label))
def test_every_answer_is_one_that_the_description_knows(
    operation: Any, mode: GenerationMode, rained_on: tuple[str, str]
) -> None:
    url, token = rained_on
    headers = {"Authorization": f"Bearer {token}"}

    @settings(
        max_examples=3, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def rain(case: Any) -> None:
        case.call_and_validate(base_url=url, headers=headers, checks=CHECKS, timeout=120)

    try:
        rain()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "nothing can be sent that makes sense"
