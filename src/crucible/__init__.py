"""Runs AI agents and the code they write inside microVMs, on one ordinary machine.

`from crucible import Sandbox` needs no server: it uses the program that holds this user's sandboxes, and starts it if
need be. What can be imported from here is loaded when it is asked for; `import crucible` alone loads nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.local import AsyncLocalClient as AsyncLocalClient
    from crucible.local import AsyncSandbox as AsyncSandbox
    from crucible.local import LocalClient as LocalClient
    from crucible.local import Sandbox as Sandbox
    from crucible_client import AsyncClient as AsyncClient
    from crucible_client import Client as Client
    from crucible_client import CrucibleError as CrucibleError

    # A name that is not there is a mistake that mypy shall see: to it, there is no `__getattr__`.
else:
    _PLACES = {
        "AsyncClient": "crucible_client",
        "AsyncLocalClient": "crucible.local",
        "AsyncSandbox": "crucible.local",
        "Client": "crucible_client",
        "CrucibleError": "crucible_client",
        "LocalClient": "crucible.local",
        "Sandbox": "crucible.local",
    }

    def __getattr__(name: str) -> object:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(__import__(_PLACES[name], fromlist=(name,)), name)
        globals()[name] = found
        return found
