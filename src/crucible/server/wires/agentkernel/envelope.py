"""How this wire answers: `{success, data}`, or `{success, error}` with what our own problems say beside it."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from starlette.responses import JSONResponse, Response

from crucible.errors import CrucibleError
from crucible.server.models.base import Told
from crucible.server.problems import fields_of, headers_of
from crucible.server.wires.explaining import explanation

Data = TypeVar("Data")

# What its clients tell apart is 400, 401 and 404.
_STATUSES = {422: 400}


class Envelope(Told, Generic[Data]):
    success: Literal[True] = True
    data: Data


def told(data: Data) -> Envelope[Data]:
    return Envelope(data=data)


def refuse(error: CrucibleError, request_id: str) -> Response:
    fields = fields_of(error, request_id)
    status = _STATUSES.get(fields["status"], fields["status"])
    body = {
        "success": False,
        "error": explanation(error),
        "code": error.code,
        "hint": fields["hint"],
        "request_id": request_id,
    }
    return JSONResponse(body, status, headers_of(error))
