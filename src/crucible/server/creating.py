"""Sandboxes made for a caller: what it may ask for, and all that belongs to a first start."""

from __future__ import annotations

import secrets
from pathlib import Path

from crucible.errors import Forbidden
from crucible.sandbox import seeding
from crucible.sandbox.finishing import finish
from crucible.sandbox.holding import Held
from crucible.sandbox.labels import is_labelled, judge, told
from crucible.sandbox.mounts import parse_mount
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.service.first_steps import take_first_steps
from crucible.sandbox.spec import SandboxSpec
from crucible.server.auth import Caller
from crucible.server.domain import Domain
from crucible.server.models.sandboxes import NewSandbox, Settings
from crucible.server.tokens import Scope


async def create_sandbox(domain: Domain, caller: Caller, asked: NewSandbox) -> SandboxRecord:
    """Made and, if asked, started; one that cannot be started was never made."""
    check_spec(caller, asked.settings.as_spec(), takes_files=asked.host_directory is not None)
    spec, _ = await labelled(domain, asked.settings)
    source = asked.host_directory
    if source is not None:
        source = str(seeding.check_source(Path(source)))
    record = await domain.manager.create(
        asked.name or new_name(),
        spec,
        host_directory=source,
        secrets=asked.settings.given_secrets(),
        owner=caller.user,
    )
    if not asked.start:
        return record
    try:
        return await start_sandbox(domain, record.name)
    except BaseException:
        await finish(domain.manager.remove(record.name, force=True))
        raise


async def labelled(domain: Domain, settings: Settings) -> tuple[SandboxSpec, list[str]]:
    """The specification with what the labels of its image say of it, and what is to be told of that."""
    spec = settings.as_spec()
    image = await domain.manager.images.find(spec.image)
    if not is_labelled(image.labels):
        return spec, []
    judged = judge(spec, image.labels, settled=settings.settled(), accepts=settings.accept_labels)
    return judged.spec, told(image.name, judged)


async def start_sandbox(domain: Domain, name: str) -> SandboxRecord:
    is_first = not domain.manager.find(name).has_disk
    record = await domain.manager.start(name)
    held = domain.manager.held.get(record.id)
    if is_first and held is not None and record.spec.after_create:
        with held.used():
            await first_steps(held)
    return record


async def first_steps(held: Held) -> None:
    await take_first_steps(held, _Nobody())


def check_spec(caller: Caller, spec: SandboxSpec, *, takes_files: bool = False) -> None:
    """What is copied from the host is read with the rights of who runs this server: that is not for everybody."""
    takes_files |= any(not parse_mount(text).is_volume for text in spec.mounts)
    if (takes_files or spec.include_credentials) and not caller.scope.includes(Scope.ADMIN):
        raise Forbidden("To copy files of the host into a sandbox needs a token with scope 'admin'")


def new_name() -> str:
    return f"sb-{secrets.token_hex(5)}"


class _Nobody:
    """A caller learns how it went from the answer alone."""

    async def progress(self, stage: str, detail: str) -> None:
        return

    async def notice(self, text: str) -> None:
        return
