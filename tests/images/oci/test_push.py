"""Pushing to a real registry, and pulling back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.images.oci.conftest import Ways
from tests.images.oci.test_pull import log_in, trusting
from tests.images.registry import PASSWORD, Authority, RunningRegistry, make_image

from crucible.errors import ImageUnsupported, RegistryDenied, RegistryUnreachable
from crucible.images.oci.pull import pull
from crucible.images.oci.push import Pushing, push
from crucible.images.oci.reference import parse_reference
from crucible.images.oci.settings import RegistrySettings
from crucible.images.oci.store import Store


def pushing(ways: Ways, settings: RegistrySettings | None = None, chunk: int = 1 << 20) -> Pushing:
    return Pushing(
        settings=settings or RegistrySettings(),
        report=lambda stage, detail: ways.said.append(detail),
        progress=lambda digest, sent, size: ways.seen.append((digest, sent, size)),
        environment=ways.environment,
        pause=ways.pauses.append,
        chunk_bytes=chunk,
    )


@pytest.mark.parametrize("chunk", [1 << 20, 4096], ids=["at once", "in chunks"])
def test_what_was_pushed_can_be_pulled(
    registry: RunningRegistry, ways: Ways, tmp_path: Path, chunk: int
) -> None:
    made = make_image({"a": os.urandom(20_000)}, {"b": os.urandom(10)})
    image = pull(parse_reference(registry.push("from:1", made)), ways())
    ways.seen.clear()
    target = parse_reference(f"localhost:{registry.port}/to/{chunk}:1")
    assert push(Store(ways.home), image, target, pushing(ways, chunk=chunk)) == made.digest
    elsewhere = Ways(tmp_path / "elsewhere")
    again = pull(target, elsewhere())
    assert again.digest == made.digest
    assert [layer.path.read_bytes() for layer in again.layers] == list(made.layers)
    counted = [sent for digest, sent, _ in ways.seen if digest == again.layers[0].digest]
    assert (counted == sorted(counted), counted[-1]) == (True, len(made.layers[0]))


def test_blobs_of_the_same_registry_are_taken_over_not_sent(
    registry: RunningRegistry, ways: Ways
) -> None:
    made = make_image({"mounted": os.urandom(3000)})
    image = pull(parse_reference(registry.push("origin/x:1", made)), ways())
    target = parse_reference(f"{registry.host}/copy/x:1")
    push(Store(ways.home), image, target, pushing(ways))
    assert sum("was there, in origin/x" in line for line in ways.said) == 2
    assert pull(target, ways()).digest == made.digest


def test_a_login_is_used_for_pushing(
    registry: RunningRegistry,
    private_registry: RunningRegistry,
    authority: Authority,
    ways: Ways,
    tmp_path: Path,
) -> None:
    made = make_image({"p": b"1"})
    image = pull(parse_reference(registry.push("public:1", made)), ways())
    target = parse_reference(f"{private_registry.host}/taken/in:1")
    settings = trusting(tmp_path, private_registry, authority)
    with pytest.raises(RegistryDenied):
        push(Store(ways.home), image, target, pushing(ways, settings))
    log_in(ways, private_registry.host, PASSWORD)
    push(Store(ways.home), image, target, pushing(ways, settings))
    assert pull(target, ways(settings=settings)).digest == made.digest


def test_nothing_is_pushed_under_a_digest(registry: RunningRegistry, ways: Ways) -> None:
    made = make_image({"q": b"1"})
    image = pull(parse_reference(registry.push("q:1", made)), ways())
    target = parse_reference(f"{registry.host}/q@{made.digest}")
    with pytest.raises(ImageUnsupported, match="under a tag"):
        push(Store(ways.home), image, target, pushing(ways))


def test_a_registry_that_is_not_there_cannot_be_pushed_to(
    registry: RunningRegistry, ways: Ways
) -> None:
    image = pull(parse_reference(registry.push("r:1", make_image({"r": b"1"}))), ways())
    with pytest.raises(RegistryUnreachable):
        push(Store(ways.home), image, parse_reference("127.0.0.1:9/r:1"), pushing(ways))
