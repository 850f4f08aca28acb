"""Tools of MCP servers as a session has them: named after their server, under the same policy as all others."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crucible.agent.models.base import ToolSpec
from crucible.agent.tools.base import Artifact, Context, Outcome, Use
from crucible.agent.tools.fitting import faults_of
from crucible.agent.tools.wording import clean_text, cut
from crucible.errors import BadToolCall, McpFailed
from crucible.mcp.connection import Connection

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool

PREFIX = "mcp"
_LONGEST_DESCRIPTION = 4000
_LARGEST_SCHEMA = 64 << 10
_MOST_ARTIFACTS = 16
_LARGEST_ARTIFACT = 16 << 20
_UNUSUAL = re.compile(r"[^A-Za-z0-9_-]")


def tool_name(server: str, tool: str) -> str:
    """As a model calls it; providers allow 64 letters, digits, `_` and `-`."""
    name = f"{PREFIX}__{server}__{_UNUSUAL.sub('_', tool)}"
    if len(name) <= 64 and _UNUSUAL.search(tool) is None:
        return name
    mark = hashlib.sha256(f"{server}/{tool}".encode()).hexdigest()[:8]
    return f"{name[:55]}_{mark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool:
    connection: Connection
    told: Tool

    @property
    def spec(self) -> ToolSpec:
        """What a server says of its tools is shown to the model, and bounded."""
        server = self.connection.server.name
        said = clean_text(self.told.description or self.told.name)[:_LONGEST_DESCRIPTION]
        return ToolSpec(
            name=tool_name(server, self.told.name),
            description=f"[of the MCP server {server}] {said}",
            parameters=_schema(self.told.input_schema),
        )

    def use(self, arguments: Mapping[str, Any]) -> Use:
        self._check(arguments)
        return Use(
            tool=self.spec.name,
            arguments=dict(arguments),
            subject=json.dumps(dict(arguments), ensure_ascii=False, sort_keys=True),
            reach="outside" if self.connection.server.reaches_outside else "sandbox",
        )

    async def run(self, use: Use, context: Context) -> Outcome:
        try:
            result = await self.connection.call(self.told.name, use.arguments)
        except McpFailed as error:
            return Outcome(text=error.message, is_error=True)
        return _outcome(result)

    def _check(self, arguments: Mapping[str, Any]) -> None:
        if told := faults_of(self.spec.parameters, arguments):
            raise BadToolCall(f"The arguments of `{self.spec.name}` do not fit: {told}")


def _schema(value: Mapping[str, Any]) -> Mapping[str, Any]:
    plain = {"type": "object"}
    try:
        size = len(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return plain
    return value if size <= _LARGEST_SCHEMA and value.get("type") == "object" else plain


def _outcome(result: CallToolResult) -> Outcome:
    texts: list[str] = []
    artifacts: list[Artifact] = []
    for block in result.content:
        texts.append(_text(block))
        found = _artifact(block, len(artifacts) + 1)
        if found is not None and len(artifacts) < _MOST_ARTIFACTS:
            artifacts.append(found)
    if not texts and result.structured_content is not None:
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    whole = "\n".join(texts)
    return Outcome(
        text=cut(clean_text(whole)) or "[no output]",
        is_error=result.is_error,
        artifacts=tuple(artifacts),
        whole=whole.encode(errors="backslashreplace"),
    )


def _text(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    if block.type in ("image", "audio"):
        return f"[{block.type}, {block.mime_type}: shown to the user]"
    if block.type == "resource":
        return getattr(block.resource, "text", "") or f"[{block.resource.uri}]"
    return f"[{getattr(block, 'uri', block.type)}]"


def _artifact(block: Any, number: int) -> Artifact | None:
    if block.type not in ("image", "audio"):
        return None
    try:
        data = base64.b64decode(block.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(data) > _LARGEST_ARTIFACT:
        return None
    media = block.mime_type if re.fullmatch(r"[\w.+-]+/[\w.+-]+", block.mime_type or "") else ""
    return Artifact(
        name=f"{block.type}-{number}", media_type=media or "application/octet-stream", data=data
    )
