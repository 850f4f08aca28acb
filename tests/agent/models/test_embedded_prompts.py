"""How the embedded model is asked for a program."""

from __future__ import annotations

import re

from tests.agent.models.asking import ask_for

from crucible.agent.messages import AssistantMessage, Text, ToolResult, UserMessage
from crucible.agent.models.embedded_prompts import ask_for_program
from crucible.agent.pipeline import find_program, say_result


def _program(text: str) -> AssistantMessage:
    return AssistantMessage(parts=(Text(text=f"```python\n{text}\n```"),))


def test_the_question_comes_last_after_examples_that_are_programs() -> None:
    asked = ask_for_program(ask_for("hello", _program("print(1)"), "what is 17 * 23"))
    assert asked.messages[-1] == UserMessage(text="what is 17 * 23")
    assert "hello" not in str(asked.messages)
    examples = asked.messages[:-1]
    assert all(find_program(one.text) for one in examples if isinstance(one, AssistantMessage))
    assert asked.temperature == 0.0


def test_after_a_failure_the_same_question_is_asked_with_chance() -> None:
    failed = ToolResult(call_id="x", name="python", text="NameError", is_error=True)
    told = UserMessage(text=say_result(failed, is_failed=True, may_repair=True))
    bad = _program("print(nothing)")
    first = ask_for_program(ask_for("what is 17 * 23", bad, told))
    second = ask_for_program(ask_for("what is 17 * 23", bad, told, bad, told))
    assert first.messages[-1] == second.messages[-1] == UserMessage(text="what is 17 * 23")
    assert first.temperature
    assert (first.seed, second.seed) == (1, 2)
    assert "NameError" not in str(first.messages)


def test_the_likest_example_comes_last() -> None:
    asked = ask_for_program(ask_for("how many primes below 50"))
    assert asked.messages[-3] == UserMessage(text="how many palindromes below 200")


def test_no_example_answers_what_is_measured() -> None:
    """Neither products nor sums of two numbers, nor primes, nor what else the questions are about."""
    shown = "\n".join(str(one) for one in ask_for_program(ask_for("x")).messages)
    assert not re.search(r"\d \* \d|\(\d+ \+ \d+\)|prime|factorial|gcd|remainder", shown.lower())


def test_a_conversation_without_a_question_does_no_harm() -> None:
    assert ask_for_program(ask_for()).messages[-1] == UserMessage(text="")
