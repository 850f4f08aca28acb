"""Builds an image from a recipe and the distribution's packages. The same packages give the same bytes."""

from __future__ import annotations

import hashlib
import os
import pwd
import tarfile
import tempfile
import time
from pathlib import Path

from crucible.errors import ImageDamaged, ImageMissing, PrerequisiteMissing
from crucible.images import bundle, squashfs
from crucible.images.apt import Source, open_apt, transport_settings
from crucible.images.catalog import (
    PACKAGES_FILE,
    ROOT_FILE,
    Image,
    load_image,
    lock_of,
    shelf_of,
)
from crucible.images.commands import follow
from crucible.images.lock import held
from crucible.images.recipe import Recipe, read_recipe
from crucible.images.report import Report
from crucible.programs import find_program
from crucible.system import install_command

_STATUS_FILE = "./var/lib/dpkg/status"

# Runs in the new root after the packages: $1 is its directory. Nothing of the host may stay, nor
# anything that differs from build to build.
_TIDY = """\
set -eu
cd "$1"
rm -rf etc/apt/sources.list etc/apt/sources.list.d/* etc/apt/apt.conf.d/99mmdebstrap
rm -rf etc/dpkg/dpkg.cfg.d/99mmdebstrap etc/hostname etc/resolv.conf etc/machine-id
rm -rf var/log/* var/cache/* var/lib/apt/lists/* var/lib/apt/extended_states var/lib/systemd
rm -f etc/passwd- etc/group- etc/shadow- etc/gshadow- etc/.pwd.lock var/lib/dpkg/*-old
mkdir -p var/cache/apt/archives/partial var/lib/apt/lists/partial
chmod 700 var/cache/apt/archives/partial var/lib/apt/lists/partial
printf '127.0.0.1 localhost\\n::1 localhost\\n' > etc/hosts
: > etc/hostname; : > etc/resolv.conf; : > etc/machine-id
echo '{user}:x:{uid}:{uid}::/home/{user}:/bin/bash' >> etc/passwd
echo '{user}:x:{uid}:' >> etc/group
echo '{user}:!:1:0:99999:7:::' >> etc/shadow
echo '{user}:!::' >> etc/gshadow
sed -i -E 's/^([^:]*:[^:]*):[0-9]+:/\\1:1:/' etc/shadow
mkdir -p home/{user} '.{workdir}'
cp -a etc/skel/. home/{user}/
chown -R {uid}:{uid} home/{user} '.{workdir}'
chmod 755 home/{user} '.{workdir}'
"""


def build_base(home: Path, *, report: Report, recipe: Recipe | None = None) -> Image:
    """The image of the recipe (ours, unless another is given), built when it is absent, damaged or of another recipe.

    Safe to call at once from many processes: one builds, the others wait and take it.
    """
    wanted = recipe or read_recipe()
    shelf = shelf_of(home, wanted.name)
    with held(lock_of(home, wanted.name), stage=wanted.name, report=report):
        found = _current(home, wanted)
        if found is not None:
            return found
        with bundle.workplace(shelf) as work:
            content = work / "image"
            content.mkdir()
            _make_root(work, content, wanted, report)
            facts: bundle.Facts = {
                "user": wanted.user,
                "workdir": wanted.workdir,
                "environment": tuple(f"{key}={value}" for key, value in wanted.environment),
                "recipe": _fingerprint(wanted),
            }
            made = bundle.publish(content, shelf, facts=facts)
        report(wanted.name, f"{made.size_bytes / 1e6:.0f} MB, digest {made.digest[:12]}")
        return load_image(home, wanted.name)


def _current(home: Path, wanted: Recipe) -> Image | None:
    try:
        found = load_image(home, wanted.name)
    except (ImageMissing, ImageDamaged):
        return None
    return found if found.recipe == _fingerprint(wanted) else None


def _fingerprint(recipe: Recipe) -> str:
    """Changes with the recipe and with the way we build: either makes another image."""
    way = "\n".join((recipe.digest, _TIDY, *squashfs.OPTIONS))
    return hashlib.sha256(way.encode()).hexdigest()


def _make_root(work: Path, content: Path, recipe: Recipe, report: Report) -> None:
    sources = open_apt(work / "apt", report=report, stage=recipe.name).sources()
    started = int(time.time())
    archive = work / "root.tar"
    _install_packages(archive, sources, recipe, started, report)
    report(recipe.name, "recording the package list")
    with tarfile.open(archive) as tree:
        newest = max((member.mtime for member in tree if member.mtime < started), default=0)
        status = tree.extractfile(_STATUS_FILE)
        text = status.read().decode() if status else ""
    (content / PACKAGES_FILE).write_text(package_list(text), encoding="utf-8")
    report(recipe.name, "packing the filesystem")
    squashfs.pack(archive, content / ROOT_FILE, newest_s=int(newest), as_root=_as_root())
    report(recipe.name, "reading it back")
    squashfs.compare(archive, content / ROOT_FILE, work / "read-back")


def package_list(status: str) -> str:
    """dpkg's status file as sorted lines `name version architecture`."""
    lines: list[str] = []
    for paragraph in status.split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in paragraph.splitlines()
            if ": " in line[1:] and line[0] != " "
        )
        if "Package" in fields:
            lines.append(f"{fields['Package']} {fields['Version']} {fields['Architecture']}\n")
    return "".join(sorted(lines))


def _install_packages(
    archive: Path, sources: tuple[Source, ...], recipe: Recipe, started: int, report: Report
) -> None:
    """Runs mmdebstrap into a tar. It has its own mounts, so that a killed build leaves none behind."""
    argv = ["mmdebstrap", f"--mode={_mode()}", "--variant=minbase", "--format=tar"]
    # Our own script cleans up: mmdebstrap's way leaves owners that depend on where it was run.
    argv += ["--skip=cleanup/apt"]
    argv += [f"--include={','.join(recipe.packages)}"]
    argv += [f"--dpkgopt=path-exclude={path}" for path in recipe.exclude]
    argv += [f"--dpkgopt=path-include={path}" for path in recipe.keep]
    argv += [f"--aptopt={line}" for line in transport_settings()]
    tidy = _TIDY.format(user=recipe.user, uid=recipe.uid, workdir=recipe.workdir)
    argv += [f"--customize-hook={tidy}", _suite(sources), "-"]
    argv += [source.line() for source in sources]

    def show(line: str) -> None:
        # Its lines about hooks carry our whole script.
        if line.startswith("I: ") and not line.startswith("I: running --"):
            report(recipe.name, line.removeprefix("I: ").rstrip("."))

    with archive.open("wb") as tar:
        follow(
            argv,
            on_line=show,
            stdout=tar,
            extra={
                "SOURCE_DATE_EPOCH": str(started),
                "TMPDIR": _temporary_directory(archive.parent),
            },
        )


def _mode() -> str:
    """How mmdebstrap gets a root it may own: namespaces where this user has ids for them."""
    if os.geteuid() == 0 or _has_subordinate_ids():
        return "unshare"
    if find_program("fakechroot"):
        return "fakechroot"
    name = _user_name()
    raise PrerequisiteMissing(
        f"User {name!r} has no subordinate ids, which building an image without root needs",
        hint=f"Run `sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {name}`,"
        f" or `{install_command(('fakechroot', 'fakeroot'))}`",
    )


def _has_subordinate_ids() -> bool:
    owners = (f"{_user_name()}:", f"{os.geteuid()}:")
    for file in ("/etc/subuid", "/etc/subgid"):
        try:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        if not any(line.startswith(owners) for line in lines):
            return False
    return find_program("newuidmap") is not None


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _temporary_directory(work: Path) -> str:
    """As root beside the result; else where mmdebstrap's own user can write, which our home is not."""
    return str(work) if os.geteuid() == 0 else tempfile.gettempdir()


def _suite(sources: tuple[Source, ...]) -> str:
    """The release the others are updates of: `bookworm`, not `bookworm-security`."""
    return min((source.release for source in sources), key=len)


def _as_root() -> tuple[str, ...]:
    """The words before a command that make an ordinary user root in its own eyes."""
    if os.geteuid() == 0:
        return ()
    return ("unshare", "--user", "--map-root-user") if _mode() == "unshare" else ("fakeroot",)
