"""The shelf of templates: found by key, made once whoever asks, thrown away when damaged, evicted by use."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.backends.saved_machines import make_saved

from crucible.backends.qemu.templates import (
    TemplateStore,
    disk_usage,
    remove_of_gone_images,
    template_key,
)
from crucible.errors import BootFailed, TemplateDamaged

LARGE_MIB = 1 << 20

Make = Callable[[Path], Coroutine[Any, Any, None]]


def counting(made: list[Path]) -> Make:
    async def make(directory: Path) -> None:
        made.append(directory)
        make_saved(directory)

    return make


def names(root: Path) -> set[str]:
    return {path.name for path in root.iterdir() if path.is_dir()}


def test_what_was_made_is_found_again(tmp_path: Path) -> None:
    store, made = TemplateStore(tmp_path, limit_mib=LARGE_MIB), list[Path]()
    first = asyncio.run(store.obtain("key", counting(made)))
    again = asyncio.run(TemplateStore(tmp_path, limit_mib=LARGE_MIB).obtain("key", counting(made)))
    assert (first.directory, again, len(made)) == (tmp_path / "key", first, 1)
    assert names(tmp_path) == {"key"}


def test_many_tasks_that_ask_at_once_get_one(tmp_path: Path) -> None:
    made: list[Path] = []

    async def scene() -> None:
        store = TemplateStore(tmp_path, limit_mib=LARGE_MIB)
        await asyncio.gather(*(store.obtain("key", counting(made)) for _ in range(10)))

    asyncio.run(scene())
    assert len(made) == 1


PROCESS = """
import asyncio, os, sys
from pathlib import Path
from tests.backends.saved_machines import make_saved
from crucible.backends.qemu.templates import TemplateStore
async def make(directory):
    with open(sys.argv[2], "a") as file:
        file.write("made\\n")
    await asyncio.sleep(0.2)
    make_saved(directory)
store = TemplateStore(Path(sys.argv[1]), limit_mib=1 << 20)
print(asyncio.run(store.obtain("key", make)).memory_mib)
"""


def ask_from_processes(root: Path, log: Path, count: int) -> list[bytes]:
    words = [sys.executable, "-c", PROCESS, str(root), str(log)]
    repository = Path(__file__).parents[2]
    asking = [subprocess.Popen(words, stdout=subprocess.PIPE, cwd=repository) for _ in range(count)]
    return [process.communicate(timeout=240)[0] for process in asking]


def test_ten_processes_that_ask_at_once_get_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert ask_from_processes(tmp_path / "templates", log, 10) == [b"4\n"] * 10
    assert log.read_text() == "made\n"


def test_ten_processes_that_find_a_damaged_one_make_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    make_saved(tmp_path / "templates" / "key")
    os.truncate(tmp_path / "templates" / "key" / "ram", 5)
    assert ask_from_processes(tmp_path / "templates", log, 10) == [b"4\n"] * 10
    assert log.read_text() == "made\n"


@pytest.mark.parametrize("name", ["ram", "state", "disk-1.qcow2", "manifest.json"])
def test_a_damaged_one_is_made_again_and_said_so(tmp_path: Path, name: str) -> None:
    said, made = list[str](), list[Path]()
    store = TemplateStore(
        tmp_path, limit_mib=LARGE_MIB, report=lambda stage, detail: said.append(detail)
    )
    asyncio.run(store.obtain("key", counting(made)))
    os.truncate(tmp_path / "key" / name, 5)
    asyncio.run(store.obtain("key", counting(made)))
    assert len(made) == 2
    assert any("damaged" in line for line in said)
    assert store.find("key") is not None


def test_a_maker_that_fails_leaves_nothing_and_the_next_one_succeeds(tmp_path: Path) -> None:
    store, made = TemplateStore(tmp_path, limit_mib=LARGE_MIB), list[Path]()

    async def fail(directory: Path) -> None:
        (directory / "half").write_bytes(b"x")
        raise BootFailed("no")

    with pytest.raises(BootFailed):
        asyncio.run(store.obtain("key", fail))
    assert names(tmp_path) == set()
    asyncio.run(store.obtain("key", counting(made)))
    assert names(tmp_path) == {"key"}


def test_what_a_killed_maker_left_is_not_taken_for_a_template(tmp_path: Path) -> None:
    (tmp_path / ".key.making").mkdir()
    (tmp_path / ".key.making" / "ram").write_bytes(b"half")
    made: list[Path] = []
    asyncio.run(TemplateStore(tmp_path, limit_mib=LARGE_MIB).obtain("key", counting(made)))
    assert (len(made), names(tmp_path)) == (1, {"key"})


def test_a_maker_that_describes_nothing_is_told(tmp_path: Path) -> None:
    async def forget(directory: Path) -> None:
        (directory / "ram").write_bytes(b"x")

    with pytest.raises(TemplateDamaged):
        asyncio.run(TemplateStore(tmp_path, limit_mib=LARGE_MIB).obtain("key", forget))


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    for age, key in enumerate(["newest", "older", "oldest"]):
        make_saved(tmp_path / key)
        (tmp_path / key / "ballast").write_bytes(os.urandom(3 << 20))
        os.utime(tmp_path / key, (1000 - age, 1000 - age))
    one_mib = -(-disk_usage(tmp_path / "newest") // (1 << 20))
    store = TemplateStore(tmp_path, limit_mib=one_mib)
    assert store.find("oldest") is not None  # and now it is the one used last
    assert store.evict() == ["older", "newest"]
    assert names(tmp_path) == {"oldest"}


def test_the_one_just_made_is_never_evicted(tmp_path: Path) -> None:
    store, made = TemplateStore(tmp_path, limit_mib=0), list[Path]()
    for key in ("first", "second"):
        asyncio.run(store.obtain(key, counting(made)))
    assert names(tmp_path) == {"second"}


def test_those_of_images_that_are_gone_are_removed_and_no_others(tmp_path: Path) -> None:
    for key, image in (("a", "kept"), ("b", "gone"), ("c", "gone"), ("d", "in-use")):
        make_saved(tmp_path / key, image_digest=image)
    (tmp_path / ".e.making").mkdir()
    (tmp_path / "damaged").mkdir()
    freed = remove_of_gone_images(tmp_path, frozenset({"kept", "in-use"}))
    assert freed > 0
    assert names(tmp_path) == {"a", "d", ".e.making", "damaged"}
    assert remove_of_gone_images(tmp_path / "nothing", frozenset()) == 0


def test_every_fact_is_part_of_the_key() -> None:
    facts = {"image": "a", "memory": 512, "clock": 5}
    keys = {
        template_key({**facts, **change})
        for change in ({}, {"image": "b"}, {"memory": 256}, {"clock": 6})
    }
    assert len(keys) == 4
    assert template_key(dict(reversed(facts.items()))) == template_key(facts)
