"""A directory of files with a manifest that names each one's size and digest.

Kernels and images are bundles. One appears whole by a rename or not at all; a `current` file beside the bundles says
which of them is in use.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from crucible.errors import HostDiskFull
from crucible.values import dataclass

FORMAT = 1
Facts = Mapping[str, str | tuple[str, ...]]

_MANIFEST = "manifest.json"
_CURRENT = "current"
_UNFINISHED = ".new-"
_MAX_MANIFEST_BYTES = 1 << 20


class BundleDamaged(Exception):
    """What is wrong with a bundle. The caller knows what it is called and raises that error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """`facts` is what the maker recorded beside the files: strings, or lists of strings."""

    path: Path
    digest: str
    files: tuple[File, ...]
    facts: Facts

    def fact(self, name: str) -> str:
        value = self.facts.get(name)
        if not isinstance(value, str):
            raise BundleDamaged(f"its manifest has no {name!r}")
        return value

    def facts_listed(self, name: str) -> tuple[str, ...]:
        value = self.facts.get(name)
        if not isinstance(value, tuple):
            raise BundleDamaged(f"its manifest has no list {name!r}")
        return value

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)


def load_current(shelf: Path) -> Bundle | None:
    """The bundle in use on this shelf, its sizes checked; None when there never was one."""
    try:
        name = (shelf / _CURRENT).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    if not name or "/" in name or name.startswith("."):
        raise BundleDamaged(f"{shelf / _CURRENT} names no directory")
    return load(shelf / name)


def load(path: Path) -> Bundle:
    """Reads the manifest and compares the sizes of the files. Digests are compared by `verify`."""
    bundle = _parse(path, _read_manifest(path))
    for file in bundle.files:
        try:
            size = (path / file.name).stat().st_size
        except FileNotFoundError:
            raise BundleDamaged(f"{file.name} is missing") from None
        if size != file.size:
            raise BundleDamaged(f"{file.name} has {size} bytes instead of {file.size}")
    return bundle


def verify(bundle: Bundle) -> None:
    """Reads every byte and compares it with the manifest."""
    for file in bundle.files:
        found = sha256_of(bundle.path / file.name)
        if found != file.sha256:
            raise BundleDamaged(f"{file.name} has been changed (sha256 {found[:12]}…)")


@contextmanager
def workplace(shelf: Path) -> Iterator[Path]:
    """A private directory on the shelf to build in, gone at the end. Call it under the shelf's lock.

    What a killed builder left behind is removed first.
    """
    shelf.mkdir(parents=True, exist_ok=True)
    for leftover in shelf.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(leftover)
    path = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=shelf))
    path.chmod(0o755)
    try:
        yield path
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise HostDiskFull(str(shelf)) from error
        raise
    finally:
        shutil.rmtree(path, ignore_errors=True)


def publish(content: Path, shelf: Path, *, facts: Facts, name: str = "") -> Bundle:
    """Moves a finished directory from a workplace onto its shelf and makes it the current bundle.

    Its name is the first twelve digits of its digest unless `name` is given.
    """
    files = tuple(_measure(content))
    digest = _digest(files, facts)
    manifest = {
        "format": FORMAT,
        "digest": digest,
        "files": {file.name: {"size": file.size, "sha256": file.sha256} for file in files},
        "facts": facts,
    }
    write_durably(content / _MANIFEST, json.dumps(manifest, indent=1).encode() + b"\n")
    for path in (content, *content.rglob("*")):
        # Machines read it under users of their own, whatever the builder's umask was.
        path.chmod(0o755 if path.is_dir() else 0o644)
        _sync(path)
    target = shelf / (name or digest[:12])
    if target.exists():
        # Renamed aside first, so that the name is never held by half a directory.
        target.rename(shelf / f"{_UNFINISHED}replaced-{target.name}-{os.getpid()}")
    content.rename(target)
    _sync(shelf)
    write_durably(shelf / _CURRENT, f"{target.name}\n".encode())
    for replaced in shelf.glob(f"{_UNFINISHED}replaced-*"):
        shutil.rmtree(replaced)
    return load(target)


def write_durably(path: Path, data: bytes) -> None:
    """The file has either its old content or all of the new one, whatever happens."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _measure(content: Path) -> Iterator[File]:
    for path in sorted(content.rglob("*")):
        if path.is_file():
            yield File(
                name=str(path.relative_to(content)),
                size=path.stat().st_size,
                sha256=sha256_of(path),
            )


def _digest(files: tuple[File, ...], facts: Facts) -> str:
    described = json.dumps(
        [{file.name: file.sha256 for file in files}, facts], sort_keys=True, separators=(",", ":")
    )
    return hashlib.sha256(described.encode()).hexdigest()


def _read_manifest(path: Path) -> object:
    try:
        with (path / _MANIFEST).open("rb") as stream:
            text = stream.read(_MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        raise BundleDamaged(f"{path / _MANIFEST} is missing") from None
    try:
        return json.loads(text)
    except ValueError:
        raise BundleDamaged(f"{path / _MANIFEST} is not readable") from None


def _parse(path: Path, manifest: object) -> Bundle:
    try:
        if not isinstance(manifest, dict) or manifest["format"] != FORMAT:
            raise BundleDamaged(f"{path / _MANIFEST} has a format this version does not know")
        files = tuple(
            File(name=str(name), size=int(entry["size"]), sha256=str(entry["sha256"]))
            for name, entry in manifest["files"].items()
        )
        facts = {
            str(name): value if isinstance(value, str) else tuple(str(item) for item in value)
            for name, value in manifest["facts"].items()
        }
        return Bundle(path=path, digest=str(manifest["digest"]), files=files, facts=facts)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BundleDamaged(f"{path / _MANIFEST} lacks something it should have") from None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
