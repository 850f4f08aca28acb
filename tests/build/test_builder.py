"""Whole builds that need no machine: from scratch, by COPY alone. And what a machine may hand in."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.images.layers.packing import Item, applied, read_back, squash, tar_of

from crucible.build import cache
from crucible.build.builder import Built, build, missing_images
from crucible.build.dockerfile import parse_dockerfile
from crucible.build.drafts import LayerFile, empty_draft, write
from crucible.build.work import Order, Work
from crucible.config import Config
from crucible.errors import (
    BackendUnusable,
    BuildFileInvalid,
    CrucibleError,
    ImageBomb,
    ImageDamaged,
    ImageMissing,
    ImageUnsafe,
    PathRefused,
)
from crucible.images import bundle, pulled
from crucible.images.catalog import PACKAGES_FILE, ROOT_FILE, shelf_of
from crucible.images.layers.growing import GrowingRoot
from crucible.images.oci.model import PulledImage
from crucible.images.oci.reference import parse_reference
from crucible.images.oci.store import Store
from crucible.sandbox.machines import Machines
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import open_records

NAME = parse_reference("localhost/app:1")


@pytest.fixture
def context(tmp_path: Path) -> Path:
    directory = tmp_path / "context"
    (directory / "dir" / "sub").mkdir(parents=True)
    (directory / "file").write_text("content")
    (directory / "file").chmod(0o640)
    (directory / "dir" / "one").write_text("1")
    (directory / "dir" / "sub" / "two").write_text("2")
    (directory / "passwd").write_text("root:x:0:0::/:\napp:x:900:901::/:\n")
    (directory / "group").write_text("app:x:901:\nextra:x:77:app\n")
    return directory


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """One that can boot nothing: a step that asked for a machine would fail."""
    home = tmp_path / "home"
    home.mkdir()
    own = Manager(config=Config(home=home), records=open_records(home), machines=Machines([]))
    yield own
    own.records.close()


Make = Callable[..., Built]


@pytest.fixture
def make(context: Path, manager: Manager) -> Make:
    def make_one(text: str, **more: object) -> Built:
        order = Order(
            file=parse_dockerfile(text.encode()),
            context=context,
            name=NAME,
            **more,  # type: ignore[arg-type]
        )
        return asyncio.run(build(order, manager, tell=lambda _: None, output=lambda _: None))

    return make_one


def stored(manager: Manager) -> PulledImage:
    store = Store(manager.config.home)
    with store.opened():
        found = store.find(str(NAME))
    assert found is not None
    return found


def members(image: PulledImage, number: int = -1) -> dict[str, tarfile.TarInfo]:
    data = gzip.decompress(image.layers[number].path.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: member for member in tar}


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("COPY file /", {"file"}),
        ("COPY file /x", {"x"}),
        ("COPY file /x/", {"x/file"}),
        ("COPY file there", {"there/file"}),
        ("COPY file .", {"file"}),
        ("COPY dir /x", {"x", "x/one", "x/sub", "x/sub/two"}),
        ("COPY dir there", {"there/one", "there/sub", "there/sub/two"}),
        ("COPY dir/* /x/", {"x", "x/one", "x/two"}),
        ("COPY file passwd /x/", {"x/file", "x/passwd"}),
        ("COPY file link/", {"there/file"}),
        ("COPY file link", {"there/file"}),
        ("ADD file /y", {"y"}),
        ('COPY ["file", "/with blank"]', {"with blank"}),
        ("COPY --from=first /there/group /g", {"g"}),
        ("COPY --from=first /link/* /h/", {"h/group"}),
        ("COPY . /all/", None),
    ],
)
def test_files_land_where_engines_put_them(
    make: Make, manager: Manager, context: Path, line: str, wanted: set[str] | None
) -> None:
    (context / "link").symlink_to("there")
    made = make(f"FROM scratch AS first\nCOPY group /there/\nCOPY link /link\nFROM first\n{line}\n")
    assert (made.ran, made.cached) == (3, 0)
    found = set(members(stored(manager)))
    assert found == wanted if wanted is not None else {"all/file", "all/dir/sub/two"} <= found


def test_owners_and_modes_are_roots_and_the_files_own_unless_told(
    make: Make, manager: Manager
) -> None:
    make(
        "FROM scratch\nCOPY passwd group /etc/\nCOPY file /plain\n"
        "COPY --chown=app:extra --chmod=4755 file /told\nCOPY --chown=5 file /number\n"
    )
    image = stored(manager)
    seen = {
        name: (member.uid, member.gid, member.mode)
        for number in range(1, 4)
        for name, member in members(image, number).items()
    }
    assert seen == {
        "plain": (0, 0, 0o640),
        "told": (900, 77, 0o4755),
        "number": (5, 5, 0o640),
    }
    with pytest.raises(BuildFileInvalid, match="no 'nobody' in /etc/passwd"):
        make("FROM scratch\nCOPY --chown=nobody file /x\n")


def test_what_an_image_says_of_itself_is_in_its_configuration(make: Make, manager: Manager) -> None:
    made = make(
        "ARG TOP=t\nFROM scratch\nARG TOP\nARG A=1\nARG B=${A}2\nENV Z=$X X=$B Y='a $A' PATH=/opt:$PATH\n"
        'WORKDIR /srv\nWORKDIR $X/../in\nUSER app\nLABEL l.$TOP="q r"\nEXPOSE 80 90-91/udp\n'
        'CMD ["dropped"]\nENTRYPOINT ["run", "$X"]\nCMD now $X\n',
        arguments={"A": "5"},
    )
    config = stored(manager).config
    assert config.environment == (
        ("Z", ""),
        ("X", "52"),
        ("Y", "a $A"),
        ("PATH", "/opt:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    )
    assert (config.workdir, config.user) == ("/srv/in", "app")
    assert config.labels == (("l.t", "q r"),)
    assert config.exposed_ports == ("80/tcp", "90/udp", "91/udp")
    assert config.entrypoint == ("run", "$X")
    assert config.command == ("/bin/sh", "-c", "now $X")
    assert (made.image.workdir, made.ran) == ("/srv/in", 0)


def test_the_same_files_are_not_packed_twice(make: Make, manager: Manager, context: Path) -> None:
    text = "FROM scratch\nCOPY file /a\nCOPY dir /b\n"
    first = make(text)
    (context / "file").touch()
    again = make(text)
    assert (again.ran, again.cached, again.digest) == (0, 2, first.digest)
    (context / "dir" / "one").write_text("other")
    changed = make(text)
    assert (changed.ran, changed.cached) == (1, 1)
    assert changed.digest != first.digest
    assert make(text, uses_cache=False).ran == 2


def test_a_build_with_a_given_time_gives_the_same_bytes_anywhere(
    make: Make, manager: Manager, context: Path
) -> None:
    text = "FROM scratch\nCOPY . /\nLABEL a=b\n"
    first = make(text, epoch_s=1_000_000_000)
    for path in context.rglob("*"):
        path.touch()
    assert make(text, epoch_s=1_000_000_000, uses_cache=False).digest == first.digest
    config = json.loads(
        Store(manager.config.home).blobs.path(stored(manager).config_digest).read_bytes()
    )
    assert config["created"] == "2001-09-09T01:46:40Z"
    assert max(member.mtime for member in members(stored(manager)).values()) == 1_000_000_000


@pytest.mark.parametrize(
    "text, error",
    [
        ("FROM scratch\nCOPY ../../etc/passwd /x\n", PathRefused),
        ("FROM scratch\nCOPY /etc/passwd /x\n", PathRefused),
        ("FROM scratch\nCOPY outside/passwd /x\n", PathRefused),
        ("FROM scratch\nCOPY file dir /x\n", PathRefused),
        ("FROM scratch\nADD packed /x\n", PathRefused),
        ("FROM scratch\nEXPOSE 99999\n", BuildFileInvalid),
        ("FROM scratch\nENV A=${B:?}\n", BuildFileInvalid),
        ("FROM scratch\nCOPY file /x\nRUN true\n", BackendUnusable),
    ],
)
def test_what_is_refused_changes_no_name_and_leaves_no_scratch(
    make: Make, manager: Manager, context: Path, text: str, error: type[CrucibleError]
) -> None:
    (context / "outside").symlink_to("/etc")
    (context / "packed").write_bytes(gzip.compress(b"x"))
    before = make("FROM scratch\nCOPY group /kept\n")
    with pytest.raises(error):
        make(text)
    assert stored(manager).digest == before.digest
    assert list((manager.config.home / "scratch").glob("*")) == []


def test_a_link_out_of_the_context_stays_a_link(
    make: Make, manager: Manager, context: Path
) -> None:
    (context / "dir" / "shadow").symlink_to("/etc/shadow")
    make("FROM scratch\nCOPY dir /x\n")
    member = members(stored(manager))["x/shadow"]
    assert (member.issym(), member.linkname, member.size) == (True, "/etc/shadow", 0)


PACKAGED = [
    Item("etc", "directory", mode=0o755),
    Item("etc/passwd", data=b"app:x:900:901::/:\n", mode=0o640, uid=7),
    Item("tool", data=b"tool", mode=0o4755),
    Item("tool-2", "link", target="tool"),
    Item("tools", "symlink", target="etc", mode=0o777),
]


def add_packaged(home: Path, scratch: Path, data: bytes | None = None) -> None:
    """An image as one that was made of packages; or one whose root is something else."""
    root, _ = squash(scratch, PACKAGED)
    facts: bundle.Facts = {"user": "app", "workdir": "/srv", "environment": ("A=1",), "recipe": ""}
    with bundle.workplace(shelf_of(home, "base")) as content:
        (content / ROOT_FILE).write_bytes(root.read_bytes() if data is None else data)
        (content / PACKAGES_FILE).write_text("")
        bundle.publish(content, shelf_of(home, "base"), facts=facts)


def test_an_image_made_of_packages_is_built_upon_and_no_machine_is_needed(
    make: Make, manager: Manager, tmp_path: Path
) -> None:
    home = manager.config.home
    add_packaged(home, tmp_path)
    built = make("FROM base\nCOPY --chown=app file /tools/new\n")
    expected = applied(tmp_path, PACKAGED) | {"etc/new": read_back(built.image.root)["etc/new"]}
    assert read_back(built.image.root) == expected
    assert (expected["etc/new"].uid, expected["etc/new"].gid) == (900, 900)
    config = stored(manager).config
    assert (config.user, config.workdir, config.environment) == ("app", "/srv", (("A", "1"),))
    below, above = stored(manager).layers
    make("FROM base\nCOPY dir /there\n")
    assert stored(manager).layers[0] == below
    assert stored(manager).layers[1] != above


def test_an_image_made_of_packages_that_cannot_be_read_is_damaged(
    make: Make, manager: Manager, tmp_path: Path
) -> None:
    add_packaged(manager.config.home, tmp_path, b"hsqs" + bytes(5000))
    with pytest.raises(ImageDamaged, match="'base' is damaged: it is no squashfs"):
        make("FROM base\nCOPY file /new\n")


def test_roots_of_steps_in_between_are_not_kept(make: Make, manager: Manager) -> None:
    made = make("FROM scratch\nCOPY file /a\nCOPY file /b\n")
    described = [path.name for path in pulled.descriptions_of(manager.config.home).iterdir()]
    assert described == [f"{made.digest.replace(':', '-')}.json"]
    assert len(list(pulled.roots_of(manager.config.home).iterdir())) == 1


def test_images_that_have_to_be_pulled_are_known_before(
    make: Make, manager: Manager, context: Path
) -> None:
    make("FROM scratch\nCOPY file /a\n")
    text = (
        f"FROM {NAME} AS one\nFROM scratch\nCOPY --from=one a b\nCOPY --from=far.example/x:1 a c\n"
    )
    order = Order(file=parse_dockerfile(text.encode()), context=context, name=NAME)
    assert missing_images(order, manager.config.home) == ("far.example/x:1",)
    with pytest.raises(ImageMissing):
        make(text)


@pytest.fixture
def work(manager: Manager, context: Path) -> Iterator[Work]:
    scratch = manager.config.home / "scratch"
    scratch.mkdir()
    file = parse_dockerfile(b"FROM scratch\n")
    order = Order(file=file, context=context, name=NAME)
    with GrowingRoot(scratch) as growing:
        yield Work(
            order=order,
            manager=manager,
            scratch=scratch,
            tell=lambda _: None,
            output=lambda _: None,
            growing=growing,
        )


@pytest.mark.parametrize(
    "items",
    [
        [Item("../outside", data=b"x")],
        [Item("a/../../b", data=b"x")],
        [Item("link", kind="link", target="../../etc/shadow")],
        [Item("a/.wh...", data=b"")],
    ],
)
def test_a_hostile_layer_out_of_a_machine_is_refused_and_not_kept(
    manager: Manager, work: Work, items: list[Item]
) -> None:
    store = Store(manager.config.home)
    with store.opened():
        with work.layer_file(1 << 20) as file:
            file.write(tar_of(items))
            draft = empty_draft().with_layer(file.finish(store), epoch_s=0)
        with pytest.raises(ImageUnsafe):
            work.judge_and_remember("k" * 64, draft)
        assert cache.find(store, "k" * 64) is None


def test_a_layer_that_does_not_end_is_cut_off(work: Work) -> None:
    with work.layer_file(1000) as file:
        file.write(bytes(1000))
        with pytest.raises(ImageBomb):
            file.write(b"1")
    assert list(work.scratch.iterdir()) == []


def test_the_same_draft_gives_the_same_documents(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.opened():
        with LayerFile(tmp_path / "layer", most_bytes=1 << 20) as file:
            file.write(tar_of([Item("x", data=b"y")]))
            draft = empty_draft().with_layer(file.finish(store), epoch_s=5)
        assert write(store, draft, "a").digest == write(store, draft, "b").digest
