"""Pushing what lies in files, for all platforms at once: to a real registry, and asked of it again."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.images.oci.conftest import Ways
from tests.images.oci.test_push import pushing
from tests.images.registry import (
    OCI_INDEX,
    OCI_MANIFEST,
    MadeImage,
    RunningRegistry,
    descriptor,
    make_image,
    make_index,
    sha256,
)

from crucible.errors import BadReference, DigestMismatch, ImageMalformed, PathRefused
from crucible.images.oci.model import Platform
from crucible.images.oci.platforms import host_platform
from crucible.images.oci.pull import pull
from crucible.images.oci.push_files import push_file
from crucible.images.oci.reference import RegistryReference, parse_reference, parse_source

HERE = {"os": "linux", "architecture": host_platform().architecture}
OTHER = {"os": "linux", "architecture": "s390x"}


def lay_out(
    directory: Path, images: Sequence[MadeImage], entries: Sequence[Mapping[str, Any]], *more: bytes
) -> str:
    """An OCI layout, as `oci:` names it."""
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    documents = [data for image in images for data in (image.manifest, *image.blobs.values())]
    for data in (*documents, *more):
        (blobs / sha256(data).removeprefix("sha256:")).write_bytes(data)
    (directory / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": list(entries)}
    (directory / "index.json").write_text(json.dumps(index))
    return f"oci:{directory}"


@pytest.fixture
def two() -> list[MadeImage]:
    return [
        make_image(
            {"a": os.urandom(3000)}, platform=platform, config={"User": platform["architecture"]}
        )
        for platform in (HERE, OTHER)
    ]


def send(source: str, target: str, ways: Ways) -> str:
    file = parse_source(source)
    assert not isinstance(file, RegistryReference)
    return push_file(ways.home, file, parse_reference(target), pushing(ways))


def served(registry: RunningRegistry, name: str) -> int:
    path = "/v2/" + name.replace(":", "/manifests/", 1)
    return registry.request("GET", path, headers={"Accept": f"{OCI_INDEX}, {OCI_MANIFEST}"})[0]


@pytest.mark.parametrize("is_packed", [False, True], ids=["layout", "archive"])
def test_an_index_arrives_with_all_its_platforms(
    registry: RunningRegistry, ways: Ways, tmp_path: Path, two: list[MadeImage], is_packed: bool
) -> None:
    index = make_index(list(zip(two, (HERE, OTHER), strict=True)))
    source = lay_out(tmp_path / "layout", two, [descriptor(index, OCI_INDEX)], index)
    if is_packed:
        with tarfile.open(tmp_path / "layout.tar", "w") as tar:
            tar.add(tmp_path / "layout", ".")
        source = f"oci-archive:{tmp_path / 'layout.tar'}"
    target = f"{registry.host}/multi/{'archive' if is_packed else 'layout'}:1"
    assert send(source, target, ways) == sha256(index)
    taken = pull(parse_reference(target), ways())
    assert taken.digest == two[0].digest
    there = ways(platform=Platform(os="linux", architecture="s390x"))
    assert (
        pull(parse_reference(f"{target.rpartition(':')[0]}@{two[1].digest}"), there).digest
        == two[1].digest
    )


def test_platforms_that_lie_side_by_side_become_an_index(
    registry: RunningRegistry, ways: Ways, tmp_path: Path, two: list[MadeImage]
) -> None:
    named = {"annotations": {"org.opencontainers.image.ref.name": "1"}}
    entries = [
        {**descriptor(image.manifest, image.media_type), "platform": platform, **named}
        for image, platform in zip(two, (HERE, OTHER), strict=True)
    ]
    source = lay_out(tmp_path / "layout", two, entries)
    target = f"{registry.host}/beside:1"
    digest = send(f"{source}:1", target, ways)
    assert digest not in [image.digest for image in two]
    assert pull(parse_reference(f"{registry.host}/beside@{digest}"), ways()).digest == two[0].digest


def test_what_a_builder_tells_beside_an_image_goes_along(
    registry: RunningRegistry, ways: Ways, tmp_path: Path, two: list[MadeImage]
) -> None:
    note, config = b'{"_type": "statement"}', b"{}"
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": two[0].media_type,
            "config": descriptor(config, "application/vnd.oci.image.config.v1+json"),
            "layers": [descriptor(note, "application/vnd.in-toto+json")],
        }
    ).encode()
    told = MadeImage(manifest=manifest, config=config, layers=(note,))
    unknown = {"os": "unknown", "architecture": "unknown"}
    index = make_index([(two[0], HERE), (told, unknown)])
    source = lay_out(tmp_path / "layout", [two[0], told], [descriptor(index, OCI_INDEX)], index)
    send(source, f"{registry.host}/told:1", ways)
    assert served(registry, f"told:{told.digest}") == 200
    assert pull(parse_reference(f"{registry.host}/told:1"), ways()).digest == two[0].digest


def test_one_image_is_pushed_as_it_is(
    registry: RunningRegistry, ways: Ways, tmp_path: Path, two: list[MadeImage]
) -> None:
    entry = descriptor(two[1].manifest, two[1].media_type)
    source = lay_out(tmp_path / "layout", two[1:], [entry])
    assert send(source, f"{registry.host}/single:1", ways) == two[1].digest


def test_what_is_not_whole_is_refused_and_nothing_gets_the_tag(
    registry: RunningRegistry, ways: Ways, tmp_path: Path, two: list[MadeImage]
) -> None:
    index = make_index(list(zip(two, (HERE, OTHER), strict=True)))
    sparse = lay_out(tmp_path / "sparse", two[:1], [descriptor(index, OCI_INDEX)], index)
    with pytest.raises(ImageMalformed, match="is missing"):
        send(sparse, f"{registry.host}/broken:1", ways)
    changed = lay_out(tmp_path / "changed", two, [descriptor(index, OCI_INDEX)], index)
    layer = tmp_path / "changed" / "blobs" / sha256(two[1].layers[0]).replace(":", "/")
    layer.write_bytes(bytes(len(two[1].layers[0])))
    with pytest.raises(DigestMismatch):
        send(changed, f"{registry.host}/broken:1", ways)
    assert served(registry, "broken:1") == 404


def test_an_index_that_names_itself_and_others_without_end_is_refused(
    ways: Ways, tmp_path: Path, two: list[MadeImage]
) -> None:
    inner = make_index([(two[0], HERE)])
    for number in range(5):
        directory = tmp_path / f"deep{number}"
        if number:
            lines = {
                "schemaVersion": 2,
                "mediaType": OCI_INDEX,
                "manifests": [descriptor(inner, OCI_INDEX)],
            }
            inner = json.dumps(lines).encode()
        source = lay_out(directory, two[:1], [descriptor(inner, OCI_INDEX)], inner)
    with pytest.raises(ImageMalformed):
        send(source, "localhost:1/never:1", ways)


def test_what_is_no_layout_is_refused_by_name(ways: Ways, tmp_path: Path) -> None:
    with pytest.raises(PathRefused, match="does not exist"):
        send(f"oci:{tmp_path / 'nowhere'}", "localhost:1/x:1", ways)
    (tmp_path / "empty").mkdir()
    with pytest.raises(PathRefused, match="holds no OCI layout"):
        send(f"oci:{tmp_path / 'empty'}", "localhost:1/x:1", ways)


def test_of_several_images_one_has_to_be_named(
    ways: Ways, tmp_path: Path, two: list[MadeImage]
) -> None:
    entries = [
        {
            **descriptor(image.manifest, image.media_type),
            "annotations": {"org.opencontainers.image.ref.name": name},
        }
        for image, name in zip(two, ("a", "b"), strict=True)
    ]
    source = lay_out(tmp_path / "layout", two, entries)
    with pytest.raises(BadReference, match="several images"):
        send(source, "localhost:1/x:1", ways)
