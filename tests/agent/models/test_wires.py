"""Each provider's wire, spoken by its real SDK over real HTTP."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from pydantic_ai.usage import RequestUsage
from tests.agent.models.asking import (
    FLAVOURS,
    arguments_of,
    ask,
    ask_for,
    end_of,
    text_of,
    thoughts_of,
)
from tests.conftest import Run
from tests.providers.server import ProviderServer
from tests.providers.turns import Turn, Use

from crucible.agent.messages import (
    AssistantMessage,
    Picture,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from crucible.agent.models.base import CallBegan, Schema, ToolSpec, Usage
from crucible.agent.models.wire.incoming import usage_of

_BASH = ToolSpec(
    name="bash",
    description="Runs a command",
    parameters={
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
)
_CITY = Schema(
    name="city",
    schema={
        "type": "object",
        "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
        "required": ["name", "people"],
        "additionalProperties": False,
    },
)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_text_comes_in_pieces_and_whole_in_the_end(
    server: ProviderServer, run: Run, flavour: str
) -> None:
    server.script([Turn(text="Four: 2 + 2, \U0001f600 ünd\nso on.", cache_read=20)])
    events = run(ask(server, flavour, ask_for("what is 2 + 2?")))
    end = end_of(events)
    assert text_of(events) == end.message.text == "Four: 2 + 2, \U0001f600 ünd\nso on."
    assert len(events) > 3
    assert (end.stop, end.message.is_whole, end.model.provider) == ("end", True, flavour)
    assert end.usage.output_tokens == 30
    assert end.usage.input_tokens in (120, 140)
    (request,) = server.requests
    assert json.dumps(request.body).count("Be brief.") == 1
    assert request.head.get("x-api-key") or request.head["authorization"].startswith("Bearer ")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_calls_come_as_they_are_written(server: ProviderServer, run: Run, flavour: str) -> None:
    uses = (
        Use(name="bash", arguments={"command": "ls -la /tmp"}, id="call_a"),
        Use(name="bash", arguments={"command": "pwd"}, id="call_b"),
    )
    server.script([Turn(text="Looking.", uses=uses)])
    events = run(ask(server, flavour, ask_for("look", tools=(_BASH,))))
    end = end_of(events)
    assert end.stop == "tool-use"
    assert [call.id for call in end.message.calls] == ["call_a", "call_b"]
    assert CallBegan(id="call_b", name="bash") in events
    for call, use in zip(end.message.calls, uses, strict=True):
        assert json.loads(call.arguments) == use.arguments
        assert arguments_of(events, call.id) == call.arguments
    assert "Runs a command" in json.dumps(server.requests[0].body["tools"])


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_conversation_with_calls_goes_back_as_it_was(
    server: ProviderServer, run: Run, flavour: str
) -> None:
    server.script([Turn(text="Done.")])
    calls = (
        ToolCall(id="call_a", name="bash", arguments='{"command": "ls"}'),
        ToolCall(id="call_b", name="bash", arguments="not json"),
        ToolCall(id="call_c", name="bash", arguments=""),
    )
    results = (
        ToolResult(call_id="call_a", name="bash", text="README.md"),
        ToolResult(call_id="call_b", name="bash", text="no JSON", is_error=True),
    )
    request = ask_for(
        Summary(text="we spoke of files", replaced=8),
        "look",
        AssistantMessage(parts=(Text(text="Looking."), *calls)),
        ToolMessage(results=results),
        "and now?",
        tools=(_BASH,),
    )
    assert end_of(run(ask(server, flavour, request))).message.text == "Done."
    sent = json.dumps(server.requests[0].body["messages"])
    for text in ("we spoke of files", "README.md", "no JSON", "interrupted before", "and now?"):
        assert text in sent
    assert sent.count("call_c") == 2


def test_thoughts_go_back_with_their_signature_to_whoever_signed_them(
    server: ProviderServer, run: Run
) -> None:
    use = Use(name="bash", arguments={"command": "ls"}, id="toolu_1")
    server.script(
        [Turn(thinking="I should look.", signature="signed", uses=(use,)), Turn(text="x")]
    )
    asked = ask_for("look", tools=(_BASH,), thinking="medium")
    events = run(ask(server, "anthropic", asked))
    end = end_of(events)
    assert thoughts_of(events) == "I should look."
    assert server.requests[0].body["thinking"]["type"] in ("enabled", "adaptive")
    result = ToolResult(call_id="toolu_1", name="bash", text="README.md")
    again = ask_for(
        "look", end.message, ToolMessage(results=(result,)), tools=(_BASH,), thinking="medium"
    )
    run(ask(server, "anthropic", again))
    block = server.requests[1].body["messages"][1]["content"][0]
    assert block == {"type": "thinking", "thinking": "I should look.", "signature": "signed"}


def test_thoughts_that_nothing_followed_are_not_sent_again(
    server: ProviderServer, run: Run
) -> None:
    """Anthropic refuses them; the model had come to its limit of output while it thought."""
    server.script([Turn(thinking="Hm.", stop="max_tokens"), Turn(text="x")])
    end = end_of(run(ask(server, "anthropic", ask_for("a", thinking="medium"))))
    assert not end.message.is_whole
    run(ask(server, "anthropic", ask_for("a", end.message, "b", thinking="medium")))
    assert {one["role"] for one in server.requests[1].body["messages"]} == {"user"}


@pytest.mark.parametrize("flavour", ["anthropic", "openai"])
def test_half_of_a_character_spoils_no_conversation(
    server: ProviderServer, run: Run, flavour: str
) -> None:
    """JSON can hold one, UTF-8 cannot: what a model once said could not be sent again."""
    half = "\ud83d"
    use = Use(name="ba" + half, arguments=json.dumps({"command": half}), id="c1")
    server.script([Turn(text=f"a{half}b", uses=(use,)), Turn(text="Done.")])
    first = run(ask(server, flavour, ask_for("a", tools=(_BASH,))))
    assert text_of(first).encode().startswith("a�b".encode())
    message = end_of(first).message
    result = ToolResult(call_id=message.calls[0].id, name="bash", text=f"out {half}")
    said = ask_for(
        f"you{half}", message, ToolMessage(results=(result,)), system=half, tools=(_BASH,)
    )
    assert end_of(run(ask(server, flavour, said))).message.text == "Done."


def test_thoughts_of_another_provider_stay_where_they_are(server: ProviderServer, run: Run) -> None:
    server.script([Turn(text="x")])
    thought = Thinking(text="secret plan", carried={"provider": "deepseek", "id": "reasoning"})
    message = AssistantMessage(parts=(thought, Text(text="Yes.")))
    run(ask(server, "anthropic", ask_for("a", message, "b")))
    assert "secret plan" not in json.dumps(server.requests[0].body)


@pytest.mark.parametrize("flavour", ["compatible", "deepseek", "groq", "ollama", "together"])
def test_thoughts_in_a_field_of_their_own_are_thoughts(
    server: ProviderServer, run: Run, flavour: str
) -> None:
    server.script([Turn(thinking="Two and two.", text="Four.")])
    events = run(ask(server, flavour, ask_for("2 + 2?")))
    assert (thoughts_of(events), text_of(events)) == ("Two and two.", "Four.")


@pytest.mark.parametrize("piece", [1, 2, 5, 1000])
@pytest.mark.parametrize("flavour", ["compatible", "groq", "ollama"])
def test_thoughts_between_tags_are_thoughts(
    server: ProviderServer, run: Run, flavour: str, piece: int
) -> None:
    server.script([Turn(text="<think>Two < 3 and two.</think>Four.", piece=piece)])
    events = run(ask(server, flavour, ask_for("2 + 2?")))
    assert (thoughts_of(events), text_of(events)) == ("Two < 3 and two.", "Four.")
    assert end_of(events).message.parts == (Thinking(text="Two < 3 and two."), Text(text="Four."))


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_an_object_is_asked_for_in_the_providers_way_and_comes_as_text(
    server: ProviderServer, run: Run, flavour: str
) -> None:
    server.script([Turn(object={"name": "Porto", "people": 231800})])
    events = run(ask(server, flavour, ask_for("which city?", schema=_CITY)))
    end = end_of(events)
    assert json.loads(end.message.text) == {"name": "Porto", "people": 231800}
    assert (text_of(events), end.stop, end.message.calls) == (end.message.text, "end", ())
    assert "people" in json.dumps(server.requests[0].body)


@pytest.mark.parametrize("flavour", ["anthropic", "openai"])
def test_pictures_are_sent(server: ProviderServer, run: Run, flavour: str) -> None:
    server.script([Turn(text="A dot.")])
    dot = b"\x89PNG\r\n\x1a\nnot much of one"
    picture = Picture(media_type="image/png", blob="blob-1")
    calls = (ToolCall(id="call_a", name="bash", arguments="{}"),)
    result = ToolResult(call_id="call_a", name="bash", text="drawn", pictures=(picture,))
    request = ask_for(
        UserMessage(text="what is this?", pictures=(picture,)),
        AssistantMessage(parts=calls),
        ToolMessage(results=(result,)),
        tools=(_BASH,),
        pictures={"blob-1": dot},
    )
    run(ask(server, flavour, request))
    assert json.dumps(server.requests[0].body).count(base64.b64encode(dot).decode()) == 2


@pytest.mark.parametrize(
    "flavour, stop", [("anthropic", "max_tokens"), ("openai", "length"), ("ollama", "length")]
)
def test_an_answer_that_was_too_long_is_not_whole(
    server: ProviderServer, run: Run, flavour: str, stop: str
) -> None:
    server.script([Turn(text="It goes on", stop=stop)])
    end = end_of(run(ask(server, flavour, ask_for("go on", max_output_tokens=5))))
    assert (end.stop, end.message.is_whole) == ("length", False)
    body = server.requests[0].body
    assert 5 in (body.get("max_tokens"), body.get("max_completion_tokens"))


@pytest.mark.parametrize("flavour, stop", [("anthropic", "refusal"), ("openai", "content_filter")])
def test_a_refusal_is_told_as_one(
    server: ProviderServer, run: Run, flavour: str, stop: str
) -> None:
    server.script([Turn(text="I will not.", stop=stop)])
    assert end_of(run(ask(server, flavour, ask_for("do it")))).stop == "refusal"


def test_tokens_of_the_cache_are_counted_among_those_that_went_in(
    server: ProviderServer, run: Run
) -> None:
    turn = Turn(text="x", input_tokens=100, cache_read=1000, cache_write=10, output_tokens=5)
    server.script([turn])
    end = end_of(run(ask(server, "anthropic", ask_for("a"))))
    assert end.usage == Usage(
        input_tokens=1110, output_tokens=5, cache_read_tokens=1000, cache_write_tokens=10
    )


@pytest.mark.parametrize("counts", [(-1, 5), (100, -5), (10**18, 5), (0, 0)], ids=str)
def test_counts_that_cannot_be_are_as_if_nothing_was_told(counts: tuple[int, int]) -> None:
    said = RequestUsage(input_tokens=counts[0], output_tokens=counts[1])
    assert not usage_of(said).is_told


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
@pytest.mark.parametrize("flavour", ["anthropic", "openai", "groq"])
def test_whether_tools_are_called_can_be_chosen(
    server: ProviderServer, run: Run, flavour: str, choice: Any
) -> None:
    server.script([Turn(text="x")])
    run(ask(server, flavour, ask_for("a", tools=(_BASH,), choice=choice)))
    sent = json.dumps(server.requests[0].body.get("tool_choice", "auto"))
    assert {"required": "any"}.get(choice, choice) in sent or choice in sent


def test_chance_can_be_fixed(server: ProviderServer, run: Run) -> None:
    server.script([Turn(text="x")])
    run(ask(server, "compatible", ask_for("a", temperature=0.0, seed=7)))
    body = server.requests[0].body
    assert (body["temperature"], body["seed"]) == (0.0, 7)
