"""Snapshots and copies as they are asked for and told."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from crucible.sandbox.records import SnapshotRecord
from crucible.sandbox.spec import LARGEST_TIMEOUT_S
from crucible.server.models.base import Asked, Name, Told


class NewSnapshot(Asked):
    tag: Name


Lifetime = Annotated[
    float, Field(ge=0, le=LARGEST_TIMEOUT_S, description="From now on; 0 is for ever")
]


class Restore(Asked):
    """Without a name the new sandbox gets one; without a time to live, that of the snapshot."""

    name: Name | None = None
    ttl_s: Lifetime | None = None


class Fork(Asked):
    names: Annotated[list[Name], Field(min_length=1, max_length=100)]
    ttl_s: Lifetime | None = None


class Snapshot(Told):
    tag: str
    id: str
    sandbox: str
    image: str
    image_digest: str
    backend: str
    isolation: str
    created_at: float

    @classmethod
    def of(cls, record: SnapshotRecord) -> Snapshot:
        return cls(
            tag=record.tag,
            id=record.id,
            sandbox=record.sandbox_name,
            image=record.spec.image,
            image_digest=record.image_digest,
            backend=record.backend,
            isolation=record.isolation,
            created_at=record.created_at,
        )
