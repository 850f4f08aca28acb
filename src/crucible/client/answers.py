"""What the service answers, checked as it comes in: errors, starts and exits."""

from __future__ import annotations

from typing import Any

from crucible.client.protocol import BrokenFrame
from crucible.errors import EXIT_FAILED, CrucibleError


class ServiceError(CrucibleError):
    """An error that the service raised, with the code and the exit status it had there."""

    def __init__(self, message: str, *, hint: str, code: str, exit_status: int) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.exit_status = exit_status


class Started:
    """A command that runs: how to find it again, and where its channels stand."""

    __slots__ = ("backend", "errors", "input", "isolation", "name", "output", "pid", "stream")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.stream = whole(fields, "stream")
        self.pid = whole(fields, "pid")
        self.name = words(fields, "name")
        self.backend = words(fields, "backend")
        self.isolation = words(fields, "isolation")
        self.input = whole(fields, "input", -1)
        self.output = whole(fields, "output")
        self.errors = whole(fields, "errors")


class Exit:
    """How a command ended, with the status we end with too."""

    __slots__ = ("status", "wall_s")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.status = whole(fields, "status", EXIT_FAILED)
        wall = fields.get("wall_s")
        self.wall_s = float(wall) if isinstance(wall, int | float) else 0.0


def service_error(fields: object) -> ServiceError:
    if not isinstance(fields, dict):
        raise BrokenFrame("An error came without its fields")
    status = whole(fields, "exit_status", EXIT_FAILED)
    return ServiceError(
        words(fields, "message") or "The request failed without a reason",
        hint=words(fields, "hint"),
        code=words(fields, "code") or "crucible",
        exit_status=status if 1 <= status <= 255 else EXIT_FAILED,
    )


def table(message: dict[str, Any], key: str) -> dict[str, Any]:
    value = message.get(key)
    if not isinstance(value, dict):
        raise BrokenFrame(f"An answer came without {key!r}")
    return value


def rows(message: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = message.get(key)
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise BrokenFrame(f"An answer came without {key!r}")
    return value


def whole(fields: dict[str, Any], key: str, default: int = 0) -> int:
    value = fields.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def words(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""
