"""`python -m crucible.owner_main [--daemon [--http HOST:PORT …] [--foreground]]`: the owner as a process of its own.

Its standard output is for whoever started it: one line of JSON if it cannot begin, and then why. In the foreground
that is a person or a supervisor, who reads standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from crucible.assemble import run_owner
from crucible.config import load_config
from crucible.errors import CrucibleError, DaemonRunning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.sandbox.owner import Doors
    from crucible.sandbox.service.dispatch import Service


def main(words: Sequence[str] | None = None) -> None:
    given = sys.argv[1:] if words is None else list(words)
    starter = os.dup(1)
    os.dup2(2, 1)
    try:
        served = _serve(given)
        if "--foreground" in given and not served:
            raise DaemonRunning
    except CrucibleError as error:
        if "--foreground" in given:
            sys.stderr.write(f"error: {error.message} ({error.code})\nhint: {error.hint}\n")
            sys.exit(error.exit_status)
        os.write(starter, json.dumps(error.as_fields()).encode())
        raise


def _serve(words: Sequence[str]) -> bool:
    """`--http HOST:PORT` opens the HTTP doors as well, with the options of `crucible serve` that say how they are.

    `crucible daemon start` has checked the words.
    """
    config = load_config()
    if "--http" not in words:
        return run_owner(config, stays="--daemon" in words, doors_later=_own_door)
    from crucible.server.doorway import ACCOUNTS, OPTIONS, PUBLIC, doorway
    from crucible.server.listening import Address
    from crucible.server.serving import run_with_doors

    given = {name: words[words.index(f"--{name}") + 1] for name in OPTIONS if f"--{name}" in words}
    way = doorway(given, is_public=f"--{PUBLIC}" in words, has_accounts=f"--{ACCOUNTS}" in words)
    host, _, port = words[words.index("--http") + 1].rpartition(":")
    address = Address(
        host=host.strip("[]"),
        port=int(port),
        tls=way.tls,
        e2b=way.e2b,
        has_accounts=way.has_accounts,
        is_signup_open=way.is_signup_open,
        oidc=way.oidc,
        public_url=way.public_url,
    )
    return run_with_doors(config, address)


async def _own_door(service: Service) -> Doors:
    """HTTP at the socket in the state directory alone, for programs of this user."""
    import asyncio
    from importlib import import_module

    # In a thread: it takes a while, and others are being served.
    await asyncio.to_thread(import_module, "crucible.server.serving")
    from crucible.server.serving import http_doors
    from crucible.server.store import Store

    return http_doors(service, Store(service.manager.config.home), None)


if __name__ == "__main__":
    main()
