"""What of the host stays at home unless it is named itself: credentials, as data with the reason for each.

It goes by names: what is called otherwise is not recognised.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

MOST_NAMED = 3


class Place(NamedTuple):
    """A file or directory as it lies in a home; it is recognised at any depth of a tree."""

    path: str
    why: str


PLACES = (
    Place(".ssh", "keys of SSH"),
    Place(".gnupg", "keys of GnuPG"),
    Place(".password-store", "passwords of pass"),
    Place(".local/share/keyrings", "passwords of the desktop"),
    Place("Library/Keychains", "passwords of the desktop"),
    Place(".aws", "credentials of AWS"),
    Place(".config/gcloud", "credentials of Google Cloud"),
    Place(".azure", "credentials of Azure"),
    Place(".oci", "credentials of Oracle Cloud"),
    Place(".kube", "credentials of Kubernetes"),
    Place(".docker/config.json", "logins at registries"),
    Place(".config/containers/auth.json", "logins at registries"),
    Place(".netrc", "logins at hosts"),
    Place("_netrc", "logins at hosts"),
    Place(".git-credentials", "logins of git"),
    Place(".config/git/credentials", "logins of git"),
    Place(".config/gh", "login of GitHub's client"),
    Place(".config/rclone", "credentials of rclone"),
    Place(".pypirc", "login at a Python index"),
    Place(".cargo/credentials", "login at a Rust registry"),
    Place(".cargo/credentials.toml", "login at a Rust registry"),
    Place(".gem/credentials", "login at a Ruby registry"),
    Place(".m2/settings.xml", "logins of Maven"),
    Place(".composer/auth.json", "logins of Composer"),
    Place(".terraform.d/credentials.tfrc.json", "login of Terraform"),
    Place(".vault-token", "token of Vault"),
    Place(".pgpass", "passwords of databases"),
    Place(".my.cnf", "passwords of databases"),
    Place(".claude/.credentials.json", "login of a coding agent"),
    Place(".codex/auth.json", "login of a coding agent"),
    Place(".gemini/oauth_creds.json", "login of a coding agent"),
    Place(".mozilla", "profiles of browsers"),
    Place(".config/google-chrome", "profiles of browsers"),
    Place(".config/chromium", "profiles of browsers"),
    Place(".config/BraveSoftware", "profiles of browsers"),
    Place(".config/microsoft-edge", "profiles of browsers"),
    Place("snap/firefox", "profiles of browsers"),
    Place("snap/chromium", "profiles of browsers"),
    Place("Library/Application Support/Google/Chrome", "profiles of browsers"),
    Place("Library/Application Support/Firefox", "profiles of browsers"),
)

# A project's own .npmrc names its registry and is seldom secret; the one in the home holds the login.
ONLY_IN_THE_HOME = (Place(".npmrc", "login at an npm registry"),)

KEY_FILES = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk")
KEY_ENDINGS = (".pem", ".key", ".p12", ".pfx", ".kdbx")
PUBLIC_FILES = ("cacert.pem",)
ENVIRONMENT_FILE = ".env"
ENVIRONMENT_EXAMPLES = (".env.example", ".env.sample", ".env.template")

# Of a home these are left out as well: large, of no use elsewhere, or of what was typed.
CACHES = (
    ".cache", ".npm", "node_modules", "__pycache__", ".venv", ".rustup", ".cargo/registry", ".cargo/git",
    "go/pkg", ".gradle", ".m2/repository", ".nuget", ".pyenv", ".nvm", ".local/share/Trash",
    ".local/share/containers", ".local/share/docker", ".vscode-server", ".cursor-server", "snap",
    "Library/Caches", ".bash_history", ".zsh_history", ".python_history", ".node_repl_history",
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Withheld:
    """What stays at home of one tree. `found` are the credentials that were met, by their names in it."""

    absent: frozenset[bytes] = frozenset()
    leaves_caches: bool = False
    found: list[bytes] = field(default_factory=list)

    def covers(self, name: bytes, *, is_directory: bool) -> bool:
        if self.leaves_caches and _lies_at(name, _CACHES):
            return True
        if name in self.absent or is_credential(name, is_directory=is_directory):
            if name not in self.found[-MOST_NAMED:]:
                self.found.append(name)
            return True
        return False

    def told(self) -> str:
        """One line for people; empty if nothing was left out."""
        if not self.found:
            return ""
        names = ", ".join(os.fsdecode(name) for name in self.found[:MOST_NAMED])
        more = ", ..." if len(self.found) > MOST_NAMED else ""
        way = "name what is needed with --mount" if self.leaves_caches else "--include-credentials"
        return f"Left out what may be credentials: {len(self.found)} ({names}{more}); to take it along: {way}"


def withheld_of(
    source: Path, *, include: bool, own_state: Path, is_home: bool = False
) -> Withheld | None:
    """For the tree at `source`; None where all of it was asked for.

    Who names a credential itself, or a directory within one, means it.
    """
    if not is_home and (include or is_named_credential(source)):
        return None
    home = Path.home()
    places = [home / place.path for place in ONLY_IN_THE_HOME] + [own_state]
    top = os.fsencode(source.resolve()).rstrip(b"/") + b"/"
    absent = {
        real.removeprefix(top)
        for place in places
        if (real := os.fsencode(place.parent.resolve() / place.name)).startswith(top)
    }
    return Withheld(absent=frozenset(absent), leaves_caches=is_home)


def is_named_credential(source: Path) -> bool:
    """Whether the path itself, or a directory it lies in, is on the list."""
    parts = os.fsencode(source.resolve()).strip(b"/").split(b"/")
    whole = b"/".join(parts)
    if any(source == Path.home() / place.path for place in ONLY_IN_THE_HOME):
        return True
    return is_credential(whole, is_directory=source.is_dir()) or any(
        is_credential(b"/".join(parts[:count]), is_directory=True) for count in range(1, len(parts))
    )


def is_credential(name: bytes, *, is_directory: bool) -> bool:
    """By its name alone, relative to any directory."""
    lowered = name.lower()
    if _lies_at(lowered, _PLACES):
        return True
    if is_directory:
        return False
    base = lowered.rpartition(b"/")[2]
    if base in _KEY_FILES or (base.endswith(_KEY_ENDINGS) and base not in _PUBLIC_FILES):
        return True
    return base == _ENVIRONMENT or (
        base.startswith(_ENVIRONMENT + b".") and base not in _ENVIRONMENT_EXAMPLES
    )


def _lies_at(name: bytes, places: dict[bytes, tuple[bytes, ...]]) -> bool:
    ends = places.get(name.rpartition(b"/")[2])
    return ends is not None and any(name == end or name.endswith(b"/" + end) for end in ends)


def _by_last_name(paths: list[bytes]) -> dict[bytes, tuple[bytes, ...]]:
    found: dict[bytes, tuple[bytes, ...]] = {}
    for path in paths:
        last = path.rpartition(b"/")[2]
        found[last] = (*found.get(last, ()), path)
    return found


_PLACES = _by_last_name([place.path.lower().encode() for place in PLACES])
_CACHES = _by_last_name([path.encode() for path in CACHES])
_KEY_FILES = frozenset(name.encode() for name in KEY_FILES)
_KEY_ENDINGS = tuple(ending.encode() for ending in KEY_ENDINGS)
_PUBLIC_FILES = frozenset(name.encode() for name in PUBLIC_FILES)
_ENVIRONMENT = ENVIRONMENT_FILE.encode()
_ENVIRONMENT_EXAMPLES = frozenset(name.encode() for name in ENVIRONMENT_EXAMPLES)
