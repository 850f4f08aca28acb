"""Where the host's programs are. Apart from `system`, which every run would otherwise load to find two of them."""

from __future__ import annotations

import os
import shutil

# Debian's ordinary users have no sbin in PATH, though mkfs.ext4 lives there and works for them.
_SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")


def find_program(name: str) -> str | None:
    """Like `shutil.which`, but it looks in the sbin directories too."""
    search = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SBIN))
    return shutil.which(name, path=search)
