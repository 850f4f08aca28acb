"""An image that is not here is fetched when a sandbox wants it: told, once, and given up when nobody waits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.images.registry import RunningRegistry, make_image

from crucible.errors import BadReference, ImageMissing, RegistryUnreachable
from crucible.images import on_demand
from crucible.images.catalog import Image, load_image
from crucible.images.on_demand import Abandoned, IsStopped


def fetch(
    home: Path, name: str, *, is_guess: bool = False, is_stopped: IsStopped = lambda: False
) -> tuple[Image, list[str]]:
    said: list[str] = []
    image = on_demand.fetch(
        home,
        name,
        is_guess=is_guess,
        is_stopped=is_stopped,
        in_use=frozenset,
        report=lambda stage, detail: said.append(f"{stage}: {detail}"),
    )
    return image, said


def test_it_is_pulled_made_and_found_afterwards(registry: RunningRegistry, tmp_path: Path) -> None:
    name = registry.push("demand/app:1", make_image({"bin/app": os.urandom(300_000)}))
    image, said = fetch(tmp_path, name)
    assert load_image(tmp_path, name).root == image.root
    assert f"note: Image {name} is not here; pulling it" in said
    assert any(" of " in line and "MB" in line for line in said)


def test_what_is_no_name_in_a_registry_is_refused(tmp_path: Path) -> None:
    for name in ("../etc", "oci-archive:/etc/passwd", "UPPER/", ""):
        with pytest.raises(BadReference):
            fetch(tmp_path, name)
    assert not (tmp_path / "images").exists()


def test_it_is_given_up_when_nobody_waits(registry: RunningRegistry, tmp_path: Path) -> None:
    name = registry.push("demand/left:1", make_image({"bin/app": os.urandom(3_000_000)}))
    asked = 0

    def is_stopped() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3

    with pytest.raises(Abandoned):
        fetch(tmp_path, name, is_stopped=is_stopped)
    with pytest.raises(ImageMissing):
        load_image(tmp_path, name)
    fetch(tmp_path, name)


def test_a_silent_registry_is_not_asked_again_for_a_guess(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "127.0.0.1:1/nobody/there:1"
    with pytest.raises(RegistryUnreachable):
        fetch(tmp_path, name)
    with pytest.raises(RegistryUnreachable, match="a short while ago"):
        fetch(tmp_path, name, is_guess=True)
    with pytest.raises(RegistryUnreachable, match=r"^(?!.*short while)"):
        fetch(tmp_path, name)
    monkeypatch.setattr(on_demand, "_SILENCE_S", 0.0)
    with pytest.raises(RegistryUnreachable, match=r"^(?!.*short while)"):
        fetch(tmp_path, name, is_guess=True)
