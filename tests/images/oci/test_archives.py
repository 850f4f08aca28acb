"""Images from files and into files; hostile files."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.images.oci.conftest import Ways
from tests.images.registry import (
    OCI_INDEX,
    OCI_MANIFEST,
    MadeImage,
    descriptor,
    make_image,
    make_tar,
    sha256,
)

from crucible.errors import (
    BadReference,
    CrucibleError,
    DigestMismatch,
    ImageMalformed,
    ImageNotFound,
    ImageTooLarge,
    ImageUnsupported,
    PathRefused,
    WrongPlatform,
)
from crucible.images.oci.exporting import ExportFormat, export
from crucible.images.oci.importing import LocalReference, imported
from crucible.images.oci.model import Compression, PulledImage
from crucible.images.oci.reference import RegistryReference, parse_reference, parse_source
from crucible.images.oci.settings import RegistrySettings
from crucible.images.oci.store import Store
from crucible.images.oci.tar_index import BadTar, index_tar

Files = dict[str, bytes]


def take(
    text: str, ways: Ways, name: str = "", settings: RegistrySettings | None = None
) -> PulledImage:
    source = parse_source(text)
    assert not isinstance(source, RegistryReference)
    local: LocalReference = source
    given = parse_reference(name) if name else None
    with imported(local, ways(settings=settings), given) as image:
        return image


def layout(*images: tuple[MadeImage, str]) -> Files:
    entries = []
    files: Files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    for made, name in images:
        entry = descriptor(made.manifest, made.media_type)
        if name:
            entry["annotations"] = {"org.opencontainers.image.ref.name": name}
        entries.append(entry)
        for digest, data in {**made.blobs, made.digest: made.manifest}.items():
            files[f"blobs/{digest.replace(':', '/')}"] = data
    document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries}
    files["index.json"] = json.dumps(document).encode()
    return files


def old_docker(made: MadeImage, tags: list[str]) -> Files:
    """As `docker save` wrote it before it wrote layouts: plain layers, named by anything."""
    config = f"{sha256(made.config)[7:]}.json"
    files = {config: made.config}
    paths = []
    for number, layer in enumerate(made.layers):
        paths.append(f"{number:064}/layer.tar")
        files[paths[-1]] = gzip.decompress(layer)
    files["manifest.json"] = json.dumps(
        [{"Config": config, "RepoTags": tags, "Layers": paths}]
    ).encode()
    return files


def write_directory(path: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    path.write_bytes(make_tar(files))
    return path


@pytest.fixture
def made() -> MadeImage:
    return make_image({"etc/motd": b"hi"}, {"data": b"x" * 10_000}, config={"Cmd": ["/bin/sh"]})


def test_a_layout_directory_is_taken_in(ways: Ways, tmp_path: Path, made: MadeImage) -> None:
    write_directory(tmp_path / "My Image", layout((made, "1.2")))
    image = take(f"oci:{tmp_path / 'My Image'}", ways)
    assert image.digest == made.digest
    assert image.reference == "localhost/my-image:1.2"
    assert image.config.command == ("/bin/sh",)


@pytest.mark.parametrize("is_gzipped", [False, True])
def test_an_archive_of_a_layout_is_taken_in(
    ways: Ways, tmp_path: Path, made: MadeImage, is_gzipped: bool
) -> None:
    path = write_tar(tmp_path / "image.tar", layout((made, "")))
    if is_gzipped:
        path.write_bytes(gzip.compress(path.read_bytes()))
    image = take(f"oci-archive:{path}", ways, name="mine:1")
    assert (image.digest, image.reference) == (made.digest, "docker.io/library/mine:1")


def test_an_old_docker_archive_is_taken_in_under_each_of_its_names(
    ways: Ways, tmp_path: Path, made: MadeImage
) -> None:
    path = write_tar(tmp_path / "saved.tar", old_docker(made, ["app:1", "example.com/app:2"]))
    image = take(f"docker-archive:{path}", ways)
    assert [layer.path.read_bytes() for layer in image.layers] == [
        gzip.decompress(layer) for layer in made.layers
    ]
    assert {layer.compression for layer in image.layers} == {Compression.NONE}
    names = [tag.reference for tag in Store(ways.home).tags.all()]
    assert names == ["docker.io/library/app:1", "example.com/app:2"]


def test_layers_that_old_docker_stored_as_links_are_found(
    ways: Ways, tmp_path: Path, made: MadeImage
) -> None:
    files = old_docker(made, ["app:1"])
    listing = json.loads(files["manifest.json"])
    first = listing[0]["Layers"][0]
    listing[0]["Layers"][0] = "link/layer.tar"
    files["manifest.json"] = json.dumps(listing).encode()
    path = write_tar(tmp_path / "saved.tar", files)
    with tarfile.open(path, "a") as tar:
        link = tarfile.TarInfo("link/layer.tar")
        link.type, link.linkname = tarfile.SYMTYPE, f"../{first}"
        tar.addfile(link)
    assert len(take(f"docker-archive:{path}", ways).layers) == 2


def test_one_of_several_images_must_be_named(ways: Ways, tmp_path: Path, made: MadeImage) -> None:
    other = make_image({"other": b"1"})
    path = write_directory(tmp_path / "two", layout((made, "a"), (other, "b")))
    with pytest.raises(BadReference, match="several images in it"):
        take(f"oci:{path}", ways)
    assert take(f"oci:{path}:b", ways).digest == other.digest
    with pytest.raises(ImageNotFound, match="c"):
        take(f"oci:{path}:c", ways)


@pytest.mark.parametrize("form", list(ExportFormat))
def test_what_was_exported_is_the_same_image_again(
    ways: Ways, tmp_path: Path, made: MadeImage, form: ExportFormat
) -> None:
    path = write_directory(tmp_path / "in", layout((made, "")))
    image = take(f"oci:{path}", ways, name="example.com/team/app:3")
    store, target = Store(ways.home), tmp_path / "out"
    export(store, image, parse_reference(image.reference), target, form)
    again = Ways(tmp_path / "again")
    back = take(f"{form}:{target}", again)
    assert (back.reference, back.digest) == (image.reference, image.digest)
    assert back.config == image.config
    assert list(tmp_path.glob(".*")) == []


def test_an_exported_docker_archive_is_one_by_the_old_rules_too(
    ways: Ways, tmp_path: Path, made: MadeImage
) -> None:
    path = write_directory(tmp_path / "in", layout((made, "")))
    image = take(f"oci:{path}", ways, name="app:3")
    target = tmp_path / "out.tar"
    export(Store(ways.home), image, parse_reference("app:3"), target, ExportFormat.DOCKER_ARCHIVE)
    with tarfile.open(target) as tar:
        listing = json.load(tar.extractfile("manifest.json") or io.BytesIO())
        names = tar.getnames()
    assert listing[0]["RepoTags"] == ["app:3"]
    assert {listing[0]["Config"], *listing[0]["Layers"]} <= set(names)


def test_a_damaged_image_is_not_exported(ways: Ways, tmp_path: Path, made: MadeImage) -> None:
    path = write_directory(tmp_path / "in", layout((made, "")))
    image = take(f"oci:{path}", ways, name="app:3")
    layer = image.layers[1].path
    layer.write_bytes(b"?" * layer.stat().st_size)
    target = tmp_path / "out.tar"
    with pytest.raises(DigestMismatch):
        export(Store(ways.home), image, parse_reference("app:3"), target, ExportFormat.OCI_ARCHIVE)
    assert not target.exists()


def test_bytes_that_do_not_have_their_digest_are_refused(
    ways: Ways, tmp_path: Path, made: MadeImage
) -> None:
    files = layout((made, ""))
    name = f"blobs/{sha256(made.layers[1]).replace(':', '/')}"
    files[name] = bytes(len(files[name]))
    with pytest.raises(DigestMismatch):
        take(f"oci:{write_directory(tmp_path / 'in', files)}", ways)
    assert not Store(ways.home).tags.all()


def test_a_layer_that_is_not_what_the_configuration_says_is_refused(
    ways: Ways, tmp_path: Path, made: MadeImage
) -> None:
    files = old_docker(made, ["app:1"])
    files[f"{1:064}/layer.tar"] = make_tar({"data": b"another"})
    path = write_tar(tmp_path / "saved.tar", files)
    with pytest.raises(DigestMismatch):
        take(f"docker-archive:{path}", ways)


def test_a_size_that_is_a_lie_is_refused(ways: Ways, tmp_path: Path, made: MadeImage) -> None:
    files = layout((made, ""))
    files[f"blobs/{sha256(made.layers[0]).replace(':', '/')}"] += b"more"
    with pytest.raises(ImageMalformed, match="another size"):
        take(f"oci:{write_directory(tmp_path / 'in', files)}", ways)


def test_an_archive_larger_than_the_limit_is_refused(
    ways: Ways, tmp_path: Path, made: MadeImage
) -> None:
    path = write_tar(tmp_path / "image.tar", layout((made, "")))
    with pytest.raises(ImageTooLarge):
        take(f"oci-archive:{path}", ways, settings=RegistrySettings(limit_bytes=100))


def test_a_gzip_bomb_is_stopped_at_the_limit(ways: Ways, tmp_path: Path) -> None:
    path = tmp_path / "bomb.tar.gz"
    with gzip.open(path, "wb") as stream:
        for _ in range(64):
            stream.write(bytes(1 << 20))
    with pytest.raises(ImageTooLarge):
        take(f"oci-archive:{path}", ways, settings=RegistrySettings(limit_bytes=8 << 20))


def test_links_out_of_a_layout_are_not_followed(
    ways: Ways, tmp_path: Path, made: MadeImage
) -> None:
    path = write_directory(tmp_path / "in", layout((made, "")))
    outside = tmp_path / "outside"
    blob = path / "blobs" / sha256(made.layers[0]).replace(":", "/")
    blob.rename(outside)
    blob.symlink_to(outside)
    with pytest.raises(ImageMalformed, match="is missing"):
        take(f"oci:{path}", ways)


def test_paths_out_of_an_unpacked_docker_archive_are_not_read(
    ways: Ways, tmp_path: Path, made: MadeImage
) -> None:
    (tmp_path / "secret.json").write_bytes(made.config)
    files = old_docker(made, ["app:1"])
    listing = json.loads(files["manifest.json"])
    for bad in ("../secret.json", str(tmp_path / "secret.json")):
        listing[0]["Config"] = bad
        files["manifest.json"] = json.dumps(listing).encode()
        with pytest.raises(ImageMalformed, match="is missing"):
            take(f"oci:{write_directory(tmp_path / 'in', files)}", ways)


def test_a_pipe_in_place_of_an_archive_does_not_hold_us(ways: Ways, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PathRefused, match="neither a file nor a directory"):
        take(f"oci-archive:{tmp_path / 'pipe'}", ways)


def test_what_is_not_there_or_is_no_image_is_said_so(ways: Ways, tmp_path: Path) -> None:
    with pytest.raises(PathRefused, match="does not exist"):
        take(f"oci:{tmp_path / 'nothing'}", ways)
    write_tar(tmp_path / "other.tar", {"a": b"b"})
    with pytest.raises(ImageMalformed, match="neither an OCI layout"):
        take(f"docker-archive:{tmp_path / 'other.tar'}", ways)
    (tmp_path / "x.zst").write_bytes(b"\x28\xb5\x2f\xfd1234")
    with pytest.raises(ImageUnsupported, match="zstd"):
        take(f"oci-archive:{tmp_path / 'x.zst'}", ways)


def test_an_archive_for_another_processor_is_refused(ways: Ways, tmp_path: Path) -> None:
    foreign = make_image({"a": b"1"}, platform={"os": "linux", "architecture": "s390x"})
    path = write_directory(tmp_path / "in", layout((foreign, "")))
    with pytest.raises(WrongPlatform):
        take(f"oci:{path}", ways)


def test_an_index_in_itself_ends(ways: Ways, tmp_path: Path) -> None:
    """Nested deeper than anyone nests them; a true circle cannot be made, as it would need its own digest."""
    files: Files = {"oci-layout": b"{}"}
    entry = descriptor(b"", OCI_MANIFEST)
    for _ in range(6):
        document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]}
        data = json.dumps(document).encode()
        files[f"blobs/{sha256(data).replace(':', '/')}"] = data
        entry = descriptor(data, OCI_INDEX)
    document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]}
    files["index.json"] = json.dumps(document).encode()
    with pytest.raises(ImageMalformed, match="nested"):
        take(f"oci:{write_directory(tmp_path / 'in', files)}", ways)


def test_links_of_a_tar_that_lead_in_a_circle_lead_nowhere() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, target in (("a", "b"), ("b", "a"), ("out", "../../etc/passwd")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
    index = index_tar(stream)
    assert [index.find(name) for name in ("a", "out", "/etc/passwd", "../a")] == [None] * 4


@given(names=st.lists(st.text(min_size=1, max_size=150), max_size=5), data=st.binary(max_size=2000))
def test_our_reader_of_tars_agrees_with_the_standard_one(names: list[str], data: bytes) -> None:
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        stream = io.BytesIO()
        wanted = {}
        with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
            for number, name in enumerate(names):
                full = f"d/{number}-{name.replace('/', '_').replace(chr(0), '_')}"
                try:
                    full.encode()
                except UnicodeEncodeError:
                    continue
                member = tarfile.TarInfo(full)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
                wanted[full] = data
        index = index_tar(stream)
        found = {}
        for name, place in index.files.items():
            stream.seek(place.offset)
            found[name] = stream.read(place.size)
        assert found == wanted


@given(
    data=st.binary(max_size=3000),
    cut=st.integers(0, 3000),
    flips=st.lists(st.integers(0, 20000), max_size=6),
)
def test_a_broken_tar_is_refused_or_read_and_nothing_else(
    data: bytes, cut: int, flips: list[int]
) -> None:
    whole = bytearray(make_tar({"a": data, "b" * 120: data}))
    for position in flips:
        whole[position % len(whole)] ^= 0x41
    for candidate in (bytes(whole), bytes(whole[:cut]), data):
        stream = io.BytesIO(candidate)
        try:
            index = index_tar(stream)
        except BadTar:
            continue
        for member in index.files.values():
            assert 0 <= member.offset <= member.offset + member.size <= len(candidate)


@given(
    content=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    ["Config", "Layers", "RepoTags", "manifests", "schemaVersion", "digest"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_listing_is_refused_with_a_name(
    tmp_path_factory: pytest.TempPathFactory, content: object
) -> None:
    directory = tmp_path_factory.mktemp("fuzz")
    ways = Ways(directory / "home")
    data = json.dumps(content).encode()
    write_directory(directory / "a", {"manifest.json": data})
    write_directory(directory / "b", {"index.json": data, "oci-layout": b"{}"})
    for name in ("a", "b"):
        with pytest.raises(CrucibleError):
            take(f"oci:{directory / name}", ways)
