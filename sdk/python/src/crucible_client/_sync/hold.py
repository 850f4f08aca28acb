"""The line on which a temporary sandbox hangs: while it is open the sandbox lives, however its program ends."""

# Made of the file of this name in `_async` by scripts/python_sdk.py; `make docs` writes it anew.

from __future__ import annotations

from contextlib import closing

from crucible_client._sync.http import Http
from crucible_client._sync.waiting import Background, sleep
from crucible_client.errors import CrucibleError, SandboxMissing

# How long a sandbox lives on without its line: time to come back for a program whose server was replaced.
LEASE_S = 60.0
_AGAIN_S = 0.5


class Hold:
    def __init__(self, http: Http, path: str, *, ttl_s: float) -> None:
        self._http = http
        self._path = f"{path}/hold"
        self._ttl_s = ttl_s
        self._is_over = False
        self._keeping = Background(self._keep)

    def release(self) -> None:
        """Whoever calls this removes the sandbox as well."""
        self._is_over = True
        self._keeping.stop()

    def _keep(self) -> None:
        """Held anew when the connection breaks, until the sandbox is gone or the server says no for long."""
        asked = {"lease_s": LEASE_S, "ttl_s": self._ttl_s}
        failures = 0
        while not self._is_over and failures * _AGAIN_S < LEASE_S:
            try:
                told = self._http.events("POST", self._path, params=asked)
                with closing(told) as following:
                    for event in following:
                        failures = 0 if event.kind == "held" else failures
            except (SandboxMissing, RuntimeError):
                # RuntimeError: the client was closed meanwhile.
                return
            except CrucibleError:
                failures += 1
            if not self._is_over:
                sleep(_AGAIN_S)
