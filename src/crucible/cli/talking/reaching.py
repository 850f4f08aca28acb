"""The engine that is asked: that of this user's own program, or of a server elsewhere if one is named."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crucible.cli.grammar import Arguments, BadUsage, Option
from crucible.client.answers import ServiceError
from crucible.errors import EXIT_FAILED, EXIT_REFUSED

if TYPE_CHECKING:
    from crucible_client import Client, SessionOptions
    from crucible_client import CrucibleError as ClientError

_LARGEST_SCHEMA = 1 << 18
_LONGEST_TITLE = 60
_NO_KEY = "model-no-key"
_KEYS = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "DEEPSEEK_API_KEY",
    "GROQ_API_KEY",
    "TOGETHER_API_KEY",
)

OPTIONS = (
    Option("model", "the model, like anthropic:claude-sonnet-4-5", short="m", metavar="MODEL"),
    Option("system", "what the model is told first", metavar="TEXT"),
    Option(
        "thinking",
        "how much it thinks first",
        metavar="EFFORT",
        choices=("off", "low", "medium", "high"),
    ),
    Option("image", "what its sandbox starts from", metavar="IMAGE"),
    Option("allow", "a host that its sandbox may reach", metavar="HOST", is_repeatable=True),
    Option("secret", "NAME:HOST, a variable here; used inside, never seen there", metavar="SECRET", is_repeatable=True),
    Option("dir", "a directory that is copied into its workspace (default: WORKSPACE)", metavar="DIR"),
    Option("permit", "calls that need no asking, like 'bash(git *)'", metavar="PATTERN", is_repeatable=True),
    Option("forbid", "calls that are refused", metavar="PATTERN", is_repeatable=True),
    Option("budget-usd", "what the session may cost", metavar="USD"),
    Option("budget-tokens", "how many tokens it may use", metavar="COUNT"),
    Option("checkpoints", "keep so many snapshots to rewind to", metavar="COUNT"),
    Option("no-memory", "neither recall nor remember anything"),
)  # fmt: skip


def reach() -> Client:
    """CRUCIBLE_URL names a server; without it there is the program of this user."""
    from crucible_client import Client

    if os.environ.get("CRUCIBLE_URL"):
        return Client()
    from crucible.local import LocalClient

    return LocalClient()


def wanted(arguments: Arguments) -> SessionOptions:
    """The session that the options describe."""
    found: dict[str, Any] = {
        "sandbox": _sandbox(arguments),
        "policy": {"allow": arguments.values("permit"), "deny": arguments.values("forbid")},
        "budget": _budget(arguments),
        "memory": not arguments.flag("no-memory"),
    }
    if model := arguments.value("model"):
        found["models"] = {"agent": model, "chat": model}
    for name in ("system", "thinking"):
        if value := arguments.value(name):
            found[name] = value
    if keep := arguments.value("checkpoints"):
        found["checkpoints"] = {"is_on": True, "keep": _whole("checkpoints", keep)}
    options: SessionOptions = found  # type: ignore[assignment]
    return options


def read_schema(path: str) -> dict[str, Any]:
    """Raises BadUsage for a file that holds no JSON Schema."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_LARGEST_SCHEMA + 1)
        found = json.loads(data[: _LARGEST_SCHEMA + 1])
    except OSError as error:
        raise BadUsage(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise BadUsage(f"{path} holds no JSON, or too much of it") from None
    if not isinstance(found, dict):
        raise BadUsage(f"{path} holds no JSON Schema", hint="It must be a JSON object")
    return found


@contextmanager
def translated() -> Iterator[None]:
    """What the client raises, as every other command tells it."""
    from crucible_client import CrucibleError as ClientError
    from crucible_client.errors import Refused

    try:
        yield
    except ClientError as error:
        is_refused = isinstance(error, Refused) or 400 <= error.status < 500
        status = EXIT_REFUSED if is_refused else EXIT_FAILED
        raise ServiceError(
            error.message, hint=hint_of(error), code=error.code, exit_status=status
        ) from None


def hint_of(error: ClientError) -> str:
    return (unread_key() if error.code == _NO_KEY else "") or error.hint


def unread_key() -> str:
    """That a key which is set here is not known there, empty if none is: the program was started without it."""
    names = [name for name in _KEYS if os.environ.get(name)]
    if not names or os.environ.get("CRUCIBLE_URL"):
        return ""
    return (
        f"{names[0]} is set here, but the program that holds your sandboxes was started without it. Let it go "
        "with `crucible daemon stop` (sandboxes that run live on), or put the key into your settings"
    )


def _sandbox(arguments: Arguments) -> dict[str, Any]:
    found: dict[str, Any] = {"hosts": arguments.values("allow")}
    if secrets := arguments.values("secret"):
        found["secrets"] = secrets
    if image := arguments.value("image"):
        found["image"] = image
    if directory := arguments.value("dir") or os.environ.get("WORKSPACE"):
        found["directory"] = str(Path(directory).resolve())
    return found


def _budget(arguments: Arguments) -> dict[str, float]:
    found: dict[str, float] = {}
    if usd := arguments.value("budget-usd"):
        found["usd"] = _number("budget-usd", usd)
    if tokens := arguments.value("budget-tokens"):
        found["tokens"] = _whole("budget-tokens", tokens)
    return found


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise BadUsage(f"--{name} is {text[:80]!r}", hint="It must be a number, not below 0")
    return value


def is_number(text: str) -> bool:
    """A whole one, not so long that nobody can mean it."""
    return text.isascii() and text.isdecimal() and len(text) < 15


def title_of(prompt: str) -> str:
    """The beginning of its first line."""
    line = next((one.strip() for one in prompt.splitlines() if one.strip()), "")
    return line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 1]}…"


def _whole(name: str, text: str) -> int:
    if not is_number(text):
        raise BadUsage(f"--{name} is {text[:80]!r}", hint="It must be a whole number")
    return int(text)
