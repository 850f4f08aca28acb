"""The store: shared by many processes, killed at any step, kept under its limit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.conftest import ROOT
from tests.images.oci.conftest import Ways
from tests.images.oci.hostile import Reply, Seen, honest, hostile
from tests.images.registry import RunningRegistry, make_image, sha256

from crucible.errors import DigestMismatch, HostDiskFull
from crucible.images.oci import eviction
from crucible.images.oci.blobs import Blobs, SizeWrong
from crucible.images.oci.pull import Policy, pull
from crucible.images.oci.reference import parse_reference
from crucible.images.oci.settings import RegistrySettings
from crucible.images.oci.store import Store

_PULL = """
import sys
from pathlib import Path
from crucible.images.oci.pull import Pulling, pull
from crucible.images.oci.reference import parse_reference
how = Pulling(home=Path(sys.argv[1]), environment={})
print(pull(parse_reference(sys.argv[2]), how).digest)
"""


def test_ten_processes_at_once_download_each_layer_once(ways: Ways, tmp_path: Path) -> None:
    made = make_image({"big": os.urandom(300_000)}, {"small": b"1"})
    all_are_here = threading.Event()
    waiting = []

    def script(request: Seen) -> Reply:
        """The first layer is held back until every process has asked for the manifest."""
        if "/manifests/" in request.path:
            waiting.append(request)
            if len(waiting) == 10:
                all_are_here.set()
        if sha256(made.layers[0]) in request.path:
            all_are_here.wait(120)
        return honest(made)(request)

    with hostile(script) as server:
        name = f"{server.host}/app:1"
        argv = [sys.executable, "-c", _PULL, str(ways.home), name]
        pulling = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(10)]
        said = [process.communicate(timeout=240)[0].decode().strip() for process in pulling]
        assert [process.returncode for process in pulling] == [0] * 10
        assert set(said) == {made.digest}
        for digest in made.blobs:
            assert len(server.asked(digest)) == 1, digest


@pytest.mark.parametrize("work, least", [("pull", 20), ("remove", 5), ("evict", 5)])
def test_a_kill_at_any_step_leaves_whole_images_and_work_that_goes_on(
    tmp_path: Path, work: str, least: int
) -> None:
    shared = {"shared": b"s" * 1000}
    app, other = make_image(shared, {"app": b"a" * 2000}), make_image(shared, {"other": b"o"})
    images = {"app": app, "other": other}

    def script(request: Seen) -> Reply:
        return honest(images[request.path.split("/")[2]])(request)

    with hostile(script) as server:
        done = subprocess.run(
            [sys.executable, "-m", "tests.images.oci.dying", work, server.host, str(tmp_path)],
            cwd=ROOT,
            capture_output=True,
            timeout=280,
        )
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) >= least


def test_the_least_recently_used_goes_first_and_nothing_in_use(
    registry: RunningRegistry, ways: Ways
) -> None:
    images = {name: make_image({name: os.urandom(50_000)}) for name in ("a", "b", "c", "d")}
    references = {}
    for name, made in images.items():
        references[name] = parse_reference(registry.push(f"lru-{name}:1", made))
        pull(references[name], ways())
    store = Store(ways.home)
    for age, name in enumerate(("b", "a", "c", "d")):  # b was used last of all long ago, then a …
        tag = str(references[name])
        path = store.tags._path(tag)
        os.utime(path, (time.time() - 1000 + age, time.time() - 1000 + age))
    limit = sum(size for tag in store.tags.all() for _, size in set(store.needs(tag))) - 60_000
    used = frozenset({str(references["b"])})
    freed = eviction.evict(store, limit_bytes=limit, in_use=lambda: used)
    assert freed.references == (str(references["a"]), str(references["c"]))
    assert freed.size_bytes > 100_000
    left = {tag.reference for tag in store.tags.all()}
    assert left == {str(references["b"]), str(references["d"])}
    for name in ("b", "d"):
        image = pull(references[name], ways(policy=Policy.NEVER))
        store.verify(image)


def test_an_image_in_use_by_its_digest_stays(registry: RunningRegistry, ways: Ways) -> None:
    made = make_image({"kept": os.urandom(5000)})
    pull(parse_reference(registry.push("kept:1", made)), ways())
    store = Store(ways.home)
    freed = eviction.evict(store, limit_bytes=0, in_use=lambda: frozenset({made.digest}))
    assert freed.references == ()
    eviction.prune(store, in_use=lambda: frozenset({made.digest}), everything=True)
    assert store.tags.all()
    eviction.prune(store, in_use=frozenset, everything=True)
    assert (store.tags.all(), list(store.blobs.all())) == ((), [])


def test_the_image_just_pulled_stays_whatever_the_limit(
    registry: RunningRegistry, ways: Ways
) -> None:
    old = parse_reference(registry.push("old:1", make_image({"o": os.urandom(200_000)})))
    new = parse_reference(registry.push("new:1", make_image({"n": os.urandom(200_000)})))
    pull(old, ways())
    pull(new, ways(settings=RegistrySettings(limit_bytes=300_000)))
    assert [tag.reference for tag in Store(ways.home).tags.all()] == [str(new)]


def test_nothing_is_freed_while_somebody_has_the_store_open(
    registry: RunningRegistry, ways: Ways
) -> None:
    image = pull(parse_reference(registry.push("open:1", make_image({"o": b"1"}))), ways())
    store = Store(ways.home)
    with store.opened():
        store.tags.remove(image.reference)
        eviction.evict(store, limit_bytes=0, in_use=frozenset)
        assert image.layers[0].path.exists()
    eviction.evict(store, limit_bytes=0, in_use=frozenset)
    assert not image.layers[0].path.exists()


def test_a_shared_layer_stays_while_one_image_needs_it(
    registry: RunningRegistry, ways: Ways
) -> None:
    shared = {"shared": os.urandom(1000)}
    one = pull(parse_reference(registry.push("s1:1", make_image(shared, {"1": b"1"}))), ways())
    two = pull(parse_reference(registry.push("s2:1", make_image(shared, {"2": b"2"}))), ways())
    store = Store(ways.home)
    eviction.remove(store, one.reference)
    assert not one.layers[1].path.exists()
    store.verify(two)


def test_verify_finds_a_changed_byte_and_a_pull_mends_it(
    registry: RunningRegistry, ways: Ways
) -> None:
    made = make_image({"v": os.urandom(1000)})
    reference = parse_reference(registry.push("verified:1", made))
    image, store = pull(reference, ways()), Store(ways.home)
    store.verify(image)
    damaged = bytearray(made.layers[0])
    damaged[500] ^= 1
    image.layers[0].path.write_bytes(damaged)
    with pytest.raises(DigestMismatch):
        store.verify(image)
    store.verify(pull(reference, ways()))


def test_old_parts_are_swept_and_young_ones_kept(ways: Ways) -> None:
    store = Store(ways.home)
    young, old = (store.blobs.path(f"sha256:{digit * 64}.part") for digit in "01")
    young.parent.mkdir(parents=True)
    for path in (young, old):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    eviction.evict(store, limit_bytes=1 << 30, in_use=frozenset)
    assert (young.exists(), old.exists()) == (True, False)
    eviction.prune(store, in_use=frozenset, everything=False)
    assert not young.exists()


def test_a_blob_is_never_there_with_other_bytes(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    digest = sha256(b"right")
    with pytest.raises(DigestMismatch):
        blobs.add(b"wrong", digest)
    with pytest.raises(DigestMismatch):
        blobs.add_stream([b"wr", b"ong"], digest)
    assert not blobs.path(digest).exists()
    blobs.add_stream([b"ri", b"ght"], digest)
    assert blobs.path(digest).read_bytes() == b"right"
    with pytest.raises(SizeWrong):
        blobs.has(digest, 4)
    assert blobs.has(digest, 5)


def test_a_full_disk_is_said_so(
    registry: RunningRegistry, ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    reference = parse_reference(registry.push("full:1", make_image({"f": b"1"})))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 10, 0))
    with pytest.raises(HostDiskFull):
        pull(reference, ways())


def test_a_tag_that_cannot_be_read_is_as_if_it_were_not_there(
    registry: RunningRegistry, ways: Ways
) -> None:
    reference = parse_reference(registry.push("torn:1", make_image({"t": b"1"})))
    image, store = pull(reference, ways()), Store(ways.home)
    store.tags._path(str(reference)).write_text("{")
    assert store.find(str(reference)) is None
    assert pull(reference, ways(policy=Policy.MISSING)) == image
