"""Lends the VMM's own user a device that only root may open, and changes it for nobody else.

QEMU 7.2 opens /dev/kvm by its name and takes no descriptor of it. So the process that is to become the VMM
leaves our mount namespace while it is still root, makes a node of the same device for its user, and puts that
over the name. It goes with the process.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable
from pathlib import Path

# In the namespace of that one process: a place which no machine needs and no device lies beneath.
_STAGE = b"/sys"
_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x2, 0x8, 0x1000, 0x4000, 0x40000
_MNT_DETACH = 2

Lend = Callable[[int], bool]


def lender(device: Path) -> Lend:
    """To be called between fork and exec, as root. Whether the user has it now: not every root may make devices."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = device.stat().st_rdev
    target = os.fsencode(device)
    node = os.fsdecode(_STAGE + b"/device")

    def check(result: int) -> None:
        if result != 0:
            raise OSError(ctypes.get_errno(), "")

    def lend(uid: int) -> bool:
        try:
            check(libc.unshare(_CLONE_NEWNS))
            # Before anything is mounted: what is shared with the host would appear there too.
            check(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
            check(libc.mount(b"tmpfs", _STAGE, b"tmpfs", _MS_NOSUID | _MS_NOEXEC, b"mode=0755"))
            os.mknod(node, stat.S_IFCHR | 0o600, number)
            os.chown(node, uid, uid)
            check(libc.mount(os.fsencode(node), target, None, _MS_BIND, None))
            check(libc.umount2(_STAGE, _MNT_DETACH))
        except OSError:
            return False
        return True

    return lend
