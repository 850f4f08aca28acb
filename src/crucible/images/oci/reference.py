"""The names of images: what a person types → one that means the same everywhere.

Pure text: nothing is looked up, neither on the disk nor in a registry.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from crucible.errors import BadReference
from crucible.images.oci.digests import is_digest
from crucible.values import dataclass

DEFAULT_REGISTRY = "docker.io"
DEFAULT_TAG = "latest"
_OFFICIAL = "library/"
_OTHER_NAMES = frozenset(("index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"))

_MAX_NAME = 255
_MAX_TEXT = 4096
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_LABEL = r"(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9])"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:.]{{2,45}}\])"
_REGISTRY = re.compile(rf"{_HOST}(?::([0-9]{{1,5}}))?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_BARE_DIGEST = re.compile(r"[0-9a-f]{64}")


class ArchiveFormat(StrEnum):
    OCI = "oci-archive"
    DOCKER = "docker-archive"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryReference:
    """An image in a registry. With a digest, that decides and the tag is only what people call it."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.name}{self._tail}"

    @property
    def name(self) -> str:
        return f"{self.registry}/{self.repository}"

    @property
    def familiar(self) -> str:
        """As people write it: `python:3.12` for what is docker.io/library/python:3.12."""
        if self.registry != DEFAULT_REGISTRY:
            return str(self)
        short = self.repository.removeprefix(_OFFICIAL)
        return f"{self.repository if '/' in short else short}{self._tail}"

    @property
    def wanted(self) -> str:
        """What to ask the registry for."""
        return self.digest or self.tag

    @property
    def _tail(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{tag}@{self.digest}" if self.digest else tag


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutReference:
    """An OCI layout directory; without a tag it must hold one image only."""

    path: Path
    tag: str = ""

    def __str__(self) -> str:
        return f"oci:{self.path}{':' if self.tag else ''}{self.tag}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveReference:
    """A tar of an OCI layout or of `docker save`; without a tag it must hold one image only."""

    format: ArchiveFormat
    path: Path
    tag: str = ""

    def __str__(self) -> str:
        return f"{self.format}:{self.path}{':' if self.tag else ''}{self.tag}"


Source = RegistryReference | LayoutReference | ArchiveReference


def parse_source(text: str) -> Source:
    """Any place an image can come from: `docker://NAME` or just `NAME`, `oci:DIR[:TAG]`,
    `oci-archive:FILE[:TAG]`, `docker-archive:FILE[:NAME]`. Paths with a colon cannot be written this way."""
    for transport in ("oci", *ArchiveFormat):
        if text.startswith(f"{transport}:"):
            return _local(transport, text)
    return parse_reference(text)


def parse_reference(text: str) -> RegistryReference:
    """A name in a registry. Raises BadReference."""
    rest = text.removeprefix("docker://")
    if not rest or len(rest) > _MAX_TEXT:
        raise BadReference(text, "it is empty" if not rest else "it is too long")
    rest, at, digest = rest.partition("@")
    if at and not is_digest(digest):
        raise BadReference(text, f"{_cut(digest)!r} is no digest such as sha256:… with 64 digits")
    rest, tag = _split_tag(rest)
    if tag is not None and not _TAG.fullmatch(tag):
        raise BadReference(text, f"{_cut(tag)!r} is no tag")
    registry, repository = _split_registry(rest)
    _check_registry(text, registry)
    if registry == DEFAULT_REGISTRY and "/" not in repository:
        repository = f"{_OFFICIAL}{repository}"
    _check_repository(text, registry, repository)
    if tag is None:
        tag = "" if digest else DEFAULT_TAG
    return RegistryReference(registry=registry, repository=repository, tag=tag, digest=digest)


def _local(transport: str, text: str) -> LayoutReference | ArchiveReference:
    path, colon, tag = text.removeprefix(f"{transport}:").partition(":")
    if not path or "\0" in text or len(text) > _MAX_TEXT:
        raise BadReference(text, f"{transport}: needs a path")
    if colon and not tag:
        raise BadReference(text, "there is no tag after the colon")
    if transport == ArchiveFormat.DOCKER:
        tag = str(parse_reference(tag)) if tag else ""
        return ArchiveReference(format=ArchiveFormat.DOCKER, path=Path(path), tag=tag)
    if tag and not tag.isprintable():
        raise BadReference(text, "its tag holds control characters")
    if transport == ArchiveFormat.OCI:
        return ArchiveReference(format=ArchiveFormat.OCI, path=Path(path), tag=tag)
    return LayoutReference(path=Path(path), tag=tag)


def _split_tag(text: str) -> tuple[str, str | None]:
    """A colon after the last slash begins a tag; one before it belongs to a port."""
    head, colon, tail = text.rpartition(":")
    if not colon or "/" in tail:
        return text, None
    return head, tail


def _split_registry(text: str) -> tuple[str, str]:
    """The first part is a registry only if it looks like one: a dot, a port, upper case, or localhost."""
    first, slash, rest = text.partition("/")
    if not slash or not (_looks_like_a_host(first) or first.lower() != first):
        return DEFAULT_REGISTRY, text
    registry = first.lower()
    return (DEFAULT_REGISTRY if registry in _OTHER_NAMES else registry), rest


def _looks_like_a_host(text: str) -> bool:
    return any(sign in text for sign in ".:[") or text == "localhost"


def _check_registry(text: str, registry: str) -> None:
    found = _REGISTRY.fullmatch(registry)
    if found is not None and not _looks_like_a_host(registry):
        raise BadReference(text, "a repository's name must be in lower case")
    if found is None or (found.group(1) and not 0 < int(found.group(1)) < 65536):
        raise BadReference(text, f"{_cut(registry)!r} is no registry's host name")


def _check_repository(text: str, registry: str, repository: str) -> None:
    if not _REPOSITORY.fullmatch(repository):
        why = f"{_cut(repository)!r} is no repository's name"
        if repository.lower() != repository:
            why += ": it must be in lower case"
        raise BadReference(text, why)
    if _BARE_DIGEST.fullmatch(repository.removeprefix(_OFFICIAL)):
        raise BadReference(text, "64 digits alone are a digest without its `name@sha256:`")
    if len(registry) + 1 + len(repository) > _MAX_NAME:
        raise BadReference(text, f"the name is longer than {_MAX_NAME} characters")


def _cut(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
