"""Names of images, as people write them and as they are meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crucible.errors import BadReference
from crucible.images.oci.addresses import split_host
from crucible.images.oci.reference import (
    ArchiveFormat,
    ArchiveReference,
    LayoutReference,
    RegistryReference,
    parse_reference,
    parse_source,
)

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "text, full",
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.12-alpine", "docker.io/library/python:3.12-alpine"),
        ("docker://python:3", "docker.io/library/python:3"),
        ("owner/app", "docker.io/owner/app:latest"),
        ("docker.io/python", "docker.io/library/python:latest"),
        ("index.docker.io/library/python", "docker.io/library/python:latest"),
        ("registry-1.docker.io/owner/app:1", "docker.io/owner/app:1"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
        (f"localhost:5000/a/b@{DIGEST}", f"localhost:5000/a/b@{DIGEST}"),
        (f"python:3@{DIGEST}", f"docker.io/library/python:3@{DIGEST}"),
        ("mcr.microsoft.com/dotnet/sdk:8.0", "mcr.microsoft.com/dotnet/sdk:8.0"),
        ("GHCR.io/owner/app", "ghcr.io/owner/app:latest"),
        ("127.0.0.1:80/x", "127.0.0.1:80/x:latest"),
        ("[::1]:5000/x:1", "[::1]:5000/x:1"),
        ("a__b-c.d---e", "docker.io/library/a__b-c.d---e:latest"),
        ("app:" + "t" * 128, "docker.io/library/app:" + "t" * 128),
    ],
)
def test_a_name_means_the_same_everywhere(text: str, full: str) -> None:
    assert str(parse_reference(text)) == full


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "/",
        "@",
        "docker://",
        "Python",
        "owner/App",
        "Owner/app",
        "python:",
        "python:-x",
        "python:a b",
        "python:" + "t" * 129,
        "python@",
        "python@sha256:abc",
        "python@sha256:" + "A" * 64,
        "python@md5:" + "0" * 32,
        "a//b",
        "/a",
        "a/",
        "../etc/passwd",
        "example.com/../x",
        "a/./b",
        "-a",
        "a-",
        "a..b",
        "a___b",
        "localhost:0/x",
        "localhost:65536/x",
        "localhost:port/x",
        "-host.example/x",
        "host_name.example/x",
        "[::1/x",
        "[zz]:1/x",
        "user@example.com/x",
        "https://example.com/x",
        "exämple.com/x",
        "python\n",
        "python\0",
        "pyth on",
        "pythοn",
        "x" * 256,
        "x" * 5000,
        "0123456789abcdef" * 4,
        "?x=y",
        "a%2fb",
        "a#b",
    ],
)
def test_what_can_be_no_name_is_refused(text: str) -> None:
    with pytest.raises(BadReference):
        parse_reference(text)


@pytest.mark.parametrize(
    "text, familiar",
    [
        ("docker.io/library/python:3", "python:3"),
        ("docker.io/owner/app:1", "owner/app:1"),
        ("docker.io/library/a/b:1", "library/a/b:1"),
        ("ghcr.io/owner/app:1", "ghcr.io/owner/app:1"),
    ],
)
def test_a_name_is_shown_as_people_write_it(text: str, familiar: str) -> None:
    reference = parse_reference(text)
    assert reference.familiar == familiar
    assert parse_reference(familiar) == reference


def test_places_on_disk_are_told_apart() -> None:
    assert parse_source("oci:/a/b") == LayoutReference(path=Path("/a/b"))
    assert parse_source("oci:b:1.0") == LayoutReference(path=Path("b"), tag="1.0")
    assert parse_source("oci-archive:f.tar:t") == ArchiveReference(
        format=ArchiveFormat.OCI, path=Path("f.tar"), tag="t"
    )
    assert parse_source("docker-archive:f.tar:app:1") == ArchiveReference(
        format=ArchiveFormat.DOCKER, path=Path("f.tar"), tag="docker.io/library/app:1"
    )
    assert isinstance(parse_source("docker://oci"), RegistryReference)
    assert isinstance(parse_source("oci/x"), RegistryReference)


@pytest.mark.parametrize(
    "text",
    ["oci:", "oci::t", "oci:a:", "docker-archive:", "docker-archive:f:UP", "oci:a\0b", "oci:a:t\n"],
)
def test_places_on_disk_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(BadReference):
        parse_source(text)


@given(text=st.text(max_size=60) | st.from_regex(r"[a-zA-Z0-9./:@_\[\]-]{1,60}", fullmatch=True))
@example(text="a" * 256)
@example(text="A/b")
@example(text="LOCALHOST/b")
def test_any_text_is_a_clean_name_or_refused(text: str) -> None:
    """What comes out goes into addresses and file names: it holds nothing that means something there."""
    try:
        reference = parse_reference(text)
    except BadReference:
        return
    assert re.fullmatch(r"[a-z0-9.\[\]:-]+", reference.registry)
    assert re.fullmatch(r"[a-z0-9._/-]+", reference.repository)
    assert re.fullmatch(r"[A-Za-z0-9_.-]*", reference.tag)
    assert ".." not in reference.repository
    assert "//" not in reference.repository
    assert parse_reference(str(reference)) == reference
    assert parse_reference(reference.familiar) == reference
    host, port = split_host(reference.registry)
    assert host
    assert port is None or 0 < port < 65536


@given(text=st.text(max_size=60).map(lambda rest: f"oci:{rest}") | st.text(max_size=60))
def test_any_source_is_one_or_refused(text: str) -> None:
    try:
        parse_source(text)
    except BadReference:
        return
