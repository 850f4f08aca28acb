"""OCI images that a sandbox can start from: a name's manifest, how it wants to be run, and its root.

Images of the same layers share one root. A root is found by the digests of its layers' tars, and is made by
`layers.making`; the names and the blobs are the store's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from crucible.errors import ImageDamaged
from crucible.images import bundle
from crucible.images.bundle import Bundle, BundleDamaged
from crucible.images.catalog import ROOT_FILE, Image
from crucible.images.oci.digests import is_digest
from crucible.images.oci.tags import Tags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.images.oci.model import PulledImage

# Raised when roots are made in another way, so that old ones are made anew.
_GENERATION = 1
_FORMAT = 1
_MAX_BYTES = 8 << 20
_DEFAULT_WORKDIR = "/"


def find(home: Path, name: str) -> Image | None:
    """The image of that name, if its root is made. Raises BadReference when it is no name at all."""
    from crucible.images.oci.reference import parse_reference

    tags = tags_of(home)
    reference = str(parse_reference(name))
    tag = tags.find(reference)
    if tag is None:
        return None
    tags.touch(reference)
    return load(home, tag.digest, name)


def find_all(home: Path) -> tuple[Image, ...]:
    """Every name whose root is made, under its full name."""
    shown = (tag for tag in tags_of(home).all() if not tag.is_internal)
    found = (load(home, tag.digest, tag.reference) for tag in shown)
    return tuple(image for image in found if image is not None)


def load(home: Path, digest: str, name: str) -> Image | None:
    """The image of that manifest, whatever it is called, if its root is made."""
    facts = _read(description_of(home, digest))
    if facts is None:
        return None
    try:
        root = bundle.load_current(shelf_of(home, str(facts["root"])))
    except BundleDamaged as damage:
        raise ImageDamaged(
            name, str(damage), hint=f"Make it anew with `crucible image pull {name}`"
        ) from None
    return None if root is None else _image(name, digest, facts, root)


def find_root(home: Path, key: str) -> Bundle | None:
    """None when it was not made yet, or is damaged and must be made again."""
    with suppress(BundleDamaged):
        return bundle.load_current(shelf_of(home, key))
    return None


def root_key(diff_ids: Iterable[str]) -> str:
    text = "\n".join((f"generation {_GENERATION}", *diff_ids))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def describe(home: Path, image: PulledImage, key: str) -> None:
    """Writes down how the image of that manifest wants to be run, and where its root is."""
    config = image.config
    facts = {
        "format": _FORMAT,
        "digest": image.digest,
        "root": key,
        "user": config.user,
        "workdir": _absolute(config.workdir),
        "environment": config.environment,
        "entrypoint": config.entrypoint,
        "command": config.command,
        "labels": config.labels,
        "exposed_ports": config.exposed_ports,
        "volumes": config.volumes,
        "stop_signal": config.stop_signal,
    }
    path = description_of(home, image.digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_durably(path, json.dumps(facts).encode())


def tags_of(home: Path) -> Tags:
    return Tags(home / "images" / "oci" / "tags")


def roots_of(home: Path) -> Path:
    return home / "images" / "oci" / "roots"


def shelf_of(home: Path, key: str) -> Path:
    return roots_of(home) / key


def lock_of(home: Path, key: str) -> Path:
    return home / "locks" / f"root-{key}"


def descriptions_of(home: Path) -> Path:
    return home / "images" / "oci" / "described"


def description_of(home: Path, digest: str) -> Path:
    if not is_digest(digest):
        raise ImageDamaged(digest, "its name leads to no digest")
    return descriptions_of(home) / f"{digest.replace(':', '-')}.json"


def root_of(description: Path) -> str:
    """The key of the root that a description names; empty when it cannot be read."""
    facts = _read(description)
    return str(facts["root"]) if facts is not None else ""


def _image(name: str, digest: str, facts: dict[str, Any], root: Bundle) -> Image:
    return Image(
        name=name,
        digest=root.digest,
        root=root.path / ROOT_FILE,
        size_bytes=root.size_bytes,
        user=facts["user"],
        workdir=facts["workdir"],
        environment=_pairs(facts["environment"]),
        entrypoint=tuple(facts["entrypoint"]),
        command=tuple(facts["command"]),
        labels=_pairs(facts["labels"]),
        exposed_ports=tuple(facts["exposed_ports"]),
        volumes=tuple(facts["volumes"]),
        stop_signal=facts["stop_signal"],
        manifest_digest=digest,
    )


def _pairs(entries: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in entries)


def _read(path: Path) -> dict[str, Any] | None:
    """Our own writing; one that cannot be read is as if it were not there, and is written again by a pull."""
    try:
        with path.open("rb") as stream:
            facts = json.loads(stream.read(_MAX_BYTES))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) and facts.get("format") == _FORMAT else None


def _absolute(workdir: str) -> str:
    """As engines have it: one that does not begin at the root is meant from there."""
    parts = [part for part in workdir.split("/") if part not in ("", ".")]
    return "/" + "/".join(parts) if parts else _DEFAULT_WORKDIR
