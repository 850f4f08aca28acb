"""The SDK on this very machine: the same client, at the socket of the program that holds this user's sandboxes.

That program is started if it is not there, and opens its HTTP door when it is asked to. No token is needed: it knows
its user.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import crucible_client
from crucible.client.connection import Owner
from crucible.client.exchange import Unseen, ask
from crucible.config import load_config
from crucible.errors import CrucibleError
from crucible_client import Address
from crucible_client.errors import from_problem

DOOR_NAME = "http.sock"
REQUEST_S = 60.0
# The kernel takes 107 bytes; longer paths go by way of a descriptor of the directory.
_LONGEST_PATH = 100


class LocalClient(crucible_client.Client):
    """Everything that a client of a server can do, without one."""

    def __init__(self, *, timeout_s: float = REQUEST_S, address: Address | None = None) -> None:
        super().__init__(timeout_s=timeout_s, address=address or local_address())


class AsyncLocalClient(crucible_client.AsyncClient):
    """The same for programs that do other things meanwhile."""

    def __init__(self, *, timeout_s: float = REQUEST_S, address: Address | None = None) -> None:
        super().__init__(timeout_s=timeout_s, address=address or local_address())


class Sandbox(crucible_client.Sandbox):
    """A sandbox on this machine: `with Sandbox.create() as sandbox: sandbox.run("echo hello")`."""

    @classmethod
    def _usual_client(cls) -> crucible_client.Client:
        return LocalClient()


class AsyncSandbox(crucible_client.AsyncSandbox):
    """A sandbox on this machine: `async with await AsyncSandbox.create() as sandbox: …`."""

    @classmethod
    def _usual_client(cls) -> crucible_client.AsyncClient:
        return AsyncLocalClient()


def local_address() -> Address:
    try:
        home = load_config().home
    except CrucibleError as error:
        raise from_problem(error.as_fields()) from None
    return Address(
        url="http://localhost", socket=_short_path(home / DOOR_NAME), reach=lambda: _reach(home)
    )


def _reach(home: Path) -> None:
    """Returns when somebody listens at the door."""
    try:
        ask(Owner(home).connect, {"verb": "doors"}, progress=Unseen())
    except CrucibleError as error:
        raise from_problem(error.as_fields()) from None


def _short_path(path: Path) -> str:
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        return str(path)
    return f"/proc/self/fd/{_directory(path.parent)}/{path.name}"


@cache
def _directory(path: Path) -> int:
    """Open for as long as this program runs: clients may be made at any time."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
