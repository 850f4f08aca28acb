"""Memory as the rest of the program sees it: remember, recall, show, change, forget. One object for all users.

What is worth keeping is decided in `rules` or `asking`, what replaces what in `settling`, what is found in `shelf`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from crucible.errors import CrucibleError, ForgettingIncomplete, MemoryMissing, MemoryOff
from crucible.memory import forgetting, portable, pruning, records, summaries
from crucible.memory.facts import Candidate, Fact, Kind, Policy, Source, State
from crucible.memory.forgetting import Forgotten
from crucible.memory.listing import summary_page
from crucible.memory.pruning import Pruned
from crucible.memory.recalling import MOST_ITEMS, Recalled, choose
from crucible.memory.rules import find_facts
from crucible.memory.seams import Embedder, Eraser, Extractor, Keeper, Recorder
from crucible.memory.settling import Change, Said, settle
from crucible.memory.shelf import Shelves
from crucible.memory.summaries import ConversationSummary, keepable_summary
from crucible.memory.vetting import check_name, keepable, speakable, vet
from crucible.store.database import Database

_LONGEST_QUERY = 2000
# How many facts that came without a vector are given one when somebody asks.
_MOST_FILLED = 64
# A fact that was found is marked so, but not each time anew.
_MARK_AGAIN_S = 600.0
_PRUNE_AGAIN_S = 86_400.0
_MOST_PRUNED = 1000
_WORDS_ONLY = "Only words were compared: {}"
_OFF = "Memory is turned off"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Whether memory is on, for a user and for one of their sessions."""

    user: bool
    session: bool

    @property
    def is_on(self) -> bool:
        return self.user and self.session


class Memory:
    """Any number of turns may use it at once. Without an embedder it finds by words alone, and says so."""

    def __init__(
        self,
        database: Database,
        *,
        extractor: Extractor,
        embedder: Embedder | None = None,
        recorder: Recorder | None = None,
        eraser: Eraser | None = None,
        keeper: Keeper | None = None,
        policy: Policy | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._extractor = extractor
        self._embedder = embedder
        self._recorder = recorder
        self._eraser = eraser
        self._keeper = keeper
        self._policy = policy or Policy()
        self._clock = clock
        self._shelves = Shelves(embedder.model if embedder else "")
        self._pruned_at: dict[str, float] = {}

    async def extract_turn(
        self,
        user: str,
        session: str,
        turn: int,
        user_text: str,
        *,
        extractor: Extractor | None = None,
    ) -> tuple[Change, ...]:
        """Keeps what the user said of themselves in a turn. Give it what they typed, never what a tool or a model said.

        `extractor` is for this turn alone. Raises what the extractor raises; nothing is kept then.
        """
        check_name(user, "user")
        check_name(session, "session")
        if not (await self.settings(user, session)).is_on:
            return ()
        words = speakable(user_text)
        if not words:
            return ()
        candidates = await (extractor or self._extractor).extract(words)
        found = keepable(candidates, self._policy.most_per_turn)
        changes = await self._keep(
            user,
            [(one, Source(session=session, turn=turn, quote=one.quote)) for one in found],
        )
        if changes:
            await self._prune_once_a_day(user)
        return changes

    async def remember(
        self,
        user: str,
        text: str,
        *,
        kind: Kind | None = None,
        attribute: str = "",
        source: Source | None = None,
    ) -> Change:
        """Keeps one statement as it was typed. Raises MemoryOff, MemoryRefused or SecretRefused."""
        check_name(user, "user")
        source = source or Source()
        given = vet(Candidate(text=text, kind=kind or "fact", attribute=attribute, confidence=1.0))
        candidate = given if kind or attribute else _understood(given)
        if not (await self.settings(user, source.session)).is_on:
            raise MemoryOff(user)
        changes = await self._keep(user, [(candidate, source)])
        if not changes:
            raise MemoryOff(user)
        return changes[0]

    async def recall(
        self, user: str, query: str, budget_tokens: int, *, session: str = ""
    ) -> Recalled:
        """What is known that has to do with a question, the best first, with all that is pinned."""
        if not (await self.settings(user, session)).is_on:
            return Recalled(notice=_OFF)
        query = query[:_LONGEST_QUERY]
        vector, notice = await self._query_vector(query)
        if vector is not None:
            await self._fill_vectors(user)
        now = self._clock()

        def search(connection: Connection) -> Recalled:
            shelf = self._shelves.of(user)
            with shelf.lock:
                if not shelf.follow(connection).is_enabled:
                    return Recalled(notice=_OFF)
                hits = shelf.search(query, vector, most=MOST_ITEMS, now=now)
                return choose(shelf.pinned(now), hits, budget_tokens=budget_tokens, notice=notice)

        recalled = await self._database.read(search)
        await self._mark(recalled, now)
        return recalled

    async def list(self, user: str, *, states: Sequence[State] = ("active",)) -> tuple[Fact, ...]:
        found = await self._database.read(lambda c: records.read_all(c, user, states))
        return tuple(found)

    async def find(self, user: str, fact: str) -> Fact:
        found = await self._database.read(lambda c: records.find(c, user, fact))
        if found is None:
            raise MemoryMissing(fact)
        return found

    async def history(self, user: str, fact: str) -> tuple[Fact, ...]:
        """What a fact has replaced, the newest first."""
        known = await self.find(user, fact)
        found = await self._database.read(lambda c: forgetting.history_of(c, user, known))
        return tuple(found)

    async def edit(
        self, user: str, fact: str, *, text: str | None = None, kind: Kind | None = None
    ) -> Fact:
        """Corrects what is remembered. The earlier words are gone; those in the ledger go with `forget`."""
        known = await self.find(user, fact)
        vetted = vet(
            Candidate(
                text=known.text if text is None else text,
                kind=kind or known.kind,
                attribute=known.attribute,
                confidence=1.0,
            )
        )
        vector = (await self._vectors([vetted.text]))[0]
        now = self._clock()
        values: dict[str, object] = {
            "text": vetted.text,
            "kind": vetted.kind,
            "confidence": 1.0,
            "updated_at": now,
            "expires_at": self._policy.expiry(vetted.kind, now),
            "vector": vector,
            "vector_model": self._model if vector else "",
        }
        changed = await self._change(user, fact, values)
        await self._record(Change(action="confirmed", fact=changed), "edited")
        return changed

    async def pin(self, user: str, fact: str, *, is_pinned: bool = True) -> Fact:
        """A pinned fact is always recalled, and never expires or is pruned."""
        return await self._change(user, fact, {"is_pinned": is_pinned})

    async def forget(self, user: str, fact: str, *, with_history: bool = False) -> Forgotten:
        """For good: no list, no search, no file of ours has it afterwards. Raises ForgettingIncomplete if one may."""
        known = await self.find(user, fact)
        older = await self.history(user, fact) if with_history else ()
        return await self._forget(user, (known, *older))

    async def forget_all(self, user: str) -> Forgotten:
        states: tuple[State, ...] = ("active", "superseded", "expired")
        return await self._forget(user, await self.list(user, states=states))

    async def keep_summary(self, user: str, session: str, *, covers: int, text: str) -> None:
        """What a conversation was cut down to, in the place of what it was before. Nothing while memory is off."""
        check_name(user, "user")
        check_name(session, "session")
        made = ConversationSummary(
            session=session, covers=covers, text=keepable_summary(text), made_at=self._clock()
        )

        def write(connection: Connection) -> None:
            if not records.is_silent(connection, user, session):
                summaries.keep(connection, user, made)

        await self._database.run(write)

    async def drop_summary(self, user: str, session: str) -> None:
        """The conversation is gone, or begins anew."""
        await self._database.run(lambda c: summaries.drop(c, user, session))

    async def summary(self, user: str, session: str) -> ConversationSummary | None:
        return await self._database.read(lambda c: summaries.find(c, user, session))

    async def summaries(self, user: str, *, limit: int = 100) -> Sequence[ConversationSummary]:
        """The latest first."""
        return await self._database.read(
            lambda c: summary_page(c, user=user, after=None, limit=limit)
        )

    async def prune(self, user: str) -> Pruned:
        """Clears away what has expired or is beyond the limit; nothing that is pinned."""
        now = self._clock()
        pruned = await self._database.run(lambda c: pruning.prune(c, user, self._policy, now))
        if pruned.erased:
            await self._drop(user, pruned.erased)
        return pruned

    async def export(self, user: str) -> dict[str, Any]:
        states: tuple[State, ...] = ("active", "superseded", "expired")
        settings = await self.settings(user)
        return portable.exported(user, await self.list(user, states=states), settings.user)

    async def import_(self, user: str, value: object) -> portable.Imported:
        """What an export holds, as if it were said anew: it replaces and confirms by the same rules."""
        check_name(user, "user")
        if not (await self.settings(user)).is_on:
            raise MemoryOff(user)
        read, left_out = portable.read(value, self._policy.most_facts)
        changes = await self._keep(user, [(one.candidate, one.source) for one in read])
        for change, one in zip(changes, read, strict=True):
            if one.is_pinned:
                await self.pin(user, change.fact.id)
        return portable.Imported(changes=changes, left_out=left_out)

    async def settings(self, user: str, session: str = "") -> Settings:
        def look(connection: Connection) -> Settings:
            is_on = records.standing(connection, user).is_enabled
            is_silent = is_on and records.is_silent(connection, user, session)
            return Settings(user=is_on, session=not is_silent)

        return await self._database.read(look)

    async def set_enabled(self, user: str, is_enabled: bool, *, session: str = "") -> None:
        """Off, nothing is extracted and nothing recalled; what is known stays, and can be seen and forgotten."""
        check_name(user, "user")
        if session:
            check_name(session, "session")
            await self._database.run(
                lambda c: records.set_silent(c, user, session, is_silent=not is_enabled)
            )
        else:
            await self._database.run(lambda c: records.set_enabled(c, user, is_enabled=is_enabled))

    async def _prune_once_a_day(self, user: str) -> None:
        now = self._clock()
        if now - self._pruned_at.get(user, 0.0) < _PRUNE_AGAIN_S:
            return
        if len(self._pruned_at) >= _MOST_PRUNED:
            self._pruned_at.clear()
        self._pruned_at[user] = now
        try:
            await self.prune(user)
        except ForgettingIncomplete as error:
            _log.warning("while old memories were cleared away: %s", error.message)

    @property
    def _model(self) -> str:
        return self._embedder.model if self._embedder else ""

    async def _keep(
        self, user: str, found: Sequence[tuple[Candidate, Source]]
    ) -> tuple[Change, ...]:
        if not found:
            return ()
        vectors = await self._vectors([candidate.text for candidate, _ in found])
        said = [
            Said(candidate=candidate, source=source, vector=vector)
            for (candidate, source), vector in zip(found, vectors, strict=True)
        ]
        now = self._clock()

        def write(connection: Connection) -> Sequence[Change]:
            # It may have been turned off while the model was thinking.
            if records.is_silent(connection, user, said[0].source.session):
                return []
            return settle(connection, user, said, model=self._model, policy=self._policy, now=now)

        changes = await self._database.run(write)
        for change in changes:
            if change.action != "confirmed":
                await self._record(change, change.action)
        return tuple(changes)

    async def _record(self, change: Change, action: str) -> None:
        """The ledger keeps a hash of this. A number of chance keeps it from being guessed from the hash."""
        if self._recorder is None:
            return
        fact = change.fact
        content = {
            "action": action,
            "id": fact.id,
            "kind": fact.kind,
            "text": fact.text,
            "attribute": fact.attribute,
            "replaces": [old.id for old in change.before],
            "salt": secrets.token_hex(16),
        }
        blob = await self._recorder.record(
            user=fact.user,
            session=fact.source.session,
            turn=fact.source.turn,
            action=action,
            content=json.dumps(content).encode(),
        )
        is_attached = await self._database.run(lambda c: records.attach_blob(c, fact.id, blob))
        if not is_attached and self._eraser is not None:
            await self._eraser.erase(blob)

    async def _change(self, user: str, fact: str, values: dict[str, object]) -> Fact:
        def write(connection: Connection) -> Fact:
            generation = records.begin_change(connection, user)
            if records.find(connection, user, fact) is not None:
                records.change(connection, fact, values, generation)
            changed = records.find(connection, user, fact)
            if changed is None:
                raise MemoryMissing(fact)
            return changed

        return await self._database.run(write)

    async def forgotten(self, user: str) -> int:
        """Another number whenever something was forgotten since."""
        return (await self._database.read(lambda c: records.standing(c, user))).erased

    async def _forget(self, user: str, gone: Sequence[Fact]) -> Forgotten:
        """From everywhere. What fails leaves the facts listed, to be forgotten again."""
        if self._keeper is not None and gone:
            await self._keeper.forget(user, gone)
        forgotten = await self._drop(user, gone)
        if not await self._database.purge():
            raise ForgettingIncomplete(f"somebody else is using {self._database.place}")
        return forgotten

    async def _drop(self, user: str, gone: Sequence[Fact]) -> Forgotten:
        """What memory itself has of them. Those that merely grew old go from nowhere else."""
        # Contents first: while one could not be erased, the fact is still listed and can be forgotten again.
        erased = [blob for fact in gone for blob in fact.blobs]
        await self._erase(erased)
        forgotten = await self._database.run(lambda c: forgetting.forget(c, user, gone))
        await self._erase([blob for blob in forgotten.blobs if blob not in set(erased)])
        self._shelves.drop(user)
        if not await self._database.scrub():
            raise ForgettingIncomplete(f"somebody else is reading from {self._database.place}")
        return forgotten

    async def _erase(self, blobs: Sequence[str]) -> None:
        if self._eraser is not None:
            for blob in blobs:
                await self._eraser.erase(blob)

    async def _vectors(self, texts: Sequence[str]) -> Sequence[bytes | None]:
        """None for all where nothing embeds: what is kept now gets its vectors when somebody can make them."""
        if self._embedder is None or not texts:
            return [None] * len(texts)
        try:
            made = await self._embedder.embed(texts)
        except CrucibleError as error:
            _log.warning("what is remembered has no vectors for now: %s", error.message)
            return [None] * len(texts)
        return [records.pack(vector) for vector in made]

    async def _query_vector(self, query: str) -> tuple[bytes | None, str]:
        if self._embedder is None:
            return None, _WORDS_ONLY.format("no embedding model is set up")
        try:
            (made,) = await self._embedder.embed([query])
        except CrucibleError as error:
            return None, _WORDS_ONLY.format(f"{error.message}. {error.hint}".strip(". "))
        return records.pack(made), ""

    async def _fill_vectors(self, user: str) -> None:
        def missing(connection: Connection) -> Sequence[Fact]:
            shelf = self._shelves.of(user)
            with shelf.lock:
                shelf.follow(connection)
                return shelf.without_vector()[:_MOST_FILLED]

        bare = await self._database.read(missing)
        made = await self._vectors([fact.text for fact in bare])
        if not any(made):
            return

        def write(connection: Connection) -> None:
            generation = records.begin_change(connection, user)
            for fact, vector in zip(bare, made, strict=True):
                # What was edited meanwhile has another text.
                known = records.find(connection, user, fact.id)
                if known is not None and known.text == fact.text:
                    values = {"vector": vector, "vector_model": self._model}
                    records.change(connection, fact.id, values, generation)

        await self._database.run(write)

    async def _mark(self, recalled: Recalled, now: float) -> None:
        seen = [
            item.fact.id
            for item in recalled.items
            if (item.fact.recalled_at or 0.0) < now - _MARK_AGAIN_S
        ]
        if seen:
            await asyncio.shield(self._database.run(lambda c: records.mark_recalled(c, seen, now)))


def _understood(given: Candidate) -> Candidate:
    """What was typed as one says it ("I moved to Porto") is kept as what it means, and replaces what it should."""
    found = [one for one in find_facts(given.text) if not one.ends]
    if len(found) != 1:
        return given
    return Candidate(
        text=found[0].text, kind=found[0].kind, attribute=found[0].attribute, confidence=1.0
    )
