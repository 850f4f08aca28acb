"""What goes wrong with providers: by kind, in each one's own format, and never with a key in it."""

from __future__ import annotations

import asyncio
import traceback
from contextlib import aclosing
from dataclasses import replace

import pytest
from tests.agent.models.asking import (
    FLAVOURS,
    NO_PATIENCE,
    ask,
    ask_for,
    end_of,
    make_registry,
    ref,
    text_of,
)
from tests.conftest import Run
from tests.providers.server import ProviderServer
from tests.providers.turns import Fault, Turn

from crucible.agent.models.access import Waits
from crucible.agent.models.registry import Registry
from crucible.agent.models.settings import load_settings
from crucible.errors import (
    BadAnswer,
    ContextTooLong,
    ModelError,
    ModelOverloaded,
    ModelRefused,
    ModelTimedOut,
    ModelUnreachable,
    QuotaSpent,
    RateLimited,
    UnknownModel,
    WrongKey,
)

_KINDS: dict[Fault, type[ModelError]] = {
    "wrong-key": WrongKey,
    "unknown-model": UnknownModel,
    "rate-limited": RateLimited,
    "quota": QuotaSpent,
    "refused": ModelRefused,
    "context-too-long": ContextTooLong,
    "too-large": ContextTooLong,
    "server-error": ModelOverloaded,
    "overloaded": ModelOverloaded,
    "html": BadAnswer,
    "cut": BadAnswer,
    "cut-early": BadAnswer,
    "malformed-json": BadAnswer,
}


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("fault", _KINDS)
def test_each_fault_has_its_kind(
    server: ProviderServer, run: Run, flavour: str, fault: Fault
) -> None:
    if flavour == "ollama" and fault == "quota":
        # It runs on one's own machine.
        return
    server.script([Turn(text="never heard in full", fault=fault)])
    with pytest.raises(_KINDS[fault]) as raised:
        run(ask(server, flavour, ask_for("a")))
    assert type(raised.value) is _KINDS[fault]
    assert raised.value.message
    _has_no_key(raised.value, server.key)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_an_error_within_the_stream_is_one(server: ProviderServer, run: Run, flavour: str) -> None:
    server.script([Turn(text="so far so good", fault="error-within")])
    with pytest.raises((ModelOverloaded, BadAnswer)):
        run(ask(server, flavour, ask_for("a")))


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_noise_between_events_does_not_spoil_the_answer(
    server: ProviderServer, run: Run, flavour: str
) -> None:
    """Bytes that are no text at all are an error; nothing else may come of them."""
    server.script([Turn(text="as before", fault="malformed-events")])
    try:
        events = run(ask(server, flavour, ask_for("a")))
    except BadAnswer:
        return
    assert text_of(events) == "as before"


@pytest.mark.parametrize("flavour", ["anthropic", "openai"])
def test_slow_bytes_are_waited_for(server: ProviderServer, run: Run, flavour: str) -> None:
    server.script([Turn(text="in time", fault="slow")])
    assert text_of(run(ask(server, flavour, ask_for("a")))) == "in time"


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_no_key_is_ever_told_even_when_the_provider_tells_it(
    server: ProviderServer, run: Run, flavour: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.script([Turn(fault="echo-key")])
    with caplog.at_level("DEBUG"), pytest.raises(WrongKey) as raised:
        run(ask(server, flavour, ask_for("a")))
    _has_no_key(raised.value, server.key)
    assert server.key not in caplog.text


def test_no_key_is_in_what_settings_and_models_look_like(server: ProviderServer) -> None:
    settings = load_settings(server.environment())
    registry = Registry(settings)
    seen = [repr(settings), repr(registry), repr(settings.access(ref("openai")))]
    seen += [repr(vars(registry)), repr(registry.model(ref("openai")))]
    assert all(server.key not in text for text in seen)


def test_a_key_is_not_sent_after_a_redirect(server: ProviderServer, run: Run) -> None:
    server.script([Turn(fault="redirect")])
    with pytest.raises(ModelError):
        run(ask(server, "openai", ask_for("a")))
    assert len(server.requests) == 1


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_provider_that_is_not_there_is_unreachable(
    server: ProviderServer, run: Run, flavour: str
) -> None:
    settings = load_settings(server.environment())
    nowhere = replace(settings, addresses={flavour: "http://127.0.0.1:9"})

    async def try_it() -> None:
        registry = Registry(nowhere, patience=NO_PATIENCE)
        try:
            async for _ in registry.model(ref(flavour)).stream(ask_for("a")):
                pass
        finally:
            await registry.close()

    with pytest.raises(ModelUnreachable) as raised:
        run(try_it())
    _has_no_key(raised.value, server.key)


_SHORT = 0.3


@pytest.mark.parametrize("flavour", ["anthropic", "openai"])
@pytest.mark.parametrize(
    "fault, waits",
    [
        ("silent", Waits(first_byte_s=_SHORT)),
        ("stalled", Waits(between_bytes_s=_SHORT)),
        ("endless", Waits(whole_s=_SHORT)),
    ],
)
def test_no_wait_is_without_end(
    server: ProviderServer, run: Run, flavour: str, fault: Fault, waits: Waits
) -> None:
    server.script([Turn(text="a text of some length", fault=fault)])
    with pytest.raises(ModelTimedOut):
        run(ask(server, flavour, ask_for("a"), waits=waits))
    # On a busy host the request may not even have been sent in time.
    assert server.wait_for(lambda seen: seen.gone == len(seen.requests))


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_who_leaves_ends_the_call_at_the_provider(
    server: ProviderServer, run: Run, flavour: str
) -> None:
    server.script([Turn(text="a text of some length", fault="endless")])

    async def leave() -> None:
        registry = make_registry(server)
        stream = registry.model(ref(flavour)).stream(ask_for("a"))
        async with aclosing(stream) as events:  # type: ignore[type-var]
            await anext(events)
        # What is closed is the call, not all connections with the registry.
        assert await asyncio.to_thread(server.wait_for, lambda seen: seen.gone == 1)
        await registry.close()

    run(leave())


@pytest.mark.parametrize("fault", ["endless", "silent"])
def test_cancelling_a_task_ends_its_call(server: ProviderServer, run: Run, fault: Fault) -> None:
    server.script([Turn(text="a text of some length", fault=fault)])

    async def cancel() -> None:
        registry = make_registry(server)
        request = ask_for("a")

        async def listen() -> None:
            async for _ in registry.model(ref("anthropic")).stream(request):
                pass

        task = asyncio.create_task(listen())
        assert await asyncio.to_thread(server.wait_for, lambda seen: bool(seen.requests))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.wait_for, lambda seen: seen.gone == 1)
        await registry.close()

    run(cancel())


def test_the_event_loop_goes_on_while_the_libraries_load(server: ProviderServer, run: Run) -> None:
    server.script([Turn(text="x")])

    async def watch() -> int:
        turns = 0
        task = asyncio.create_task(ask(server, "openai", ask_for("a")))
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        end_of(await task)
        return turns

    assert run(watch()) > 10


def _has_no_key(error: BaseException, key: str) -> None:
    shown = "".join(traceback.format_exception(error))
    hint = getattr(error, "hint", "")
    assert key not in shown + repr(error) + hint
    seen: BaseException | None = error
    while seen is not None:
        assert key not in str(seen)
        seen = seen.__cause__ or seen.__context__
