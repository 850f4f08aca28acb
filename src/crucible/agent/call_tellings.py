"""A tool call as others see it: in events while it goes on, in what the model reads of it, in entries of the ledger."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from crucible.agent.messages import Picture, ToolCall, ToolResult
from crucible.agent.seams import Step, Verdict
from crucible.agent.session import Session
from crucible.agent.tools.base import Artifact, Outcome, Use

_RISKS_RECORDED = 20


def tell_result(
    session: Session,
    call: ToolCall,
    result: ToolResult,
    *,
    exit_status: int | None = None,
    duration_s: float | None = None,
) -> ToolResult:
    session.tell(
        "result",
        {
            "call": call.id,
            "tool": call.name,
            "text": result.text,
            "error": result.is_error,
            "exit_status": exit_status,
            "blob": result.blob,
            "pictures": [asdict(picture) for picture in result.pictures],
            "duration_s": duration_s,
        },
    )
    return result


def result_from_event(data: Mapping[str, Any]) -> ToolResult:
    """What a `result` event told, for who finds it after a restart."""
    return ToolResult(
        call_id=str(data["call"]),
        name=str(data["tool"]),
        text=str(data["text"]),
        is_error=bool(data["error"]),
        pictures=tuple(
            Picture(media_type=str(one["media_type"]), blob=str(one["blob"]))
            for one in data.get("pictures", ())
        ),
        blob=str(data.get("blob", "")),
    )


def tell_verdict(session: Session, call: ToolCall, use: Use, verdict: Verdict) -> None:
    session.tell(
        "judged",
        {
            "call": call.id,
            "tool": use.tool,
            "subject": use.subject[:2000],
            "decision": verdict.decision,
            "reason": verdict.reason,
            "findings": [asdict(finding) for finding in verdict.findings],
        },
    )


def failed(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, text=text, is_error=True)


def turn_of(session: Session) -> int:
    return session.record.turn.number if session.record.turn else session.record.turns


def tool_step(
    session: Session,
    call: ToolCall,
    use: Use,
    began: float,
    *,
    output: bytes,
    outcome: Outcome,
    ran: bool,
) -> Step:
    told = {"call": call.id, "tool": use.tool, "arguments": dict(use.arguments)}
    return Step(
        session=session.id,
        user=session.user,
        turn=turn_of(session),
        kind="tool",
        name=use.tool,
        began_at=began,
        ended_at=time.time(),
        input=json.dumps(told, default=str).encode(errors="replace"),
        output=output,
        place=session.record.place,
        exit_status=outcome.exit_status,
        is_error=outcome.is_error,
        facts={"call": call.id[:100], "ran": ran},
    )


def verdict_step(session: Session, call: ToolCall, use: Use, verdict: Verdict) -> Step:
    now = time.time()
    return Step(
        session=session.id,
        user=session.user,
        turn=turn_of(session),
        kind="policy",
        name=use.tool,
        began_at=now,
        ended_at=now,
        input=json.dumps({"subject": use.subject, "reason": verdict.reason}).encode(),
        is_error=verdict.decision == "deny",
        facts={
            "call": call.id[:100],
            "decision": verdict.decision,
            "risks": [
                {"rule": one.rule, "severity": one.severity, "line": one.line}
                for one in verdict.findings[:_RISKS_RECORDED]
            ],
        },
    )


def artifact_step(session: Session, call: ToolCall, artifact: Artifact) -> Step:
    now = time.time()
    return Step(
        session=session.id,
        user=session.user,
        turn=turn_of(session),
        kind="artifact",
        name=artifact.media_type,
        began_at=now,
        ended_at=now,
        input=artifact.name.encode(errors="replace"),
        output=artifact.data,
        place=session.record.place,
        facts={"call": call.id[:100]},
    )
