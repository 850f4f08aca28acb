"""What E2B's clients say of a sandbox and we have no place for: a file in the sandbox's directory, gone with it."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from crucible.sandbox.records import SandboxRecord
from crucible.values import asdict, dataclass, field

FILE_NAME = "e2b.json"
DEFAULT_TIMEOUT_S = 15
FOREVER_S = 10 * 365 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`token` opens what is inside; `end_at` is when `on_timeout` happens, 0 for never.

    `is_public`: its client did not close its ports, and the server may open them to who knows its id.
    """

    token: str
    template: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    end_at: float = 0.0
    on_timeout: Literal["kill", "pause"] = "kill"
    is_public: bool = False


def new_token() -> str:
    return "ea_" + secrets.token_urlsafe(32)


def is_known(record: SandboxRecord) -> bool:
    """Whether such a client ever had to do with it."""
    return (record.directory / FILE_NAME).exists()


def facts_of(record: SandboxRecord) -> Facts:
    """Of a sandbox that was not made by such a client they are made now."""
    path = record.directory / FILE_NAME
    with contextlib.suppress(FileNotFoundError):
        return Facts(**json.loads(path.read_text()))
    facts = Facts(token=new_token(), template=record.spec.image)
    keep(record, facts)
    return facts


def keep(record: SandboxRecord, facts: Facts) -> None:
    path = record.directory / FILE_NAME
    aside = Path(f"{path}.{secrets.token_hex(4)}")
    aside.touch(0o600, exist_ok=False)
    aside.write_text(json.dumps(asdict(facts)))
    aside.rename(path)
