"""The kernel and the image that sandboxes have by default, made of real packages. Machines in tests begin from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from crucible.images import catalog, kernel

pytestmark = pytest.mark.timeout(2400)


def test_what_sandboxes_start_from_is_made_of_packages(prepared_images: Path) -> None:
    base = catalog.load_image(prepared_images, "base")
    assert base.packages is not None
    assert "python3-minimal" in [line.split()[0] for line in base.packages.read_text().splitlines()]
    assert base.user == "user"
    assert kernel.load_kernel(prepared_images).digest
