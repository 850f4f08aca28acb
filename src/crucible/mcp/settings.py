"""Which MCP servers a user has: `mcp.toml` beside the user's settings, and two variables that turn them on.

A server may be a program on this host. A project can therefore not declare any.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from crucible.config import parse_flag
from crucible.errors import BadSetting, suggestion
from crucible.user_file import read_own_toml, user_file

FILE_NAME = "mcp.toml"
VARIABLE = "CRUCIBLE_MCP"
ENABLED = "MCP_ENABLED"
DYNAMIC = "MCP_DYNAMIC_DISCOVERY"
MOST_SERVERS = 32
USUAL_TIMEOUT_S = 60.0
LONGEST_TIMEOUT_S = 3600.0
SERVER_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_KEYS = ("command", "url", "where", "environment", "environment_from", "headers_env", "timeout_s")

Where = Literal["sandbox", "host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """Reached by its standard input and output (`command`) or over HTTP (`url`).

    A command runs in the session's sandbox unless `where` says otherwise. `environment_from` names variables of this
    host that it is given; `headers_env` maps headers of requests to variables with their values, `headers` has values.
    One that `is_public_only` is not reached at an address that only this machine and its network can reach.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    where: Where = "sandbox"
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment_from: tuple[str, ...] = ()
    headers_env: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = USUAL_TIMEOUT_S
    is_public_only: bool = False

    @property
    def reaches_outside(self) -> bool:
        """Whether what it does is held by no sandbox of ours."""
        return bool(self.url) or self.where == "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """`is_dynamic`: tools are listed again before each turn; otherwise once for a session."""

    servers: tuple[McpServer, ...] = ()
    is_dynamic: bool = False


def load_mcp_settings(environment: Mapping[str, str]) -> McpSettings:
    """Without MCP_ENABLED there are none, whatever the file says. Raises BadSetting."""
    if not parse_flag(environment.get(ENABLED) or "false", ENABLED):
        return McpSettings()
    path = _place(environment)
    servers = () if path is None else parse_servers(read_own_toml(path), str(path))
    return McpSettings(
        servers=servers, is_dynamic=parse_flag(environment.get(DYNAMIC) or "false", DYNAMIC)
    )


def parse_servers(document: Mapping[str, Any], where: str) -> tuple[McpServer, ...]:
    for key in document:
        if key != "server":
            raise BadSetting(f"{where} has no use for {key!r}", hint="Servers are [server.NAME]")
    tables = document.get("server", {})
    if not isinstance(tables, dict) or len(tables) > MOST_SERVERS:
        raise BadSetting(f"{where} needs tables [server.NAME], at most {MOST_SERVERS}")
    return tuple(_server(name, table, where) for name, table in tables.items())


def _place(environment: Mapping[str, str]) -> Path | None:
    if named := environment.get(VARIABLE):
        if not Path(named).is_absolute():
            raise BadSetting(f"{VARIABLE} is {named!r}", hint="It must be an absolute path")
        return Path(named)
    own = user_file(environment)
    return None if own is None or own == Path(os.devnull) else own.with_name(FILE_NAME)


def _server(name: str, table: object, file: str) -> McpServer:
    where = f"[server.{name[:40]}] of {file}"
    if SERVER_NAME.fullmatch(name) is None:
        raise BadSetting(f"{file} names a server {name[:80]!r}", hint="Small letters, digits and -")
    if not isinstance(table, dict):
        raise BadSetting(f"{where} is no table")
    for key in table:
        if key not in _KEYS:
            raise BadSetting(f"{where} has no use for {key!r}", hint=suggestion(key, _KEYS))
    if ("command" in table) == ("url" in table):
        raise BadSetting(f"{where} needs either `command` or `url`")
    found = McpServer(
        name=name,
        command=_texts(table.get("command", []), f"`command` of {where}"),
        url=_url(table.get("url", ""), where),
        where=_where(table.get("where", "sandbox"), where),
        environment=_table(table.get("environment", {}), f"`environment` of {where}"),
        environment_from=_texts(
            table.get("environment_from", []), f"`environment_from` of {where}"
        ),
        headers_env=_table(table.get("headers_env", {}), f"`headers_env` of {where}"),
        timeout_s=_seconds(table.get("timeout_s", USUAL_TIMEOUT_S), where),
    )
    if found.environment_from and found.where == "sandbox":
        # A sandbox has no use for a secret of the host; the gateway adds those, bound to their hosts.
        raise BadSetting(
            f"{where} would hand variables of this host into the sandbox",
            hint='Set `where = "host"`, or bind the secret to the host it is for',
        )
    return found


def _where(value: object, where: str) -> Where:
    if value == "sandbox" or value == "host":
        return value
    raise BadSetting(f"`where` of {where} is {value!r:.80}", hint="Use sandbox or host")


def _url(value: object, where: str) -> str:
    if value == "":
        return ""
    if isinstance(value, str) and re.match(r"https?://[^/@\s]+(/|$)", value) and len(value) < 4096:
        return value
    raise BadSetting(f"`url` of {where} is {value!r:.80}", hint="It must be an http or https URL")


def _texts(value: Any, what: str) -> tuple[str, ...]:
    is_short = isinstance(value, list) and len(value) <= 64
    if is_short and all(isinstance(one, str) and one and "\0" not in one for one in value):
        return tuple(value)
    raise BadSetting(f"{what} must be a list of texts")


def _table(value: object, what: str) -> Mapping[str, str]:
    if isinstance(value, dict) and all(isinstance(one, str) for one in value.values()):
        return value
    raise BadSetting(f"{what} must be a table of texts")


def _seconds(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadSetting(f"`timeout_s` of {where} is no number")
    if not 0 < value <= LONGEST_TIMEOUT_S:
        raise BadSetting(
            f"`timeout_s` of {where} is {value:g}", hint=f"At most {LONGEST_TIMEOUT_S:g}"
        )
    return float(value)
