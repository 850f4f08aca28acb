"""Pulling from a real registry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.images.oci.conftest import Ways
from tests.images.registry import (
    PASSWORD,
    USER,
    Authority,
    RunningRegistry,
    make_image,
    make_tar,
    sha256,
)

from crucible.errors import (
    ImageNotFound,
    ImageTooLarge,
    RegistryDenied,
    RegistryUnreachable,
    RegistryUntrusted,
    WrongPlatform,
)
from crucible.images.oci.model import Compression, Platform
from crucible.images.oci.platforms import host_platform
from crucible.images.oci.pull import Policy, pull
from crucible.images.oci.reference import RegistryReference, parse_reference
from crucible.images.oci.settings import Mirror, RegistrySettings
from crucible.images.oci.store import Store


def test_an_image_arrives_with_its_layers_and_its_configuration(
    registry: RunningRegistry, ways: Ways
) -> None:
    lower, upper = {"etc/motd": b"hello\n"}, {"srv/data": b"x" * 100_000}
    made = make_image(
        lower,
        upper,
        config={
            "Entrypoint": ["/bin/app"],
            "Cmd": ["--serve"],
            "Env": ["PATH=/bin", "EMPTY=", "A=b=c"],
            "User": "1000:1000",
            "WorkingDir": "/srv",
            "Labels": {"b": "2", "a": "1"},
            "ExposedPorts": {"80/tcp": {}},
            "Volumes": {"/data": {}},
            "StopSignal": "SIGINT",
        },
    )
    reference = parse_reference(registry.push("whole:1", made))
    image = pull(reference, ways())
    assert image.digest == made.digest
    assert image.reference == str(reference)
    assert [layer.path.read_bytes() for layer in image.layers] == list(made.layers)
    assert [layer.diff_id for layer in image.layers] == [
        sha256(make_tar(t)) for t in (lower, upper)
    ]
    assert {layer.compression for layer in image.layers} == {Compression.GZIP}
    config = image.config
    assert (config.entrypoint, config.command) == (("/bin/app",), ("--serve",))
    assert config.environment == (("PATH", "/bin"), ("EMPTY", ""), ("A", "b=c"))
    assert (config.user, config.workdir, config.stop_signal) == ("1000:1000", "/srv", "SIGINT")
    assert config.labels == (("a", "1"), ("b", "2"))
    assert (config.exposed_ports, config.volumes) == (("80/tcp",), ("/data",))
    assert image.size_bytes == sum(map(len, made.layers))


def test_progress_ends_with_every_layer_whole(registry: RunningRegistry, ways: Ways) -> None:
    made = make_image({"a": b"a" * 5000}, {"b": b"b" * 5000})
    pull(parse_reference(registry.push("progress:1", made)), ways())
    final = {digest: (here, size) for digest, here, size in ways.seen}
    assert final == {sha256(layer): (len(layer), len(layer)) for layer in made.layers}


def test_the_image_for_this_machine_is_taken_from_an_index(
    registry: RunningRegistry, ways: Ways
) -> None:
    ours, other = make_image({"a": b"ours"}), make_image({"a": b"theirs"})
    here = host_platform()
    reference = registry.push_index(
        "many:1",
        [
            (other, {"os": "linux", "architecture": "mips64le"}),
            (other, {"os": "windows", "architecture": here.architecture}),
            (ours, {"os": "linux", "architecture": here.architecture}),
        ],
    )
    assert pull(parse_reference(reference), ways()).digest == ours.digest


def test_what_an_index_offers_is_named_when_nothing_fits(
    registry: RunningRegistry, ways: Ways
) -> None:
    made = make_image({"a": b"b"})
    reference = registry.push_index(
        "none:1",
        [
            (made, {"os": "linux", "architecture": "arm", "variant": "v7"}),
            (made, {"os": "unknown", "architecture": "unknown"}),
        ],
    )
    with pytest.raises(WrongPlatform) as caught:
        pull(parse_reference(reference), ways(platform=Platform(os="linux", architecture="amd64")))
    assert caught.value.offered == ("linux/arm/v7",)
    assert "linux/amd64" in caught.value.message


def test_an_image_for_another_processor_is_refused_before_its_layers(
    registry: RunningRegistry, ways: Ways
) -> None:
    made = make_image({"a": b"c"}, platform={"os": "linux", "architecture": "s390x"})
    reference = parse_reference(registry.push("foreign:1", made))
    with pytest.raises(WrongPlatform, match="s390x"):
        pull(reference, ways())
    assert not ways.seen


def test_a_digest_in_the_name_decides(registry: RunningRegistry, ways: Ways) -> None:
    old, new = make_image({"v": b"1"}), make_image({"v": b"2"})
    registry.push("pinned:1", old)
    registry.push("pinned:1", new)
    name = f"{registry.host}/pinned"
    assert pull(parse_reference(f"{name}:1"), ways()).digest == new.digest
    assert pull(parse_reference(f"{name}@{old.digest}"), ways()).digest == old.digest


def test_a_tag_that_moved_is_fetched_again_only_when_asked(
    registry: RunningRegistry, ways: Ways
) -> None:
    old, new = make_image({"w": b"1"}), make_image({"w": b"2"})
    reference = parse_reference(registry.push("moving:1", old))
    pull(reference, ways())
    registry.push("moving:1", new)
    assert pull(reference, ways(policy=Policy.MISSING)).digest == old.digest
    assert pull(reference, ways(policy=Policy.NEVER)).digest == old.digest
    assert pull(reference, ways(policy=Policy.ALWAYS)).digest == new.digest


def test_an_unchanged_tag_costs_no_download(registry: RunningRegistry, ways: Ways) -> None:
    reference = parse_reference(registry.push("same:1", make_image({"s": b"1"})))
    pull(reference, ways())
    ways.seen.clear()
    pull(reference, ways())
    assert not ways.seen
    assert any("up to date" in line for line in ways.said)


def test_never_means_never(registry: RunningRegistry, ways: Ways) -> None:
    reference = parse_reference(registry.push("never:1", make_image({"n": b"1"})))
    with pytest.raises(ImageNotFound, match="no registry may be asked"):
        pull(reference, ways(policy=Policy.NEVER))


def test_without_the_registry_what_is_here_is_used_and_said(
    registry: RunningRegistry, ways: Ways
) -> None:
    made = make_image({"o": b"1"})
    pull(parse_reference(registry.push("offline:1", made)), ways())
    gone = RegistryReference(registry="127.0.0.1:9", repository="offline", tag="1")
    store = Store(ways.home)
    store.tags.set(str(gone), made.digest, made.digest)
    assert pull(gone, ways()).digest == made.digest
    assert any("cannot be reached" in line and "as it is here" in line for line in ways.said)
    assert not ways.pauses


def test_an_unreachable_registry_is_an_error_with_its_name(ways: Ways) -> None:
    with pytest.raises(RegistryUnreachable, match=r"127\.0\.0\.1:9"):
        pull(parse_reference("127.0.0.1:9/x:1"), ways())
    assert len(ways.pauses) == 2


@pytest.mark.parametrize("name", ["nothing:1", "whole-not-there@sha256:" + "0" * 64])
def test_what_is_not_there_is_not_found(registry: RunningRegistry, ways: Ways, name: str) -> None:
    with pytest.raises(ImageNotFound, match="was not found in registry"):
        pull(parse_reference(f"{registry.host}/{name}"), ways())


def test_images_share_layers_on_disk(registry: RunningRegistry, ways: Ways) -> None:
    shared = {"base": b"base" * 1000}
    one, two = make_image(shared, {"one": b"1"}), make_image(shared, {"two": b"2"})
    first = pull(parse_reference(registry.push("one:1", one)), ways())
    second = pull(parse_reference(registry.push("two:1", two)), ways())
    assert first.layers[0].path == second.layers[0].path


def test_an_image_larger_than_the_limit_is_refused_before_its_layers(
    registry: RunningRegistry, ways: Ways
) -> None:
    import os

    made = make_image({"big": os.urandom(1 << 20)})
    reference = parse_reference(registry.push("big:1", made))
    with pytest.raises(ImageTooLarge):
        pull(reference, ways(settings=RegistrySettings(limit_bytes=1 << 19)))
    assert not ways.seen


def test_a_login_is_taken_from_dockers_file(
    private_registry: RunningRegistry, authority: Authority, ways: Ways, tmp_path: Path
) -> None:
    made = make_image({"secret": b"1"})
    reference = parse_reference(private_registry.push("private:1", made))
    settings = trusting(tmp_path, private_registry, authority)
    with pytest.raises(RegistryDenied, match="denies access to private") as caught:
        pull(reference, ways(settings=settings))
    assert "docker login" in caught.value.hint
    log_in(ways, private_registry.host, PASSWORD)
    assert pull(reference, ways(settings=settings)).digest == made.digest


def test_a_wrong_password_is_denied_and_not_repeated(
    private_registry: RunningRegistry, authority: Authority, ways: Ways, tmp_path: Path
) -> None:
    reference = parse_reference(private_registry.push("private2:1", make_image({"s": b"2"})))
    log_in(ways, private_registry.host, "not the password")
    with pytest.raises(RegistryDenied) as caught:
        pull(reference, ways(settings=trusting(tmp_path, private_registry, authority)))
    assert "not the password" not in str(caught.value) + caught.value.hint


def test_a_registry_that_nobody_vouches_for_is_not_trusted(
    private_registry: RunningRegistry, ways: Ways
) -> None:
    """Also on loopback: a failed certificate never falls back to plain HTTP."""
    log_in(ways, private_registry.host, PASSWORD)
    with pytest.raises(RegistryUntrusted, match="is not trusted"):
        pull(parse_reference(f"{private_registry.host}/private:1"), ways())
    assert not ways.pauses


def test_a_mirror_is_asked_first(registry: RunningRegistry, ways: Ways) -> None:
    made = make_image({"m": b"1"})
    registry.push("mirrored/library/thing:1", made)
    settings = RegistrySettings(
        mirrors=(Mirror(registry="docker.io", host=registry.host, prefix="mirrored"),)
    )
    image = pull(parse_reference("thing:1"), ways(settings=settings))
    assert (image.digest, image.reference) == (made.digest, "docker.io/library/thing:1")


def test_past_a_mirror_that_lacks_it_the_registry_itself_is_asked(
    registry: RunningRegistry, ways: Ways
) -> None:
    made = make_image({"m": b"2"})
    reference = parse_reference(registry.push("direct:1", made))
    dead = Mirror(registry=registry.host, host="127.0.0.1:9")
    lacking = Mirror(registry=registry.host, host=registry.host, prefix="elsewhere")
    settings = RegistrySettings(mirrors=(dead, lacking))
    assert pull(reference, ways(settings=settings)).digest == made.digest
    assert sum("asking the next" in line for line in ways.said) == 2


def test_a_damaged_small_blob_in_the_store_is_fetched_again(
    registry: RunningRegistry, ways: Ways
) -> None:
    made = make_image({"d": b"1"})
    reference = parse_reference(registry.push("mended:1", made))
    image = pull(reference, ways())
    path = Store(ways.home).blobs.path(image.config_digest)
    path.write_bytes(b"?" * len(made.config))
    assert pull(reference, ways(policy=Policy.MISSING)).config == image.config


def test_a_cut_layer_in_the_store_is_fetched_again(registry: RunningRegistry, ways: Ways) -> None:
    made = make_image({"d": b"2" * 3000})
    reference = parse_reference(registry.push("mended:2", made))
    layer = pull(reference, ways()).layers[0].path
    layer.write_bytes(layer.read_bytes()[:-1])
    again = pull(reference, ways(policy=Policy.MISSING))
    assert again.layers[0].path.read_bytes() == made.layers[0]


def trusting(directory: Path, registry: RunningRegistry, authority: Authority) -> RegistrySettings:
    place = directory / "certs.d" / registry.host
    place.mkdir(parents=True, exist_ok=True)
    (place / "ca.crt").write_bytes(authority.ca.read_bytes())
    return RegistrySettings(certificates=(directory / "certs.d",))


def log_in(ways: Ways, host: str, password: str) -> None:
    import base64

    pair = base64.b64encode(f"{USER}:{password}".encode()).decode()
    folder = Path(ways.environment["HOME"]) / ".docker"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": pair}}}))
