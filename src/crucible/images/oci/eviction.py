"""Frees the store's space: what no name needs, and the least recently used images beyond a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from crucible.images.oci.blobs import is_part
from crucible.images.oci.files import locked
from crucible.images.oci.store import Store
from crucible.images.oci.tags import Tag

# A download that nobody went on with for that long is not worth keeping.
_PART_LIFE_S = 7 * 86400.0

InUse = Callable[[], frozenset[str]]
Weigh = Callable[[Tag], Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    references: tuple[str, ...]
    size_bytes: int


def evict(
    store: Store,
    *,
    limit_bytes: int,
    in_use: InUse,
    keep: str = "",
    weigh: Weigh = lambda tag: {},
) -> Freed:
    """Brings the store under its limit. Does nothing while somebody has it open: the last one evicts.

    `in_use` gives references and manifest digests that must stay; `keep` is one more. `weigh` tells what an image
    takes besides its blobs.
    """
    with locked(store.directory / "lock", waits=False) as is_ours:
        if not is_ours:
            return Freed(references=(), size_bytes=0)
        return _free(store, _too_many(store, limit_bytes, in_use() | {keep}, weigh), _PART_LIFE_S)


def prune(store: Store, *, in_use: InUse, everything: bool) -> Freed:
    """Removes what no name needs and every unfinished download; `everything`: also all images not in use.

    Waits until nobody has the store open.
    """
    with locked(store.directory / "lock"):
        doomed: tuple[str, ...] = ()
        if everything:
            used = in_use()
            doomed = tuple(tag.reference for tag in store.tags.all() if not _is_used(tag, used))
        return _free(store, doomed, 0.0)


def remove(store: Store, reference: str) -> Freed:
    """Takes a name away, and what only it needed; the latter later, when somebody has the store open."""
    store.tags.remove(reference)
    with locked(store.directory / "lock", waits=False) as is_ours:
        return _free(store, (), _PART_LIFE_S) if is_ours else Freed(references=(), size_bytes=0)


def _too_many(
    store: Store, limit_bytes: int, used: frozenset[str], weigh: Weigh
) -> tuple[str, ...]:
    """The oldest names to give up, so that what the others need stays under the limit."""
    staying = {tag.reference: {**dict(store.needs(tag)), **weigh(tag)} for tag in store.tags.all()}
    oldest = sorted(store.tags.all(), key=lambda tag: tag.used_at)
    candidates = [tag.reference for tag in oldest if not _is_used(tag, used)]
    doomed = []
    for reference in candidates:
        if _total(staying) <= limit_bytes:
            break
        del staying[reference]
        doomed.append(reference)
    return tuple(doomed)


def _total(staying: dict[str, dict[str, int]]) -> int:
    """Blobs that several images share count once."""
    together: dict[str, int] = {}
    for blobs in staying.values():
        together |= blobs
    return sum(together.values())


def _free(store: Store, doomed: tuple[str, ...], part_life_s: float) -> Freed:
    for reference in doomed:
        store.tags.remove(reference)
    store.tags.sweep()
    needed = {
        store.blobs.path(digest) for tag in store.tags.all() for digest, _ in store.needs(tag)
    }
    freed = 0
    for path in store.blobs.all():
        if path in needed or (is_part(path) and not _is_old(path, part_life_s)):
            continue
        with suppress(FileNotFoundError):
            freed += path.stat().st_size
            path.unlink()
    return Freed(references=doomed, size_bytes=freed)


def _is_used(tag: Tag, used: frozenset[str]) -> bool:
    return not used.isdisjoint((tag.reference, tag.digest, tag.source_digest))


def _is_old(path: Path, life_s: float) -> bool:
    with suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime >= life_s
    return False
