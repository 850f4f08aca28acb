"""The engine as the program puts it together, with the shipped scripted model. No machine is started."""

from __future__ import annotations

import subprocess
import sys
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


def test_a_database_that_the_users_file_names_may_have_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[database]\nurl = "postgresql://somewhere/else"\n')
    monkeypatch.setenv("CRUCIBLE_CONFIG", str(path))
    assert assemble.has_sessions(Config(home=tmp_path / "home"))


def test_to_ask_for_sessions_loads_no_database(tmp_path: Path) -> None:
    """The HTTP doors ask whenever they open, also for who never uses the agent."""
    script = (
        "import sys; from pathlib import Path; from crucible import assemble;"
        "from crucible.config import Config;"
        f"assemble.has_sessions(Config(home=Path({str(tmp_path)!r})));"
        "sys.exit('sqlalchemy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
