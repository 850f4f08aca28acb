"""Which images sandboxes and snapshots need: what freeing space must leave alone."""

from __future__ import annotations

from pathlib import Path

from crucible.errors import BadReference
from crucible.images.oci.reference import parse_reference
from crucible.sandbox.records import FILE_NAME, open_records


def image_users(home: Path) -> dict[str, tuple[str, ...]]:
    """The names of sandboxes and snapshots by the image that they were asked for with.

    An image is under its name as it was written, and under the full one that it means.
    """
    if not (home / FILE_NAME).exists():
        return {}
    records = open_records(home)
    try:
        # A machine that waits for somebody gives way when its image goes.
        kept = [record for record in records.sandboxes() if record.state != "warm"]
        holders = [(record.spec, record.name) for record in kept]
        holders += [(record.spec, record.tag) for record in records.snapshots()]
    finally:
        records.close()
    users: dict[str, list[str]] = {}
    for spec, user in holders:
        images = {spec.image, *spec.images.values()}
        for name in images | {full_name(image) for image in images}:
            users.setdefault(name, []).append(user)
    return {image: tuple(names) for image, names in users.items()}


def digests_in_use(home: Path) -> frozenset[str]:
    """The roots that sandboxes and snapshots were made from."""
    if not (home / FILE_NAME).exists():
        return frozenset()
    records = open_records(home)
    try:
        digests = {record.image_digest for record in records.sandboxes()}
        return frozenset(digests | {record.image_digest for record in records.snapshots()})
    finally:
        records.close()


def images_in_use(home: Path) -> frozenset[str]:
    return frozenset(image_users(home))


def full_name(image: str) -> str:
    """`python:3.12` → `docker.io/library/python:3.12`; what is no such name stays as it is."""
    try:
        return str(parse_reference(image))
    except BadReference:
        return image
