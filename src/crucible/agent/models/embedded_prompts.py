"""How the embedded model is asked for a program: by worked examples, since it follows those and hardly any instruction.

The examples are about other questions than people ask first: they show the form of an answer and a few words of
Python, and no answer.
"""

from __future__ import annotations

import re
from dataclasses import replace

from crucible.agent.messages import AssistantMessage, Message, Text, UserMessage
from crucible.agent.models.base import Request

SYSTEM = (
    "Write one short Python program in a fenced block that prints the answer. "
    "% is the remainder, ** is the power, range(1, n + 1) counts from 1 to n."
)
_EXAMPLES = (
    (
        "how many perfect numbers below 500",
        "def is_perfect(n):\n"
        "    return n > 1 and sum(d for d in range(1, n) if n % d == 0) == n\n\n"
        "print(len([n for n in range(1, 500) if is_perfect(n)]))",
    ),
    (
        "how many palindromes below 200",
        "def is_palindrome(n):\n"
        "    return str(n) == str(n)[::-1]\n\n"
        "print(len([n for n in range(1, 200) if is_palindrome(n)]))",
    ),
    ("in how many ways can 3 of 7 be chosen", "import math\nprint(math.comb(7, 3))"),
    ("what is the least common multiple of 4 and 6", "import math\nprint(math.lcm(4, 6))"),
    (
        "what is the largest digit of 4312",
        "import math\nprint(max(int(d) for d in str(4312)))",
    ),
    (
        "what is the product of the numbers from 3 to 9",
        "import math\nprint(math.prod(range(3, 9 + 1)))",
    ),
    ("is 91 divisible by 7", "import math\nprint(91 % 7 == 0)"),
    ("what is the cube of 6", "import math\nprint(6 ** 3)"),
    ("what is 84 divided by 12", "import math\nprint(84 / 12)"),
)
_WORD = re.compile(r"[a-z]+")
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
        messages=(*_shown(question), UserMessage(text=question)),
        tools=(),
        schema=None,
        thinking="off",
        max_output_tokens=_MOST_TOKENS,
        temperature=_SECOND_TEMPERATURE if failed else 0.0,
        seed=failed,
        pictures={},
    )


def _shown(question: str) -> tuple[Message, ...]:
    """All of them, the likest last: it is that one which the model follows.

    The others keep their order, so that what the model has read for the question before is mostly not read again.
    """
    asked = _words(question)

    def likeness(example: tuple[str, str]) -> float:
        words = _words(example[0])
        return len(words & asked) / len(words | asked)

    found: list[Message] = []
    likest = max(reversed(_EXAMPLES), key=likeness)
    for text, program in (*(one for one in _EXAMPLES if one is not likest), likest):
        block = f"```python\n{program}\n```"
        found += [UserMessage(text=text), AssistantMessage(parts=(Text(text=block),))]
    return tuple(found)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


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
