"""How the embedded model is asked for a program: by worked examples, since it follows those and hardly any instruction.

The examples are about other questions than people ask first: they show the form of an answer and a few words of
Python, and no answer.
"""

from __future__ import annotations

from dataclasses import replace

from crucible.agent.messages import AssistantMessage, Message, Text, UserMessage
from crucible.agent.models.base import Request

SYSTEM = (
    "Write one short Python program in a fenced block that prints the answer. "
    "% is the remainder, ** is the power, range(1, n + 1) counts from 1 to n."
)
_EXAMPLES = (
    ("in how many ways can 3 of 7 be chosen", "print(math.comb(7, 3))"),
    ("what is the least common multiple of 4 and 6", "print(math.lcm(4, 6))"),
    (
        "what is the product of the digits of 4312",
        "print(math.prod(int(d) for d in str(4312)))",
    ),
    (
        "how many numbers below 50 have exactly four divisors",
        "print(len([n for n in range(1, 50) if len([d for d in range(1, n + 1) if n % d == 0]) == 4]))",
    ),
    (
        "what is the sum of the even numbers from 1 to 30",
        "print(sum(n for n in range(1, 30 + 1) if n % 2 == 0))",
    ),
    ("is 91 divisible by 7", "print(91 % 7 == 0)"),
    ("what is the cube of 6", "print(6 ** 3)"),
    ("what is 84 divided by 12", "print(84 / 12)"),
)
_MOST_TOKENS = 200
# What a program that failed is told with; see `pipeline.say_result`.
_FAILED = "The program failed:"
# Enough chance for another program, not so much that it is none.
_SECOND_TEMPERATURE = 0.5


def ask_for_program(request: Request) -> Request:
    """The same question as this model understands it best.

    What was said before it is left out: it confuses more than it helps. After a program that failed the question is
    asked anew with some chance in it, as the model cannot make use of an error.
    """
    failed = sum(_is_failure(one) for one in _since_question(request.messages))
    question = _question(request.messages)
    return replace(
        request,
        system=SYSTEM,
        messages=(*_shown(), UserMessage(text=question)),
        tools=(),
        schema=None,
        thinking="off",
        max_output_tokens=_MOST_TOKENS,
        temperature=_SECOND_TEMPERATURE if failed else 0.0,
        seed=failed,
        pictures={},
    )


def _shown() -> tuple[Message, ...]:
    found: list[Message] = []
    for question, program in _EXAMPLES:
        block = f"```python\nimport math\n{program}\n```"
        found += [UserMessage(text=question), AssistantMessage(parts=(Text(text=block),))]
    return tuple(found)


def _since_question(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    for place in range(len(messages) - 1, -1, -1):
        if isinstance(messages[place], UserMessage) and not _is_failure(messages[place]):
            return messages[place:]
    return ()


def _question(messages: tuple[Message, ...]) -> str:
    asked = _since_question(messages)
    first = asked[0] if asked else None
    return first.text if isinstance(first, UserMessage) else ""


def _is_failure(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.text.startswith(_FAILED)
