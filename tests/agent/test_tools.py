"""The built-in tools at work in a directory of this host. In a sandbox: tests/vm/test_agent_tools.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.agent.places import LocalWorkplace
from tests.agent.tool_claims import CLAIMS, Bench, Claim, processes_of_host
from tests.conftest import Run


@pytest.fixture(scope="module")
def bench(run: Run) -> Iterator[Bench]:
    place = LocalWorkplace()
    yield Bench(place, processes=processes_of_host)
    run(place.close())


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
async def test_in_a_directory(claim: Claim, bench: Bench, run: Run) -> None:
    await claim(bench)
