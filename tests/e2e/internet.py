"""An internet of one's own: a network namespace with public addresses on its loopback and a hosts file over them.

Programs that are started in it reach real servers under public names, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_SCRIPT = """
set -e
ip link set lo up
for address in $2; do ip address add "$address" dev lo; done
mount --make-rprivate /
mount --bind "$1" /etc/hosts
echo ready
exec cat
"""


class Internet:
    """`argv` prefixes a command so that it runs inside."""

    def __init__(self, pid: int) -> None:
        self.argv = ["nsenter", "--target", str(pid), "--net", "--mount", "--"]

    @contextlib.contextmanager
    def serving(
        self, *argv: str, ready: bytes, **options: object
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A server inside, up when it has written a line with `ready` to its output."""
        process = subprocess.Popen(
            [*self.argv, *argv], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        try:
            assert process.stdout is not None
            assert any(ready in line for line in process.stdout), "it ended before it was ready"
            yield process
        finally:
            process.kill()
            process.communicate()


@contextlib.contextmanager
def internet(directory: Path, hosts: Mapping[str, Sequence[str]]) -> Iterator[Internet]:
    """`hosts` are the names there are, with their addresses."""
    path = directory / "hosts"
    lines = [f"{address}\t{name}" for name, addresses in hosts.items() for address in addresses]
    path.write_text("\n".join(["127.0.0.1\tlocalhost", *lines, ""]))
    path.chmod(0o644)
    own = {address for addresses in hosts.values() for address in addresses}
    wanted = " ".join(
        f"{address}/{128 if ':' in address else 32}"
        for address in sorted(own)
        if not address.startswith(("127.", "::1"))
    )
    process = subprocess.Popen(
        ["unshare", "--net", "--mount", "sh", "-c", _SCRIPT, "sh", str(path), wanted],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"]},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield Internet(process.pid)
    finally:
        process.kill()
        process.communicate()
