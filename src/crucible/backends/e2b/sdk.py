"""The official SDK, loaded when it is first needed, and its errors in our own words. The key is in none of them."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from crucible.errors import (
    CrucibleError,
    GuestGone,
    GuestRefused,
    PrerequisiteMissing,
    RemoteRefused,
    RemoteUnreachable,
)
from crucible.values import dataclass

INSTALL = "pip install 'crucible[e2b]'"
REQUEST_S = 60.0
_LONGEST = 300
_VARIABLES = {
    "api_key": "E2B_API_KEY",
    "api_url": "E2B_API_URL",
    "sandbox_url": "E2B_SANDBOX_URL",
    "domain": "E2B_DOMAIN",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How the service is reached. It is never shown: the key is in it."""

    options: Mapping[str, str]

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Access:
        return cls(
            options={
                name: environment[variable]
                for name, variable in _VARIABLES.items()
                if environment.get(variable)
            }
        )

    @property
    def key(self) -> str:
        return self.options.get("api_key", "")

    def __repr__(self) -> str:
        return f"Access({', '.join(sorted(self.options))})"

    def given(self, *, request_s: float = REQUEST_S) -> dict[str, Any]:
        """What each call of the SDK gets."""
        return {**self.options, "debug": False, "request_timeout": request_s}


class Sdk:
    """The parts of the package that are used. Its `envd` modules carry bytes, which its public verbs do not."""

    def __init__(self) -> None:
        try:
            package = importlib.import_module("e2b")
            self.sandbox: Any = package.AsyncSandbox
            self.blocking: Any = package.Sandbox
            self.query: Any = package.SandboxQuery
            self.errors: Any = importlib.import_module("e2b.exceptions")
            self.process: Any = importlib.import_module("e2b.envd.process.process_pb")
            connect = importlib.import_module("e2b.envd.process.process_connect")
            self.process_client: Any = connect.ProcessClient
            client = importlib.import_module("e2b.envd.client_async")
            self.make_client: Any = client.create_rpc_client
            self.rpc: Any = importlib.import_module("connectrpc.errors").ConnectError
            self.codes: Any = importlib.import_module("connectrpc.code").Code
            self.one_of: Any = importlib.import_module("protobuf").Oneof
        except ImportError as error:
            if error.name == "e2b":
                raise PrerequisiteMissing(
                    "Sandboxes at E2B need its SDK, which is not installed", hint=INSTALL
                ) from None
            raise PrerequisiteMissing(
                f"The release of E2B's SDK that is installed is not known: {error}", hint=INSTALL
            ) from None
        except AttributeError as error:
            raise PrerequisiteMissing(
                f"The release of E2B's SDK that is installed is not known: {error}", hint=INSTALL
            ) from None


_loaded: list[Sdk] = []


def load() -> Sdk:
    if not _loaded:
        _loaded.append(Sdk())
    return _loaded[0]


@contextmanager
def translated(access: Access, sandbox: str) -> Iterator[None]:
    """Foreign exceptions become ours here, and nowhere else."""
    try:
        yield
    except (CrucibleError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise _ours(load(), access, sandbox, error) from None


def _ours(sdk: Sdk, access: Access, sandbox: str, error: Exception) -> BaseException:
    # Its transport makes an error of a task's being cancelled.
    if isinstance(error.__cause__, asyncio.CancelledError):
        return error.__cause__
    errors, said = sdk.errors, shown(access, error)
    if isinstance(error, sdk.rpc):
        return _of_rpc(sdk, sandbox, error, said)
    if isinstance(error, errors.SandboxNotFoundException | errors.SandboxNotRunningException):
        return GuestGone(sandbox, "the provider does not have it any more")
    if isinstance(error, errors.FileNotFoundException):
        return GuestRefused("not-found", said)
    if isinstance(error, errors.NotFoundException):
        return RemoteRefused(f"The provider does not have what was asked for: {said}")
    if isinstance(error, errors.AuthenticationException):
        return RemoteRefused(
            f"The provider does not accept the key: {said}", hint="Look at E2B_API_KEY"
        )
    if isinstance(error, errors.NotEnoughSpaceException):
        return GuestRefused("no-space", "The sandbox's disk is full")
    if isinstance(error, errors.TimeoutException | errors.ServiceBusyException | OSError):
        return RemoteUnreachable(f"The provider did not answer: {said}")
    if isinstance(error, errors.SandboxException):
        return RemoteRefused(f"The provider refused: {said}")
    return RemoteUnreachable(f"The provider could not be used: {type(error).__name__}: {said}")


def _of_rpc(sdk: Sdk, sandbox: str, error: Any, said: str) -> CrucibleError:
    code = sdk.codes
    if error.code is code.UNAVAILABLE and sdk.errors.is_sandbox_not_found_message(error.message):
        return GuestGone(sandbox, "the provider does not have it any more")
    if error.code is code.NOT_FOUND:
        return GuestRefused("not-found", said)
    if error.code in (code.UNAVAILABLE, code.DEADLINE_EXCEEDED, code.CANCELED, code.UNKNOWN):
        return RemoteUnreachable(f"The sandbox could not be reached: {said}")
    if error.code in (code.UNAUTHENTICATED, code.INVALID_ARGUMENT) and "user" in said.lower():
        return GuestRefused("no-such-user", said)
    return GuestRefused("bad-request", said)


def shown(access: Access, error: BaseException) -> str:
    """What it says, short, without control characters and without the key."""
    text = str(error) or type(error).__name__
    if access.key:
        text = text.replace(access.key, "[key]")
    text = text[:_LONGEST]
    return "".join(char if char.isprintable() else " " for char in text)
