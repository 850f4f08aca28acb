"""Trees that really went into a machine and came back, and the changes made there."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

import pytest
from tests.conftest import Run

from crucible import assemble
from crucible.config import Config
from crucible.sandbox.holding import Held
from crucible.sandbox.session import Command
from crucible.sandbox.spec import SandboxSpec
from crucible.sandbox.workspace.applying import apply_changes
from crucible.sandbox.workspace.changes import compare
from crucible.sandbox.workspace.copying import plan_copy_out
from crucible.sandbox.workspace.diff import render_diff
from crucible.sandbox.workspace.hosttree import HostTree
from crucible.sandbox.workspace.manifest import Manifest, collect
from crucible.sandbox.workspace.packing import pack_tree

pytestmark = pytest.mark.vm

WORK = b"/workspace"
Picture = dict[str, tuple[int, bytes]]


def plant(top: Path) -> None:
    (top / "src/deep").mkdir(parents=True)
    (top / "src/main.py").write_text("print('one')\n")
    (top / "src/deep/run.sh").write_text("#!/bin/sh\n")
    (top / "src/deep/run.sh").chmod(0o750)
    (top / "big").write_bytes(os.urandom(3_000_001))
    (top / "gone").write_text("x")
    (top / ("l" * 150)).write_text("long name")
    (top / "dangling").symlink_to("/no/such/place")
    os.link(top / "big", top / "same")
    Path(os.fsdecode(os.fsencode(top) + b"/\xff.bin")).write_bytes(b"\0\1")


def picture(top: Path) -> Picture:
    found: Picture = {}
    for path in sorted(top.rglob("*")):
        status = path.lstat()
        content = b""
        if stat.S_ISLNK(status.st_mode):
            content = os.fsencode(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        found[str(path.relative_to(top))] = (status.st_mode, content)
    return found


async def each(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def upload(held: Held, source: Path) -> Manifest:
    packing = pack_tree(source, hashed=True)
    await held.machine.files.tar_in(WORK, each(packing), owner=held.image.user)
    return packing.manifest()


async def look(held: Held) -> Manifest:
    return collect([entry async for entry in held.machine.files.tree(WORK, hashed=True)])


async def shell(held: Held, script: str) -> None:
    command = Command(argv=(b"sh", b"-ec", script.encode()), workdir=WORK, user=held.image.user)
    done = await held.machine.run(command)
    assert done.exit.status == 0, done.errors


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    plant(tmp_path / "source")
    return tmp_path / "source"


def test_a_tree_comes_back_as_it_went_in(
    config: Config, run: Run, source: Path, tmp_path: Path
) -> None:
    plan = plan_copy_out(b"/workspace/.", str(tmp_path / "back"))

    async def there_and_back() -> None:
        async with assemble.manager(config).open(SandboxSpec()) as held:
            await upload(held, source)
            with plan.unpacker() as unpacker:
                async for data in held.machine.files.tar_out(plan.root, plan.names):
                    unpacker.feed(data)
                unpacker.finish()

    run(there_and_back())
    assert picture(tmp_path / "back") == picture(source)
    assert (tmp_path / "back/same").stat().st_nlink == 2


def test_a_named_file_comes_out_under_the_name_asked_for(
    config: Config, run: Run, tmp_path: Path
) -> None:
    plan = plan_copy_out(b"/etc/hosts", str(tmp_path / "hosts.copy"))

    async def fetch() -> None:
        async with assemble.manager(config).open(SandboxSpec()) as held:
            with plan.unpacker() as unpacker:
                async for data in held.machine.files.tar_out(plan.root, plan.names):
                    unpacker.feed(data)
                unpacker.finish()

    run(fetch())
    assert "localhost" in (tmp_path / "hosts.copy").read_text()


def test_what_was_changed_inside_is_shown_and_applied(
    config: Config, run: Run, source: Path
) -> None:
    contents: dict[bytes, bytes] = {}

    async def work() -> tuple[Manifest, Manifest]:
        async with assemble.manager(config).open(SandboxSpec()) as held:
            baseline = await upload(held, source)
            assert not compare(baseline, await look(held))
            await shell(
                held, "echo \"print('two')\" > src/main.py; rm gone; mkdir new; echo hi > new/f"
            )
            await shell(held, "ln -s /etc/passwd trap; chmod 755 src/main.py; mkfifo pipe")
            current = await look(held)
            for name in (b"src/main.py", b"new/f"):
                pieces = [piece async for piece in held.machine.files.read(WORK + b"/" + name)]
                contents[name] = b"".join(pieces)
            return baseline, current

    changes = compare(*run(work()))
    with HostTree(source) as tree:
        lines = render_diff(changes, tree.read, lambda name, size: contents[name], is_terminal=True)
        shown = "".join(lines)
    assert "-print('one')\n+print('two')\n" in shown
    assert "old mode 100644\nnew mode 100755\n" in shown

    def fetch(name: bytes) -> Iterator[bytes]:
        yield contents[name]

    applied = apply_changes(source, changes, fetch)
    assert sorted(refusal.change.name for refusal in applied.refused) == [b"pipe", b"trap"]
    assert (source / "src/main.py").read_text() == "print('two')\n"
    assert (source / "src/main.py").stat().st_mode & 0o777 == 0o755
    assert (source / "new/f").read_text() == "hi\n"
    assert not (source / "gone").exists()
    assert not (source / "trap").is_symlink()
