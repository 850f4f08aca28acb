"""A pulled image in the catalog: found by its names, its root shared and made once, nothing half made left."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.images.layers.packing import Item, digest_of, layer_of, read_back, tar_of

from crucible.errors import ImageDamaged, ImageMissing, ImageUnsafe
from crucible.images import catalog, pulled
from crucible.images.catalog import Image
from crucible.images.layers.making import make_root, remove_unused_roots
from crucible.images.oci.model import ImageConfig, PulledImage

CONFIG = ImageConfig(
    entrypoint=("/bin/app", "--serve"),
    command=("now",),
    environment=(("PATH", "/bin"), ("EMPTY", ""), ("A", "b=c")),
    user="app:users",
    workdir="srv//data/",
    labels=(("org.example", "value"),),
    exposed_ports=("80/tcp",),
    volumes=("/data",),
    stop_signal="SIGQUIT",
)


def pull(
    home: Path, reference: str, *layers: list[Item], config: ImageConfig = CONFIG
) -> PulledImage:
    """As the store leaves it: blobs and a name. What the manifest says is told by its digest here."""
    blobs = home / "images" / "oci" / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    parts = tuple(layer_of(blobs, tar_of(items)) for items in layers)
    digest = digest_of(repr((config, [part.digest for part in parts])).encode())
    pulled.tags_of(home).set(reference, digest, digest)
    return PulledImage(
        reference=reference,
        digest=digest,
        config_digest=digest,
        config=config,
        layers=parts,
    )


def test_an_image_is_found_by_its_names_with_what_it_wants(tmp_path: Path) -> None:
    image = pull(tmp_path, "docker.io/library/app:latest", [Item("bin/app", data=b"elf")])
    made = make_root(image, tmp_path)
    assert made.name == "docker.io/library/app:latest"
    for name in ("app", "app:latest", "docker.io/library/app", "library/app"):
        found = catalog.load_image(tmp_path, name)
        assert found.root == made.root
        assert found.name == name
    assert found.workdir == "/srv/data"
    assert (found.user, found.entrypoint, found.command) == (
        "app:users",
        ("/bin/app", "--serve"),
        ("now",),
    )
    assert found.environment == (("PATH", "/bin"), ("EMPTY", ""), ("A", "b=c"))
    assert (found.labels, found.exposed_ports) == ((("org.example", "value"),), ("80/tcp",))
    assert (found.volumes, found.stop_signal) == (("/data",), "SIGQUIT")
    assert found.manifest_digest == image.digest
    assert read_back(found.root)["bin/app"].data == b"elf"


def test_an_image_that_says_nothing_runs_as_root_at_the_top(tmp_path: Path) -> None:
    image = pull(tmp_path, "docker.io/library/bare:1", [Item("x")], config=ImageConfig())
    found = make_root(image, tmp_path)
    assert (found.user, found.workdir, found.environment) == ("", "/", ())
    assert (found.entrypoint, found.command) == ((), ())
    assert found.workspace == "/workspace"


def test_images_of_the_same_layers_share_one_root(tmp_path: Path) -> None:
    layers = [Item("a", data=b"1")]
    first = make_root(pull(tmp_path, "docker.io/library/a:1", layers), tmp_path)
    same = make_root(pull(tmp_path, "docker.io/library/a:2", layers), tmp_path)
    other = make_root(
        pull(tmp_path, "docker.io/library/b:1", layers, config=ImageConfig(user="7")), tmp_path
    )
    assert first.root == same.root == other.root
    assert (first.digest, other.user) == (other.digest, "7")
    assert len(list(pulled.roots_of(tmp_path).iterdir())) == 1


def test_a_name_that_was_not_pulled_says_how(tmp_path: Path) -> None:
    with pytest.raises(ImageMissing):
        catalog.load_image(tmp_path, "python:3.12")
    make_base(tmp_path)
    with pytest.raises(ImageMissing) as caught:
        catalog.load_image(tmp_path, "python:3.12")
    assert "`crucible image pull python:3.12`" in caught.value.hint
    pull(tmp_path, "docker.io/library/python:3.12", [Item("x")])
    with pytest.raises(ImageMissing):
        catalog.load_image(tmp_path, "python:3.12")


def make_base(home: Path) -> None:
    from tests.images.test_catalog import make_image

    make_image(home, "base")


def test_a_built_image_goes_before_one_of_the_same_name(tmp_path: Path) -> None:
    make_base(tmp_path)
    make_root(pull(tmp_path, "docker.io/library/base:latest", [Item("x")]), tmp_path)
    assert catalog.load_image(tmp_path, "base").recipe == "r"
    assert catalog.load_image(tmp_path, "base:latest").manifest_digest
    names = [image.name for image in catalog.list_images(tmp_path)]
    assert names == ["base", "docker.io/library/base:latest"]


def test_a_refused_image_leaves_nothing(tmp_path: Path) -> None:
    image = pull(tmp_path, "docker.io/library/bad:1", [Item("ok")], [Item("../bad")])
    with pytest.raises(ImageUnsafe):
        make_root(image, tmp_path)
    shelves = list(pulled.roots_of(tmp_path).iterdir())
    assert [list(shelf.iterdir()) for shelf in shelves] in ([], [[]])
    with pytest.raises(ImageMissing):
        catalog.load_image(tmp_path, "bad:1")
    assert remove_unused_roots(tmp_path) == 0


def test_what_a_killed_maker_left_is_removed(tmp_path: Path) -> None:
    image = pull(tmp_path, "docker.io/library/a:1", [Item("x")])
    key = pulled.root_key(layer.diff_id for layer in image.layers)
    rest = pulled.shelf_of(tmp_path, key) / ".new-killed"
    rest.mkdir(parents=True)
    (rest / "half").write_bytes(b"1")
    make_root(image, tmp_path)
    assert not rest.exists()


def test_a_damaged_root_is_told_and_made_anew(tmp_path: Path) -> None:
    image = pull(tmp_path, "docker.io/library/a:1", [Item("x", data=b"content")])
    made = make_root(image, tmp_path)
    whole = made.root.read_bytes()
    made.root.write_bytes(whole[:100])
    with pytest.raises(ImageDamaged) as caught:
        catalog.load_image(tmp_path, "a:1")
    assert "crucible image pull" in caught.value.hint
    assert make_root(image, tmp_path).root.read_bytes() == whole
    made.root.write_bytes(whole[:-1] + b"x")
    with pytest.raises(ImageDamaged):
        catalog.verify_image(tmp_path, "a:1")


def test_many_at_once_make_one_root(tmp_path: Path) -> None:
    image = pull(tmp_path, "docker.io/library/a:1", [Item("x", data=b"1" * 100_000)])
    reports: list[str] = []
    made: list[Image] = []

    def make() -> None:
        made.append(make_root(image, tmp_path, lambda stage, detail: reports.append(detail)))

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.root for each in made}) == 1
    assert sum("ready after" in line for line in reports) == 1


def test_roots_go_when_no_name_leads_to_them(tmp_path: Path) -> None:
    shared, own = [Item("x", data=b"1")], [Item("y", data=b"2")]
    make_root(pull(tmp_path, "docker.io/library/a:1", shared), tmp_path)
    second = pull(tmp_path, "docker.io/library/a:2", shared, config=ImageConfig(user="7"))
    make_root(second, tmp_path)
    third = pull(tmp_path, "docker.io/library/b:1", own)
    make_root(third, tmp_path)
    assert remove_unused_roots(tmp_path) == 0
    tags = pulled.tags_of(tmp_path)
    tags.remove("docker.io/library/a:1")
    tags.remove("docker.io/library/b:1")
    assert remove_unused_roots(tmp_path, in_use=frozenset({third.digest})) == 0
    assert remove_unused_roots(tmp_path) > 0
    assert [image.name for image in catalog.list_images(tmp_path)] == ["docker.io/library/a:2"]
    assert len(list(pulled.roots_of(tmp_path).iterdir())) == 1
