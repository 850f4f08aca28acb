"""How a command ended, as this wire tells it: one that failed is no success, and its output is not lost for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import JSONResponse, Response

from crucible.errors import CrucibleError
from crucible.sandbox.execution import Execution
from crucible.sandbox.session import Channel
from crucible.server.models.commands import Result
from crucible.server.streaming import event
from crucible.server.wires.agentkernel.envelope import told
from crucible.server.wires.agentkernel.models import Output
from crucible.server.wires.explaining import explanation
from crucible.server.wires.texts import follow_text

# Neither an error of the server nor one of the request that its clients know.
FAILED = 422
_LONGEST_TAIL = 2000


def answer_of(result: Result) -> Response:
    data = Output(
        output=result.output,
        stderr=result.errors,
        exit_code=result.exit.status,
        truncated=result.output_truncated or result.errors_truncated,
    )
    if not result.exit.status:
        return JSONResponse(told(data).model_dump())
    body = {"success": False, "error": failure_of(result), "data": data.model_dump()}
    return JSONResponse(body, FAILED)


def failure_of(result: Result) -> str:
    limit = f" (the limit of {result.limit.name} is {result.limit.value})" if result.limit else ""
    said = (result.errors or result.output).strip()[-_LONGEST_TAIL:]
    first = f"The command ended with status {result.exit.status}{limit}"
    return f"{first}: {said}" if said else first


def told_at_last(error: CrucibleError, request_id: str = "") -> bytes:
    return event("error", {"message": explanation(error), "code": error.code})


async def ending_events(execution: Execution) -> AsyncGenerator[bytes, None]:
    """`output`, then `done` or, if its sandbox failed, `error`."""
    try:
        async with aclosing(follow_text(execution)) as texts:
            async for channel, text in texts:
                stream = "stdout" if channel is Channel.OUTPUT else "stderr"
                yield event("output", {"data": text, "stream": stream})
        status = (await execution.wait()).status
        yield event("done", {"exit_code": status, "success": status == 0})
    except CrucibleError as error:
        yield told_at_last(error)
