"""A state directory for one measurement run: hard links to a prepared one, and gone afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crucible import assemble
from crucible.client.connection import Owner
from crucible.client.exchange import Unseen, ask
from crucible.config import Config
from crucible.images.catalog import load_image
from crucible.images.kernel import load_kernel
from crucible.sandbox.records import SandboxRecord, open_records

_SHARED = ("kernels", "images", "initramfs", "blanks", "cache", "templates")
_OWNER_DEADLINE_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`home` is the state directory, `scratch` is for files of the measurements themselves."""

    home: Path
    scratch: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        return Config(home=self.home, owner_idle_s=3600.0)

    def ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        """One request to the owner of this home, which is started if it is not there."""
        return ask(Owner(self.home).connect, {"verb": verb, **fields}, progress=Unseen())

    def start(self, name: str, **spec: Any) -> None:
        """A new named sandbox, running when this returns."""
        self.ask("create", name=name, spec=spec, start=True, host_directory=None)

    def remove(self, name: str) -> None:
        self.ask("remove", name=name, force=True)

    def records(self) -> list[SandboxRecord]:
        records = open_records(self.home)
        try:
            return records.sandboxes()
        finally:
            records.close()

    def durations(self) -> dict[str, float]:
        """The stages of the run that ended last, as its audit line has them."""
        records = open_records(self.home)
        try:
            newest = records.audit(limit=1)
        finally:
            records.close()
        return dict(newest[0]["detail"]["durations"]) if newest else {}

    def owner_pid(self) -> int:
        return int(self.ask("ping")["pid"])

    def end_owner(self) -> None:
        connection = Owner(self.home).connect_if_running()
        if connection is None:
            return
        connection.close()
        pid = int(self.ask("shutdown")["pid"])
        deadline = time.monotonic() + _OWNER_DEADLINE_S
        while _is_process(pid) and time.monotonic() < deadline:
            time.sleep(0.02)


@contextmanager
def open_place(prepared: Path) -> Iterator[Place]:
    """Raises what stands in the way when the prepared home has no kernel or no image."""
    load_kernel(prepared)
    load_image(prepared, "base")
    # Beside the prepared one: hard links do not leave a filesystem.
    root = Path(tempfile.mkdtemp(prefix=f".{prepared.name}-bench-", dir=prepared.parent))
    home, scratch = root / "home", root / "scratch"
    try:
        home.mkdir(mode=0o700)
        scratch.mkdir()
        for part in _SHARED:
            if (prepared / part).exists():
                shutil.copytree(prepared / part, home / part, copy_function=os.link, symlinks=True)
        os.environ["CRUCIBLE_OWNER_IDLE_S"] = "3600"
        yield Place(home=home, scratch=scratch, environment=_environment(home))
    finally:
        _end_everything(home)
        shutil.rmtree(root, ignore_errors=True)


def unpack_image(place: Place) -> Path:
    """The base image as a directory, for programs that know no disk images."""
    target = place.scratch / "rootfs"
    if not target.exists():
        subprocess.run(
            [
                "unsquashfs", "-quiet", "-no-progress", "-no-exit-code", "-d", str(target),
                str(load_image(place.home, "base").root),
            ],
            stdin=subprocess.DEVNULL, capture_output=True, check=True,
        )  # fmt: skip
    return target


def _environment(home: Path) -> dict[str, str]:
    """As a user has it, with bytecode that was compiled."""
    unwanted = ("CRUCIBLE_", "PYTHONDONTWRITEBYTECODE")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    return {**kept, "CRUCIBLE_HOME": str(home), "CRUCIBLE_OWNER_IDLE_S": "3600"}


def _end_everything(home: Path) -> None:
    place = Place(home=home, scratch=home)
    with contextlib.suppress(Exception):
        place.end_owner()
    if not (home / "records.sqlite").exists():
        return
    backends = {backend.name: backend for backend in assemble.backends(place.config)}
    for record in place.records():
        backend = backends.get(record.backend)
        if backend is not None:
            backend.bury(record.directory, record.id, None)


def _is_process(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
