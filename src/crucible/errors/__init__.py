"""Every error Crucible raises on purpose: a class that names the state, a stable code, a hint.

A command that fails inside a sandbox is a result and never appears here. A new error goes into the module of its room
and is imported from here: `from crucible.errors import BadName`. A module is loaded when something in it is asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.errors.accounts import *
    from crucible.errors.agent import *
    from crucible.errors.base import *
    from crucible.errors.build import *
    from crucible.errors.conversations import *
    from crucible.errors.daemon import *
    from crucible.errors.doors import *
    from crucible.errors.images import *
    from crucible.errors.ledger import *
    from crucible.errors.mcp import *
    from crucible.errors.memory import *
    from crucible.errors.models import *
    from crucible.errors.network import *
    from crucible.errors.permissions import *
    from crucible.errors.pulling import *
    from crucible.errors.remote import *
    from crucible.errors.sandbox import *
    from crucible.errors.settings import *
    from crucible.errors.setup import *
    from crucible.errors.skills import *
    from crucible.errors.store import *
    from crucible.errors.volumes import *
    from crucible.errors.worker import *

    # A name that no room has is a mistake that mypy shall see: to it, there is no `__getattr__`.
else:
    # In the order in which they are searched: first those that a `run` cannot do without.
    _ROOMS = (
        "base",
        "sandbox",
        "setup",
        "images",
        "pulling",
        "volumes",
        "network",
        "build",
        "doors",
        "daemon",
        "remote",
        "worker",
        "accounts",
        "agent",
        "conversations",
        "settings",
        "models",
        "memory",
        "mcp",
        "skills",
        "store",
        "ledger",
        "permissions",
    )

    def __getattr__(name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        for room in _ROOMS:
            names = vars(__import__(f"{__name__}.{room}", fromlist=("",)))
            if name in names:
                globals().update(item for item in names.items() if item[0][0] != "_")
                return names[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
