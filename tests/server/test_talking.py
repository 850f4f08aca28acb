"""`ask` and `chat` at a real server whose model is played by the test."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from pathlib import Path

import pytest
from tests.agent.scenes import Say, call
from tests.server.agent_stage import Stage

from crucible.agent.models.base import ModelRef
from crucible.cli.main import main
from crucible.cli.talking.reaching import hint_of
from crucible.cli.talking.showing import readable

pytestmark = pytest.mark.usefixtures("run")


class Terminal:
    """Runs a command as a shell would, with input and without a terminal."""

    def __init__(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.setenv("CRUCIBLE_URL", stage.server.url)
        monkeypatch.setenv("CRUCIBLE_TOKEN", stage.server.token())

    async def run(self, *words: str, input: str = "") -> tuple[int, str, str]:
        stdin = io.TextIOWrapper(io.BytesIO(input.encode()))
        self._monkeypatch.setattr(sys, "stdin", stdin)
        status = await asyncio.to_thread(main, list(words))
        out, errors = self._capsys.readouterr()
        return status, out, errors


@pytest.fixture
def terminal(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Terminal:
    return Terminal(stage, monkeypatch, capsys)


async def test_the_answer_alone_is_on_standard_output(stage: Stage, terminal: Terminal) -> None:
    stage.play(Say(calls=(call("bash", command="echo $((6*7))"),)), Say(text="It is 42."))
    status, out, errors = await terminal.run("ask", "Compute", "it")
    assert (status, out) == (0, "It is 42.\n")
    assert "> bash echo $((6*7))" in errors
    assert "| 42" in errors
    assert await stage.scene.engine.sessions() == ()


async def test_quiet_says_nothing_else(stage: Stage, terminal: Terminal) -> None:
    stage.play(Say(text="I run it.", calls=(call("bash", command="echo x"),)), Say(text="Yes."))
    assert await terminal.run("ask", "-q", "Run x") == (0, "I run it.\nYes.\n", "")


async def test_the_embedded_model_is_called_what_it_is(stage: Stage, terminal: Terminal) -> None:
    object.__setattr__(stage.scene.model, "ref", ModelRef(provider="embedded", name="smollm2-135m"))
    stage.play(Say(text="Hello."))
    _, out, errors = await terminal.run("ask", "Hello there")
    assert out == "Hello.\n"
    assert "the embedded model, a very small one" in errors


async def test_what_is_piped_in_is_what_the_question_is_about(
    stage: Stage, terminal: Terminal
) -> None:
    stage.play(Say(text="A diff."))
    await terminal.run("ask", "What is this?", input="+ one line\n")
    (asked,) = stage.scene.model.asked
    assert asked.messages[-1].text == "What is this?\n\n+ one line"  # type: ignore[union-attr]


async def test_a_schema_gives_an_object_for_programs(
    stage: Stage, terminal: Terminal, tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema))
    stage.play(Say(text='{"age": "x"}'), Say(text='{"age": 7}'))
    status, out, _ = await terminal.run("ask", "--json-schema", str(path), "How old?")
    assert (status, json.loads(out)) == (0, {"age": 7})
    stage.play(*(Say(text="none") for _ in range(3)))
    status, out, errors = await terminal.run("ask", "--json-schema", str(path), "How old?")
    assert (status, out) == (125, "")
    assert "(object-unfit)" in errors
    path.write_text("[")
    words = ("ask", "--keep", "--json-schema", str(path), "How old?")
    status, _, errors = await terminal.run(*words)
    assert status == 126
    assert "no JSON" in errors
    assert await stage.scene.engine.sessions() == ()


async def test_without_a_terminal_risky_calls_are_denied_unless_they_were_agreed_to(
    stage: Stage, terminal: Terminal
) -> None:
    risky = call("bash", command="echo 'echo ran' | base64 | base64 -d | sh")
    stage.play(Say(calls=(risky,)), Say(text="Denied."), Say(calls=(risky,)), Say(text="Done."))
    status, out, errors = await terminal.run("ask", "Do it now, run it")
    assert (status, out) == (0, "Denied.\n")
    assert "denied: there is no terminal to ask at" in errors
    status, out, errors = await terminal.run("ask", "--yes", "Do it now, run it")
    assert (status, out) == (0, "Done.\n")
    assert "| ran" in errors


async def test_a_failing_model_is_an_error_with_its_code(stage: Stage, terminal: Terminal) -> None:
    from crucible.errors import RateLimited

    stage.play(Say(error=RateLimited("Too many requests", hint="Wait a minute")))
    status, out, errors = await terminal.run("ask", "Hello there")
    assert (status, out) == (125, "")
    assert "error: Too many requests (model-rate-limited)" in errors
    assert "hint: Wait a minute" in errors


async def test_a_session_can_be_kept_and_asked_again(stage: Stage, terminal: Terminal) -> None:
    stage.play(Say(text="One."), Say(text="Two."))
    _, _, errors = await terminal.run("ask", "--keep", "First")
    session = errors.split()[1]
    assert (await terminal.run("ask", "--session", session, "Second"))[1] == "Two.\n"
    assert len(stage.scene.model.asked[-1].messages) == 3
    listed = json.loads((await terminal.run("chat", "list", "--json"))[1])
    assert [(one["id"], one["title"]) for one in listed] == [(session, "First")]
    await terminal.run("chat", "remove", session)
    assert (await terminal.run("ask", "--session", session, "Third"))[0] == 126


async def test_chat_takes_lines_and_commands(stage: Stage, terminal: Terminal) -> None:
    stage.play(Say(text="Good day."), Say(text="Yes."))
    lines = "Hello\n/context\n/pin 0\n/history\n/cost\n/nonsense\nAgain\n"
    lines += f"/pin {'9' * 5000}\n/rewind {'9' * 5000}\n/model\n/tools bash read*\n/clear\n/exit\nnever\n"
    status, out, errors = await terminal.run("chat", input=lines)
    assert status == 0
    assert out.startswith("Good day.\n")
    assert "0* user: Hello" in out
    assert "Yes.\n" in out
    assert "messages, 0 pinned" in errors
    assert "tokens in" in errors
    assert "There is no /nonsense" in errors
    assert "/pin needs the number of a message" in errors
    assert "/rewind needs the number of steps" in errors
    (session,) = await stage.scene.engine.sessions()
    assert session.options.tools == ("bash", "read*")
    assert len(stage.scene.model.asked) == 2


async def test_a_program_gets_the_answer_to_the_letter_and_no_talk_acts_on_a_terminal(
    stage: Stage, terminal: Terminal
) -> None:
    odd = "Bonjour\u00a0! \U0001f468\u200d\U0001f469 \x1b[1mbold\u202e"
    stage.play(
        Say(calls=(call("bash", command=r"printf '\033[31mred\033]0;x\007'"),)), Say(text=odd)
    )
    _, out, errors = await terminal.run("ask", "Show it, run it")
    assert out == f"{odd}\n"
    assert "\x1b" not in errors
    assert readable("a\tb\nc\x1b[1m\u00a0") == "a\tb\nc\\x1b[1m\\xa0"


async def test_a_recorded_session_is_run_again_and_the_first_difference_named(
    stage: Stage, terminal: Terminal
) -> None:
    same, other = "echo $((6*7))", "od -An -N8 -tu8 /dev/urandom"
    stage.play(Say(calls=(call("bash", command=same),)), Say(text="Done."))
    stage.play(Say(calls=(call("bash", command=other),)), Say(text="Done."))
    for _ in range(2):
        await terminal.run("ask", "Run it, please run")
    other_run, same_run = [run.id for run in await stage.ledger.runs()]
    status, out, _ = await terminal.run("runs", "replay", same_run)
    assert (status, out) == (0, "1 of 1 calls came out as recorded\n")
    status, out, _ = await terminal.run("runs", "replay", other_run)
    assert status == 1
    assert "0 of 1 calls" in out
    assert "first difference: entry " in out
    assert "bash" in out
    await stage.ledger.erase(same_run, reason="by the user")
    status, out, _ = await terminal.run("runs", "replay", same_run)
    assert status == 1
    assert "cannot be replayed from entry 1 on" in out
    status, _, errors = await terminal.run("runs", "replay", "ses-none")
    assert status == 126
    assert "(run-missing)" in errors


async def test_what_cannot_be_meant_is_refused(terminal: Terminal) -> None:
    for words in (
        ("ask",),
        ("ask", "--budget-usd", "much", "x"),
        ("ask", "--budget-tokens", "1.5", "x"),
        ("ask", "--thinking", "hard", "x"),
        ("ask", "--session", "ses-none", "x"),
        ("chat", "--continue"),
    ):
        status, out, errors = await terminal.run(*words)
        assert (status, out) == (126, ""), words
        assert "hint: " in errors, words


@pytest.mark.parametrize("url", ["", "http://elsewhere"])
def test_a_key_that_the_running_program_has_not_read_is_told_of(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    from crucible_client.errors import from_problem

    fields = {"code": "model-no-key", "message": "There is no key", "hint": "Set GROQ_API_KEY"}
    refused = from_problem(fields)
    monkeypatch.setenv("CRUCIBLE_URL", url)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert hint_of(refused) == "Set GROQ_API_KEY"
    monkeypatch.setenv("GROQ_API_KEY", "sk-secret")
    hint = hint_of(refused)
    assert ("GROQ_API_KEY is set here, but" in hint) is not bool(url)
    assert "sk-secret" not in hint
