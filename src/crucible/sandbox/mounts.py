"""What is copied into a sandbox besides its workspace: `SOURCE:TARGET`, read-only unless it says `:rw`.

A mount is a copy. Nothing of the host is ever shared with a sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from crucible.errors import BadSetting

MOST_MOUNTS = 32
_LONGEST = 4096
_KINDS = ("ro", "rw", "home", "volume", "volume-ro")
_HOME_TARGET = "~"
# A mount replaces what is at its target, and these are not there to be replaced; the last lie in memory.
_TAKEN = (
    "/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr",
    "/home", "/opt", "/root", "/srv", "/var",
)  # fmt: skip
_TAKEN_WITH_ALL = ("/dev", "/proc", "/run", "/sys", "/tmp")  # noqa: S108 - of the guest
_HINT = "Write it as SOURCE:TARGET or SOURCE:TARGET:rw, like ./data:/data"
_VOLUME_HINT = "Write it as NAME:TARGET or NAME:TARGET:ro, like shared:/shared"


class Mount(NamedTuple):
    """`source` is absolute and free of links when it is in a specification.

    `ro` is copied anew at every start and belongs to root; `rw` is copied at the first start and comes back through
    `diff` and `apply`; `home` is copied at the first start over the user's home and does not come back. The source of
    `volume` and `volume-ro` is the name of one: copied in at every start, and the former kept again at the end.
    """

    source: str
    target: str
    kind: str

    def __str__(self) -> str:
        return f"{self.source}:{self.target}:{self.kind}"

    @property
    def is_writable(self) -> bool:
        return self.kind == "rw"

    @property
    def is_volume(self) -> bool:
        return self.kind.startswith("volume")


def home_mount(source: str) -> Mount:
    return Mount(source, _HOME_TARGET, "home")


def parse_volume(text: str) -> Mount:
    """`NAME:TARGET`, or `NAME:TARGET:ro` to leave it to another writer."""
    from crucible.sandbox.spec import check_name

    rest, colon, mode = text.rpartition(":")
    kind = "volume-ro" if mode == "ro" else "volume"
    if not colon or mode not in ("ro", "rw"):
        rest = text
    name, colon, target = rest.partition(":")
    if not colon:
        raise BadSetting(f"{text!r} names no volume", hint=_VOLUME_HINT)
    return Mount(check_name(name, "volume"), check_target(target, _VOLUME_HINT), kind)


def parse_mount(text: str) -> Mount:
    """Raises BadSetting for what cannot be one."""
    rest, colon, kind = text.rpartition(":")
    if not colon or kind not in _KINDS:
        rest, kind = text, "ro"
    source, colon, target = rest.rpartition(":")
    if not colon or not source or "\0" in text or len(text) > _LONGEST:
        raise BadSetting(f"{text[:200]!r} is no mount", hint=_HINT)
    if (kind == "home") != (target == _HOME_TARGET):
        raise BadSetting(f"{text!r} is no mount", hint=_HINT)
    return Mount(source, target if kind == "home" else check_target(target), kind)


def check_target(target: str, hint: str = _HINT) -> str:
    """An absolute path of the guest that may be replaced by a copy."""
    is_odd = "\0" in target or ":" in target or {".", ".."} & set(target.split("/"))
    if not target.startswith("/") or is_odd:
        raise BadSetting(f"{target!r} is not an absolute path in the sandbox", hint=hint)
    plain = "/" + "/".join(part for part in target.split("/") if part)
    within = any(plain == place or plain.startswith(f"{place}/") for place in _TAKEN_WITH_ALL)
    if plain == "/" or plain in _TAKEN or within:
        raise BadSetting(
            f"{plain} of the sandbox cannot be replaced by a copy of something else",
            hint="Choose another target, like /data",
        )
    return plain


def check_mounts(texts: Sequence[str]) -> None:
    """Each is one, with a whole path for its source, and none lies within another."""
    if len(texts) > MOST_MOUNTS:
        raise BadSetting(f"{len(texts)} mounts are too many", hint=f"At most {MOST_MOUNTS} fit")
    mounts = [parse_mount(text) for text in texts]
    for mount in mounts:
        if mount.is_volume:
            from crucible.sandbox.spec import check_name

            check_name(mount.source, "volume")
        elif not mount.source.startswith("/"):
            raise BadSetting(f"The source {mount.source!r} of a mount is not an absolute path")
    _check_written_once(mounts)
    targets = [mount.target for mount in mounts]
    for index, target in enumerate(targets):
        for other in targets[index + 1 :]:
            if is_within(target, other) or is_within(other, target):
                raise BadSetting(
                    f"The mounts at {target} and {other} lie within each other",
                    hint="Give each a target of its own",
                )


def _check_written_once(mounts: Sequence[Mount]) -> None:
    """Of a volume at two places, only what is at one of them could be kept."""
    volumes = [mount.source for mount in mounts if mount.is_volume]
    for mount in mounts:
        if mount.kind == "volume" and volumes.count(mount.source) > 1:
            raise BadSetting(
                f"The volume {mount.source!r} is named twice, and is to be written",
                hint="Give it one target, or only read it: NAME:TARGET:ro",
            )


def resolved(mount: Mount, base: str = "") -> Mount:
    """With its source as it is on this host right now: absolute, through all links, and there."""
    path = os.path.realpath(os.path.join(base, os.path.expanduser(mount.source)))  # noqa: PTH111, PTH118
    if not os.path.isfile(path) and not os.path.isdir(path):  # noqa: PTH112, PTH113
        raise BadSetting(
            f"{mount.source!r}, to be copied to {mount.target}, is neither a file nor a directory",
            hint=""
            if "/" in mount.source
            else f"If a volume is meant: --volume {mount.source}:{mount.target}",
        )
    if mount.is_writable and not os.path.isdir(path):  # noqa: PTH112
        raise BadSetting(
            f"{mount.source!r} is a file; only directories can be mounted writable",
            hint="Mount the directory it lies in, or leave `:rw` out",
        )
    return mount._replace(source=path)


def is_within(path: str, other: str) -> bool:
    return path == other or path.startswith(other.rstrip("/") + "/")
