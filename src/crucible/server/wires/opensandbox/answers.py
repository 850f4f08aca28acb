"""How this wire tells errors, and by which header it knows its callers."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from crucible.errors import CrucibleError
from crucible.server.auth import Caller, caller_with, given_token
from crucible.server.domain import Domain
from crucible.server.problems import fields_of, headers_of
from crucible.server.wires.explaining import explanation

KEY_HEADER = "OPEN-SANDBOX-API-KEY"
# What its clients read a message from.
_STATUSES = {422: 400}


def refuse(error: CrucibleError, request_id: str) -> Response:
    fields = fields_of(error, request_id)
    status = _STATUSES.get(fields["status"], fields["status"])
    body = {"code": error.code, "message": explanation(error), "request_id": request_id}
    return JSONResponse(body, status, headers_of(error))


def authenticate(domain: Domain, connection: HTTPConnection) -> Caller:
    return caller_with(domain, given_key(connection))


def given_key(connection: HTTPConnection) -> str:
    return connection.headers.get(KEY_HEADER) or given_token(connection)
