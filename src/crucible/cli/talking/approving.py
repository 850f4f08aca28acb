"""Asks a person about a call that waits, at the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crucible.cli import render
from crucible.cli.consent import is_somebody_there
from crucible.cli.talking.lines import ask_line
from crucible.cli.talking.showing import readable

if TYPE_CHECKING:
    from crucible_client import Approval, Session
    from crucible_client.agent import Decision

_WAYS: dict[str, Decision] = {
    "y": "once", "yes": "once", "a": "always", "always": "always", "e": "edit", "edit": "edit",
    "n": "deny", "no": "deny", "": "deny",
}  # fmt: skip
_LONGEST_SHOWN = 20_000


def answer(session: Session, approval: Approval, *, agrees: bool) -> None:
    """Without anybody there it is denied: waiting would help nobody. `agrees` is for who said yes beforehand."""
    from crucible_client.errors import CrucibleError as ClientError

    if agrees:
        session.answer(approval, "once", note="agreed to beforehand")
        return
    show(approval)
    if not is_somebody_there():
        render.tell("denied: there is no terminal to ask at; `--yes` agrees to everything")
        session.answer(approval, "deny", note="nobody was there to be asked")
        return
    decision, arguments = _ask(approval)
    try:
        session.answer(approval, decision, arguments=arguments)
    except ClientError as error:
        # Somebody else was faster, its time is over, or the new arguments are of no use.
        render.tell(f"error: {render.visible(error.message)}")
        if decision == "edit":
            session.answer(approval, "deny")


def show(approval: Approval) -> None:
    render.tell(
        f"\n{render.visible(approval.tool)} wants to run in {render.visible(approval.where)}:"
    )
    for line in readable(approval.subject).splitlines() or ["(nothing)"]:
        render.tell(f"    {line}")
    for name, value in _others(approval).items():
        render.tell(f"  {render.visible(name)}: {_indented(value)}")
    for finding in approval.findings:
        why = render.visible(str(finding.get("why", "")))
        render.tell(f"  risk ({finding.get('severity')}), line {finding.get('line')}: {why}")
    if approval.reason:
        render.tell(f"  asked because: {render.visible(approval.reason)}")


def _others(approval: Approval) -> dict[str, str]:
    """What the call is given beside its subject: the text that is written, the language of a program, a time limit."""
    given = dict(approval.arguments)
    if approval.subject == json.dumps(given, ensure_ascii=False, sort_keys=True):
        return {}
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in given.items()
        if value != approval.subject
    }


def _indented(text: str) -> str:
    if len(text) > _LONGEST_SHOWN:
        half, left = _LONGEST_SHOWN // 2, len(text) - _LONGEST_SHOWN
        text = f"{text[:half]}\n[… {left} characters are not shown here …]\n{text[-half:]}"
    lines = readable(text).split("\n")
    return lines[0] if len(lines) == 1 else "\n    ".join(["", *lines])


def _ask(approval: Approval) -> tuple[Decision, dict[str, Any] | None]:
    while True:
        word = ask_line("[y]es, once  [a]lways in this session  [e]dit  [N]o: ").strip().lower()
        decision = _WAYS.get(word)
        if decision is None:
            continue
        if decision != "edit":
            return decision, None
        arguments = _edited(approval)
        if arguments is not None:
            return "edit", arguments


def _edited(approval: Approval) -> dict[str, Any] | None:
    """As JSON, on one line, to be changed in place where that can be; an empty one leaves it as it was."""
    now = _as_line(approval.arguments)
    render.tell(f"now: {now}")
    text = ask_line("new arguments, as JSON: ", start=now).strip()
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    render.tell("That is no JSON object")
    return None


def _as_line(arguments: Mapping[str, Any]) -> str:
    """What could act on the terminal is escaped as JSON does it, so that the line can be used as it stands."""
    text = json.dumps(dict(arguments), ensure_ascii=False)
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)
