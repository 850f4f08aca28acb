"""Skills of this machine, for the sessions of all its users: listed, checked, added and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from crucible.errors import BadRequest, BadSkill
from crucible.sandbox.scratch import scratch_directory
from crucible.server.auth import MAY_ADMINISTER, MAY_READ, MAY_RUN, TheCaller, TheDomain
from crucible.server.bytestreams import BINARY, save_body
from crucible.server.domain import Domain
from crucible.server.models.base import Page
from crucible.server.models.skills import InstalledSkill
from crucible.server.paging import Cursor, Limit, page
from crucible.server.routes import PREFIX

if TYPE_CHECKING:
    from crucible.agent.skills.shelf import Shelf, Skill

router = APIRouter(prefix=PREFIX, tags=["skills"])

SkillName = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
DOCUMENT, ARCHIVE = "text/markdown", "application/x-tar"
_SKILL_IN: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {DOCUMENT: {"schema": {"type": "string"}}, ARCHIVE: BINARY},
    }
}


@router.get("/skills", dependencies=[MAY_READ], operation_id="listSkills")
async def list_all(
    domain: TheDomain, limit: Limit = 100, cursor: Cursor = None
) -> Page[InstalledSkill]:
    """Those that came along and those that were added; one with a `problem` is not used."""
    skills, broken = await asyncio.to_thread(_shelf(domain).look)
    told = [InstalledSkill.of(one) for one in skills]
    told += [InstalledSkill(name=name, problem=why) for name, why in broken.items()]
    told.sort(key=lambda one: one.name)
    return page(told, key=lambda one: one.name, show=lambda one: one, limit=limit, cursor=cursor)


@router.post(
    "/skills",
    status_code=201,
    dependencies=[MAY_ADMINISTER],
    operation_id="addSkill",
    openapi_extra=_SKILL_IN,
)
async def add(
    domain: TheDomain,
    caller: TheCaller,
    request: Request,
    replace: Annotated[bool, Query(description="One of that name that was added before")] = False,
) -> InstalledSkill:
    """The body is its SKILL.md alone, or a tar archive of its directory. Sessions have it from their next step on."""

    def work(source: FilePath) -> Skill:
        return _shelf(domain).add(source, replaces=replace, told_as=f"HTTP, by {caller.id}")

    return await _with_body(domain, request, work)


@router.post(
    "/skills/check", dependencies=[MAY_RUN], operation_id="checkSkill", openapi_extra=_SKILL_IN
)
async def check(domain: TheDomain, request: Request) -> InstalledSkill:
    """As adding it would find it; nothing is kept."""
    return await _with_body(domain, request, _shelf(domain).check)


@router.get("/skills/{skill}", dependencies=[MAY_READ], operation_id="getSkill")
async def get(skill: SkillName, domain: TheDomain) -> InstalledSkill:
    """Each of its files is read and held against its hash."""

    def work() -> Skill:
        found = _shelf(domain).find(skill)
        found.check_files()
        return found

    return InstalledSkill.of(await asyncio.to_thread(work))


@router.delete(
    "/skills/{skill}", status_code=204, dependencies=[MAY_ADMINISTER], operation_id="removeSkill"
)
async def remove(skill: SkillName, domain: TheDomain) -> None:
    """One that was added; what came along stays."""
    await asyncio.to_thread(_shelf(domain).remove, skill)


async def _with_body(
    domain: Domain, request: Request, work: Callable[[FilePath], Skill]
) -> InstalledSkill:
    from crucible.agent.skills.archives import DOCUMENT_NAME, LARGEST_ARCHIVE
    from crucible.agent.skills.document import LARGEST

    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (DOCUMENT, ARCHIVE):
        raise BadRequest(
            f"A skill comes as {DOCUMENT} or {ARCHIVE}",
            hint="The text of its SKILL.md, or a tar archive of its directory",
        )
    is_document = kind == DOCUMENT
    with scratch_directory(domain.manager.config.home, "skill") as scratch, _unseen(scratch):
        source = scratch / "sent"
        if is_document:
            source.mkdir()
        target = source / DOCUMENT_NAME if is_document else source
        await save_body(request, target, LARGEST + 1 if is_document else LARGEST_ARCHIVE)
        return InstalledSkill.of(await asyncio.to_thread(work, source))


@contextmanager
def _unseen(scratch: FilePath) -> Iterator[None]:
    """Where it lay for that while is nobody's business."""
    try:
        yield
    except BadSkill as error:
        told = error.message.replace(str(scratch / "sent"), "What was sent")
        raise BadSkill(told, hint=error.hint) from None


def _shelf(domain: Domain) -> Shelf:
    from crucible.agent.skills.shelf import Shelf

    return Shelf(domain.manager.config.home)
