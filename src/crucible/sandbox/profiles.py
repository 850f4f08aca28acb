"""How much a sandbox is trusted, as data: each profile sets every field, and every field can be set apart."""

from __future__ import annotations

from typing import NamedTuple

from crucible.errors import BadSetting

DEFAULT_PROFILE = "moderate"
NETWORK_MODES = ("off", "allowlist", "full")


class Profile(NamedTuple):
    """`network`: nothing, what rules allow, or every public address. A mount is a copy."""

    name: str
    network: str
    mounts_directory: bool
    mounts_home: bool
    passes_environment: bool
    is_read_only: bool
    drops_capabilities: bool
    meaning: str


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            "permissive", "full", True, True, True, False, False,
            "public network, a copy of the directory and of the home, the environment",
        ),
        Profile(
            "moderate", "full", False, False, False, False, False,
            "public network, nothing of the host",
        ),
        Profile(
            "restrictive", "off", False, False, False, True, True,
            "no network, read-only, no capabilities",
        ),
    )
}  # fmt: skip


def find_profile(name: str) -> Profile:
    try:
        return PROFILES[name]
    except KeyError:
        raise BadSetting(
            f"There is no profile {name!r}", hint=f"Use one of {', '.join(PROFILES)}"
        ) from None
