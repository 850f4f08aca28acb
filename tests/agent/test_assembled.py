"""The engine as the program puts it together, with the shipped scripted model. No machine is started."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.agent.scenes import run

from crucible import assemble
from crucible.agent.keeping.base import OpenTurn
from crucible.agent.keeping.files import JsonFiles
from crucible.agent.keeping.looking import may_have_open_turns
from crucible.agent.keeping.sql import SqlSessions
from crucible.agent.options import SandboxWish, SessionOptions
from crucible.agent.session import new_record
from crucible.config import Config
from crucible.sandbox.service.dispatch import Service
from crucible.store.database import Database


def test_the_program_has_an_engine_that_talks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "scripted")
    monkeypatch.setenv("CRUCIBLE_CONFIG", "/dev/null")
    config = Config(home=tmp_path)
    assert not assemble.may_have_left_work(config)

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
        assert not assemble.may_have_left_work(config), "no turn is under way"
        again = await assemble.engine(service)
        try:
            assert [one.id for one in await again.sessions()] == [session.id]
            assert len(await again.history(session.id)) == 2
        finally:
            await again.close()
            service.manager.records.close()

    run(play())


def test_the_value_of_a_sessions_secret_is_kept_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = "sk-nobody-may-read-this"
    monkeypatch.setenv("LLM_PROVIDER", "scripted")
    monkeypatch.setenv("CRUCIBLE_CONFIG", "/dev/null")
    monkeypatch.setenv("MY_KEY", value)
    wish = SandboxWish(secrets=("MY_KEY:api.anthropic.com",))
    options = SessionOptions(sandbox=wish, memory=False)

    async def play() -> None:
        service = Service(assemble.manager(Config(home=tmp_path)))
        engine = await assemble.engine(service)
        try:
            session = await engine.create_session(options)
            await engine.generate(session.id, "hello")
            told = [repr(await engine.session(session.id)), repr(await engine.history(session.id))]
            async for event in engine.events(session.id):
                told.append(repr(event))
                if event.kind == "turn-ended":
                    break
            assert value not in "".join(told)
            assert "MY_KEY:api.anthropic.com" in told[0]
        finally:
            await engine.close()
            service.manager.records.close()

    run(play())
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(kept) > 3
    assert [path for path in kept if value.encode() in path.read_bytes()] == []


def test_a_database_that_the_users_file_names_may_have_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[database]\nurl = "postgresql://somewhere/else"\n')
    monkeypatch.setenv("CRUCIBLE_CONFIG", str(path))
    assert assemble.may_have_left_work(Config(home=tmp_path / "home"))


@pytest.mark.parametrize("store", ["sql", "files"])
def test_a_turn_that_was_left_is_seen_from_outside(tmp_path: Path, store: str) -> None:
    database = Database(f"sqlite:///{tmp_path / 'crucible.db'}")

    def is_open() -> bool:
        return may_have_open_turns(tmp_path, store=store)

    async def play() -> None:
        kept = SqlSessions(database) if store == "sql" else JsonFiles(tmp_path / "sessions")
        for number in range(3):
            await kept.save(new_record(f"ses-{number}", SessionOptions()))
        assert not is_open()
        turn = OpenTurn(number=1, intent="agent", began_at=0.0, began_with=0)
        await kept.save(replace(new_record("ses-1", SessionOptions()), turn=turn))
        assert is_open()
        await kept.save(new_record("ses-1", SessionOptions()))
        assert not is_open()

    try:
        run(play())
    finally:
        database.close()


def test_what_cannot_be_looked_at_may_have_any(tmp_path: Path) -> None:
    path = tmp_path / "crucible.db"
    assert not may_have_open_turns(tmp_path)
    assert may_have_open_turns(tmp_path, store="of-a-package")
    assert may_have_open_turns(tmp_path, database="postgresql://somewhere/else")
    assert not may_have_open_turns(tmp_path, database=f"sqlite:///{path}")
    sqlite3.connect(path).close()
    assert not may_have_open_turns(tmp_path), "nothing was ever kept there"
    path.write_bytes(b"no database at all" * 100)
    assert may_have_open_turns(tmp_path)
    head = tmp_path / "sessions" / "ses-1" / "session.json"
    head.parent.mkdir(parents=True)
    for text in ("", "[]", '{"turn": ', "[" * 100_000):
        head.write_text(text)
        assert may_have_open_turns(tmp_path, store="files"), text[:10]


def test_to_ask_for_open_turns_loads_no_engine(tmp_path: Path) -> None:
    """The HTTP doors ask whenever they open, also for who never uses the agent."""
    script = (
        "import sys; from pathlib import Path; from crucible import assemble;"
        "from crucible.config import Config;"
        f"assemble.may_have_left_work(Config(home=Path({str(tmp_path)!r})));"
        "sys.exit(bool({'sqlalchemy', 'pydantic', 'crucible.agent.engine'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
