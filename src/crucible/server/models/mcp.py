"""MCP servers of a user. Headers and variables may be secrets: they go in, and only their names come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, SecretStr, model_validator

from crucible.server.models.base import Asked, Told

if TYPE_CHECKING:
    from crucible.conversations.settings import OwnServer

ServerName = Annotated[str, Field(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$")]
Word = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$")]
HeaderValue = Annotated[SecretStr, Field(max_length=4096)]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
VariableValue = Annotated[SecretStr, Field(max_length=4096)]
Url = Annotated[str, Field(max_length=2048, pattern=r"^https?://[^/@\s\\?#]+(?:/[^\s#]*)?$")]


class ServerWanted(Asked):
    """Either a `command`, which runs in the session's sandbox unless `where` says otherwise, or a `url`.

    On the host it runs only for an administrator, who alone may name an address of this machine or its network, too.
    """

    name: ServerName
    command: Annotated[list[Word], Field(max_length=64)] = []
    url: Url | None = None
    where: Literal["sandbox", "host"] = "sandbox"
    environment: Annotated[dict[VariableName, VariableValue], Field(max_length=64)] = {}
    headers: Annotated[dict[HeaderName, HeaderValue], Field(max_length=32)] = {}
    timeout_s: Annotated[float, Field(ge=1, le=600)] = 60.0

    @model_validator(mode="after")
    def _is_one_of_two(self) -> ServerWanted:
        if bool(self.command) == bool(self.url):
            raise ValueError("needs either a command or a url")
        if self.url and (self.where == "host" or self.environment):
            raise ValueError("a server at a url has no place and no variables of its own")
        if self.command and self.headers:
            raise ValueError("only a server at a url has headers")
        for value in self.headers.values():
            text = value.get_secret_value()
            if not text.isascii() or not text.isprintable():
                raise ValueError("a header has odd characters")
        if any("\0" in value.get_secret_value() for value in self.environment.values()):
            raise ValueError("a variable has odd characters")
        return self


class ServerTold(Told):
    name: str
    command: list[str]
    url: str
    where: Literal["sandbox", "host"]
    environment: list[str] = Field(
        description="Names of variables; their values are told to nobody"
    )
    headers: list[str] = Field(description="Names of headers; their values are told to nobody")
    timeout_s: float

    @classmethod
    def of(cls, server: OwnServer) -> ServerTold:
        return cls(
            name=server.name,
            command=list(server.command),
            url=server.url,
            where=server.where,
            environment=sorted(server.environment),
            headers=sorted(server.headers),
            timeout_s=server.timeout_s,
        )


class ServerList(Told):
    items: list[ServerTold]


class ServerTool(Told):
    """As the server tells of itself: what it says is its own."""

    name: str
    description: str
    input_schema: dict[str, Any]


class ServerTools(Told):
    tools: list[ServerTool]
    duration_s: float
