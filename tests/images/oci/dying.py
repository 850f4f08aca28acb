"""Works at a store and dies at one step after the other: `python -m tests.images.oci.dying WORK HOST DIRECTORY`.

A step is a change to a file: before each, in a child of its own, the process is killed. After each death the store
must hold nothing but whole images, and the same work must succeed from what is left.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from crucible.images.oci import eviction
from crucible.images.oci.pull import Policy, Pulling, pull
from crucible.images.oci.reference import parse_reference
from crucible.images.oci.settings import RegistrySettings
from crucible.images.oci.store import Store

_STEPS = frozenset(
    ("open", "os.mkdir", "os.rename", "os.remove", "os.truncate", "fcntl.flock", "os.utime")
)
_MAX_STEPS = 400

Work = Callable[[Path, str], None]


def do_pull(home: Path, host: str) -> None:
    pull(parse_reference(f"{host}/app:1"), _how(home))


def do_remove(home: Path, host: str) -> None:
    """Of one of two images that share a layer."""
    eviction.remove(Store(home), f"{host}/app:1")


def do_evict(home: Path, host: str) -> None:
    eviction.evict(Store(home), limit_bytes=0, in_use=lambda: frozenset({f"{host}/other:1"}))


WORKS: dict[str, Work] = {"pull": do_pull, "remove": do_remove, "evict": do_evict}


def main(name: str, host: str, directory: Path) -> int:
    """How many steps it died at; the last run is the one that lived."""
    for step in range(1, _MAX_STEPS):
        home = directory / str(step)
        if name != "pull":
            for image in ("app:1", "other:1"):
                pull(parse_reference(f"{host}/{image}"), _how(home))
        died = _in_a_child(partial(_die_at, step, home, WORKS[name], host))
        check(home, host, name, is_over=not died)
        if not died:
            return step - 1
        WORKS[name](home, host)
        check(home, host, name, is_over=True)
    raise AssertionError("it never ended")


def check(home: Path, host: str, name: str, *, is_over: bool) -> None:
    store = Store(home)
    for tag in store.tags.all():
        store.verify(store.load(tag.reference, tag.digest))
    names = {tag.reference for tag in store.tags.all()}
    if name == "pull":
        assert names == ({f"{host}/app:1"} if is_over else names)
    else:
        assert f"{host}/other:1" in names
    if is_over and name != "pull":
        assert names == {f"{host}/other:1"}
        needed = {store.blobs.path(digest) for digest, _ in store.needs(store.tags.all()[0])}
        assert set(store.blobs.all()) == needed


def _in_a_child(work: Callable[[], None]) -> bool:
    """Whether it was killed. Forked before any thread was started."""
    pid = os.fork()
    if not pid:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status in (0, signal.SIGKILL), status
    return status != 0


def _die_at(step: int, home: Path, work: Work, host: str) -> None:
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event not in _STEPS or not _concerns(home, event, arguments):
            return
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    work(home, host)


def _concerns(home: Path, event: str, arguments: tuple[Any, ...]) -> bool:
    if event in ("fcntl.flock", "os.truncate"):
        return True
    return str(arguments[0]).startswith(str(home))


def _how(home: Path) -> Pulling:
    return Pulling(
        home=home,
        policy=Policy.ALWAYS,
        settings=RegistrySettings(),
        environment={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},
    )


if __name__ == "__main__":
    print(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
