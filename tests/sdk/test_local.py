"""The SDK without a server: the program that holds the sandboxes is found, started, and found again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Run, end_owner, owner_pid
from tests.sdk.test_killed import kill_outright, until

import crucible
from crucible import AsyncSandbox, LocalClient, Sandbox
from crucible.client.daemon import Daemon
from crucible_client import errors


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """With nothing in it, at a path that is too long for a socket's name."""
    home = tmp_path / ("deep" * 30) / "home"
    monkeypatch.setenv("CRUCIBLE_HOME", str(home))
    monkeypatch.setenv("CRUCIBLE_PULL", "never")
    yield home
    end_owner(home)


def test_it_starts_what_holds_sandboxes_and_finds_it_again(own_home: Path) -> None:
    with LocalClient() as client:
        assert client.sandboxes() == []
        assert client.version() == crucible.__version__
        owner = owner_pid(own_home)
        assert owner is not None
        kill_outright(owner)
        assert client.sandboxes() == []
        assert owner_pid(own_home) not in (None, owner)


def test_many_at_once_find_the_same(own_home: Path) -> None:
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(Sandbox.list())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[], [], [], []]


async def test_what_is_refused_is_the_same_error_in_both_halves(run: Run, own_home: Path) -> None:
    with pytest.raises(errors.CrucibleError) as first:
        Sandbox.create(image="no-such-image")
    with pytest.raises(errors.CrucibleError) as second:
        await AsyncSandbox.create(image="no-such-image")
    assert type(first.value) is type(second.value) is errors.ImageMissing
    assert (first.value.message, first.value.hint) == (second.value.message, second.value.hint)
    assert first.value.request_id
    with pytest.raises(errors.SandboxMissing):
        Sandbox.connect("nobody")


def test_an_owner_that_nobody_needs_leaves(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRUCIBLE_OWNER_IDLE_S", "1")
    assert Sandbox.list() == []
    until(lambda: owner_pid(own_home) is None)
    assert not (own_home / "http.sock").exists()
    assert Sandbox.list() == []


def test_a_daemon_opens_the_door_as_well_and_takes_over(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRUCIBLE_POOL_MAX", "0")
    monkeypatch.setenv("CRUCIBLE_POOL_MIN", "0")
    with LocalClient() as client:
        assert client.sandboxes() == []
        daemon = Daemon(own_home)
        found, was_started = daemon.start()
        try:
            assert was_started
            assert client.sandboxes() == []
            assert owner_pid(own_home) == found["pid"]
        finally:
            daemon.stop()


def test_a_home_that_cannot_be_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CRUCIBLE_HOME", str(tmp_path / "file"))
    with pytest.raises(errors.OwnerUnreachable) as caught:
        Sandbox.list()
    assert caught.value.hint
