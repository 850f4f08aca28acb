"""The engine as the program puts it together, with the shipped scripted model. No machine is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agent.scenes import run

from crucible import assemble
from crucible.config import Config
from crucible.sandbox.service.dispatch import Service


def test_the_program_has_an_engine_that_talks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "scripted")
    monkeypatch.setenv("CRUCIBLE_CONFIG", "/dev/null")
    config = Config(home=tmp_path)
    assert not assemble.has_sessions(config)

    async def play() -> None:
        service = Service(assemble.manager(config))
        engine = await assemble.engine(service)
        try:
            session = await engine.create_session()
            answer = await engine.generate(session.id, "hello")
            assert answer.end == "done", answer
            assert answer.text
        finally:
            await engine.close()
        assert assemble.has_sessions(config)
        again = await assemble.engine(service)
        try:
            assert [one.id for one in await again.sessions()] == [session.id]
            assert len(await again.history(session.id)) == 2
        finally:
            await again.close()
            service.manager.records.close()

    run(play())
