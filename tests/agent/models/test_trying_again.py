"""Retries and fallbacks, with a clock and with chance of the tests' own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.models.asking import ask, ask_for, end_of, gather, make_registry, ref, text_of
from tests.conftest import Run
from tests.providers.server import ProviderServer
from tests.providers.turns import Turn

from crucible.agent.models.base import Model, ModelEvent, ModelRef, Retrying, ToolSpec
from crucible.agent.models.fallback import ModelWithFallback
from crucible.agent.models.persistent import Patience, Persistent
from crucible.agent.models.registry import Registry
from crucible.agent.models.scripted import Reply, Script, ScriptedModel
from crucible.errors import (
    BadAnswer,
    ModelOverloaded,
    ModelRefused,
    QuotaSpent,
    RateLimited,
    WrongKey,
)


class _Clock:
    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def _persistent(model: Model, clock: _Clock, patience: Patience | None = None) -> Persistent:
    return Persistent(model, patience or Patience(), sleep=clock.sleep, draw=lambda: 1.0)


def _scripted(*replies: Reply, name: str = "a") -> ScriptedModel:
    return ScriptedModel(list(replies), ref=ModelRef(provider="scripted", name=name))


def test_what_passes_is_tried_again_with_growing_waits(run: Run) -> None:
    clock = _Clock()
    faults = ("overloaded", "unreachable", "timed-out")
    model = _persistent(_scripted(Reply(text="at last", faults=faults)), clock)
    events = run(gather(model, ask_for("a")))
    assert text_of(events) == "at last"
    assert clock.slept == [0.5, 1.0, 2.0]
    told = [event for event in events if isinstance(event, Retrying)]
    assert [(one.attempt, one.delay_s) for one in told] == [(1, 0.5), (2, 1.0), (3, 2.0)]
    assert "overloaded" in told[0].reason


def test_after_the_last_try_the_error_is_the_callers(run: Run) -> None:
    clock = _Clock()
    model = _persistent(_scripted(Reply(faults=("overloaded",) * 9)), clock)
    with pytest.raises(ModelOverloaded):
        run(gather(model, ask_for("a")))
    assert len(clock.slept) == Patience().tries - 1


@pytest.mark.parametrize("fault", ["wrong-key", "context-too-long", "refused"])
def test_what_does_not_pass_is_not_tried_again(run: Run, fault: str) -> None:
    clock = _Clock()
    with pytest.raises((WrongKey, ModelRefused, Exception)):
        run(gather(_persistent(_scripted(Reply(faults=(fault,))), clock), ask_for("a")))
    assert clock.slept == []


def test_what_was_told_is_never_told_twice(run: Run) -> None:
    clock = _Clock()
    model = _persistent(_scripted(Reply(text="half of it", cut="bad-answer")), clock)
    with pytest.raises(BadAnswer):
        run(gather(model, ask_for("a")))
    assert clock.slept == []


@given(
    failed=st.integers(1, 50),
    asked=st.floats(0, 60),
    drawn=st.floats(0, 1, exclude_max=True),
)
def test_a_wait_is_as_long_as_asked_and_never_longer_than_bounded(
    failed: int, asked: float, drawn: float
) -> None:
    patience = Patience(tries=100)
    wait_s = patience.wait_s(failed, RateLimited("x", retry_after_s=asked), drawn)
    assert wait_s is not None
    assert asked <= wait_s <= asked + patience.most_wait_s


def test_who_asks_for_a_very_long_wait_is_not_asked_again() -> None:
    patience = Patience()
    assert patience.wait_s(1, RateLimited("x", retry_after_s=3600), 0.0) is None
    assert patience.wait_s(1, QuotaSpent("x"), 0.0) is None


@pytest.mark.parametrize("flavour", ["anthropic", "openai"])
@pytest.mark.parametrize(
    "retry_after, asked", [("7", 7), ("0", 0), ("-3", 0), ("soon", 0), ("", 0)]
)
def test_providers_say_when_to_come_again(
    server: ProviderServer, run: Run, flavour: str, retry_after: str, asked: float
) -> None:
    clock = _Clock()
    server.script([Turn(fault="rate-limited", retry_after=retry_after), Turn(text="now")])

    async def ask_again() -> Sequence[ModelEvent]:
        registry = make_registry(server, patience=Patience(), clock=clock)
        try:
            return await gather(registry.model(ref(flavour)), ask_for("a"))
        finally:
            await registry.close()

    assert text_of(list(run(ask_again()))) == "now"
    # Half a second is our own, drawn in full.
    assert clock.slept == [asked + 0.5]


@pytest.mark.parametrize("flavour", ["anthropic", "openai"])
def test_they_may_say_it_as_a_date(server: ProviderServer, run: Run, flavour: str) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    said = format_datetime(tomorrow, usegmt=True)
    server.script([Turn(fault="rate-limited", retry_after=said)])
    with pytest.raises(RateLimited) as raised:
        run(ask(server, flavour, ask_for("a"), patience=Patience()))
    assert 3600 < raised.value.retry_after_s <= 24 * 3600
    assert len(server.requests) == 1


def test_the_next_model_is_asked_when_one_cannot_answer_now(run: Run) -> None:
    clock = _Clock()
    first = _persistent(_scripted(Reply(faults=("overloaded",) * 9), name="first"), clock)
    model = ModelWithFallback(first, [_scripted(Reply(text="I can"), name="second")])
    events = run(gather(model, ask_for("a")))
    assert text_of(events) == "I can"
    assert end_of(events).model.name == "second"
    told = [event for event in events if isinstance(event, Retrying) and event.model]
    assert [str(one.model) for one in told] == ["scripted:second"]
    assert str(model.ref) == "scripted:first"


@pytest.mark.parametrize(
    "reply", [Reply(faults=("wrong-key",)), Reply(text="half", cut="overloaded")]
)
def test_no_other_model_is_asked_what_is_wrong_or_half_told(run: Run, reply: Reply) -> None:
    model = ModelWithFallback(_scripted(reply), [_scripted(Reply(text="never"))])
    with pytest.raises((WrongKey, ModelOverloaded)):
        run(gather(model, ask_for("a")))


def test_a_model_without_tools_is_not_asked_to_use_them(run: Run) -> None:
    weak = ScriptedModel(Script(replies=(Reply(text="weak"),), calls_tools=False))
    model = ModelWithFallback(_scripted(Reply(faults=("overloaded",))), [weak])
    tool = ToolSpec(name="bash", description="", parameters={"type": "object"})
    with pytest.raises(ModelOverloaded):
        run(gather(model, ask_for("a", tools=(tool,))))
    assert text_of(run(gather(model, ask_for("a")))) == "weak"


def test_a_fallback_from_settings_reaches_another_provider(
    server: ProviderServer, run: Run
) -> None:
    server.script([Turn(fault="overloaded"), Turn(text="from the other")])

    async def ask_both() -> tuple[list[ModelEvent], Registry]:
        registry = make_registry(server, LLM_FALLBACK="openai:gpt-4o")
        try:
            return await gather(registry.model(ref("anthropic")), ask_for("a")), registry
        finally:
            await registry.close()

    events, _ = run(ask_both())
    assert text_of(events) == "from the other"
    assert end_of(events).model.provider == "openai"
    assert [request.flavour for request in server.requests] == ["anthropic", "openai"]
