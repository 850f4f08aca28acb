"""Ways around a budget that a program in the machine may try: each is refused, and nothing of it is passed on."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.network.authority import root_text
from tests.network.metered import ADDRESS, AUTHORITY, SCOPE, Metered, metered
from tests.network.world import close, exchange

from crucible.network.metering import NotMetered, Usage
from crucible.network.metering_requests import MAX_BODY, Asked, Route, read_request, route_of
from crucible.network.metering_usage import reader_for
from crucible.network.providers import provider_of, providers

pytestmark = pytest.mark.usefixtures("run")

CALL: dict[str, Any] = {
    "model": "claude-sonnet-4-6",
    "max_tokens": 50,
    "messages": [{"role": "user", "content": "hello"}],
}
CHAT: dict[str, Any] = {"model": "gpt-4o", "messages": CALL["messages"], "max_tokens": 50}


def request(
    body: bytes | dict[str, Any],
    path: str = "/v1/messages",
    host: str = "anthropic",
    *,
    extra: str = "",
) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {host}.crucible.internal\r\n{extra}Content-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


async def ask(found: Metered, data: bytes, provider: str = "anthropic") -> bytes:
    return await exchange(found.world, f"{provider}.crucible.internal", 80, data)


def read(host: str, path: str, body: bytes) -> Asked:
    provider = provider_of(host)
    assert provider is not None
    return read_request(provider, route_of(provider, "POST", path), path, body)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


REFUSED_PATHS = [
    ("anthropic", "POST", "/v1/messages/batches"),
    ("anthropic", "POST", "/v1/complete"),
    ("anthropic", "POST", "/v1/messages/"),
    ("anthropic", "POST", "/v1//messages"),
    ("anthropic", "POST", "/v1/x/../messages"),
    ("anthropic", "POST", "/v1/%6dessages"),
    ("anthropic", "POST", "/V1/messages"),
    ("anthropic", "PUT", "/v1/messages"),
    ("anthropic", "GET", "/v1/messages/batches/x/results"),
    ("anthropic", "POST", "/v1/files"),
    ("anthropic", "POST", "/v1/models"),
    ("openai", "POST", "/v1/batches"),
    ("openai", "POST", "/v1/files"),
    ("openai", "POST", "/v1/fine_tuning/jobs"),
    ("openai", "POST", "/v1/threads/runs"),
    ("openai", "POST", "/v1/images/generations"),
    ("openai", "POST", "/v1/audio/speech"),
    ("openai", "POST", "/v1/completions"),
    ("openai", "GET", "/v1/realtime"),
    ("openai", "GET", "/v1/responses"),
    ("openai", "GET", "/v1/models/../batches"),
    ("openai", "DELETE", "/v1/models/x"),
    ("cohere", "POST", "/v2/chat"),
    ("cohere", "POST", "/v1/chat/completions"),
    ("gemini", "POST", "/v1beta/models/x:batchGenerateContent"),
    ("gemini", "POST", "/v1beta/cachedContents"),
    ("gemini", "POST", "/upload/v1beta/files"),
    ("groq", "POST", "/v1/chat/completions"),
]


@pytest.mark.parametrize("provider,method,path", REFUSED_PATHS)
def test_what_is_not_counted_has_no_way(provider: str, method: str, path: str) -> None:
    with pytest.raises(NotMetered) as caught:
        route_of(next(one for one in providers() if one.name == provider), method, path)
    assert caught.value.refusal.kind == "unmetered"


async def test_what_is_not_counted_is_refused_in_the_providers_words(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=100_000) as found:
        answer = await ask(found, request(CALL, "/v1/messages/batches"))
        assert status(answer) == 403
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "permission_error"
        answer = await ask(found, request(CHAT, "/v1/batches", "openai"), "openai")
        assert status(answer) == 403
        error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert error["code"] == "not_allowed_under_budget"
        assert found.count == 0


COSTLY = [
    {"mcp_servers": [{"type": "url", "url": "https://x.example"}]},
    {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    {"tools": [{"type": "code_execution_20250825", "name": "x"}]},
    {"fallbacks": [{"model": "claude-opus-4-8"}]},
    {"speed": "fast"},
    {"inference_geo": "us"},
    {"container": "c"},
    {"context_management": {"edits": [{"type": "compact_20260112"}]}},
    {"something_new": 1},
]


@pytest.mark.parametrize("more", COSTLY)
def test_what_costs_more_than_its_tokens_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(NotMetered) as caught:
        read("api.anthropic.com", "/v1/messages", json.dumps(CALL | more).encode())
    assert caught.value.refusal.kind == "unmetered"


OPENAI_COSTLY = [
    {"service_tier": "priority"},
    {"web_search_options": {}},
    {"modalities": ["text", "audio"]},
    {"models": ["openai/gpt-5"]},
    {"plugins": [{"id": "web"}]},
    {"tools": [{"type": "web_search_preview"}]},
    {"model": "gpt-4o-search-preview"},
    {"model": "x:online"},
    {"background": True},
    {"prompt": {"id": "p"}},
]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
@pytest.mark.parametrize("more", OPENAI_COSTLY)
def test_what_costs_more_than_its_tokens_is_refused_in_openais_format(
    more: dict[str, Any], path: str
) -> None:
    body = {"model": "gpt-4o", "input": "x"} if "responses" in path else CHAT
    with pytest.raises(NotMetered) as caught:
        read("api.openai.com", path, json.dumps(body | more).encode())
    assert caught.value.refusal.kind == "unmetered"


UNCLEAR = [
    b"", b"{", b"[]", b"null", b"\xff\xfe{}", b"\xef\xbb\xbf{}", b'{"model":"m","model":"n"}',
    b'{"model":"m","Model":"n","max_tokens":5,"messages":[]}',
    b'{"model":"m","max_tokens":5,"MAX_TOKENS":90000,"messages":[]}',
    b'{"model":"m","max_tokens":NaN}', b'{"model":"m","max_tokens":1e400}', b'{"model":"m","max_tokens":-5}',
    b'{"model":"m","max_tokens":true}', b'{"model":"m","max_tokens":"5"}', b'{"model":"m","max_tokens":5.5}',
    b'{"model":"m","max_tokens":99999999}', b'{"model":"m"}', b'{"model":["m"],"max_tokens":5}',
    b'{"model":"a b","max_tokens":5}', b'{"model":"","max_tokens":5}',
    b'{"model":"' + b"m" * 300 + b'","max_tokens":5}',
    b'{"model":"m","max_tokens":5,"messages":' + b"[" * 100_000, b'{"model":"m","max_\\u0074okens":5,"max_tokens":9}',
    b'{"model":"m","max_tokens":5,"m\xc4\xb1x":1}',
]  # fmt: skip


@pytest.mark.parametrize("body", UNCLEAR)
def test_what_could_be_read_in_two_ways_is_refused(body: bytes) -> None:
    with pytest.raises(NotMetered) as caught:
        read("api.anthropic.com", "/v1/messages", body)
    assert caught.value.refusal.kind == "invalid"


AT_GEMINI = ("generativelanguage.googleapis.com", "/v1beta/models/gemini-2.5-pro:generateContent")
AT_OPENAI = ("api.openai.com", "/v1/chat/completions")
OTHERWISE: list[tuple[tuple[str, str], dict[str, Any]]] = [
    (AT_OPENAI, {"maxtokens": 90_000}),
    (AT_OPENAI, {"max__tokens": 90_000}),
    (AT_GEMINI, {"GenerationConfig": {"maxOutputTokens": 90_000}}),
    (AT_GEMINI, {"generationConfig": {"MaxOutputTokens": 90_000}}),
    (AT_GEMINI, {"generationConfig": {"candidatecount": 8}}),
    (AT_GEMINI, {"generationConfig": {"speech_config": {}}}),
    (AT_GEMINI, {"generationConfig": {"Response_Modalities": ["IMAGE"]}}),
]


@pytest.mark.parametrize("place, more", OTHERWISE)
def test_a_name_in_another_spelling_is_not_passed_on_beside_ours(
    place: tuple[str, str], more: dict[str, Any]
) -> None:
    own = {"contents": []} if place == AT_GEMINI else {"model": "m", "messages": []}
    with pytest.raises(NotMetered):
        read(*place, json.dumps({**own, **more}).encode())


async def test_an_unclear_body_is_refused_in_the_providers_words(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=100_000) as found:
        answer = await ask(found, request(b'{"model":"m","model":"n"}'))
        assert status(answer) == 400
        assert b'"invalid_request_error"' in answer
        assert found.count == 0


async def test_the_body_is_passed_on_as_it_was_read(sqlite_template: Path, tmp_path: Path) -> None:
    async with metered(sqlite_template, tmp_path, tokens=100_000) as found:
        odd = {**CALL, "metadata": {"user_id": 'é\ud800 " \\ / \u2028'}, "temperature": 0.1}
        assert status(await ask(found, request(json.dumps(odd).encode()))) == 200
        assert found.server.calls[0].document == odd


SMUGGLED = [
    "Transfer-Encoding: chunked\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding : chunked\r\n",
    "Connection: content-length\r\n",
    "X: y\n Z: w\r\n",
    "Host: api.openai.com\r\n",
]


async def test_a_request_within_a_request_is_not_passed_on(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=100_000) as found:
        for extra in SMUGGLED:
            answer = await ask(found, request(CALL, extra=extra))
            assert status(answer) in (400, 403), extra
        assert found.count == 0


async def test_fields_that_change_what_a_request_is_are_dropped(
    sqlite_template: Path, tmp_path: Path
) -> None:
    extra = (
        "X-HTTP-Method-Override: DELETE\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
        "Accept-Encoding: gzip\r\nExpect: 100-continue\r\n"
    )
    async with metered(sqlite_template, tmp_path, tokens=100_000) as found:
        answer = await ask(found, request(CALL, extra=extra))
        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")
        head = found.server.calls[0].head.lower()
        for word in ("override", "upgrade", "gzip", "expect"):
            assert word not in head
        assert await found.tokens() == 120


async def test_requests_one_behind_the_other_are_each_counted(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=2500) as found:
        answer = await ask(found, request(CALL) * 6)
        assert answer.count(b"HTTP/1.1 200") == found.count == 3
        assert answer.count(b"HTTP/1.1 402") == 1
        assert await found.tokens() == 360


async def test_a_body_in_chunks_is_counted_too(sqlite_template: Path, tmp_path: Path) -> None:
    body = json.dumps(CALL).encode()
    head = b"POST /v1/messages HTTP/1.1\r\nHost: anthropic.crucible.internal\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    async with metered(sqlite_template, tmp_path, tokens=100_000) as found:
        assert status(await ask(found, head + chunks + b"0\r\nX: y\r\n\r\n")) == 200
        assert found.server.calls[0].document == CALL
        assert await found.tokens() == 120
        assert status(await ask(found, head + b"5\r\nabcdefg\r\n0\r\n\r\n")) == 400


async def test_a_huge_body_is_refused_before_it_is_held(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=100_000) as found:
        head = b"POST /v1/messages HTTP/1.1\r\nHost: anthropic.crucible.internal\r\n"
        answer = await ask(found, head + b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1))
        assert status(answer) == 413
        assert b"request_too_large" in answer
        assert found.count == 0


async def test_many_large_bodies_at_once_are_not_all_held(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=100_000) as found:
        head = (
            b"POST /v1/messages HTTP/1.1\r\nHost: anthropic.crucible.internal\r\n"
            b"Content-Length: %d\r\n\r\n" % MAX_BODY
        )
        opened = [await found.world.open("anthropic.crucible.internal", 80) for _ in range(3)]
        try:
            for _, writer in opened:
                writer.write(head + b" " * (MAX_BODY - 1))
            reading = [asyncio.create_task(reader.read(12)) for reader, _ in opened]
            done, waiting = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
            assert {task.result() for task in done} == {b"HTTP/1.1 413"}
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        finally:
            for _, writer in opened:
                writer.transport.abort()
        assert found.count == 0


async def test_pictures_are_reserved_for_by_what_the_model_can_take(
    sqlite_template: Path, tmp_path: Path
) -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
    body = CALL | {"messages": [{"role": "user", "content": [picture]}]}
    async with metered(sqlite_template, tmp_path, tokens=1_000_049) as found:
        # One token less than the window and the output.
        assert status(await ask(found, request(body))) == 402
        assert status(await ask(found, request(body | {"model": "nosuch"}))) == 403
        assert status(await ask(found, request(body | {"max_tokens": 49}))) == 200
        assert await found.tokens() == 120


async def test_many_choices_are_each_reserved_for(sqlite_template: Path, tmp_path: Path) -> None:
    async with metered(sqlite_template, tmp_path, tokens=3500) as found:
        path = "/v1/chat/completions"
        many = request(CHAT | {"n": 100}, path, "openai")
        assert status(await ask(found, many, "openai")) == 429
        both = request(CHAT | {"max_completion_tokens": 5000}, path, "openai")
        assert status(await ask(found, both, "openai")) == 429
        assert status(await ask(found, request(CHAT, path, "openai"), "openai")) == 200


async def test_a_provider_is_not_reached_with_a_key_of_the_programs_own(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=10, mode="full", bound=False) as found:
        assert await exchange(found.world, "api.anthropic.com", 443, b"\x16\x03\x01") == b""
        event = await found.world.event()
        assert (event.outcome, event.rule) == ("denied", "budget")
        # By address, with its name in the hello; and below its name.
        for name, address in (("", ADDRESS), ("eu.api.openai.com", "")):
            found.world.hosts["eu.api.openai.com"] = [ADDRESS]
            server_name = name or "api.anthropic.com"
            with pytest.raises((OSError, ssl.SSLError)):
                await found.world.open_tls(
                    name, server_name=server_name, context=trusting(), address=address
                )
        assert found.count == 0


async def test_a_provider_is_not_reached_in_clear(sqlite_template: Path, tmp_path: Path) -> None:
    async with metered(sqlite_template, tmp_path, tokens=100_000) as found:
        plain = request(CALL).replace(b"anthropic.crucible.internal", b"api.anthropic.com")
        for port in (80, 443):
            answer = await exchange(found.world, "api.anthropic.com", port, plain)
            assert b" 200 " not in answer
        proxied = plain.replace(b"POST /", b"POST http://api.anthropic.com/")
        answer = await exchange(found.world, "proxy.crucible.internal", 3128, proxied)
        assert b" 200 " not in answer
        assert found.count == 0


def trusting(*protocols: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=AUTHORITY.certificate + root_text())
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


@pytest.mark.parametrize("protocols", [("h2", "http/1.1"), ("http/1.1",), ()])
async def test_a_program_that_comes_to_the_host_itself_is_counted_in_http_1(
    sqlite_template: Path, tmp_path: Path, protocols: tuple[str, ...]
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=2500) as found:
        reader, writer = await found.world.open_tls(
            "api.anthropic.com", server_name="api.anthropic.com", context=trusting(*protocols)
        )
        chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        assert chosen == ("http/1.1" if protocols else None)
        plain = request(CALL).replace(b"anthropic.crucible.internal", b"api.anthropic.com")
        writer.write(plain * 4)
        answer = await reader.read()
        await close(writer)
        assert answer.count(b"HTTP/1.1 200") == found.count == 3
        assert b"billing_error" in answer
        assert await found.tokens() == 360


async def test_a_program_that_insists_on_http_2_gets_nowhere(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=100_000) as found:
        with pytest.raises((OSError, ssl.SSLError)):
            await found.world.open_tls(
                "api.anthropic.com", server_name="api.anthropic.com", context=trusting("h2")
            )
        reader, writer = await found.world.open_tls(
            "api.anthropic.com", server_name="api.anthropic.com", context=trusting()
        )
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
        assert status(await reader.read()) == 400
        await close(writer)
        assert found.count == 0


async def test_gemini_is_counted_whole_and_streamed(sqlite_template: Path, tmp_path: Path) -> None:
    body = {
        "contents": [{"parts": [{"text": "hello"}]}],
        "generationConfig": {"maxOutputTokens": 50},
    }
    async with metered(sqlite_template, tmp_path, usd=100_000) as found:
        for verb in ("generateContent", "streamGenerateContent?alt=sse"):
            path = f"/v1beta/models/gemini-2.5-pro:{verb}"
            assert status(await ask(found, request(body, path, "gemini"), "gemini")) == 200
        assert (await found.spent()).spent.usd == 2 * 325
        bad = body | {"generation_config": {"max_output_tokens": 60_000}}
        path = "/v1beta/models/gemini-2.5-pro:generateContent"
        assert status(await ask(found, request(bad, path, "gemini"), "gemini")) == 400
        search = body | {"tools": [{"googleSearch": {}}]}
        assert status(await ask(found, request(search, path, "gemini"), "gemini")) == 403
        dear = body | {"generationConfig": {"maxOutputTokens": 60_000}}
        answer = await ask(found, request(dear, path, "gemini"), "gemini")
        assert status(answer) == 429
        assert b"RESOURCE_EXHAUSTED" in answer


async def test_a_server_that_answers_nonsense_costs_the_worst_case(
    sqlite_template: Path, tmp_path: Path
) -> None:
    async with metered(sqlite_template, tmp_path, tokens=10_000) as found:
        found.server.fault = "silent"
        assert status(await ask(found, request(CALL))) == 502
        sums = await found.budgets.spent(SCOPE)
        assert sums.spent.tokens > 2000
        assert sums.reserved.tokens == 0


NAMES = st.sampled_from(
    ["model", "max_tokens", "max_completion_tokens", "n", "messages", "stream", "stream_options", "tools", "type",
     "service_tier", "content", "input", "generationConfig", "contents", "maxOutputTokens", "x"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**7) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)


@given(
    st.sampled_from(
        [
            ("api.anthropic.com", "/v1/messages"),
            ("api.openai.com", "/v1/chat/completions"),
            ("api.openai.com", "/v1/responses"),
            ("api.openai.com", "/v1/embeddings"),
            ("generativelanguage.googleapis.com", "/v1beta/models/g:generateContent"),
        ]
    ),
    st.dictionaries(NAMES, VALUES, max_size=8) | st.binary(max_size=40),
)
def test_any_body_is_refused_or_bounded(
    place: tuple[str, str], body: dict[str, Any] | bytes
) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        asked = read(*place, data)
    except NotMetered:
        return
    assert asked.call is not None
    assert asked.call.input_tokens is None or asked.call.input_tokens >= len(data)
    sent = json.loads(asked.body)
    config = sent.get("generationConfig", sent)
    limits = [
        config.get(name, 0)
        for name in ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
    ]
    assert asked.call.output_tokens >= max(limits) * sent.get("n", 1)


@given(
    st.binary(max_size=300),
    st.lists(st.integers(1, 40), max_size=10),
    st.sampled_from(list(Route)[1:]),
)
def test_any_bytes_are_passed_on_and_never_believed_wrongly(
    data: bytes, sizes: list[int], route: Route
) -> None:
    for is_stream in (False, True):
        reader = reader_for(route, is_stream=is_stream, strips_usage=is_stream)
        rest, passed = data, b""
        for size in sizes:
            passed += reader.feed(rest[:size])
            rest = rest[size:]
        passed += reader.feed(rest) + reader.rest()
        assert passed == data
        assert reader.usage() is None


@given(st.lists(st.integers(1, 60), max_size=30), st.sampled_from(["\n", "\r\n"]))
def test_usage_is_found_however_a_stream_is_cut(sizes: list[int], end: str) -> None:
    events = [
        '{"type":"message_start","message":{"usage":{"input_tokens":7,"cache_read_input_tokens":3,"output_tokens":1}}}',
        '{"type":"content_block_delta","delta":{"text":"\\n\\ndata: {}"}}',
        '{"type":"message_delta","usage":{"output_tokens":9}}',
        '{"type":"message_stop"}',
    ]
    stream = "".join(f"event: x{end}data: {event}{end}{end}" for event in events).encode()
    reader = reader_for(Route.MESSAGES, is_stream=True, strips_usage=False)
    rest, passed = stream, b""
    for size in sizes:
        passed += reader.feed(rest[:size])
        rest = rest[size:]
    passed += reader.feed(rest) + reader.rest()
    assert passed == stream
    assert reader.usage() == Usage(input_tokens=10, output_tokens=9, cache_read_tokens=3)


def test_a_stream_of_gemini_that_ends_before_its_end_says_nothing() -> None:
    """Each of its events has counts, and its connection may be closed after any of them."""
    begun = b'data: {"candidates":[{}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":1}}\n\n'
    ended = begun.replace(b"{}", b'{"finishReason":"STOP"}').replace(b"1}", b"9}")
    reader = reader_for(Route.GENERATE, is_stream=True, strips_usage=False)
    reader.feed(begun)
    assert reader.usage() is None
    reader.feed(ended)
    assert reader.usage() == Usage(input_tokens=7, output_tokens=9)
