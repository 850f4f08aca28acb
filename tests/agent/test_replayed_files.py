"""Files that came with a prompt are in the sandbox of a replay as they were in the recorded one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agent.scenes import Say, Scene, call, run
from tests.agent.test_accounts import kept
from tests.agent.test_replay import AlteredOne, declare_hook, is_whole, recorded, replayed

from crucible.agent import attaching
from crucible.agent.facts import Attachment
from crucible.agent.hooks.chain import Hooks
from crucible.errors import HookBlocked
from crucible.ledger.chain import Entry
from crucible.ledger.ledger import Ledger

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def attach(root: Path, name: str, data: bytes, media_type: str = "text/csv") -> Attachment:
    path = root / f"given-{name}"
    path.write_bytes(data)
    return Attachment(name=name, media_type=media_type, size=len(data), path=path)


def look(id: str) -> Say:
    return Say(calls=(call("bash", id=id, command="sha256sum *; ls -A"),))


def attached(entries: list[Entry]) -> list[Entry]:
    return [one for one in entries if one.facts["step"] == "attached"]


def test_a_replayed_turn_finds_the_files_that_the_recorded_one_found(tmp_path: Path) -> None:
    async def work(stage: Scene, session: str) -> None:
        files = (
            attach(tmp_path, "data.csv", b"a,b\n1,2\n"),
            attach(tmp_path, "odd näme; rm.bin", bytes(range(256)) * 40, "application/x"),
            attach(tmp_path, "empty.txt", b"", "text/plain"),
            attach(tmp_path, "shown.png", PNG, "image/png"),
        )
        await stage.engine.generate(session, "look", attachments=files, intent="agent")
        # The same names again: they are there already, and get numbers.
        other = (attach(tmp_path, "data.csv", b"c\n3\n"),)
        await stage.engine.generate(session, "and now", attachments=other, intent="agent")
        for one in files:
            one.path.unlink()

    lines = look("a"), Say(text="Four."), look("b"), Say(text="Five.")
    again, entries = recorded(tmp_path, work, *lines)
    is_whole(again, entries)
    assert again.calls == 2
    assert [one.facts["size"] for one in attached(entries)] == [8, 10_240, 0, len(PNG), 4]
    told = str([one.facts for one in attached(entries)])
    assert "data" not in told, "what people wrote is in no facts"


def test_a_prompt_that_is_asked_again_tells_of_its_files_again(tmp_path: Path) -> None:
    async def work(stage: Scene, session: str) -> None:
        first = (attach(tmp_path, "data.csv", b"a\n"),)
        await stage.engine.generate(session, "look", attachments=first)
        await (await stage.engine.retry(session)).wait()
        other = (attach(tmp_path, "more.csv", b"b\n"),)
        await stage.engine.generate(session, "at this", attachments=other, instead_of=2)

    lines = look("a"), Say(text="1."), look("b"), Say(text="2."), look("c"), Say(text="3.")
    again, entries = recorded(tmp_path, work, *lines)
    is_whole(again, entries)
    assert again.calls == 3


def test_files_of_a_prompt_that_a_hook_kept_back_lie_there_all_the_same(tmp_path: Path) -> None:
    says = "print(json.dumps({'block': 'no'} if 'secret' in asked['text'] else {}))"
    hooks = Hooks((declare_hook(tmp_path, "keeps", ("before-prompt",), says),))

    async def work(stage: Scene, session: str) -> None:
        kept_back = (attach(tmp_path, "data.csv", b"a\n"),)
        with pytest.raises(HookBlocked):
            await stage.engine.generate(session, "a secret", attachments=kept_back)
        await stage.engine.generate(session, "look", intent="agent")

    again, _ = recorded(tmp_path, work, look("a"), Say(text="One."), hooks=hooks)
    assert (again.divergence, again.gap) == (None, None), again
    assert (again.calls, again.same) == (1, 1)


def test_a_replay_ends_clearly_where_a_file_was_erased(tmp_path: Path) -> None:
    async def play() -> None:
        async with kept(tmp_path, look("a"), Say(text="One.")) as (stage, ledger):
            session = await stage.session()
            file = attach(tmp_path, "data.csv", b"a,b\n")
            await stage.engine.generate(session.id, "look", attachments=(file,))
            (entry,) = attached(await ledger.entries(session.id))
            assert entry.output is not None
            await ledger.erase(session.id, names={entry.output}, reason="by the user")
            again = await replayed(stage, session.id)
            assert again.divergence is None
            assert again.gap is not None
            assert (again.gap.number, again.gap.step) == (entry.number, "attached text/csv")
            assert again.gap.why == "its contents were erased"
            assert (again.calls, again.erased) == (0, 1)

    run(play())


def test_a_file_that_is_too_large_for_the_ledger_is_given_and_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attaching, "MAX_CONTENT", 3)

    async def play() -> None:
        async with kept(tmp_path, look("a"), Say(text="One.")) as (stage, ledger):
            session = await stage.session()
            file = attach(tmp_path, "data.csv", b"a,b\n")
            reply = await stage.engine.generate(session.id, "look", attachments=(file,))
            assert reply.end == "done"
            (entry,) = attached(await ledger.entries(session.id))
            assert entry.output is None
            again = await replayed(stage, session.id)
            assert again.gap is not None
            assert again.gap.number == entry.number
            assert again.gap.why == "the file 'data.csv' was too large to be kept"

    run(play())


@pytest.mark.parametrize(
    "kind, old, new, what",
    [
        ("attached", "data.csv", "../etc/x", "no name of a file"),
        ("prompt", '"size": 4', '"size": "x"', "could not be done again"),
        ("prompt", "data.csv", "other.csv", "told another message"),
    ],
)
def test_what_was_altered_of_files_is_named(
    tmp_path: Path, kind: str, old: str, new: str, what: str
) -> None:
    async def play() -> None:
        async with kept(tmp_path, look("a"), Say(text="One.")) as (stage, ledger):
            session = await stage.session()
            file = attach(tmp_path, "data.csv", b"a,b\n")
            await stage.engine.generate(session.id, "look", attachments=(file,))
            again = await replayed(stage, session.id, AlteredOne(ledger, old, new, kind))
            assert again.divergence is not None
            assert what in again.divergence.what

    run(play())


class Older:
    """A record of before files were written down: pictures alone, and no prompt tells of them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def entries(self, run: str) -> list[Entry]:
        found = await self._ledger.entries(run)
        return [one for one in found if one.facts["step"] != "attached"]

    async def blob(self, run: str, name: str) -> bytes:
        return (await self._ledger.blob(run, name)).replace(b'"files"', b'"gone"')


def test_a_record_without_files_differs_where_the_model_was_told_of_them(tmp_path: Path) -> None:
    async def play() -> None:
        async with kept(tmp_path, look("a"), Say(text="One.")) as (stage, ledger):
            session = await stage.session()
            file = attach(tmp_path, "data.csv", b"a,b\n")
            await stage.engine.generate(session.id, "look", attachments=(file,), intent="agent")
            again = await replayed(stage, session.id, Older(ledger))
            assert again.divergence is not None
            assert again.divergence.what == "the model is told another message"
            assert "data.csv" in again.divergence.recorded

    run(play())
