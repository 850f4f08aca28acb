"""The VMM's cage: bubblewrap around QEMU, another user when we are root, limits, and nothing inherited."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from crucible.backends.qemu.limits import LimitsGroup
from crucible.errors import BootFailed
from crucible.programs import find_program
from crucible.sandbox.backend import Lifetime
from crucible.values import dataclass

if TYPE_CHECKING:
    from crucible.backends.qemu.lending import Lend

KVM_DEVICE = Path("/dev/kvm")
WRAPPER = "bwrap"
# For a look at what another user may do; machines get users of their own from `sandbox.host_users`.
PROBE_UID = 1_900_000_000
_MAX_OPEN_FILES = 256
_LIBRARY_DIRECTORIES = ("lib", "lib32", "lib64", "libx32", "bin", "sbin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cage:
    """How one VMM is to be held. `host_uid` is None unless we are root and can become someone else."""

    lifetime: Lifetime
    host_uid: int | None
    group: LimitsGroup
    max_file_bytes: int
    max_memory_bytes: int
    needs_kvm: bool


def spawn(
    cage: Cage, argv: Sequence[str], *, descriptors: Sequence[int], errors: int, info: int
) -> subprocess.Popen[bytes]:
    """Starts argv in the cage. Only `descriptors` survive in it, under their own numbers.

    `info` receives bubblewrap's report, which names the pid of the caged process. Its limits group is not entered yet.
    """
    kvm_group = _kvm_group() if cage.needs_kvm else None
    lend = _kvm_lender(cage)

    def enter() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (_MAX_OPEN_FILES, _MAX_OPEN_FILES))
        resource.setrlimit(resource.RLIMIT_FSIZE, (cage.max_file_bytes, cage.max_file_bytes))
        # Where the host lets us have no cgroup, this is what holds a VMM that runs away.
        resource.setrlimit(resource.RLIMIT_DATA, (cage.max_memory_bytes, cage.max_memory_bytes))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        os.umask(0o077)
        if cage.host_uid is not None:
            has_device = lend is None or lend(cage.host_uid)
            gid = cage.host_uid if has_device or kvm_group is None else kvm_group
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(cage.host_uid, cage.host_uid, cage.host_uid)

    try:
        return subprocess.Popen(
            [*_wrapper(cage, info), *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(*descriptors, info),
            env={},
            cwd="/",
            start_new_session=True,
            restore_signals=True,
            preexec_fn=enter,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BootFailed(f"The machine could not be started: {error}") from error


def _wrapper(cage: Cage, info: int) -> list[str]:
    argv = [
        find_program(WRAPPER) or WRAPPER,
        "--unshare-all",
        "--cap-drop",
        "ALL",
        "--clearenv",
        "--as-pid-1",
    ]
    argv += ["--info-fd", str(info)]
    if cage.lifetime == "command":
        argv.append("--die-with-parent")
    argv += ["--ro-bind", "/usr", "/usr"]
    for name in _LIBRARY_DIRECTORIES:
        path = Path("/", name)
        if path.is_symlink():
            argv += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            argv += ["--ro-bind", str(path), str(path)]
    argv += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--proc", "/proc"]
    argv += ["--dev-bind", "/dev/null", "/dev/null"]
    if cage.needs_kvm:
        argv += ["--dev-bind", str(KVM_DEVICE), str(KVM_DEVICE)]
    return [*argv, "--chdir", "/", "--remount-ro", "/", "--"]


def _kvm_lender(cage: Cage) -> Lend | None:
    """Only root needs one: its machines are users whom the device does not know."""
    if not cage.needs_kvm or cage.host_uid is None:
        return None
    from crucible.backends.qemu.lending import lender

    try:
        return lender(KVM_DEVICE)
    except OSError as error:
        raise BootFailed(f"{KVM_DEVICE} cannot be used: {error.strerror}") from None


def _kvm_group() -> int | None:
    with contextlib.suppress(OSError):
        status = KVM_DEVICE.stat()
        if status.st_mode & stat.S_IRGRP and status.st_mode & stat.S_IWGRP:
            return status.st_gid
    return None
