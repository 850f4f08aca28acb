"""Copies the mounts of a specification into a sandbox that has just started, before it is confined."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from crucible.errors import BadSetting, GuestRefused, PathRefused
from crucible.images.catalog import Image
from crucible.images.report import NOTICE, Report
from crucible.sandbox.entries import to_line
from crucible.sandbox.mounts import Mount, is_within, parse_mount
from crucible.sandbox.seeding import baseline_name, in_thread
from crucible.sandbox.session import Files, Session
from crucible.sandbox.spec import SandboxSpec
from crucible.sandbox.volumes import Unkept, Volumes
from crucible.sandbox.workspace.credentials import Withheld, withheld_of
from crucible.sandbox.workspace.ignore import load_ignore
from crucible.sandbox.workspace.packing import Packing, pack_tree

_ROOT = "0"
_LARGEST_PASSWD = 1 << 20


async def copy_mounts(
    session: Session,
    spec: SandboxSpec,
    image: Image,
    directory: Path,
    *,
    own_state: Path,
    is_first: bool,
    report: Report,
) -> None:
    """Writable ones only at the first start: from then on the sandbox's own copy counts."""
    for text in spec.mounts:
        mount = parse_mount(text)
        if mount.is_volume:
            await _copy_volume(session.files, image, mount, directory, own_state, report)
            continue
        if mount.kind != "ro" and not is_first:
            continue
        source = check_source(mount)
        report("mount", f"copying {mount.source} to {mount.target}")
        withheld = withheld_of(
            source,
            include=spec.include_credentials,
            own_state=own_state,
            is_home=mount.kind == "home",
        )
        await _Copy(session.files, image, mount, source, withheld).make(directory)
        if withheld is not None and (told := withheld.told()):
            report(NOTICE, f"{mount.source}: {told}")


async def _copy_volume(
    files: Files, image: Image, mount: Mount, directory: Path, own_state: Path, report: Report
) -> None:
    target = mount.target
    _check_apart(target, image.workspace)
    volumes, unkept = Volumes(own_state), Unkept(directory)
    volume = volumes.find(mount.source)
    is_written = mount.kind == "volume"
    if is_written and unkept.has(volume):
        report(
            NOTICE,
            f"The volume {volume.name!r} was not kept the last time; going on with the files at {target}",
        )
        return
    report("mount", f"copying the volume {volume.name} to {target}")
    unkept.drop(volume.name)
    await _clear(files, target)
    pieces = in_thread(volumes.content(volume.name))
    await files.tar_in(os.fsencode(target), pieces, owner=image.owner if is_written else _ROOT)
    if is_written:
        unkept.add(volume)


def check_source(mount: Mount) -> Path:
    """It was free of links when it was named. If it has become one since, somebody wants something else copied."""
    source = Path(mount.source)
    if source.resolve() != source:
        raise PathRefused(f"{mount.source}, the source of a mount, has become a symbolic link")
    if not source.is_dir() and not source.is_file():
        raise PathRefused(
            f"{mount.source}, the source of a mount, is not there any more",
            hint="Make it again, or create the sandbox anew without it",
        )
    return source


class _Copy:
    def __init__(
        self, files: Files, image: Image, mount: Mount, source: Path, withheld: Withheld | None
    ) -> None:
        self._files = files
        self._image = image
        self._mount = mount
        self._source = source
        self._withheld = withheld

    async def make(self, directory: Path) -> None:
        user = self._image.owner
        match self._mount.kind:
            case "home":
                home = await home_of(self._files, user)
                await self._unpack(home, self._packing(), user)
            case "rw":
                await self._clear()
                packing = self._packing(hashed=True)
                await self._unpack(self._mount.target, packing, user)
                _keep_baseline(packing, directory / baseline_name(self._mount.target))
            case _:
                await self._clear()
                await self._read_only()

    async def _read_only(self) -> None:
        target = self._mount.target
        if self._source.is_dir():
            await self._unpack(target, self._packing(), _ROOT)
        else:
            above, _, name = target.rpartition("/")
            await self._unpack(above or "/", self._packing(name=name), _ROOT)

    def _packing(self, *, name: str | None = None, hashed: bool = False) -> Packing:
        is_shared = self._mount.kind == "ro"
        return pack_tree(
            self._source,
            name=name,
            ignore=load_ignore(self._source),
            withheld=self._withheld,
            modes=readable_by_all if is_shared else None,
            hashed=hashed,
        )

    async def _clear(self) -> None:
        _check_apart(self._mount.target, self._image.workspace)
        await _clear(self._files, self._mount.target)

    async def _unpack(self, root: str, packing: Packing, owner: str) -> None:
        await self._files.tar_in(os.fsencode(root), in_thread(packing), owner=owner)


async def home_of(files: Files, user: str) -> str:
    """As the guest's accounts have it."""
    number = user.partition(":")[0]
    try:
        data = b"".join(
            [piece async for piece in files.read(b"/etc/passwd", length=_LARGEST_PASSWD)]
        )
    except GuestRefused:
        data = b""
    for line in data.decode(errors="replace").splitlines():
        fields = line.split(":")
        is_theirs = len(fields) >= 6 and number in (fields[0], fields[2])
        if is_theirs and fields[5].startswith("/") and fields[5].strip("/"):
            return fields[5]
    if number in (_ROOT, "root"):
        return "/root"
    raise BadSetting(
        f"The user {user!r} of the sandbox has no home to copy yours to",
        hint="Leave it out with --no-mount-home",
    )


def readable_by_all(mode: int) -> int:
    """For what belongs to root and is to be read by whoever the sandbox's user is."""
    shown = mode | 0o444
    if stat.S_ISDIR(mode) or mode & 0o111:
        shown |= 0o111
    return stat.S_IFMT(mode) | shown & 0o755


def _check_apart(target: str, workspace: str) -> None:
    if is_within(target, workspace) or is_within(workspace, target):
        raise BadSetting(
            f"The mount at {target} and the workspace {workspace} lie within each other",
            hint="Choose a target outside of it, like /data",
        )


async def _clear(files: Files, target: str) -> None:
    """What is gone from the source is gone from the copy."""
    await _check_way(files, target)
    try:
        await files.remove(os.fsencode(target), recursive=True)
    except GuestRefused as refusal:
        if refusal.guest_code != "not-found":
            raise


async def _check_way(files: Files, target: str) -> None:
    """The copy is made with all powers inside: a link of the user's must not choose where."""
    parts = target.strip("/").split("/")
    for count in range(1, len(parts)):
        above = "/" + "/".join(parts[:count])
        try:
            entry = await files.stat(os.fsencode(above), follow=False)
        except GuestRefused:
            return
        if entry.type == "symlink" and entry.uid != 0:
            raise PathRefused(f"{above} in the sandbox is a link that its user made")


def _keep_baseline(packing: Packing, path: Path) -> None:
    building = path.with_name(f".{path.name}")
    with building.open("wb") as file:
        file.writelines(map(to_line, packing.manifest().entries.values()))
    building.rename(path)
