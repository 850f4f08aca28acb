"""The host's package sources, used without touching the host: own lists, own cache, nothing installed.

So it works for any user, whether or not root has ever run `apt-get update`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from crucible.errors import BuildFailed, PrerequisiteMissing
from crucible.images.commands import output_of
from crucible.images.report import Report
from crucible.system import distribution, has_apt

_KEYRINGS = {
    "Debian": Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    "Ubuntu": Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg"),
}
# How the host reaches its sources; the rest of its apt configuration is none of our business.
_TRANSPORT = ("Acquire::http", "Acquire::https", "Acquire::Retries", "Acquire::Check-Valid-Until")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Source:
    """One line of a sources.list of the distribution itself; third parties' are left out."""

    address: str
    release: str
    component: str
    origin: str

    def line(self) -> str:
        keyring = _KEYRINGS[self.origin]
        option = f"[signed-by={keyring}] " if keyring.exists() else ""
        return f"deb {option}{self.address} {self.release} {self.component}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Apt:
    """Package lists of the host's sources in a directory of our own. Made by `open_apt`."""

    directory: Path

    def field(self, package: str, name: str) -> str:
        """A field of the newest version of a package, or the empty text where it has none."""
        record = self._run("apt-cache", "show", "--no-all-versions", package)
        for line in record.splitlines():
            if line.startswith(f"{name}: "):
                return line.split(": ", 1)[1]
        return ""

    def knows(self, package: str) -> bool:
        return bool(self._run("apt-cache", "madison", package).strip())

    def download(self, package: str, into: Path) -> Path:
        """Fetches one package, checked against the signed lists, and returns the file."""
        before = set(into.glob("*.deb"))
        self._run("apt-get", "download", package, cwd=into)
        (fetched,) = set(into.glob("*.deb")) - before
        return fetched

    def sources(self) -> tuple[Source, ...]:
        listed = self._run(
            "apt-get",
            "indextargets",
            "--format",
            "$(ORIGIN)\t$(RELEASE)\t$(COMPONENT)\t$(REPO_URI)",
            "Created-By: Packages",
        )
        found: set[Source] = set()
        for line in listed.splitlines():
            origin, release, component, address = line.split("\t")
            if origin in _KEYRINGS:
                found.add(
                    Source(address=address, release=release, component=component, origin=origin)
                )
        if not found:
            raise BuildFailed(
                "apt knows no package source of this distribution",
                hint="See that /etc/apt lists one and that it can be reached, then run `crucible setup` again",
            )
        return tuple(sorted(found))

    def _run(self, program: str, *arguments: str, cwd: Path | None = None) -> str:
        return output_of([program, *_private(self.directory), *arguments], cwd=cwd)


def open_apt(directory: Path, *, report: Report, stage: str) -> Apt:
    """Fetches the lists of the host's sources into `directory`."""
    if not has_apt():
        named = distribution()[:1] or ("unknown",)
        raise PrerequisiteMissing(
            f"The guest kernel and the base image come from Debian's packages; this is {named[0]}",
            hint="Run Crucible on Debian or Ubuntu, or in a virtual machine with one of them",
        )
    for part in ("lists/partial", "cache/archives/partial"):
        (directory / part).mkdir(parents=True, exist_ok=True)
    report(stage, "reading the package lists")
    output_of(["apt-get", *_private(directory), "update"])
    return Apt(directory=directory)


def transport_settings() -> tuple[str, ...]:
    """The host's proxies, retries and certificates for apt, each as one line of configuration."""
    dump = output_of(["apt-config", "dump"])
    return tuple(
        line
        for line in dump.splitlines()
        if line.startswith(_TRANSPORT) and not line.endswith(' "";')
    )


def _private(directory: Path) -> list[str]:
    settings = {
        "Dir::State::lists": f"{directory}/lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": f"{directory}/cache",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
        # As root, apt would drop to a user who cannot write here.
        "APT::Sandbox::User": "root",
        "APT::Update::Post-Invoke-Success": "",
    }
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
