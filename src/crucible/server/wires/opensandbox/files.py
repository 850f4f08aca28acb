"""Files of a running sandbox over execd."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import Field, TypeAdapter, ValidationError

from crucible.errors import BadSetting, MalformedBody, Unsupported
from crucible.sandbox.holding import Held
from crucible.sandbox.session import Entry
from crucible.server.auth import MAY_READ, MAY_RUN, TheDomain
from crucible.server.bytestreams import streamed
from crucible.server.domain import Domain
from crucible.server.models.base import Asked, Name
from crucible.server.models.files import LONGEST_PATH, FilePath, guest_path
from crucible.server.multipart import read_parts
from crucible.server.wires.moments import moment

router = APIRouter(prefix="/sandboxes/{name}/execd")

# Of all files of one upload together: they are in memory until they are written.
MOST_UPLOAD_BYTES = 64 << 20
MOST_FOUND = 10_000
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{0,18})\Z", re.ASCII)

InGuest = Annotated[str, Query(min_length=1, max_length=LONGEST_PATH)]
AllInGuest = Annotated[list[str], Query(min_length=1, max_length=1000)]
LineNumber = Annotated[int | None, Query(ge=0)]


class Permission(Asked):
    """`mode` is octal written as decimal: 755."""

    mode: Annotated[int, Field(ge=0, le=7777)] = 755
    owner: Annotated[str, Field(max_length=128)] | None = None
    group: Annotated[str, Field(max_length=128)] | None = None

    @property
    def bits(self) -> int:
        try:
            return int(str(self.mode), 8)
        except ValueError:
            raise BadSetting(
                f"{self.mode} is no mode", hint="Write it in octal, like 644"
            ) from None

    def owner_in(self, held: Held) -> str:
        if not self.owner:
            if self.group:
                raise BadSetting("A group needs an owner")
            return held.image.owner
        return f"{self.owner}:{self.group}" if self.group else self.owner


class FileToWrite(Permission):
    path: FilePath


class Move(Asked):
    src: FilePath
    dest: FilePath


Moves = Annotated[list[Move], Field(min_length=1, max_length=1000)]
_Directories = Annotated[dict[FilePath, Permission], Field(min_length=1, max_length=1000)]
_FILE_TO_WRITE = TypeAdapter(FileToWrite)


@router.get("/files/download", dependencies=[MAY_READ], response_class=StreamingResponse)
async def download(
    name: Name,
    path: InGuest,
    domain: TheDomain,
    request: Request,
    offset: LineNumber = None,
    limit: LineNumber = None,
) -> StreamingResponse:
    """All of a file, or the range of bytes that is asked for."""
    if offset is not None or limit is not None:
        raise Unsupported("Files are not read by lines", hint="Ask for a range of bytes")
    first, length = parse_range(request.headers.get("range"))
    files = _held(domain, name).machine.files
    answer = await streamed(
        files.read(guest_path(path), offset=first, length=length), "application/octet-stream"
    )
    if request.headers.get("range"):
        answer.status_code = 206
    return answer


@router.post("/files/upload", dependencies=[MAY_RUN])
async def upload(name: Name, domain: TheDomain, request: Request) -> None:
    """Pairs of parts: what is said of a file, and the file."""
    held = _held(domain, name)
    wanted: FileToWrite | None = None
    async for part in read_parts(request, most_bytes=MOST_UPLOAD_BYTES):
        if part.name == "metadata" and wanted is None:
            wanted = _metadata(part.data)
        elif part.name == "file" and wanted is not None:
            await held.machine.files.write(
                guest_path(wanted.path), part.data, mode=wanted.bits, owner=wanted.owner_in(held),
                make_parents=True,
            )  # fmt: skip
            wanted = None
        else:
            raise MalformedBody("Every file needs a part `metadata` before its part `file`")
    if wanted is not None:
        raise MalformedBody(f"The file {wanted.path!r} is missing")


@router.get("/files/info", dependencies=[MAY_READ])
async def info(name: Name, path: AllInGuest, domain: TheDomain) -> dict[str, dict[str, Any]]:
    files = _held(domain, name).machine.files
    return {one: _facts(one, await files.stat(guest_path(one), follow=False)) for one in path}


@router.delete("/files", dependencies=[MAY_RUN])
async def delete_files(name: Name, path: AllInGuest, domain: TheDomain) -> None:
    files = _held(domain, name).machine.files
    for place in [guest_path(one) for one in path]:
        await files.remove(place)


@router.post("/files/mv", dependencies=[MAY_RUN])
async def move(name: Name, asked: Moves, domain: TheDomain) -> None:
    files = _held(domain, name).machine.files
    for source, target in [(guest_path(one.src), guest_path(one.dest)) for one in asked]:
        await files.rename(source, target)


@router.get("/files/search", dependencies=[MAY_READ])
async def search(
    name: Name,
    path: InGuest,
    domain: TheDomain,
    pattern: Annotated[str, Query(max_length=1000)] = "**",
) -> list[dict[str, Any]]:
    """Files whose name, or whose path below `path`, is like the pattern."""
    found = []
    root = path.rstrip("/")
    async for entry in _held(domain, name).machine.files.tree(guest_path(path)):
        below = entry.name.decode(errors="replace")
        if entry.type == "file" and _is_like(below, pattern):
            found.append(_facts(f"{root}/{below}", entry))
        if len(found) > MOST_FOUND:
            raise BadSetting(f"More than {MOST_FOUND} files are like that", hint="Search for less")
    return found


@router.post("/directories", dependencies=[MAY_RUN])
async def make_directories(name: Name, asked: _Directories, domain: TheDomain) -> None:
    held = _held(domain, name)
    for path, wanted in asked.items():
        await held.machine.files.mkdir(
            guest_path(path), mode=wanted.bits, owner=wanted.owner_in(held), parents=True
        )


@router.delete("/directories", dependencies=[MAY_RUN])
async def delete_directories(name: Name, path: AllInGuest, domain: TheDomain) -> None:
    files = _held(domain, name).machine.files
    for place in [guest_path(one) for one in path]:
        await files.remove(place, recursive=True)


@router.get("/directories/list", dependencies=[MAY_READ])
async def list_directory(
    name: Name, path: InGuest, domain: TheDomain, depth: Annotated[int, Query(ge=0)] = 1
) -> list[dict[str, Any]]:
    if depth != 1:
        raise Unsupported("A directory is listed one level deep", hint="Search for files instead")
    root = path.rstrip("/")
    found = await _held(domain, name).machine.files.list(guest_path(path))
    return [_facts(f"{root}/{entry.name.decode(errors='replace')}", entry) for entry in found]


def _metadata(data: bytes) -> FileToWrite:
    try:
        return _FILE_TO_WRITE.validate_json(data)
    except ValidationError as error:
        fault = error.errors(include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise MalformedBody(
            f"The part `metadata` is not as it must be: {place}: {fault['msg']}"
        ) from None


def parse_range(text: str | None) -> tuple[int, int]:
    """Where to begin, and how many bytes; 0 is all."""
    if not text:
        return 0, 0
    match = _RANGE.match(text)
    if match is None:
        raise BadSetting(f"{text[:64]!r} is no range that can be read", hint="Write bytes=0-99")
    first = int(match[1])
    length = int(match[2]) - first + 1 if match[2] else 0
    if match[2] and length < 1:
        raise BadSetting(f"{text[:64]!r} is an empty range")
    return first, length


def _is_like(below: str, pattern: str) -> bool:
    plain = pattern.replace("**/", "").replace("**", "*")
    return fnmatchcase(below, pattern) or fnmatchcase(below.rsplit("/", 1)[-1], plain)


def _facts(path: str, entry: Entry) -> dict[str, Any]:
    """A machine tells no names of owners, and not when a file was made."""
    modified = moment(entry.mtime_ns / 1e9)
    return {
        "path": path,
        "type": entry.type,
        "size": entry.size,
        "mode": int(f"{entry.mode & 0o7777:o}"),
        "owner": str(entry.uid),
        "group": str(entry.gid),
        "modified_at": modified,
        "created_at": modified,
    }


def _held(domain: Domain, name: str) -> Held:
    held = domain.manager.running(name)
    held.touch()
    return held
