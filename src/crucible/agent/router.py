"""What a prompt wants: talk, work with tools, or one program. By rules alone: no model is asked, and the same words
always go the same way.

A wrong "chat" leaves a model without the tools it needs, a wrong "agent" only costs more: so chat is what is clearly
talk, and everything else is work.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from crucible.agent.facts import Intent
from crucible.agent.messages import Message, ToolMessage, UserMessage
from crucible.agent.models.base import Profile

_LONGEST_TALK = 400
_TALK = re.compile(
    r"""^\s*(
        (hi|hello|hey|hallo|good\s(morning|evening|afternoon)|thanks?|thank\syou|ok(ay)?|bye|goodbye|nice|great|cool)\b
      | (who|what)\s(are|is|can|do)\syou
      | (what|who|why|when|where|how)('s|\sis|\sare|\swas|\swere|\sdoes|\sdo|\sdid|\scan|\sshould|\swould|\scome)?\b
      | (explain|describe|define|compare|summari[sz]e|translate|tell\sme|recommend|suggest|rephrase)\b
      | (do|does|is|are|can|could|should|would|will|did|was|were)\s(you|i|we|it|there|this|that|the|a|an|people)\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_WORK = re.compile(
    r"""(
        \b(run|execute|install|build|compile|deploy|debug|fix|mend|repair|refactor|rewrite|edit|change|rename|delete|remove
          |create|write|make|generate|implement|add|update|test|download|fetch|clone|commit|push|plot|draw|chart|parse
          |convert|analy[sz]e|read|open|list|search|grep|find|count|save|print|compute|calculate|solve|simulate|sort)\b
      | \b(file|files|folder|directory|repo|repository|script|program|code|function|class|module|package|bug|error
          |traceback|stack\strace|workspace|terminal|command|shell|csv|json|dataset|database|image|server|port|process)\b
      | ```
      | (^|\s)[./~][\w./-]+
      | \b\w+\.(py|js|ts|tsx|jsx|go|rs|c|h|cpp|java|rb|php|sh|md|txt|csv|json|ya?ml|toml|html|css|sql|ipynb
          |xlsx?|pdf|png)\b
      | https?://
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_COMPUTING = re.compile(
    r"""(
        \d\s*([-+*/^%x×÷]|\*\*)\s*\d
      | \b(how\s(many|much)|sum|product|average|mean|median|factorial|fibonacci|primes?|squared?|cubed?|root|sqrt|power
          |modulo|remainder|divided|multiplied|times|plus|minus|percent|calculate|compute|count|reverse|sort(ed)?|largest
          |smallest|greatest|digits?|letters?|vowels?|words?|characters?|convert|binary|hexadecimal|leap\syear|days?\sbetween)\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)


def route(prompt: str, history: Sequence[Message], profile: Profile) -> Intent:
    """For a model that calls no tools, work means one program."""
    if not profile.calls_tools:
        return "code" if _wants_program(prompt) else "chat"
    if _is_talk(prompt) and not _worked_last(history):
        return "chat"
    return "agent"


def _is_talk(prompt: str) -> bool:
    if len(prompt) > _LONGEST_TALK or _WORK.search(prompt) or _has_figures(prompt):
        return False
    return _TALK.search(prompt) is not None


def _wants_program(prompt: str) -> bool:
    return bool(_has_figures(prompt) or _WORK.search(prompt))


def _has_figures(prompt: str) -> bool:
    return _COMPUTING.search(prompt) is not None and (
        any(character.isdigit() for character in prompt) or '"' in prompt or "'" in prompt
    )


def _worked_last(history: Sequence[Message]) -> bool:
    """Whether the turn before used tools: "and now?" goes on with that."""
    for message in reversed(history):
        if isinstance(message, ToolMessage):
            return True
        if isinstance(message, UserMessage):
            return False
    return False
