"""What a sandbox may reach, and where it can be reached."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from crucible.sandbox.doors.listening import listening_ports
from crucible.sandbox.holding import Held
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.service.network import NetworkChange
from crucible.server.auth import MAY_READ, MAY_RUN, TheDomain
from crucible.server.models.base import Asked, Name, Texts, Told
from crucible.server.routes import PREFIX

router = APIRouter(prefix=PREFIX, tags=["network"])


class Change(Asked):
    """Rules that are removed go from both lists."""

    mode: Literal["off", "allowlist", "full"] | None = None
    allow: Texts = []
    deny: Texts = []
    remove: Texts = []


class Policy(Told):
    mode: str
    allow: list[str]
    deny: list[str]

    @classmethod
    def of(cls, record: SandboxRecord) -> Policy:
        spec = record.spec
        return cls(mode=spec.network, allow=list(spec.allow), deny=list(spec.deny))


class PublishedPort(Told):
    address: str
    host: int
    guest: int


class PortWanted(Asked):
    guest: Annotated[int, Field(ge=1, le=65535)]


class Ports(Told):
    listening: list[int] = Field(
        description="Where programs inside listen, as the guest's kernel tells it"
    )
    published: list[PublishedPort] = Field(description="Those that the server's machine passes on")


@router.get("/sandboxes/{name}/network", dependencies=[MAY_READ], operation_id="getNetwork")
async def show(name: Name, domain: TheDomain) -> Policy:
    return Policy.of(domain.manager.records.find(name))


@router.patch("/sandboxes/{name}/network", dependencies=[MAY_RUN], operation_id="changeNetwork")
async def change(name: Name, asked: Change, domain: TheDomain) -> Policy:
    """Holds at once: what is open and not allowed any more is cut."""
    wanted = NetworkChange(
        mode=asked.mode,
        allow=tuple(asked.allow),
        deny=tuple(asked.deny),
        remove=tuple(asked.remove),
    )
    return Policy.of(await domain.manager.change_network(name, wanted.apply))


@router.get("/sandboxes/{name}/ports", dependencies=[MAY_READ], operation_id="listPorts")
async def ports(name: Name, domain: TheDomain) -> Ports:
    held = domain.manager.running(name)
    held.touch()
    return await _ports(held)


@router.post("/sandboxes/{name}/ports", dependencies=[MAY_RUN], operation_id="publishPort")
async def publish(name: Name, asked: PortWanted, domain: TheDomain) -> Ports:
    """Passes connections on, from any free port of the loopback of the server's machine, for as long as it runs."""
    held = domain.manager.running(name)
    held.touch()
    await held.doors.publish(asked.guest)
    return await _ports(held)


async def _ports(held: Held) -> Ports:
    return Ports(
        listening=await listening_ports(held.machine.files),
        published=[PublishedPort(**port._asdict()) for port in held.doors.ports],
    )
