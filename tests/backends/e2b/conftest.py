"""The provider of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends.e2b.elsewhere import shell
from tests.conftest import Run
from tests.server.scripted import Staged, staging


@pytest.fixture
def provider(run: Run, tmp_path: Path) -> Iterator[Staged]:
    context = staging(tmp_path / "provider")
    staged = run(context.__aenter__())
    staged.backend.parts["/bin/sh"] = shell
    yield staged
    run(context.__aexit__(None, None, None))
