"""Skills over HTTP and through the SDK: real doors, and a shelf on disk."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest
from tests.server.agent_stage import Stage

from crucible.agent.skills import archives
from crucible.server.tokens import Scope
from crucible_client import AsyncClient
from crucible_client.errors import (
    BadSkill,
    Forbidden,
    RequestTooLarge,
    SkillChanged,
    SkillMissing,
    SkillTaken,
)

pytestmark = pytest.mark.usefixtures("run")

DOCUMENT = "---\nname: {name}\ndescription: {told}\n---\nGreet everybody.\n"
TAR = {"Content-Type": "application/x-tar"}


def _document(name: str = "greet", told: str = "Greets.") -> str:
    return DOCUMENT.format(name=name, told=told)


def _directory(root: Path) -> Path:
    root.mkdir()
    (root / "SKILL.md").write_text(
        "---\nname: greet\ndescription: Greets.\nmetadata:\n  crucible-tools: tools.json\n---\nGreet.\n"
    )
    tool = {"name": "hello", "description": "Says it", "script": {"path": "a.sh", "runs": "shell"}}
    (root / "tools.json").write_text(json.dumps([tool]))
    (root / "a.sh").write_text("echo hello\n")
    return root


async def test_a_skill_is_loaded_looked_at_replaced_and_removed(stage: Stage) -> None:
    async with stage.client() as client:
        before = [one.name for one in await client.skills.list()]
        assert "web-fetch" in before
        checked = await client.skills.check(_document())
        assert (checked.name, checked.tools) == ("greet", ())
        assert [one.name for one in await client.skills.list()] == before
        loaded = await client.skills.load(_document())
        assert (loaded.origin, loaded.description, list(loaded.files)) == (
            "added",
            "Greets.",
            ["SKILL.md"],
        )
        with pytest.raises(SkillTaken):
            await client.skills.load(_document(told="Otherwise."))
        replaced = await client.skills.load(_document(told="Otherwise."), replace=True)
        assert (
            (await client.skills.get("greet")).description == replaced.description == "Otherwise."
        )
        await client.skills.remove("greet")
        with pytest.raises(SkillMissing):
            await client.skills.get("greet")
        with pytest.raises(SkillMissing):
            await client.skills.remove("web-fetch")
        assert [one.name for one in await client.skills.list()] == before


async def test_a_directory_is_loaded_with_its_tools(stage: Stage, tmp_path: Path) -> None:
    async with stage.client() as client:
        loaded = await client.skills.load_directory(_directory(tmp_path / "greet"))
        assert [(one.name, one.kind) for one in loaded.tools] == [("skill__greet__hello", "script")]
        assert sorted(loaded.files) == ["SKILL.md", "a.sh", "tools.json"]


async def test_a_changed_one_is_told_and_spoils_no_other(stage: Stage) -> None:
    async with stage.client() as client:
        await client.skills.load(_document())
        (stage.server.home / "skills" / "greet" / "files" / "SKILL.md").write_text(
            _document(told="Evil.")
        )
        told = {one.name: one for one in await client.skills.list()}
        assert "is not what it was" in told["greet"].problem
        assert (told["greet"].description, told["web-fetch"].problem) == ("", "")
        with pytest.raises(SkillChanged):
            await client.skills.get("greet")
        await client.skills.remove("greet")


async def test_only_who_administers_changes_what_all_sessions_have(stage: Stage) -> None:
    token = stage.server.token(Scope.RUN)
    async with AsyncClient(stage.server.url, token=token) as client:
        await client.skills.check(_document())
        assert await client.skills.list()
        with pytest.raises(Forbidden):
            await client.skills.load(_document())
        with pytest.raises(Forbidden):
            await client.skills.remove("greet")
    assert not (stage.server.home / "skills").exists()


async def test_what_is_no_skill_is_refused_and_nothing_of_it_is_kept(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "LARGEST_ARCHIVE", 1 << 20)
    linked = _archive(_entry("greet/SKILL.md", tarfile.SYMTYPE, link="/etc/passwd"))
    outside = _archive(_entry("../SKILL.md"))
    # A few KB whose first header claims, and has, more than a skill may have.
    bomb = gzip.compress(_archive(_entry("x", tarfile.XHDTYPE, data=bytes(8 << 20))))
    assert len(bomb) < 1 << 14
    async with stage.client() as client, stage.server.client() as http:
        for text in ("", "no front matter", _document(name="../up"), _document(name="a" * 65)):
            with pytest.raises(BadSkill):
                await client.skills.load(text)
        with pytest.raises(RequestTooLarge):
            await client.skills.load(_document() + "x" * (1 << 18))
        for body in (b"", b"\x1f\x8bbroken", linked, outside, bomb):
            answer = await http.post("/api/v1/skills", content=body, headers=TAR)
            assert (answer.status_code, answer.json()["code"]) == (422, "bad-skill"), answer.text
            assert str(stage.server.home) not in answer.text
        answer = await http.post("/api/v1/skills", json={"name": "greet"})
        assert (answer.status_code, answer.json()["code"]) == (422, "bad-request")
    assert list((stage.server.home / "scratch").iterdir()) == []
    assert list((stage.server.home / "skills").iterdir()) == []


def _entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", data: bytes = b"") -> bytes:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, link, len(data)
    padding = bytes(-len(data) % tarfile.BLOCKSIZE)
    return entry.tobuf(tarfile.USTAR_FORMAT) + data + padding


def _archive(*entries: bytes) -> bytes:
    file = io.BytesIO()
    for one in entries:
        file.write(one)
    file.write(bytes(2 * tarfile.BLOCKSIZE))
    return file.getvalue()
