"""When hooks are asked, what they are told and what they may change. Pure; docs/guides/hooks.md is written from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Point = Literal[
    "before-session",
    "after-session",
    "before-prompt",
    "after-prompt",
    "before-model",
    "after-model",
    "before-tool",
    "after-tool",
]
OnFailure = Literal["block", "pass"]
Verdict = Literal["pass", "change", "block", "failed"]

POINTS: tuple[Point, ...] = get_args(Point)
LARGEST_CHANGE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PointFacts:
    """`changeable` names the fields a hook may give anew, and what they must be.

    `can_block`: afterwards there is nothing to prevent; what was done can only be kept from the model.
    """

    when: str
    fields: tuple[str, ...]
    changeable: Mapping[str, type]
    on_failure: OnFailure
    can_block: bool = True


FACTS: Mapping[Point, PointFacts] = {
    "before-session": PointFacts(
        when="before a session is made",
        fields=("system", "model"),
        changeable={"system": str},
        on_failure="block",
    ),
    "after-session": PointFacts(
        when="after a session was destroyed",
        fields=(),
        changeable={},
        on_failure="pass",
        can_block=False,
    ),
    "before-prompt": PointFacts(
        when="before a prompt begins a turn",
        fields=("text",),
        changeable={"text": str},
        on_failure="block",
    ),
    "after-prompt": PointFacts(
        when="after a turn's last answer, before it is kept",
        fields=("text", "end"),
        changeable={"text": str},
        on_failure="pass",
    ),
    "before-model": PointFacts(
        when="before a model is asked",
        fields=("model", "system", "messages", "tools"),
        changeable={"system": str},
        on_failure="block",
    ),
    "after-model": PointFacts(
        when="after a model has answered, before its tools are called",
        fields=("model", "text", "calls", "usage"),
        changeable={},
        on_failure="block",
    ),
    "before-tool": PointFacts(
        when="before a tool is called, and before the policy judges the call",
        fields=("tool", "arguments", "call"),
        changeable={"arguments": dict},
        on_failure="block",
    ),
    "after-tool": PointFacts(
        when="after a tool was called, before the model reads the result",
        fields=("tool", "arguments", "call", "text", "is_error", "exit_status"),
        changeable={"text": str},
        on_failure="pass",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """What a hook is told, as JSON."""

    point: Point
    session: str
    user: str
    data: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {
            "version": 1,
            "point": self.point,
            "session": self.session,
            "user": self.user,
            **self.data,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a hook wants: nothing, other values for some fields, or that it does not happen."""

    block: str = ""
    change: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """One hook asked once, as the ledger has it."""

    hook: str
    point: Point
    verdict: Verdict
    duration_s: float
    reason: str = ""
    change: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What came of all hooks of a point. `data` is what goes on; `blocked` says who stopped it and why."""

    data: Mapping[str, Any]
    runs: tuple[HookRun, ...] = ()
    blocked: str = ""


class HookFault(Exception):
    """A hook that did not do what hooks do. For the policy to judge, never for a caller."""


def read_reply(point: Point, value: object) -> Reply:
    """What a hook answered; raises HookFault for anything but what this point allows."""
    if value is None or value == {}:
        return Reply()
    if not isinstance(value, dict) or not set(value) <= {"block", "change"}:
        raise HookFault("it answered neither nothing nor an object with `block` or `change`")
    block, change = value.get("block", ""), value.get("change")
    if not isinstance(block, str):
        raise HookFault("its `block` is no text")
    if change is not None:
        _check_change(point, change)
    return Reply(block=block[:2000], change=change)


def _check_change(point: Point, change: object) -> None:
    allowed = FACTS[point].changeable
    if not isinstance(change, dict):
        raise HookFault("its `change` is no object")
    for name, value in change.items():
        kind = allowed.get(name)
        if kind is None:
            may = ", ".join(allowed) or "nothing"
            raise HookFault(f"it would change {str(name)[:80]!r}; here it may change {may}")
        if not isinstance(value, kind):
            raise HookFault(f"its {name!r} is no {kind.__name__}")
