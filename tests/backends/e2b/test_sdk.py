"""The SDK is loaded when it is needed; without it, or with one that is not known, that is told with what mends it."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from typing import Any

import pytest

from crucible.backends.e2b import sdk
from crucible.backends.e2b.backend import E2BBackend
from crucible.backends.e2b.sdk import Access, shown

KEY = "e2b_0123456789abcdef"


@pytest.mark.parametrize(
    "failure", [ImportError("gone", name="e2b"), ImportError("gone", name="connectrpc")]
)
def test_without_the_package_the_probe_tells_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, failure: ImportError
) -> None:
    def missing(name: str) -> Any:
        raise failure

    monkeypatch.setattr(sdk, "_loaded", [])
    monkeypatch.setattr(importlib, "import_module", missing)
    found = asyncio.run(E2BBackend({"E2B_API_KEY": KEY}).probe())
    assert found is not None
    assert found.is_prerequisite
    assert found.fix == "pip install 'crucible[e2b]'"


def test_a_sandbox_of_this_host_loads_nothing_of_it() -> None:
    code = (
        "import sys; from pathlib import Path; from crucible import assemble; from crucible.config import Config;"
        "assemble.machines(Config(home=Path('/nowhere')));"
        "import crucible.sandbox.manager, crucible.sandbox.service.commands; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {name for name in loaded if "e2b" in name or name.startswith(("httpx", "pyqwest"))}


def test_the_key_is_shown_nowhere() -> None:
    access = Access.of({"E2B_API_KEY": KEY, "E2B_DOMAIN": "example.org", "HOME": "/root"})
    assert KEY not in repr(access)
    assert access.options == {"api_key": KEY, "domain": "example.org"}
    error = ValueError(f"GET /x?key={KEY}\n\x1b[2J" + "y" * 9000)
    assert shown(access, error).startswith("GET /x?key=[key] ")
    assert len(shown(access, error)) <= 300
    assert "\x1b" not in shown(access, error)
