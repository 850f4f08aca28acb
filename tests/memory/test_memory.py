"""What is said is kept, replaced, found, shown, changed, turned off: over SQLite and a real PostgreSQL."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.memory.conftest import NOON, Blobs, Clock, SharedEmbedder

from crucible.errors import MemoryMissing, MemoryOff, MemoryRefused, SecretRefused
from crucible.memory.facts import Policy
from crucible.memory.memory import Memory
from crucible.memory.rules import RuleExtractor
from crucible.store.database import Database

ANA = "ana"


async def test_what_a_user_says_of_themselves_is_kept_with_its_source(
    memory: Memory, blobs: Blobs
) -> None:
    (change,) = await memory.extract_turn(ANA, "s1", 3, "Hi! I live in Lisbon. What is 2 + 2?")
    (fact,) = await memory.list(ANA)
    assert fact.text == "Lives in Lisbon"
    assert (fact.kind, fact.attribute, fact.state) == ("fact", "home", "active")
    assert (fact.source.session, fact.source.turn, fact.source.quote) == (
        "s1",
        3,
        "I live in Lisbon.",
    )
    assert fact.created_at == NOON
    assert change.action == "added"
    assert blobs.entries == [("added", fact.blobs[0])]


async def test_a_move_replaces_the_old_home_and_keeps_it_as_history(
    memory: Memory, clock: Clock
) -> None:
    await memory.extract_turn(ANA, "s1", 1, "I live in Lisbon.")
    clock.pass_days(10)
    (change,) = await memory.extract_turn(ANA, "s2", 1, "By the way, I moved to Porto last week.")
    assert change.action == "replaced"
    assert [old.text for old in change.before] == ["Lives in Lisbon"]
    (fact,) = await memory.list(ANA)
    assert fact.text == "Lives in Porto"
    recalled = await memory.recall(ANA, "Lisbon or Porto, where do I live?", 1000)
    assert [item.fact.text for item in recalled.items] == ["Lives in Porto"]
    (old,) = await memory.history(ANA, fact.id)
    assert (old.text, old.state, old.superseded_by) == ("Lives in Lisbon", "superseded", fact.id)


async def test_what_contradicts_in_meaning_replaces_too(knowing: Memory) -> None:
    await knowing.extract_turn(ANA, "s1", 1, "Always answer in German.")
    await knowing.extract_turn(ANA, "s1", 2, "Never push to main.")
    (change,) = await knowing.extract_turn(ANA, "s1", 3, "Always answer in English.")
    assert [old.text for old in change.before] == ["Always answer in German"]
    kept = {fact.text for fact in await knowing.list(ANA)}
    assert kept == {"Never push to main", "Always answer in English"}


@pytest.mark.parametrize(
    "first, second",
    [
        ("I'm allergic to peanuts.", "I'm allergic to walnuts."),
        ("I like green tea.", "I like black tea."),
        ("Never push to main.", "Never force-push to shared branches."),
        ("My favourite film is Alien.", "My favourite band is Radiohead."),
        ("My dog is called Rex.", "My dog is called Biscuit."),
    ],
)
async def test_what_merely_sounds_alike_replaces_nothing(
    knowing: Memory, first: str, second: str
) -> None:
    await knowing.extract_turn(ANA, "s1", 1, first)
    await knowing.extract_turn(ANA, "s1", 2, second)
    assert len(await knowing.list(ANA)) == 2


async def test_a_change_of_taste_replaces_the_old_one(memory: Memory) -> None:
    await memory.extract_turn(ANA, "s1", 1, "I like coffee.")
    await memory.extract_turn(ANA, "s1", 2, "I don't like coffee.")
    assert [fact.text for fact in await memory.list(ANA)] == ["Dislikes coffee"]


async def test_what_is_taken_back_is_not_recalled(memory: Memory) -> None:
    await memory.extract_turn(ANA, "s1", 1, "I work at Acme.")
    (change,) = await memory.extract_turn(ANA, "s1", 2, "I don't work at Acme any more.")
    assert change.action == "ended"
    assert await memory.list(ANA) == ()
    (old,) = await memory.list(ANA, states=("superseded",))
    assert old.text == "Works at Acme"


async def test_said_again_it_is_confirmed_not_doubled(memory: Memory, clock: Clock) -> None:
    await memory.extract_turn(ANA, "s1", 1, "I live in Porto.")
    (first,) = await memory.list(ANA)
    clock.pass_days(100)
    (change,) = await memory.extract_turn(ANA, "s2", 1, "I live in Porto!")
    assert change.action == "confirmed"
    (fact,) = await memory.list(ANA)
    assert fact.id == first.id
    assert fact.expires_at is not None
    assert first.expires_at is not None
    assert fact.expires_at > first.expires_at


async def test_two_turns_at_once_keep_one(memory: Memory) -> None:
    text = (
        "I live in Porto. I'm allergic to peanuts. Never push to main. I prefer tabs over spaces."
    )
    turns = [memory.extract_turn(ANA, f"s{n}", 1, text) for n in range(8)]
    changes = [change for turn in await asyncio.gather(*turns) for change in turn]
    assert sum(change.action == "added" for change in changes) == 4
    assert len(await memory.list(ANA)) == 4


async def test_different_homes_said_at_once_leave_one(memory: Memory) -> None:
    places = ("Porto", "Braga", "Faro", "Beja")
    await asyncio.gather(
        *(
            memory.extract_turn(ANA, "s", n, f"I moved to {place}.")
            for n, place in enumerate(places)
        )
    )
    assert len(await memory.list(ANA)) == 1
    assert len(await memory.list(ANA, states=("superseded",))) == 3


async def test_users_never_see_each_other(memory: Memory) -> None:
    await memory.extract_turn(ANA, "s1", 1, "I live in Porto.")
    (fact,) = await memory.list(ANA)
    assert await memory.list("eve") == ()
    assert (await memory.recall("eve", "Porto", 1000)).items == ()
    for forbidden in (
        memory.find("eve", fact.id),
        memory.edit("eve", fact.id, text="Lives in Rome"),
        memory.pin("eve", fact.id),
        memory.forget("eve", fact.id),
        memory.history("eve", fact.id),
    ):
        with pytest.raises(MemoryMissing):
            await forbidden
    assert (await memory.find(ANA, fact.id)).text == "Lives in Porto"


async def test_off_nothing_is_extracted_and_nothing_recalled(memory: Memory) -> None:
    await memory.extract_turn(ANA, "s1", 1, "I live in Porto.")
    await memory.set_enabled(ANA, False)
    assert await memory.extract_turn(ANA, "s1", 2, "I work at Acme.") == ()
    recalled = await memory.recall(ANA, "Porto", 1000)
    assert (recalled.items, recalled.text) == ((), "")
    assert "off" in recalled.notice
    with pytest.raises(MemoryOff):
        await memory.remember(ANA, "I work at Acme")
    with pytest.raises(MemoryOff):
        await memory.import_(ANA, await memory.export(ANA))
    assert [fact.text for fact in await memory.list(ANA)] == ["Lives in Porto"]
    await memory.set_enabled(ANA, True)
    assert (await memory.recall(ANA, "Porto", 1000)).items


async def test_off_for_one_session_only(memory: Memory) -> None:
    await memory.remember(ANA, "I live in Porto")
    await memory.set_enabled(ANA, False, session="quiet")
    assert await memory.extract_turn(ANA, "quiet", 1, "I work at Acme.") == ()
    assert (await memory.recall(ANA, "Porto", 1000, session="quiet")).items == ()
    assert (await memory.recall(ANA, "Porto", 1000, session="loud")).items
    assert await memory.extract_turn(ANA, "loud", 1, "I work at Acme.")
    await memory.set_enabled(ANA, True, session="quiet")
    assert (await memory.recall(ANA, "Porto", 1000, session="quiet")).items


async def test_turned_off_while_the_model_thinks_nothing_is_kept(
    database: Database, clock: Clock
) -> None:
    class Slow:
        async def extract(self, words: str) -> list[object]:
            await memory.set_enabled(ANA, False)
            return list(await RuleExtractor().extract(words))

    memory = Memory(database, extractor=Slow(), clock=clock)  # type: ignore[arg-type]
    assert await memory.extract_turn(ANA, "s1", 1, "I live in Porto.") == ()
    assert await memory.list(ANA) == ()


async def test_an_edit_changes_what_is_found(knowing: Memory) -> None:
    change = await knowing.remember(ANA, "My cat is called Salt")
    await knowing.recall(ANA, "cat", 1000)
    edited = await knowing.edit(ANA, change.fact.id, text="Their cat is called Pepper")
    assert edited.confidence == 1.0
    recalled = await knowing.recall(ANA, "what is the name of my kitten?", 1000)
    assert [item.fact.text for item in recalled.items] == ["Their cat is called Pepper"]
    with pytest.raises(SecretRefused):
        await knowing.edit(ANA, change.fact.id, text="My password is hunter2")


async def test_what_is_pinned_is_always_recalled_and_never_expires(
    memory: Memory, clock: Clock
) -> None:
    change = await memory.remember(ANA, "I live in Porto")
    await memory.pin(ANA, change.fact.id)
    clock.pass_days(5000)
    assert (await memory.prune(ANA)).expired == ()
    recalled = await memory.recall(ANA, "what is the weather like?", 1000)
    assert [str(item.reason) for item in recalled.items] == ["it is pinned"]
    await memory.pin(ANA, change.fact.id, is_pinned=False)
    assert (await memory.recall(ANA, "Porto", 1000)).items == ()


async def test_a_pin_goes_over_to_what_replaces(memory: Memory) -> None:
    change = await memory.remember(ANA, "I live in Lisbon")
    await memory.pin(ANA, change.fact.id)
    await memory.extract_turn(ANA, "s1", 1, "I moved to Porto.")
    (fact,) = await memory.list(ANA)
    assert (fact.text, fact.is_pinned) == ("Lives in Porto", True)


async def test_what_has_expired_is_not_recalled_even_before_it_is_pruned(
    memory: Memory, clock: Clock
) -> None:
    await memory.extract_turn(ANA, "s1", 1, "I'm training for the Lisbon marathon.")
    await memory.extract_turn(ANA, "s1", 2, "I'm allergic to peanuts.")
    clock.pass_days(181)
    assert (await memory.recall(ANA, "marathon", 1000)).items == ()
    pruned = await memory.prune(ANA)
    assert [fact.kind for fact in pruned.expired] == ["goal"]
    assert [fact.kind for fact in await memory.list(ANA)] == ["constraint"]


async def test_what_has_expired_is_cleared_away_by_a_later_turn(
    memory: Memory, clock: Clock
) -> None:
    await memory.extract_turn(ANA, "s1", 1, "I'm training for the Lisbon marathon.")
    clock.pass_days(181)
    await memory.extract_turn(ANA, "s2", 1, "I live in Porto.")
    (old,) = await memory.list(ANA, states=("expired",))
    assert old.kind == "goal"
    clock.pass_days(366)
    await memory.extract_turn(ANA, "s3", 1, "I live in Porto.")
    assert await memory.list(ANA, states=("expired",)) == ()


async def test_beyond_the_limit_the_least_worth_goes(database: Database, clock: Clock) -> None:
    memory = Memory(database, extractor=RuleExtractor(), policy=Policy(most_facts=5), clock=clock)
    kept = []
    for number in range(8):
        change = await memory.remember(ANA, f"Owns the boat number {number}", kind="fact")
        kept.append(change.fact)
        clock.pass_days(1)
    await memory.pin(ANA, kept[0].id)
    pruned = await memory.prune(ANA)
    assert {fact.id for fact in pruned.erased} == {fact.id for fact in kept[1:4]}
    assert {fact.id for fact in await memory.list(ANA)} == {kept[0].id, *(f.id for f in kept[4:])}


async def test_an_export_can_be_taken_elsewhere(memory: Memory) -> None:
    await memory.extract_turn(ANA, "s1", 1, "I live in Lisbon. I'm allergic to peanuts.")
    await memory.extract_turn(ANA, "s1", 2, "I moved to Porto.")
    (home, *_) = [fact for fact in await memory.list(ANA) if fact.attribute == "home"]
    await memory.pin(ANA, home.id)
    export = json.loads(json.dumps(await memory.export(ANA)))
    assert {fact["state"] for fact in export["facts"]} == {"active", "superseded"}
    imported = await memory.import_("ana@elsewhere", export)
    assert imported.left_out == 1
    there = {(fact.text, fact.is_pinned) for fact in await memory.list("ana@elsewhere")}
    assert there == {("Lives in Porto", True), ("Is allergic to peanuts", False)}


async def test_what_is_imported_is_as_hostile_as_a_file_can_be(memory: Memory) -> None:
    strange: tuple[object, ...] = (None, [], {}, {"format": 2, "facts": []}, {"format": 1})
    for value in strange:
        with pytest.raises(MemoryRefused):
            await memory.import_(ANA, value)
    facts = [
        7,
        {"text": 1, "kind": "fact"},
        {"text": "a", "kind": "belief"},
        {"text": "My password is hunter2", "kind": "fact"},
        {"text": "x" * 100_000, "kind": "fact"},
        {"text": "Knows NaN", "kind": "fact", "confidence": float("nan")},
        {
            "text": "Owns a\x00 boat\x1b[2J",
            "kind": "fact",
            "source": {"session": "\x00", "turn": -1},
        },
    ]
    imported = await memory.import_(ANA, {"format": 1, "facts": facts})
    assert imported.left_out == 6
    (fact,) = await memory.list(ANA)
    assert fact.text == "Owns a boat [2J"
    assert fact.source.session == ""


async def test_secrets_are_never_remembered(memory: Memory, blobs: Blobs) -> None:
    turns = (
        "My password is hunter2. I live in Porto.",
        "Remember that my API key is sk-proj-abc123def456ghi789.",
        "From now on, use the token ghp_0123456789abcdefABCDEF0123456789abcd.",
        "My card number is 4111 1111 1111 1111.",
        "Always connect to postgres://me:s3cret@db/x.",
    )
    for number, text in enumerate(turns):
        await memory.extract_turn(ANA, "s1", number, text)
    assert await memory.list(ANA) == ()
    assert blobs.entries == []
    with pytest.raises(SecretRefused) as refused:
        await memory.remember(ANA, "The password is hunter2")
    assert "hunter2" not in str(refused.value)


async def test_a_name_that_is_none_is_refused(memory: Memory) -> None:
    for name in ("", "x" * 201, "a\x00b", "a\nb"):
        with pytest.raises(MemoryRefused):
            await memory.extract_turn(name, "s1", 1, "I live in Porto.")
        with pytest.raises(MemoryRefused):
            await memory.extract_turn(ANA, name, 1, "I live in Porto.")


async def test_without_the_embedder_words_find_and_it_is_said(memory: Memory) -> None:
    await memory.remember(ANA, "I live in Porto")
    recalled = await memory.recall(ANA, "a train to Porto?", 1000)
    (item,) = recalled.items
    assert item.reason.words == ("Porto",)
    assert item.reason.similarity is None
    assert "Only words" in recalled.notice


async def test_meaning_finds_what_no_word_does_and_says_how_near(knowing: Memory) -> None:
    await knowing.remember(ANA, "I'm allergic to peanuts")
    await knowing.remember(ANA, "I prefer tabs over spaces")
    recalled = await knowing.recall(ANA, "which foods must I avoid?", 1000)
    first = recalled.items[0]
    assert first.fact.text == "Is allergic to peanuts"
    assert first.reason.similarity is not None
    assert first.reason.similarity > 0.2
    assert "near" in str(first.reason)
    assert recalled.notice == ""


async def test_what_was_kept_without_vectors_gets_them_when_they_can_be_made(
    memory: Memory, knowing: Memory
) -> None:
    await memory.remember(ANA, "I'm allergic to peanuts")
    recalled = await knowing.recall(ANA, "which foods must I avoid?", 1000)
    assert [item.fact.text for item in recalled.items] == ["Is allergic to peanuts"]


async def test_what_another_process_writes_is_found(
    database: Database, clock: Clock, embedder: SharedEmbedder
) -> None:
    here, there = (
        Memory(database, extractor=RuleExtractor(), embedder=embedder, clock=clock)
        for _ in range(2)
    )
    change = await here.remember(ANA, "I live in Porto")
    assert (await there.recall(ANA, "Porto", 1000)).items
    await here.edit(ANA, change.fact.id, text="Lives in Braga")
    assert [one.fact.text for one in (await there.recall(ANA, "Porto", 1000)).items] != [
        "Lives in Porto"
    ]
    await here.forget(ANA, change.fact.id)
    assert (await there.recall(ANA, "Braga", 1000)).items == ()


async def test_being_recalled_is_noted(memory: Memory, clock: Clock) -> None:
    await memory.remember(ANA, "I live in Porto")
    clock.pass_days(1)
    await memory.recall(ANA, "Porto", 1000)
    (fact,) = await memory.list(ANA)
    assert (fact.recalls, fact.recalled_at) == (1, clock.now)


async def test_an_extractor_that_fails_keeps_nothing(database: Database) -> None:
    class Broken:
        async def extract(self, words: str) -> list[object]:
            raise RuntimeError("no model")

    memory = Memory(database, extractor=Broken())  # type: ignore[arg-type]
    with pytest.raises(RuntimeError):
        await memory.extract_turn(ANA, "s1", 1, "I live in Porto.")
    assert await memory.list(ANA) == ()
