"""The model that says what was written for it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.agent.models.asking import answer, ask_for, gather, text_of, thoughts_of
from tests.conftest import Run

from crucible.agent.messages import AssistantMessage, Text, ToolMessage, ToolResult
from crucible.agent.models.base import CallBegan, ModelRef
from crucible.agent.models.registry import Registry
from crucible.agent.models.scripted import Call, Reply, ScriptedModel, load_script
from crucible.agent.models.settings import load_settings
from crucible.errors import BadAnswer, BadSetting, ModelOverloaded, UnknownModel


def test_answers_come_in_their_order_as_the_conversation_grows(run: Run) -> None:
    model = ScriptedModel([Reply(text="one"), Reply(text="two")])
    first = run(answer(model, ask_for("a")))
    assert first.message.text == "one"
    second = ask_for("a", first.message, "b")
    assert run(answer(model, second)).message.text == "two"
    assert run(answer(model, ask_for("another session"))).message.text == "one"
    with pytest.raises(BadAnswer, match="no word for 'c'"):
        run(answer(model, ask_for("a", first.message, "b", first.message, "c")))


def test_an_answer_can_be_for_what_was_said(run: Run) -> None:
    model = ScriptedModel([Reply(text="in order"), Reply(when="(?i)weather", text="rain")])
    assert run(answer(model, ask_for("How is the WEATHER?"))).message.text == "rain"
    result = ToolResult(call_id="x", name="bash", text="weather report")
    message = AssistantMessage(parts=(Text(text="hm"),))
    request = ask_for("look", message, ToolMessage(results=(result,)))
    assert run(answer(model, request)).message.text == "rain"
    assert run(answer(model, ask_for("hello"))).message.text == "in order"


def test_all_parts_of_an_answer_are_told_in_pieces(run: Run) -> None:
    call = Call(name="bash", arguments={"command": "ls"})
    reply = Reply(thinking="hm, hm", text="I look", calls=(call,), piece=2, output_tokens=77)
    events = run(gather(ScriptedModel([reply]), ask_for("a")))
    assert (thoughts_of(events), text_of(events)) == ("hm, hm", "I look")
    assert CallBegan(id="call_0_0", name="bash") in events
    end = run(answer(ScriptedModel([reply]), ask_for("a")))
    assert json.loads(end.message.calls[0].arguments) == {"command": "ls"}
    assert (end.stop, end.usage.output_tokens) == ("tool-use", 77)


def test_faults_come_once_for_each_try_and_each_session(run: Run) -> None:
    model = ScriptedModel([Reply(text="at last", faults=("overloaded",))])
    mine, yours = ask_for("a"), ask_for("a")
    for request in (mine, yours):
        with pytest.raises(ModelOverloaded):
            run(answer(model, request))
    assert run(answer(model, mine)).message.text == "at last"
    assert run(answer(model, yours)).message.text == "at last"


def test_fifty_conversations_at_once_do_not_mix(run: Run) -> None:
    model = ScriptedModel([Reply(text=f"answer {n}") for n in range(4)])

    async def talk(name: str) -> list[str]:
        said: list[str] = []
        messages: list[object] = [f"I am {name}"]
        for _ in range(4):
            end = await answer(model, ask_for(*messages))  # type: ignore[arg-type]
            said.append(end.message.text)
            messages += [end.message, "go on"]
        return said

    async def all_of_them() -> list[list[str]]:
        return await asyncio.gather(*(talk(str(n)) for n in range(50)))

    assert run(all_of_them()) == [[f"answer {n}" for n in range(4)]] * 50


def test_the_demonstration_is_a_whole_turn(run: Run) -> None:
    model = Registry(load_settings({})).model(ModelRef(provider="scripted", name="demo"))
    end = run(answer(model, ask_for("show me")))
    assert end.message.calls[0].name == "bash"
    assert "script" in run(answer(model, ask_for("Hello!"))).message.text


def test_scripts_are_read_from_files(tmp_path: Path, run: Run) -> None:
    toml = tmp_path / "a.toml"
    toml.write_text('[[answers]]\ntext = "from a file"\nfaults = []\n')
    assert (
        run(answer(ScriptedModel(load_script(str(toml))), ask_for("a"))).message.text
        == "from a file"
    )
    written = tmp_path / "b.json"
    written.write_text('{"answers": [{"text": "JSON"}], "calls_tools": false}')
    assert not ScriptedModel(load_script(str(written))).profile.calls_tools


@pytest.mark.parametrize(
    "text",
    [
        "secret = 1",
        "answers = 3",
        "[[answers]]\nmood = 1",
        '[[answers]]\nwhen = "("',
        '[[answers]]\nfaults = ["bad luck"]',
        '[[answers]]\ncut = "bad luck"',
        "[[answers]]\ncalls = [{}]",
        "\x00 secret",
    ],
)
def test_a_file_that_is_no_script_is_refused_without_its_words(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(BadSetting, match="is no script") as raised:
        load_script(str(path))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("name", ["nosuch", "/nosuch/file.toml", "../models/catalog"])
def test_a_script_that_is_not_there_is_unknown(name: str) -> None:
    with pytest.raises(UnknownModel):
        load_script(name)
