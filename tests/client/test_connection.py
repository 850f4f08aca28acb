"""Reaching the owner: started on demand, once for many, with an error that helps when it does not start."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crucible.client import connection
from crucible.client.answers import ServiceError
from crucible.client.connection import Owner
from crucible.client.exchange import Unseen, ask
from crucible.errors import CrucibleError, OwnerUnreachable

# Answers pings. Those who come second leave, as the real owner does; whoever wins writes its pid.
# One that is started so late that it wins after the test is over finds a file that tells it.
_OWNER = """
import fcntl, os, pathlib, socket, sys
home = pathlib.Path(os.environ["CRUCIBLE_HOME"])
lock = open(home / "lock", "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(0)
from crucible.client import protocol
os.chdir(home)
listener = socket.socket(socket.AF_UNIX)
pathlib.Path("owner.sock").unlink(missing_ok=True)
listener.bind("owner.sock")
listener.listen(64)
with open("pids", "a") as file:
    file.write(f"{os.getpid()}\\n")
listener.settimeout(0.1)
while not pathlib.Path("over").exists():
    try:
        peer, _ = listener.accept()
    except TimeoutError:
        continue
    peer.settimeout(120)
    peer.recv(65536)
    peer.sendall(protocol.json_frame({"ok": {"pid": os.getpid(), "session": os.getsid(0)}}))
    peer.close()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    yield tmp_path / "home"
    if (tmp_path / "home").exists():
        (tmp_path / "home" / "over").touch()
    pids = tmp_path / "home" / "pids"
    for pid in pids.read_text().split() if pids.exists() else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def owner_of(home: Path) -> Owner:
    return Owner(home, (sys.executable, "-c", _OWNER))


def test_nobody_runs_until_somebody_asks(home: Path) -> None:
    assert owner_of(home).connect_if_running() is None
    assert not home.exists()


def test_the_owner_is_started_on_demand_in_a_session_of_its_own(home: Path) -> None:
    answer = ask(owner_of(home).connect, {"verb": "ping"}, progress=Unseen())
    assert answer["session"] == answer["pid"] != os.getpid()


def test_state_is_for_its_user_alone(home: Path) -> None:
    owner_of(home).connect().close()
    assert home.stat().st_mode & 0o777 == 0o700


def test_many_who_come_at_once_meet_one_owner(home: Path) -> None:
    pids: list[int] = []

    def come() -> None:
        pids.append(ask(owner_of(home).connect, {"verb": "ping"}, progress=Unseen())["pid"])

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pids) == 8
    assert len(set(pids)) == 1


def test_a_dead_owners_socket_is_no_hindrance(home: Path) -> None:
    first = ask(owner_of(home).connect, {"verb": "ping"}, progress=Unseen())["pid"]
    os.kill(first, signal.SIGKILL)
    _until_gone(first)
    second = ask(owner_of(home).connect, {"verb": "ping"}, progress=Unseen())["pid"]
    assert second != first
    (home / "pids").write_text(f"{second}\n")


def test_a_home_too_deep_for_a_socket_address_works(home: Path) -> None:
    deep = home / ("d" * 120)
    home.mkdir()
    answer = ask(owner_of(deep).connect, {"verb": "ping"}, progress=Unseen())
    (home / "pids").write_text(f"{answer['pid']}\n")


def test_an_owner_that_does_not_start_is_told_with_its_last_words(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LOSER_GRACE_S", 0.1)
    broken = Owner(home, (sys.executable, "-c", "import sys; sys.exit('it is all broken')"))
    with pytest.raises(OwnerUnreachable) as caught:
        broken.connect()
    assert "it is all broken" in caught.value.message
    assert "owner.log" in caught.value.hint


def test_an_owner_that_is_killed_while_it_starts_is_started_again(home: Path) -> None:
    dies_once = f"""
import os, pathlib, signal
first = pathlib.Path(os.environ["CRUCIBLE_HOME"], "first")
if not first.exists():
    first.touch()
    os.kill(os.getpid(), signal.SIGKILL)
{_OWNER}"""
    answer = ask(
        Owner(home, (sys.executable, "-c", dies_once)).connect, {"verb": "ping"}, progress=Unseen()
    )
    assert answer["pid"] != os.getpid()
    assert (home / "first").exists()


def test_an_owner_that_is_killed_whenever_it_starts_is_given_up(home: Path) -> None:
    program = "import os; open('starts', 'a').write('x'); os.kill(os.getpid(), 9)"
    program = f"import os; os.chdir(os.environ['CRUCIBLE_HOME']); {program}"
    with pytest.raises(OwnerUnreachable):
        Owner(home, (sys.executable, "-c", program)).connect()
    assert len((home / "starts").read_text()) <= connection.MOST_STARTS


def test_an_owner_that_says_why_it_cannot_begin_is_quoted_in_full(home: Path) -> None:
    """And at once: nobody else will come who could."""
    fields = {"code": "state-too-new", "message": "It is newer", "hint": "Wait", "exit_status": 125}
    program = f"import sys; print({json.dumps(json.dumps(fields))}); sys.exit(1)"
    with pytest.raises(ServiceError) as caught:
        Owner(home, (sys.executable, "-c", program)).connect()
    told = caught.value
    assert (told.code, told.message, told.hint, told.exit_status) == tuple(fields.values())


@pytest.mark.parametrize("said", ["[]", "{", "3", "\\xff", "{}"])
def test_an_owner_that_says_nonsense_is_an_error_all_the_same(home: Path, said: str) -> None:
    with pytest.raises(CrucibleError):
        Owner(home, (sys.executable, "-c", f"print({said!r}); raise SystemExit(1)")).connect()


def test_a_home_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OwnerUnreachable) as caught:
        owner_of(tmp_path / "file" / "home").connect()
    assert "CRUCIBLE_HOME" in caught.value.hint


def _until_gone(pid: int) -> None:
    """It is our child here, and stays a zombie until it is waited for."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.01)
    raise AssertionError(pid)
