"""Errors and values in the words of E2B's clients."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.responses import JSONResponse, Response

from crucible.errors import CrucibleError, DeadlineOver, GuestRefused, SandboxMissing, WrongState
from crucible.server.problems import RETRY_S, status_of

# What is inside a sandbox is as this release of their program has it; clients ask for features by this number.
ENVD_VERSION = "0.6.4"
_RPC_STATUSES = {
    "invalid_argument": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "already_exists": 409,
    "failed_precondition": 400,
    "resource_exhausted": 429,
    "deadline_exceeded": 504,
    "unimplemented": 501,
    "unavailable": 503,
    "internal": 500,
}
_RPC_CODES = {
    400: "invalid_argument",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    405: "unimplemented",
    409: "already_exists",
    413: "resource_exhausted",
    422: "invalid_argument",
    429: "resource_exhausted",
    501: "unimplemented",
    502: "unavailable",
    503: "unavailable",
    507: "resource_exhausted",
}


def refuse(error: CrucibleError, request_id: str) -> Response:
    """As the control plane and the files' routes tell it. The request's id is in the headers."""
    status = status_of(error)
    status = 400 if status == 422 else status
    if isinstance(error, GuestRefused) and error.guest_code == "no-space":
        status = 507
    headers = {"Retry-After": str(RETRY_S)} if status in (429, 503) else {}
    return JSONResponse({"code": status, "message": _sentence(error)}, status, headers)


def not_running(name: str) -> Response:
    """What a client takes for a sandbox that is gone."""
    message = f"The sandbox was not found: {name[:80]}"
    return JSONResponse({"sandboxId": name[:80], "message": message, "code": 502}, 502)


def is_gone(error: CrucibleError) -> bool:
    return isinstance(error, SandboxMissing | WrongState)


def rpc_code(error: CrucibleError) -> str:
    if isinstance(error, DeadlineOver):
        return "deadline_exceeded"
    return _RPC_CODES.get(status_of(error), "internal")


def rpc_error(error: CrucibleError) -> dict[str, Any]:
    return {"code": rpc_code(error), "message": _sentence(error)}


def rpc_refusal(error: CrucibleError) -> Response:
    told = rpc_error(error)
    return JSONResponse(told, _RPC_STATUSES[told["code"]])


def timestamp(seconds: float) -> str:
    return (
        datetime.fromtimestamp(seconds, UTC)
        .isoformat(timespec="microseconds")
        .replace("+00:00", "Z")
    )


def _sentence(error: CrucibleError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
