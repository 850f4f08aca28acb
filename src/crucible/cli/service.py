"""The two ways to the same service: the owner of this user's sandboxes, and one inside this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from socket import socket
from typing import Any

from crucible.cli.progress import ProgressLine
from crucible.client.connection import Owner
from crucible.client.exchange import Upload, ask
from crucible.client.flows import Sink
from crucible.client.front import SOCKET_NAME as FRONT_NAME
from crucible.config import Config, load_config
from crucible.sandbox.spec import check_name


def owner(config: Config | None = None) -> Owner:
    return Owner((config or load_config()).home)


def embedded() -> tuple[Callable[[], socket], Callable[[], None]]:
    """How to connect, once, and how to wait for the end of what that started."""
    from crucible.assemble import embedded_connection

    connection, wait = embedded_connection(load_config())
    return lambda: connection, wait


def daemon(image: str) -> tuple[Callable[[], socket], Callable[[], None]] | None:
    """The same at a running daemon. What has to be fetched first is fetched here, with this user's own settings.

    One that is just leaving may take nothing up any more; then this process is the next way.
    """
    config = load_config()
    if not (config.home / FRONT_NAME).exists():
        return None
    from crucible.errors import ImageMissing
    from crucible.images.catalog import load_image

    try:
        load_image(config.home, image)
    except ImageMissing:
        return None
    connection = Owner(config.home).connect_if_running()
    if connection is None:
        return None
    first, waits = [connection], list[Callable[[], None]]()

    def connect() -> socket:
        if first:
            return first.pop()
        again, wait = embedded()
        waits.append(wait)
        return again()

    def wait() -> None:
        """The daemon sees to the end of what it started."""
        for ours in waits:
            ours()

    return connect, wait


def ask_owner(
    verb: str,
    fields: dict[str, Any] | None = None,
    *,
    upload: Upload | None = None,
    sinks: Mapping[int, Sink] | None = None,
    doing: str = "",
) -> dict[str, Any]:
    """One request to the owner, with a progress line when it takes long."""
    request = {"verb": verb, **(fields or {})}
    if "name" in request:
        check_name(request["name"])
    progress = ProgressLine(doing)
    return ask(owner().connect, request, progress=progress, upload=upload, sinks=sinks)
