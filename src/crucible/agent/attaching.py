"""Files that a user gives with a prompt: in the session's workspace before the turn begins, told to the model, and
recorded, so that a replay has them too."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import IO, Any

from crucible.agent.facts import Attachment
from crucible.agent.messages import Picture
from crucible.agent.parts import Parts
from crucible.agent.seams import Step
from crucible.agent.session import Session
from crucible.agent.workplace import WORKSPACE, FileFacts, Workplace
from crucible.errors import BadSetting
from crucible.ledger.contents import MAX_CONTENT

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_LARGEST_PICTURE = 5 << 20
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """As it is in the workspace, and as the event of the turn tells it."""

    name: str
    size: int
    media_type: str

    def as_json(self) -> dict[str, str | int]:
        return asdict(self)


def attached_from_json(form: Mapping[str, Any]) -> Attached:
    return Attached(
        name=str(form["name"]), size=int(form["size"]), media_type=str(form["media_type"])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """`notices` tell of files that have another name in the workspace than they came with."""

    files: tuple[Attached, ...] = ()
    pictures: tuple[Picture, ...] = ()
    notices: tuple[str, ...] = ()

    def with_more(self, more: Placed) -> Placed:
        return Placed(
            files=tuple({one.name: one for one in (*self.files, *more.files)}.values()),
            pictures=(*self.pictures, *more.pictures),
            notices=(*self.notices, *more.notices),
        )


async def place_files(parts: Parts, session: Session, files: Sequence[Attachment]) -> Placed:
    """Opens the sandbox, and writes them into its workspace; nothing that is there is overwritten.

    One that is there already, with the same name and the same bytes, is the one that was given.
    """
    if not files:
        return Placed()
    workplace = session.workplace
    await workplace.open()
    session.note_place()
    there = {PurePosixPath(entry.path).name: entry for entry in await workplace.list(WORKSPACE)}
    taken = set(there)
    placed, pictures, notices = list[Attached](), list[Picture](), list[str]()
    for file in files:
        if await _is_there(workplace, there.pop(file.name, None), file):
            name = file.name
        else:
            name = free_name(file.name, taken)
            taken.add(name)
            with file.path.open("rb") as source:
                await workplace.write(f"{WORKSPACE}/{name}", _pieces(source))
        attached = Attached(name=name, size=file.size, media_type=file.media_type)
        blob = await _record(parts, session, attached, file)
        placed.append(attached)
        if name != file.name:
            notices.append(f"{file.name} was in the workspace already; what you gave is {name}.")
        if _is_shown(attached):
            pictures.append(Picture(media_type=file.media_type, blob=blob))
    return Placed(files=tuple(placed), pictures=tuple(pictures), notices=tuple(notices))


def kept_files(
    files: Sequence[Attached], pictures: Sequence[Picture], names: Sequence[str]
) -> Placed:
    """Of what came with a prompt, what comes with its new words. Raises BadSetting for a name that none of it has."""
    known = {one.name for one in files}
    for name in names:
        if name not in known:
            raise BadSetting(f"No file {name!r} came with the prompt that is edited")
    kept = [one for one in files if one.name in names]
    # Those of files are the last ones of a message, in their order.
    shown = [one for one in files if _is_shown(one)]
    of_files = zip(shown, pictures[-len(shown) :] if shown else (), strict=False)
    return Placed(
        files=tuple(kept), pictures=tuple(picture for file, picture in of_files if file in kept)
    )


def free_name(name: str, taken: set[str]) -> str:
    """The name itself, or with a number before its ending: `data.csv`, `data-2.csv`."""
    if name not in taken:
        return name
    stem, dot, ending = name.rpartition(".")
    if not stem:
        stem, dot, ending = name, "", ""
    number = 2
    while (other := f"{_cut(stem)}-{number}{dot}{ending[:40]}") in taken:
        number += 1
    return other


def with_files(prompt: str, files: Sequence[Attached]) -> str:
    """What the model reads."""
    if not files:
        return prompt
    lines = [
        f"- {json.dumps(f'{WORKSPACE}/{one.name}', ensure_ascii=False)}"
        f" ({one.size} bytes, {one.media_type})"
        for one in files
    ]
    return "\n".join((prompt, "", "Attached files, in the workspace:", *lines))


def _cut(stem: str) -> str:
    """So that a number and an ending have room within what a name may have."""
    return stem.encode()[:180].decode(errors="ignore")


def _is_shown(file: Attached) -> bool:
    return file.media_type in _PICTURES and file.size <= _LARGEST_PICTURE


async def _is_there(workplace: Workplace, found: FileFacts | None, file: Attachment) -> bool:
    if found is None or found.kind != "f" or found.size != file.size:
        return False
    with file.path.open("rb") as source:
        at = 0
        async for piece in _pieces(source):
            if await workplace.read(found.path, offset=at, length=len(piece)) != piece:
                return False
            at += len(piece)
    return True


async def _pieces(source: IO[bytes]) -> AsyncIterator[bytes]:
    while data := await asyncio.to_thread(source.read, _PIECE):
        yield data


async def _record(parts: Parts, session: Session, attached: Attached, file: Attachment) -> str:
    """The name of the content. One that is too large for the ledger is recorded without."""
    now = time.time()
    step = Step(
        session=session.id,
        user=session.user,
        turn=session.record.turns + 1,
        kind="attached",
        name=attached.media_type,
        began_at=now,
        ended_at=now,
        input=attached.name.encode(errors="replace"),
        output=await asyncio.to_thread(file.path.read_bytes) if file.size <= MAX_CONTENT else b"",
        facts={"size": attached.size},
    )
    return await parts.recorder.record(step)
