"""Layers that were made before, by what they were made of. They lie in the store under names of their own.

So they count towards its limit, go when they were not used for long, and are gone after `image prune --all`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from crucible.build import drafts
from crucible.build.drafts import Draft
from crucible.images.oci.model import PulledImage
from crucible.images.oci.store import Store
from crucible.images.oci.tags import INTERNAL

# Raised when the same step would give another layer than before.
_GENERATION = 1
_CACHE = f"{INTERNAL}cache"
_STEP = f"{INTERNAL}step"


def key_of(below: Sequence[str], *facts: object) -> str:
    """`below` are the digests of the layers that the step begins from."""
    text = json.dumps((_GENERATION, list(below), *facts), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def find(store: Store, key: str) -> PulledImage | None:
    return store.find(f"{_CACHE}:{key}")


def keep(store: Store, key: str, image: PulledImage) -> None:
    store.tags.set(f"{_CACHE}:{key}", image.digest, image.digest)


class StepName:
    """A name for what a step begins from, for as long as it runs: sandboxes are started by names."""

    def __init__(self, store: Store, draft: Draft, unique: str) -> None:
        self.reference = f"{_STEP}:{unique}"
        self._store = store
        self.image = drafts.write(store, draft, self.reference)

    def __enter__(self) -> StepName:
        self._store.tags.set(self.reference, self.image.digest, self.image.digest)
        return self

    def __exit__(self, *_: object) -> None:
        self._store.tags.remove(self.reference)
