"""Registries that the tests of this folder share, and ways to pull that never wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.images.registry import Authority, RunningRegistry, make_authority, running_registry

from crucible.images.oci.pull import Pulling
from crucible.images.oci.settings import Patience, RegistrySettings


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    """Plain HTTP, as is allowed on loopback."""
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="session")
def private_registry(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[RunningRegistry]:
    """TLS and a login."""
    directory = tmp_path_factory.mktemp("private")
    with running_registry(directory, authority=authority, has_login=True) as running:
        yield running


class Ways:
    """Makes `Pulling`s for one home. Nothing of the real environment counts, and pauses are only noted."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {"HOME": str(home / "nobody"), "PATH": "/usr/bin:/bin"}
        self.pauses: list[float] = []
        self.said: list[str] = []
        self.seen: list[tuple[str, int, int]] = []

    def __call__(self, *, settings: RegistrySettings | None = None, **more: Any) -> Pulling:
        fields: dict[str, Any] = {
            "home": self.home,
            "settings": settings or RegistrySettings(),
            "environment": self.environment,
            "pause": self.pauses.append,
            "report": lambda stage, detail: self.said.append(f"{stage}: {detail}"),
            "progress": lambda digest, here, size: self.seen.append((digest, here, size)),
        }
        return Pulling(**{**fields, **more})


@pytest.fixture
def ways(tmp_path: Path) -> Ways:
    return Ways(tmp_path / "home")


def hasty(**more: Any) -> RegistrySettings:
    """Settings that give up soon, for servers that are made to be waited for."""
    patience = Patience(
        connect_s=10, idle_s=2, exchange_s=2, pace_s=1.5, pace_bytes=1 << 16, attempts=2
    )
    return RegistrySettings(patience=patience, **more)
