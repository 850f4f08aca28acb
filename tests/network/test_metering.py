"""Budgets bind programs in the machine: the providers' own libraries, through the real gateway, to one played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import groq
import openai
import pytest
from tests.network.metered import KEY, Metered, endpoint, metered, until

from crucible.accounts.amounts import Measure
from crucible.accounts.periods import Period
from crucible.accounts.plans import Limit
from crucible.accounts.scopes import plan_scope, session_scope, user_scope
from crucible.agent.options import SessionOptions
from crucible.agent.places.wishes import charges_of, wanted_of

pytestmark = pytest.mark.usefixtures("run")

SONNET = "claude-sonnet-4-6"
HELLO: Any = [{"role": "user", "content": "hello"}]


@asynccontextmanager
async def claude(found: Metered) -> AsyncIterator[anthropic.AsyncAnthropic]:
    host = {"Host": "anthropic.crucible.internal"}
    async with (
        endpoint(found, "anthropic") as url,
        anthropic.AsyncAnthropic(base_url=url, api_key="placeholder", default_headers=host) as made,
    ):
        yield made


@asynccontextmanager
async def gpt(found: Metered, provider: str = "openai") -> AsyncIterator[openai.AsyncOpenAI]:
    host = {"Host": f"{provider}.crucible.internal"}
    async with (
        endpoint(found, provider) as url,
        openai.AsyncOpenAI(
            base_url=f"{url}/v1", api_key="placeholder", default_headers=host
        ) as made,
    ):
        yield made


async def say(client: anthropic.AsyncAnthropic, **more: Any) -> Any:
    return await client.messages.create(
        **{"model": SONNET, "max_tokens": 50, "messages": HELLO} | more
    )


async def test_a_library_is_counted_and_then_refused_in_its_providers_words(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=2500) as found:
        found.server.cached = 30
        async with claude(found) as client:
            for _ in range(3):
                answer = await say(client)
                assert answer.content[0].text == "hello"
            with pytest.raises(anthropic.APIStatusError) as caught:
                await say(client)
        assert caught.value.status_code == 402
        body: Any = caught.value.body
        assert body["error"]["type"] == "billing_error"
        assert "360 tokens of 2,500 tokens are spent" in body["error"]["message"]
        # The library did not try again, and what was refused was not sent.
        assert found.count == 3
        assert await found.tokens() == 360
        event = await found.world.event()
        assert (event.outcome, event.rule) == ("denied", "budget")
        assert KEY in found.server.calls[0].head
        assert "accept-encoding: identity" in found.server.calls[0].head.lower()


async def test_a_stream_is_counted_by_what_it_says_at_its_end(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=10_000) as found, claude(found) as client:
        async with client.messages.stream(model=SONNET, max_tokens=50, messages=HELLO) as stream:
            assert await stream.get_final_text() == "hello"
        assert (await found.budgets.spent("sandbox:box")).spent.tokens == 120


async def test_a_budget_of_usd_is_spent_at_the_models_price(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, usd=30_000) as found:
        async with claude(found) as client:
            await say(client)
            with pytest.raises(anthropic.PermissionDeniedError, match="price of anthropic:nosuch"):
                await say(client, model="nosuch")
        # 100 tokens at 3 USD and 20 at 15 USD a million.
        assert (await found.spent()).spent.usd == 600
        assert found.count == 1


async def test_a_price_of_the_users_own_lets_an_unknown_model_through(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, usd=9000, prices="anthropic:mine=1/2") as found:
        async with claude(found) as client:
            await say(client, model="mine")
        assert (await found.spent()).spent.usd == 140


async def test_chat_streams_are_asked_for_usage_that_the_program_does_not_see(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=80_000) as found, gpt(found) as client:
        stream = await client.chat.completions.create(model="gpt-4o", messages=HELLO, stream=True)
        chunks = [chunk async for chunk in stream]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "hello"
        sent = found.server.calls[0].document
        assert sent["stream_options"] == {"include_usage": True}
        assert sent["max_completion_tokens"] == 16_384
        asking: Any = {"include_usage": True}
        stream = await client.chat.completions.create(
            model="gpt-4o", messages=HELLO, stream=True, stream_options=asking
        )
        last = [chunk async for chunk in stream][-1]
        assert last.usage is not None
        assert last.usage.prompt_tokens == 100
        assert (await found.budgets.spent("sandbox:box")).spent.tokens == 240


@pytest.mark.parametrize("streams", [False, True])
async def test_responses_are_counted(sqlite_template: Path, tmp_path: Path, streams: bool) -> None:
    async with metered(sqlite_template, tmp_path, usd=10_000_000) as found, gpt(found) as client:
        made: Any = await client.responses.create(model="gpt-4o", input="hello", stream=streams)
        if streams:
            made = [event async for event in made][-1].response
        assert made.output_text == "hello"
        assert found.server.calls[0].document["max_output_tokens"] == 32_768
        assert (await found.budgets.spent("sandbox:box")).spent.usd == 450


async def test_openais_library_says_that_the_quota_is_used_up_and_does_not_insist(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=10_000) as found, gpt(found) as client:
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model="gpt-4o", messages=HELLO)
        assert caught.value.code == "insufficient_quota"
        assert found.count == 0
        assert len(found.world.events) == 1


async def test_groqs_library_is_counted_and_refused(sqlite_template: Path, tmp_path: Path) -> None:
    async with metered(sqlite_template, tmp_path, tokens=20_000) as found:
        host = {"Host": "groq.crucible.internal"}
        async with (
            endpoint(found, "groq") as url,
            groq.AsyncGroq(base_url=url, api_key="placeholder", default_headers=host) as client,
        ):
            made = await client.chat.completions.create(
                model="llama-3.3-70b-versatile", messages=HELLO, max_tokens=50
            )
            assert made.choices[0].message.content == "hello"
            with pytest.raises(groq.RateLimitError):
                await client.chat.completions.create(
                    model="llama-3.3-70b-versatile", messages=HELLO, max_tokens=50_000
                )
        assert await found.tokens() == 120


@pytest.mark.parametrize("provider", ["mistral", "openrouter"])
async def test_providers_with_openais_format_are_counted(
    sqlite_template: Path, tmp_path: Path, provider: str
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=20_000) as found:
        bases = {"openrouter": "/api/v1"}
        async with (
            endpoint(found, provider) as url,
            openai.AsyncOpenAI(
                base_url=url + bases.get(provider, "/v1"),
                api_key="placeholder",
                default_headers={"Host": f"{provider}.crucible.internal"},
            ) as client,
        ):
            await client.chat.completions.create(model="some/model", messages=HELLO)
        assert found.server.calls[0].document["max_tokens"] == 16_384
        assert await found.tokens() == 120


async def test_calls_at_once_do_not_race_past_the_limit(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=7000) as found:
        found.server.waiting = asyncio.Event()
        async with claude(found) as client:
            calls = [asyncio.create_task(say(client)) for _ in range(8)]
            await until(lambda: sum(task.done() for task in calls) == 5)
            found.server.waiting.set()
            results = await asyncio.gather(*calls, return_exceptions=True)
        refused = [one for one in results if isinstance(one, anthropic.APIStatusError)]
        assert (len(refused), found.count) == (5, 3)
        assert await found.tokens() == 360


async def test_a_stream_that_is_cut_counts_in_full(sqlite_template: Path, tmp_path: Path) -> None:
    async with metered(sqlite_template, tmp_path, tokens=10_000) as found:
        found.server.fault = "cut"
        async with claude(found) as client:
            with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the library makes of it
                async with client.messages.stream(
                    model=SONNET, max_tokens=50, messages=HELLO
                ) as stream:
                    await stream.get_final_text()
        assert await found.tokens() > 2000


async def test_a_program_that_leaves_in_the_middle_pays_in_full(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=10_000) as found:
        found.server.waiting = asyncio.Event()
        async with claude(found) as client:
            task = asyncio.create_task(say(client))
            await until(lambda: bool(found.count))
            sums = await found.budgets.spent("sandbox:box")
            assert sums.reserved.tokens > 2000
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        found.server.fault = "silent"
        found.server.waiting.set()
        assert await found.tokens() > 2000


async def test_an_error_of_the_provider_costs_nothing_and_reaches_the_program(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=10_000) as found:
        found.server.fault = "status"
        async with claude(found) as client:
            for status in (400, 429, 500, 529):
                found.server.status = status
                with pytest.raises(anthropic.APIStatusError) as caught:
                    await say(client.with_options(max_retries=0))
                assert caught.value.status_code == status
        sums = await found.spent()
        assert (sums.spent.tokens, sums.reserved.tokens) == (0, 0)


IMPOSSIBLE: list[dict[str, Any]] = [
    {"input_tokens": -5, "output_tokens": 20},
    {"input_tokens": 5, "output_tokens": -20},
    {"input_tokens": 10**12, "output_tokens": 1},
    {"input_tokens": 1.5, "output_tokens": 1},
    {"input_tokens": True, "output_tokens": 1},
    {"input_tokens": "5", "output_tokens": 1},
    {"output_tokens": 1},
    {},
]


async def test_counts_that_cannot_be_are_not_believed(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=100_000) as found:
        async with claude(found) as client:
            for usage in IMPOSSIBLE:
                found.server.usage = usage
                await client.messages.with_raw_response.create(
                    model=SONNET, max_tokens=50, messages=HELLO
                )
        sums = await found.spent()
        assert sums.spent.tokens > 2000 * len(IMPOSSIBLE)


async def test_more_than_the_worst_case_is_counted_as_it_is_and_flagged(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=10_000) as found:
        found.server.input_tokens = 50_000
        async with claude(found) as client:
            await say(client)
            with pytest.raises(anthropic.APIStatusError):
                await say(client)
        sums = await found.spent()
        assert (sums.spent.tokens, sums.overshoots) == (50_020, 1)


async def test_an_answer_that_hides_its_usage_counts_in_full(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=10_000) as found:
        found.server.fault = "gzip"
        async with claude(found) as client:
            with pytest.raises(Exception):  # noqa: B017, PT011 - it is no gzip, which the library may call as it likes
                await say(client.with_options(max_retries=0))
        assert await found.tokens() > 2000


async def test_a_provider_that_ends_its_connection_is_reached_anew(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=10_000) as found:
        found.server.fault = "close"
        async with claude(found) as client:
            for _ in range(3):
                await say(client.with_options(max_retries=2))
        assert found.count == 3
        assert await found.tokens() == 360


async def test_the_list_of_models_is_free(sqlite_template: Path, tmp_path: Path) -> None:
    async with metered(sqlite_template, tmp_path, tokens=1) as found, gpt(found) as client:
        assert [model async for model in client.models.list()] == []
        assert (await found.budgets.spent("sandbox:box")).spent.calls == 0


OF_SESSION = SessionOptions(user="ada")
SESSION = wanted_of(OF_SESSION, charges_of("ses-1", OF_SESSION)).spec


async def test_a_plan_alone_binds_programs_in_a_sessions_sandbox(
    sqlite_template: Path, tmp_path: Path
) -> None:
    """Neither the sandbox nor the session has a budget; the user has a plan with a limit for each session."""
    async with metered(sqlite_template, tmp_path, of=SESSION) as found:
        await found.users.add("ada", plan="free")
        least = Limit(measure=Measure.TOKENS, period=Period.SESSION, amount=2400)
        await found.budgets.set_limit(plan_scope("free"), least)
        async with claude(found) as client:
            for _ in range(2):
                await say(client)
            with pytest.raises(anthropic.APIStatusError) as caught:
                await say(client)
        body: Any = caught.value.body
        assert (caught.value.status_code, body["error"]["type"]) == (402, "billing_error")
        assert "2,400 tokens" in body["error"]["message"]
        assert found.count == 2
        await until(lambda: not found.world.gateway.open_connections)
        for scope in (session_scope("ses-1"), user_scope("ada")):
            assert (await found.budgets.spent(scope)).spent.tokens == 240, scope
        # Of another provider, in that one's words.
        async with gpt(found) as other:
            with pytest.raises(openai.RateLimitError) as refused:
                await other.chat.completions.create(model="gpt-4o", messages=HELLO)
        assert refused.value.code == "insufficient_quota"


async def test_without_any_limit_a_sessions_sandbox_is_not_counted_until_there_is_one(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, of=SESSION) as found:
        await found.users.add("ada")
        async with claude(found) as client:
            await say(client)
        # What could not be counted is let through, since nobody limits it.
        async with gpt(found) as other:
            await other.images.generate(model="dall-e-3", prompt="x")
        assert found.count == 2
        await found.users.give_plan("ada", "free")
        async with gpt(found) as other:
            with pytest.raises(openai.PermissionDeniedError) as caught:
                await other.images.generate(model="dall-e-3", prompt="x")
        assert caught.value.code == "not_allowed_under_budget"
        assert (await found.budgets.spent(user_scope("ada"))).spent.tokens == 0
