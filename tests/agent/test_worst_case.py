"""What is set aside before a model is asked is never less than what it can count, and no more than need be."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent.scenes import OneModel, Played, Say, call, run, scene
from tests.agent.test_accounts import kept
from tests.providers.server import ProviderServer
from tests.providers.turns import Turn, Use

from crucible.accounts.amounts import Measure
from crucible.accounts.budgets import Budgets
from crucible.accounts.periods import Period
from crucible.accounts.plans import Limit
from crucible.accounts.prices import Prices
from crucible.accounts.scopes import session_scope, user_scope
from crucible.agent.messages import (
    AssistantMessage,
    Message,
    Part,
    Picture,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from crucible.agent.models.base import ModelEvent, ModelRef, Request, Schema, ToolSpec, Usage
from crucible.agent.models.registry import Registry
from crucible.agent.models.settings import load_settings
from crucible.agent.options import Limits
from crucible.agent.paying import BudgetPurse
from crucible.agent.plain import NoPurse
from crucible.agent.seams import Hold, MostOf, Spend
from crucible.agent.weighing import Counted, Scales, weigh, worst_case
from crucible.store.database import Database

PAID = ModelRef(provider="paid", name="m")
TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)


def sent_bytes(request: Request) -> int:
    """A tokenizer that makes a token of every byte, for a provider that adds marks and words of its own."""
    frame = 60 + len(request.system.encode())
    for tool in request.tools:
        frame += 40 + len(json.dumps([tool.name, tool.description, dict(tool.parameters)]))
    if request.schema is not None:
        frame += 40 + len(json.dumps(dict(request.schema.schema)))
    if request.tools or request.schema:
        frame += 530
    return frame + sum(_sent(message) for message in request.messages)


def _sent(message: Message) -> int:
    match message:
        case UserMessage():
            return 10 + len(message.text.encode()) + 48_169 * len(message.pictures)
        case Summary():
            return 10 + len(f"Summary of the conversation so far:\n\n{message.text}".encode())
        case AssistantMessage():
            return 10 + sum(_sent_part(part) for part in message.parts)
        case ToolMessage():
            return sum(
                10 + len((one.call_id + one.name + one.text).encode()) for one in message.results
            )


def _sent_part(part: Part) -> int:
    match part:
        case Text() | Thinking():
            return len(part.text.encode())
        case ToolCall():
            wrapped = json.dumps({"INVALID_JSON": part.arguments})
            never = "This call was interrupted before it gave a result."
            return 10 + 2 * len((part.id + part.name).encode()) + len(wrapped) + len(never)


CALLS = st.builds(ToolCall, id=TEXTS, name=TEXTS, arguments=TEXTS)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        UserMessage,
        text=TEXTS,
        pictures=st.sampled_from([(), (Picture(media_type="image/png", blob="x"),)]),
    ),
    st.builds(Summary, text=TEXTS, replaced=st.just(2)),
    st.builds(
        AssistantMessage,
        parts=st.tuples(
            st.one_of(st.builds(Text, text=TEXTS), st.builds(Thinking, text=TEXTS), CALLS)
        ),
    ),
    st.builds(
        ToolMessage,
        results=st.tuples(st.builds(ToolResult, call_id=TEXTS, name=TEXTS, text=TEXTS)),
    ),
)
TOOLS = st.builds(
    ToolSpec,
    name=TEXTS,
    description=TEXTS,
    parameters=st.dictionaries(TEXTS, TEXTS, max_size=3),
)
REQUESTS = st.builds(
    Request,
    system=TEXTS,
    messages=st.lists(MESSAGES, max_size=6).map(tuple),
    tools=st.lists(TOOLS, max_size=3).map(tuple),
    schema=st.one_of(
        st.none(),
        st.builds(Schema, name=st.just("a"), schema=st.dictionaries(TEXTS, TEXTS, max_size=3)),
    ),
)


@given(REQUESTS)
def test_no_tokenizer_finds_more_than_what_is_set_aside(request: Request) -> None:
    assert sent_bytes(request) <= worst_case(weigh(request))


@given(REQUESTS, REQUESTS, st.booleans())
def test_what_was_counted_before_makes_the_bound_tighter_and_no_less_true(
    first: Request, second: Request, is_same_frame: bool
) -> None:
    frame = first if is_same_frame else second
    later = Request(
        system=frame.system,
        tools=frame.tools,
        schema=frame.schema,
        messages=(*first.messages, *second.messages),
    )
    known = Counted(weighed=weigh(first), input_tokens=sent_bytes(first))
    assert sent_bytes(later) <= worst_case(weigh(later), known) <= worst_case(weigh(later))


def test_in_a_long_conversation_little_is_set_aside_for_what_was_counted() -> None:
    said = UserMessage(text="word " * 20_000)
    first = Request(system="You help.", messages=(said,))
    later = Request(system="You help.", messages=(said, UserMessage(text="and now?")))
    known = Counted(weighed=weigh(first), input_tokens=20_010)
    assert worst_case(weigh(later), known) < 20_200
    other = Request(system="You help.", messages=(UserMessage(text="else"),))
    assert worst_case(weigh(other), known) == worst_case(weigh(other))


@given(st.lists(REQUESTS, min_size=1, max_size=4), st.integers(0, 3))
def test_requests_that_go_on_weigh_the_same_as_each_by_itself(
    requests: list[Request], compacted: int
) -> None:
    """Also where messages are others all of a sudden, as after a rewind or a compaction."""
    scales, messages = Scales(), tuple[Message, ...]()
    for number, request in enumerate(requests):
        messages = request.messages if number == compacted else (*messages, *request.messages)
        asked = replace(request, messages=messages)
        assert scales.weigh("s", asked) == weigh(asked)


class Counting(Played):
    """Says what it is told to, uses all of the output it may, and counts a token for every byte."""

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        most = request.max_output_tokens
        usage = Usage(input_tokens=sent_bytes(request), output_tokens=most)
        self.lines.insert(0, Say(text="Done.", usage=usage))
        async for event in super().stream(request):
            yield event


@settings(max_examples=15, deadline=None)
@given(
    limit=st.integers(4_000, 60_000),
    prompts=st.lists(st.sampled_from(["hi", "é" * 300, "12;" * 900]), min_size=2, max_size=8),
    is_of_user=st.booleans(),
)
def test_calls_side_by_side_never_spend_more_than_the_limit(
    limit: int, prompts: list[str], is_of_user: bool
) -> None:
    async def play(root: Path) -> None:
        model = Counting(ref=PAID)
        async with kept(root, models=OneModel(model)) as (stage, ledger):
            budgets = Budgets(ledger.database)
            tokens = Limits(tokens=None if is_of_user else limit)
            if is_of_user:
                whole = Limit(measure=Measure.TOKENS, period=Period.TOTAL, amount=limit)
                await budgets.set_limit(user_scope("local"), whole)
            asked = [await stage.session(budget=tokens) for _ in prompts]
            answers = await asyncio.gather(
                *(
                    stage.engine.generate(session.id, prompt, intent="chat")
                    for session, prompt in zip(asked, prompts, strict=True)
                )
            )
            assert {answer.end for answer in answers} <= {"done", "budget-spent"}
            scopes = [user_scope("local")] if is_of_user else [session_scope(s.id) for s in asked]
            for scope in scopes:
                sums = await budgets.spent(scope)
                assert sums.spent.tokens <= limit
                assert sums.reserved.tokens == 0, "what was not needed is given back"
            if not is_of_user:
                done = [one for one in answers if one.end == "done"]
                assert len(done) == len(model.asked)

    with tempfile.TemporaryDirectory() as root:
        run(play(Path(root)))


class Watching(NoPurse):
    """Keeps what was set aside."""

    def __init__(self) -> None:
        self.spends: list[Spend] = []

    async def reserve(self, spend: Spend) -> Hold:
        self.spends.append(spend)
        return await super().reserve(spend)


def test_what_goes_over_the_wire_is_within_what_was_set_aside(tmp_path: Path) -> None:
    uses = (Use(name="bash", arguments={"command": "echo 'é\\n\"quoted\"'"}),)

    async def play(server: ProviderServer, flavour: str) -> None:
        environment = {**server.environment(flavour), "CRUCIBLE_CONFIG": "/dev/null"}
        models, purse = Registry(load_settings(environment)), Watching()
        async with scene(tmp_path / flavour, models=models, purse=purse) as stage:
            session = await stage.session(models={"agent": f"{flavour}:test-model"})
            answer = await stage.engine.generate(session.id, "run it — 東京, please")
            assert answer.end == "done", answer
        await models.close()
        asked = [one for one in server.requests if one.flavour == flavour]
        first, second = [one for spend in purse.spends for one in spend.models]
        assert _strings(asked[0].body) <= first.input_tokens
        # Of the second call, only what is new is bounded by bytes: the first was counted as 120 tokens.
        assert second.input_tokens < first.input_tokens
        fresh = asked[1].body["messages"][len(asked[0].body["messages"]) :]
        assert 120 + _strings(fresh) <= second.input_tokens
        assert all(one.body["max_tokens"] <= first.output_tokens for one in asked)

    with ProviderServer() as server:
        for flavour in ("anthropic", "together"):
            server.clear()
            server.script([Turn(text="I run it.", uses=uses), Turn(text="It said so.")])
            run(play(server, flavour))


def _strings(value: Any) -> int:
    """The bytes of all texts in it, and of the names of a schema."""
    return sum(len(text.encode()) for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for one in value:
                yield from _texts(one)
        case dict():
            for name, one in value.items():
                yield name
                yield from _texts(one)


def test_a_call_that_is_left_counts_at_its_worst(tmp_path: Path) -> None:
    async def play() -> None:
        held = asyncio.Event()
        model = Played(Say(text="many words of an answer", amid=held), ref=PAID)
        async with kept(tmp_path, models=OneModel(model)) as (stage, ledger):
            session = await stage.session(budget=Limits(tokens=100_000))
            turn = await stage.engine.begin(session.id, "hello", intent="chat")
            async for event in stage.engine.events(session.id):
                if event.kind == "text" and event.data["text"] == "answer":
                    break
            await stage.engine.cancel(session.id)
            assert (await turn.wait()).end == "cancelled"
            sums = await Budgets(ledger.database).spent(session_scope(session.id))
            (asked,) = model.asked
            assert sums.spent.tokens == worst_case(weigh(asked)) + asked.max_output_tokens
            assert sums.reserved.tokens == 0

    run(play())


def test_no_more_is_set_aside_than_a_model_can_read(tmp_path: Path) -> None:
    prices, known = Prices(), ModelRef(provider="anthropic", name="claude-sonnet-4-5")
    window = prices.context_window(known.provider, known.name)
    assert window is not None

    async def play() -> None:
        database = Database(f"sqlite:///{tmp_path / 'crucible.db'}")
        budgets = Budgets(database)
        purse = BudgetPurse(budgets, prices)
        most = MostOf(model=known, input_tokens=10 * window, output_tokens=10)
        limits = Limits(tokens=window + 10)
        await purse.reserve(Spend(session="ses-1", user="ana", limits=limits, models=(most,)))
        sums = await budgets.spent(session_scope("ses-1"))
        assert sums.reserved.tokens == window + 10
        database.close()

    run(play())


def test_the_unused_part_is_given_back_before_the_next_call(tmp_path: Path) -> None:
    """Two calls of which each fits only while the other's surplus is not held."""

    async def play() -> None:
        lines = (
            Say(
                calls=(call("bash", command="echo x"),),
                usage=Usage(input_tokens=50, output_tokens=5),
            ),
            Say(text="Done.", usage=Usage(input_tokens=60, output_tokens=5)),
        )
        model = Played(*lines, ref=PAID)
        async with kept(tmp_path, models=OneModel(model)) as (stage, ledger):
            probe = await stage.session()
            await stage.engine.generate(probe.id, "run it")
            most = worst_case(weigh(model.asked[0])) + model.asked[0].max_output_tokens
            model.lines = list(lines)
            session = await stage.session(budget=Limits(tokens=most + 60))
            assert (await stage.engine.generate(session.id, "run it")).end == "done"
            sums = await Budgets(ledger.database).spent(session_scope(session.id))
            assert (sums.spent.tokens, sums.reserved.tokens) == (120, 0)

    run(play())
