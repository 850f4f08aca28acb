"""Which of the images in an index fits this machine's processor."""

from __future__ import annotations

from crucible.errors import WrongPlatform
from crucible.images.oci.documents import INDEX_TYPES, Entry, Index
from crucible.images.oci.model import Platform
from crucible.system import machine

_ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "i686": "386",
}
# From the best on. Variants not named here ask for more than any machine of that kind has.
_VARIANTS = {
    "amd64": ("", "v1"),
    "arm64": ("v8", ""),
    "arm": ("v7", "v6", "v5", ""),
}


def host_platform() -> Platform:
    """What the machines that Crucible starts here can run."""
    name = machine()
    return Platform(os="linux", architecture=_ARCHITECTURES.get(name, name))


def choose(reference: str, index: Index, wanted: Platform) -> Entry:
    """The entry to use, which may be an index again. Raises WrongPlatform, naming what there is."""
    variants = (wanted.variant,) if wanted.variant else _VARIANTS.get(wanted.architecture, ("",))
    for variant in variants:
        for entry in index.entries:
            if _is(entry.platform, wanted, variant):
                return entry
    unnamed = [entry for entry in index.entries if entry.platform is None]
    if len(unnamed) == 1 and len(index.entries) == 1:
        return unnamed[0]
    for entry in unnamed:
        if entry.descriptor.media_type in INDEX_TYPES:
            return entry
    raise WrongPlatform(reference, str(wanted), _offered(index))


def check(reference: str, found: Platform, wanted: Platform) -> None:
    """For an image without an index: its configuration says what it is for, if it says anything."""
    if (found.os or wanted.os, found.architecture or wanted.architecture) != (
        wanted.os,
        wanted.architecture,
    ):
        raise WrongPlatform(reference, str(wanted), (str(found),))


def _is(platform: Platform | None, wanted: Platform, variant: str) -> bool:
    return platform is not None and (
        platform.os,
        platform.architecture,
        platform.variant,
    ) == (wanted.os, wanted.architecture, variant)


def _offered(index: Index) -> tuple[str, ...]:
    """Without the attestations that builders put beside images under the platform `unknown`."""
    platforms = [entry.platform for entry in index.entries if entry.platform is not None]
    return tuple(dict.fromkeys(str(found) for found in platforms if found.os != "unknown"))
