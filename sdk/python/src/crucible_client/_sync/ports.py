"""Ports of a sandbox: where programs in it listen, and which the server's machine passes on."""

# Made of the file of this name in `_async` by scripts/python_sdk.py; `make docs` writes it anew.

from __future__ import annotations

import time

from crucible_client._sync.http import Http
from crucible_client._sync.waiting import sleep
from crucible_client.errors import NoAnswer, PortMissing
from crucible_client.values import PortList, PublishedPort

_LOOK_EVERY_S = 0.1


class Ports:
    """Ports are published when a sandbox is created: `create(ports=["3000"])`."""

    def __init__(self, http: Http, path: str) -> None:
        self._http = http
        self._path = f"{path}/ports"

    def list(self) -> PortList:
        return PortList.read(self._http.call("GET", self._path))

    def find(self, port: int) -> PublishedPort:
        """Where a port of the sandbox can be reached, as `address`, `host` and `url`. Raises PortMissing."""
        for one in (self.list()).published:
            if one.guest == port:
                return one
        raise PortMissing(
            f"Port {port} of the sandbox is not published",
            hint=f'Create it with `ports=["{port}"]`',
        )

    def wait(self, port: int, *, timeout_s: float = 60.0) -> None:
        """Until a program in the sandbox listens there. Raises NoAnswer."""
        deadline = time.monotonic() + timeout_s
        while port not in (self.list()).listening:
            if time.monotonic() > deadline:
                raise NoAnswer(
                    f"Nobody in the sandbox listened on port {port} within {timeout_s:g} s"
                )
            sleep(_LOOK_EVERY_S)
