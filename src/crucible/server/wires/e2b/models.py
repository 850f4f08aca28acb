"""Bodies of the control plane. A field that is not known, or asks for what is not served, is refused by name."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from crucible.errors import BadRequest, MalformedBody, Unsupported
from crucible.server.models.base import Text, Variables

Seconds = Annotated[int, Field(ge=0, le=30 * 24 * 3600)]
Addresses = Annotated[list[Text], Field(max_length=1000)]
EVERYWHERE = "0.0.0.0/0"


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Network(Body):
    allowOut: Addresses | None = None  # noqa: N815 - as it is sent
    denyOut: Addresses | None = None  # noqa: N815
    allowPublicTraffic: bool | None = None  # noqa: N815
    allow_internet_access: bool | None = None
    allowPackageManagers: bool | None = None  # noqa: N815
    maskRequestHost: Text | None = None  # noqa: N815
    rules: dict[str, Any] | None = None
    egressProxy: dict[str, Any] | None = None  # noqa: N815
    httpsPorts: list[int] | None = None  # noqa: N815

    def policy(self, default: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """The mode of our policy with what it allows and denies."""
        refuse_set(
            self, "maskRequestHost", "rules", "egressProxy", "httpsPorts", "allowPackageManagers"
        )
        denied = tuple(self.denyOut or ())
        allowed = tuple(self.allowOut or ())
        rest = tuple(address for address in denied if address != EVERYWHERE)
        for address in (*allowed, *rest):
            if "/" in address:
                raise Unsupported(
                    f"A rule for {address!r} is not served: rules here are names and single addresses"
                )
        if self.allow_internet_access is False:
            return "off", (), ()
        if EVERYWHERE in denied:
            return ("allowlist" if allowed else "off"), allowed, rest
        return default, allowed, rest


class AutoResume(Body):
    enabled: bool | None = None
    timeout: Seconds | None = None


class NewSandbox(Body):
    templateID: Text  # noqa: N815
    timeout: Seconds = 15
    autoPause: bool = False  # noqa: N815
    autoPauseMemory: bool | None = None  # noqa: N815
    autoResume: AutoResume | None = None  # noqa: N815
    secure: bool | None = None
    allow_internet_access: bool | None = None
    network: Network | None = None
    metadata: Variables = {}
    envVars: Variables = {}  # noqa: N815
    mcp: dict[str, Any] | None = None
    iam: dict[str, Any] | None = None
    volumeMounts: list[dict[str, Any]] | None = None  # noqa: N815

    def check(self) -> None:
        refuse_set(self, "mcp", "iam", "volumeMounts")
        if self.autoPauseMemory is False:
            raise Unsupported("A pause keeps the memory here; one without it is not served")
        if self.autoResume is not None and self.autoResume.enabled:
            raise Unsupported("A paused sandbox is resumed by connecting to it, not by traffic")


class Timeout(Body):
    timeout: Seconds


class Refresh(Body):
    duration: Seconds = 15


class Connect(Body):
    timeout: Seconds | None = None
    memory: bool | None = None
    autoPause: bool | None = None  # noqa: N815

    def check(self) -> None:
        if self.memory is False:
            raise Unsupported("A sandbox goes on with its memory here; a reboot is not served")


class Pause(Body):
    memory: bool | None = None
    requireHealthyGuest: bool | None = None  # noqa: N815

    def check(self) -> None:
        if self.memory is False:
            raise Unsupported("A pause keeps the memory here; one without it is not served")


class Fork(Body):
    timeout: Seconds | None = None
    count: Annotated[int, Field(ge=1, le=100)] = 1


class Snapshot(Body):
    name: Text | None = None
    memory: bool | None = None

    def check(self) -> None:
        if self.memory is False:
            raise Unsupported("A snapshot has the memory here; one without it is not served")


BodyT = TypeVar("BodyT", bound=Body)


async def body_of(request: Request, kind: type[BodyT]) -> BodyT:
    data = await request.body()
    try:
        values = json.loads(data) if data else {}
    except (ValueError, RecursionError):
        raise MalformedBody("The body is not JSON") from None
    try:
        return kind.model_validate({} if values is None else values)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise BadRequest(f"{place}: {fault['msg']}") from None


def refuse_set(body: Body, *names: str) -> None:
    for name in names:
        if getattr(body, name):
            raise Unsupported(f"The field {name!r} is not served here")
