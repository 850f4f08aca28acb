"""Errors as answers: one table from error classes to statuses, one shape (RFC 9457), no stack traces."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket

from crucible import errors
from crucible.errors import CrucibleError
from crucible.sandbox.service.dispatch import InternalError

MEDIA_TYPE = "application/problem+json"
RETRY_S = 1
_MOST_FAULTS = 20

# The first class that fits counts; subclasses stand before their bases.
STATUSES: tuple[tuple[type[CrucibleError], int], ...] = (
    (errors.Unauthenticated, 401),
    (errors.Forbidden, 403),
    (errors.RequestForged, 403),
    (errors.TooManyRequests, 429),
    (errors.RequestTooLarge, 413),
    (errors.RequestTooSlow, 408),
    (errors.RouteMissing, 404),
    (errors.MethodRefused, 405),
    (errors.MalformedBody, 400),
    (errors.MalformedRequest, 400),
    (errors.BadRequest, 422),
    (errors.ClientLeft, 499),
    (errors.KeyReused, 409),
    (errors.OutcomeUnknown, 409),
    (errors.TokenMissing, 404),
    (errors.BrowserMissing, 404),
    (errors.SandboxMissing, 404),
    (errors.SnapshotMissing, 404),
    (errors.VolumeMissing, 404),
    (errors.CommandMissing, 404),
    (errors.ContextMissing, 404),
    (errors.ImageMissing, 404),
    (errors.ImageNotFound, 404),
    (errors.SessionMissing, 404),
    (errors.ConversationMissing, 404),
    (errors.UploadMissing, 404),
    (errors.UploadTooLarge, 413),
    (errors.UploadQuotaSpent, 413),
    (errors.TooManyTurns, 429),
    (errors.BadFileName, 422),
    (errors.ApprovalMissing, 404),
    (errors.StepMissing, 404),
    (errors.TurnMissing, 404),
    (errors.TurnCompacted, 409),
    (errors.TurnResumed, 409),
    (errors.ArtifactMissing, 404),
    (errors.ArtifactErased, 410),
    (errors.RunMissing, 404),
    (errors.MemoryMissing, 404),
    (errors.SkillMissing, 404),
    (errors.SkillTaken, 409),
    (errors.SkillChanged, 409),
    (errors.UserMissing, 404),
    (errors.UserTaken, 409),
    (errors.LastAdministrator, 409),
    (errors.SignInRefused, 403),
    (errors.SignUpClosed, 403),
    (errors.CodeRefused, 403),
    (errors.IdentityRefused, 403),
    (errors.SignInBusy, 503),
    (errors.TooManyAttempts, 429),
    (errors.PlanMissing, 404),
    (errors.SessionBusy, 409),
    (errors.NothingToResume, 409),
    (errors.BudgetSpent, 402),
    (errors.ProbeFailed, 502),
    (errors.McpFailed, 502),
    (errors.OwnServerMissing, 404),
    (errors.OwnServerTaken, 409),
    (errors.ContentGone, 410),
    (errors.LedgerBroken, 409),
    (errors.MemoryOff, 409),
    (errors.ForgettingIncomplete, 503),
    (errors.CommandEnded, 409),
    (errors.FellBehind, 409),
    (errors.TooManyOnlookers, 503),
    (errors.NameTaken, 409),
    (errors.SnapshotTaken, 409),
    (errors.VolumeTaken, 409),
    (errors.VolumeBusy, 409),
    (errors.WrongState, 409),
    (errors.PortTaken, 409),
    (errors.TooManyPorts, 409),
    (errors.ImageInUse, 409),
    (errors.NotEnoughMemory, 503),
    (errors.Overloaded, 503),
    (errors.RegistryDenied, 502),
    (errors.Unsupported, 501),
    (errors.Refused, 422),
    (errors.BuildStepFailed, 422),
    (errors.BadToolCall, 422),
    (errors.EngineClosed, 503),
    (errors.ModelError, 502),
    (errors.RegistryBusy, 503),
    (errors.ImageError, 502),
    (errors.HostDiskFull, 507),
    (errors.SetupError, 503),
    (errors.SandboxError, 502),
)
# Of rooms that this one does not know.
_CODE_STATUSES = {"snapshot-damaged": 422}
_GUEST_STATUSES = {"not-found": 404, "exists": 409, "permission": 403}


def status_of(error: CrucibleError) -> int:
    if isinstance(error, errors.CommandNotFound | errors.CommandNotExecutable):
        return 422
    if isinstance(error, errors.GuestRefused):
        return _GUEST_STATUSES.get(error.guest_code, 422)
    usual = _CODE_STATUSES.get(error.code, 500)
    return next((status for kind, status in STATUSES if isinstance(error, kind)), usual)


def fields_of(error: CrucibleError, request_id: str) -> dict[str, Any]:
    status = status_of(error)
    return {
        "type": f"urn:crucible:error:{error.code}",
        "title": error.code.replace("-", " "),
        "status": status,
        "code": error.code,
        "message": _text(error.message),
        "hint": _text(error.hint),
        "request_id": request_id,
    }


def _text(words: str) -> str:
    """Names of a guest may hold bytes that are no text; an answer is UTF-8."""
    return words.encode(errors="backslashreplace").decode()


def problem(error: CrucibleError, request_id: str) -> Response:
    fields = fields_of(error, request_id)
    return JSONResponse(fields, fields["status"], headers_of(error), MEDIA_TYPE)


def headers_of(error: CrucibleError) -> dict[str, str]:
    """What goes with a refusal in any wire."""
    status = status_of(error)
    if status in (429, 503):
        return {"Retry-After": str(getattr(error, "retry_after_s", RETRY_S))}
    return {"WWW-Authenticate": "Bearer"} if status == 401 else {}


def from_exception(error: Exception) -> CrucibleError:
    """Any exception as one of ours. A defect is told in the log, and here only that there was one."""
    if isinstance(error, CrucibleError):
        return error
    if isinstance(error.__cause__, CrucibleError):
        # What the gate raised while a body was read comes wrapped in an error about reading.
        return error.__cause__
    if isinstance(error, RequestValidationError | WebSocketRequestValidationError):
        is_malformed = any(fault["type"] == "json_invalid" for fault in error.errors())
        kind = errors.MalformedBody if is_malformed else errors.BadRequest
        return kind(_faults(error))
    if isinstance(error, HTTPException):
        if error.status_code == 400:
            return errors.MalformedBody(str(error.detail))
        return errors.MethodRefused() if error.status_code == 405 else errors.RouteMissing()
    traceback.print_exception(error)
    return InternalError("Crucible failed; its log tells how")


def install(app: FastAPI, refuse: Callable[[CrucibleError, str], Response] = problem) -> None:
    """All errors of its routes are told in the same words."""

    async def answer(connection: HTTPConnection, error: Exception) -> Response:
        response = refuse(from_exception(error), connection.state.request_id)
        if isinstance(connection, WebSocket):
            await connection.send_denial_response(response)
        return response

    for kind in (
        CrucibleError,
        RequestValidationError,
        WebSocketRequestValidationError,
        HTTPException,
        Exception,
    ):
        app.add_exception_handler(kind, answer)


def _faults(error: RequestValidationError | WebSocketRequestValidationError) -> str:
    told = []
    for fault in error.errors()[:_MOST_FAULTS]:
        place = ".".join(str(part) for part in fault["loc"])
        told.append(f"{place}: {fault['msg']}")
    return "; ".join(told)
