"""A real sshd on loopback, run by whoever runs the tests, for one test or one module: its own keys, nobody else's."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from crucible.backends.worker.address import CONTROL_PREFIX, SshHost
from crucible.programs import find_program

DEADLINE_S = 60.0
_PORTS_TRIED = 5
USER = "root" if os.geteuid() == 0 else os.environ.get("USER", "root")


class SshServer:
    """`environment` is what commands find set there, and where they find programs: those of this checkout."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        self._environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            **environment,
        }
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._log_begin = 0
        self._make_key("host_key")
        self._make_key("user_key")
        shutil.copy(directory / "user_key.pub", directory / "authorized_keys")

    def host(self, **changes: object) -> SshHost:
        fields = {
            "host": "127.0.0.1",
            "user": USER,
            "port": self.port,
            "identity": str(self._directory / "user_key"),
            "known_hosts": str(self._directory / "known_hosts"),
            **changes,
        }
        return SshHost(**fields)  # type: ignore[arg-type]

    @property
    def directory(self) -> Path:
        return self._directory

    def start(self) -> None:
        """The first time at a port that is free then; at the same one when it was cut."""
        if os.geteuid() == 0:
            # As the system's own service has it made before it starts one.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        if self.port:
            assert self._listens(), (self._directory / "log").read_text()
            return
        for _ in range(_PORTS_TRIED):
            self.port = _free_port()
            public = (self._directory / "host_key.pub").read_text()
            (self._directory / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {public}")
            (self._directory / "sshd_config").write_text(self._configuration())
            if self._listens():
                return
        raise AssertionError((self._directory / "log").read_text())

    def _listens(self) -> bool:
        """False if somebody else took the port meanwhile."""
        program = find_program("sshd")
        assert program is not None
        with (self._directory / "log").open("ab") as log:
            self._log_begin = log.tell()
            self._process = subprocess.Popen(
                [program, "-D", "-e", "-f", self._directory / "sshd_config"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + DEADLINE_S
        while not self._is_listening():
            if self._process.poll() is not None:
                return False
            assert time.monotonic() < deadline, "sshd did not listen"
            time.sleep(0.02)
        return True

    def _is_listening(self) -> bool:
        """As this process of it says: asking its port would be a connection that is not ours to make."""
        said = (self._directory / "log").read_bytes()[self._log_begin :]
        return b"Server listening on 127.0.0.1 port %d." % self.port in said

    def cut(self) -> None:
        """Ends the server and every connection through it, at once and without a word."""
        if self._process is None:
            return
        for pid in (*_descendants(self._process.pid), self._process.pid):
            _kill(pid)
        self._process.wait()
        self._process = None

    def _make_key(self, name: str) -> None:
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._directory / name)]
        subprocess.run(words, check=True)

    def _configuration(self) -> str:
        settings = " ".join(f'"{name}={value}"' for name, value in self._environment.items())
        return f"""\
ListenAddress 127.0.0.1
Port {self.port}
HostKey {self._directory}/host_key
AuthorizedKeysFile {self._directory}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
SetEnv {settings}
"""


@contextmanager
def ssh_server(environment: Mapping[str, str]) -> Iterator[SshServer]:
    with tempfile.TemporaryDirectory(prefix="sshd-") as name:
        server = SshServer(Path(name), environment)
        server.start()
        try:
            yield server
        finally:
            server.cut()


def end_shared(home: Path) -> None:
    """Ends what keeps connections open to be shared, which would otherwise stay for a minute."""
    for path in home.glob(f"{CONTROL_PREFIX}*"):
        words = ["ssh", "-o", f"ControlPath={path}", "-O", "exit", "nobody"]
        subprocess.run(words, capture_output=True, timeout=DEADLINE_S)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _descendants(pid: int) -> list[int]:
    """Only sshd's own: the processes of a session live on as they would if the network were cut."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
                name = (entry / "comm").read_text().strip()
            except OSError:
                continue
            parent = int(stat[stat.rindex(")") + 2 :].split()[1])
            if parent == pid and name.startswith("sshd"):
                found += [*_descendants(int(entry.name)), int(entry.name)]
    return found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
