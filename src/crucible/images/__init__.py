"""An image's name → a root filesystem on disk; and the kernel that the machines run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crucible.images.catalog import Image
    from crucible.images.kernel import Kernel
    from crucible.images.report import Report


def prepare(home: Path, report: Report) -> tuple[Kernel, Image]:
    """Fetches the kernel and builds the base image where they are not there yet."""
    # Inside, so that starting a sandbox does not load what only building needs.
    from crucible.images.base import build_base
    from crucible.images.fetching import fetch_kernel

    return fetch_kernel(home, report=report), build_base(home, report=report)
