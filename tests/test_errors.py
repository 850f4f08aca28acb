"""Every error can be imported from one place, whichever module it is in."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

import crucible.errors
from crucible.errors import CrucibleError

ROOMS = [room.name for room in pkgutil.iter_modules(crucible.errors.__path__)]


@pytest.mark.parametrize("room", ROOMS)
def test_every_error_of_a_room_is_found_in_the_package(room: str) -> None:
    module = import_module(f"crucible.errors.{room}")
    defined = {name: kind for name, kind in vars(module).items() if isinstance(kind, type)}
    assert defined
    for name, kind in defined.items():
        assert getattr(crucible.errors, name) is kind


@pytest.mark.parametrize("name", ["NoSuchError", "__wrapped__", "", "_ROOM"])
def test_a_name_that_no_room_has_is_no_attribute(name: str) -> None:
    with pytest.raises(AttributeError, match="has no attribute"):
        getattr(crucible.errors, name)


def test_no_two_errors_share_a_code() -> None:
    codes: dict[str, str] = {}
    for room in ROOMS:
        for name, kind in vars(import_module(f"crucible.errors.{room}")).items():
            if isinstance(kind, type) and issubclass(kind, CrucibleError):
                assert codes.setdefault(kind.code, name) == name


def test_what_is_common_loads_no_room() -> None:
    code = "import sys; from crucible.errors import CrucibleError, Refused; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    ours = {name for name in loaded.stdout.split() if name.startswith("crucible.errors.")}
    assert ours == {"crucible.errors.base"}
