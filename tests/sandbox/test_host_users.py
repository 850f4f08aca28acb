"""No two machines of this host have one user, whoever started them and however that one ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crucible.errors import StateDamaged
from crucible.sandbox import host_users

CLAIMS = """
import sys, time
from pathlib import Path
from crucible.sandbox import host_users
host_users.PLACE = Path(sys.argv[1])
host_users.FIRST = int(sys.argv[3])
print(*[host_users.claim() for _ in range(int(sys.argv[2]))], flush=True)
sys.stdin.read()
"""
# Nothing on the host runs as any of these.
FIRST = 1_990_000_000


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(host_users, "PLACE", tmp_path / "users")
    monkeypatch.setattr(host_users, "FIRST", FIRST)
    return tmp_path / "users"


class Claimer:
    def __init__(self, place: Path, count: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", CLAIMS, str(place), str(count), str(FIRST)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def claimed(self) -> list[int]:
        assert self._process.stdout is not None
        return [int(word) for word in self._process.stdout.readline().split()]

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def claimers(place: Path) -> Iterator[list[Claimer]]:
    found = [Claimer(place, 20) for _ in range(4)]
    yield found
    for claimer in found:
        claimer.end()


def test_processes_that_claim_at_once_get_users_of_their_own(claimers: list[Claimer]) -> None:
    claimed = [uid for claimer in claimers for uid in claimer.claimed()]
    assert len(set(claimed)) == len(claimed) == 80
    assert min(claimed) >= host_users.FIRST
    assert host_users.claim() not in claimed


def test_a_claim_of_a_process_that_was_killed_is_void(place: Path, claimers: list[Claimer]) -> None:
    for claimer in claimers:
        claimer.claimed()
        claimer.end()
    host_users.drop_void()
    assert [path.name for path in place.iterdir()] == ["lock"]


def test_a_user_as_whom_something_runs_is_not_given_out(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine of an owner that was killed: it goes on, and nobody may reach it."""
    monkeypatch.setattr(host_users, "COUNT", 3)
    claimer = Claimer(place, 1)
    [uid] = claimer.claimed()
    machine = subprocess.Popen(["sleep", "600"], user=uid, group=uid, extra_groups=[])
    try:
        claimer.end()
        host_users.drop_void()
        assert {host_users.claim(), host_users.claim()} == set(
            range(host_users.FIRST, host_users.FIRST + 3)
        ) - {uid}
        with pytest.raises(StateDamaged, match="are taken"):
            host_users.claim()
    finally:
        machine.kill()
        machine.wait()
    assert host_users.claim() == uid


def test_a_user_that_was_released_can_be_had_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_users, "COUNT", 1)
    uid = host_users.claim()
    with pytest.raises(StateDamaged):
        host_users.claim()
    host_users.release(uid)
    host_users.release(uid)
    assert host_users.claim() == uid


def test_a_claim_that_somebody_else_has_made_meanwhile_is_not_released(place: Path) -> None:
    claimer = Claimer(place, 1)
    [uid] = claimer.claimed()
    host_users.release(uid)
    assert (place / str(uid)).exists()
    claimer.end()


def test_users_that_are_to_be_avoided_are() -> None:
    taken = {host_users.FIRST + number for number in range(5)}
    assert host_users.claim(taken) not in taken


@pytest.mark.parametrize("content", [b"", b"nonsense", b"1 x", b"99999999 a:1", b"\xff\xfe"])
def test_a_claim_that_says_nothing_is_void(place: Path, content: bytes) -> None:
    uid = host_users.claim()
    (place / str(uid)).write_bytes(content)
    host_users.drop_void()
    assert not (place / str(uid)).exists()


def test_a_place_that_cannot_be_used_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(host_users, "PLACE", tmp_path / "file" / "users")
    with pytest.raises(StateDamaged, match="cannot be used"):
        host_users.claim()


def test_who_holds_the_lock_and_stands_still_is_not_waited_for_for_ever(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_users, "_LOCK_DEADLINE_S", 0.05)
    with host_users._locked(), pytest.raises(StateDamaged, match="not given free"):
        host_users.claim()
