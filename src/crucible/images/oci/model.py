"""What an OCI image is once its bytes are here: the seam between fetching one and making a root of it.

Everything in it was checked when it was read: sizes are capped, digests are well-formed, texts hold no NUL.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """How a manifest names another blob: `digest` is `algorithm:hex`, `size` its length in bytes."""

    digest: str
    media_type: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    os: str
    architecture: str
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """How the image wants to be run. Empty where it does not say.

    `exposed_ports` reads `80/tcp`; `user` is a name or number, perhaps with `:group`.
    """

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    user: str = ""
    workdir: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    exposed_ports: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    stop_signal: str = ""
    architecture: str = ""
    os: str = ""
    variant: str = ""
    created: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer as it was sent: `path` holds `size` bytes with that `digest`.

    `diff_id` is the digest of the tar after decompression. Nobody has compared it yet: whoever unpacks does.
    """

    digest: str
    diff_id: str
    media_type: str
    size: int
    path: Path
    compression: Compression


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledImage:
    """`reference` is the full name it was asked by, `digest` its manifest's. `layers`: the lowest one first."""

    reference: str
    digest: str
    config_digest: str
    config: ImageConfig
    layers: tuple[Layer, ...]

    @property
    def size_bytes(self) -> int:
        """What its layers take in the store, compressed as they are."""
        return sum({layer.digest: layer.size for layer in self.layers}.values())
