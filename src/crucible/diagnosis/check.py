"""One thing that was looked at, what was found, and the exact command that mends it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`warn`: Crucible works, but less well than it could. `fix` is empty when there is nothing to do."""

    name: str
    status: Status
    finding: str
    fix: str = ""


def ok(name: str, finding: str) -> Check:
    return Check(name=name, status="ok", finding=finding)


def warn(name: str, finding: str, fix: str = "") -> Check:
    return Check(name=name, status="warn", finding=finding, fix=fix)


def fail(name: str, finding: str, fix: str = "") -> Check:
    return Check(name=name, status="fail", finding=finding, fix=fix)


def has_failed(checks: Iterable[Check]) -> bool:
    return any(check.status == "fail" for check in checks)
