"""What is charged for a step: a session, a user, a sandbox. Each by a word with its kind before a colon."""

from __future__ import annotations

import re
from typing import Final, Literal

from crucible.errors import BadSetting

Kind = Literal["session", "user", "sandbox", "plan"]

_SCOPE: Final = re.compile(r"(session|user|sandbox|plan):[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")


def session_scope(session: str) -> str:
    return check_scope(f"session:{session}")


def user_scope(user: str) -> str:
    return check_scope(f"user:{user}")


def sandbox_scope(sandbox: str) -> str:
    return check_scope(f"sandbox:{sandbox}")


def plan_scope(plan: str) -> str:
    """Not charged itself: its limits hold for each user who has it."""
    return check_scope(f"plan:{plan}")


def check_scope(scope: str) -> str:
    """Raises BadSetting."""
    if not _SCOPE.fullmatch(scope):
        raise BadSetting(
            f"{scope[:80]!r} is nothing that can have a budget",
            hint="Name one such as session:ID, user:ID or sandbox:ID",
        )
    return scope


def kind_of(scope: str) -> str:
    return scope.partition(":")[0]


def name_of(scope: str) -> str:
    return scope.partition(":")[2]
