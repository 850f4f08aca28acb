"""How registries are reached: settings, proxies, addresses."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.images.oci.conftest import Ways
from tests.images.oci.hostile import honest, hostile
from tests.images.oci.test_pull import log_in, trusting
from tests.images.registry import (
    PASSWORD,
    Authority,
    RunningRegistry,
    make_authority,
    make_image,
)

from crucible.errors import BadSetting, RegistryUnreachable, RegistryUntrusted
from crucible.images.oci.addresses import BadUrl, Url, is_loopback, parse_url
from crucible.images.oci.proxies import proxy_for
from crucible.images.oci.pull import pull
from crucible.images.oci.reference import parse_reference
from crucible.images.oci.settings import Mirror, RegistrySettings, load_settings


def test_without_any_variable_the_defaults_hold() -> None:
    settings = load_settings({"HOME": "/home/me"})
    assert (settings.mirrors, settings.insecure) == ((), frozenset())
    assert settings.limit_bytes == 20480 << 20
    assert Path("/etc/docker/certs.d") in settings.certificates


def test_mirrors_are_for_a_registry_or_docker_hub() -> None:
    text = "m1.example/prefix, ghcr.io=https://m2.example:5000/, http://m3.example"
    assert load_settings({"CRUCIBLE_REGISTRY_MIRRORS": text}).mirrors == (
        Mirror(registry="docker.io", host="m1.example", prefix="prefix"),
        Mirror(registry="ghcr.io", host="m2.example:5000"),
        Mirror(registry="docker.io", host="m3.example", is_plain=True),
    )


@pytest.mark.parametrize(
    "name, text",
    [
        ("CRUCIBLE_REGISTRY_MIRRORS", "not a host"),
        ("CRUCIBLE_REGISTRY_MIRRORS", "m.example/UPPER"),
        ("CRUCIBLE_REGISTRY_MIRRORS", "a b=m.example"),
        ("CRUCIBLE_REGISTRY_MIRRORS", "user:password@m.example"),
        ("CRUCIBLE_INSECURE_REGISTRIES", "http://r.example"),
        ("CRUCIBLE_INSECURE_REGISTRIES", "r.example:99999"),
        ("CRUCIBLE_IMAGE_LIMIT_MIB", "lots"),
        ("CRUCIBLE_IMAGE_LIMIT_MIB", "-1"),
        ("CRUCIBLE_IMAGE_LIMIT_MIB", "9" * 30),
    ],
)
def test_a_setting_that_means_nothing_is_refused(name: str, text: str) -> None:
    with pytest.raises(BadSetting, match=name):
        load_settings({name: text})


@given(text=st.text(max_size=40))
def test_any_mirror_is_one_or_refused(text: str) -> None:
    try:
        load_settings({"CRUCIBLE_REGISTRY_MIRRORS": text, "CRUCIBLE_INSECURE_REGISTRIES": text})
    except BadSetting:
        return


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_loopback_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["localhost.example", "128.0.0.1", "0.0.0.0", "127.0.0.1.example", "2130706433", "0x7f.1"],
)
def test_what_only_looks_like_loopback_is_not(host: str) -> None:
    assert not is_loopback(host)


@given(
    text=st.text(max_size=60)
    | st.from_regex(r"https?://[a-z0-9@:/?#\[\].%-]{0,40}", fullmatch=True)
)
def test_any_text_is_a_clean_address_or_refused(text: str) -> None:
    base = Url(scheme="https", host="r.example", port=443, target="/v2/")
    for parse in (parse_url, base.joined):
        try:
            url = parse(text)
        except BadUrl:
            continue
        assert url.scheme in ("http", "https")
        assert url.target.startswith("/")
        assert str(url).isascii()
        assert " " not in str(url)
        assert "@" not in url.authority


def test_no_proxy_is_asked_for_this_host_or_a_named_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://user:p%40ss@proxy.example:3128")
    monkeypatch.setenv("no_proxy", ".internal.example")
    found = proxy_for(parse_url("https://r.example/"))
    assert found is not None
    assert (found.host, found.port) == ("proxy.example", 3128)
    assert found.authorization == "Basic " + base64.b64encode(b"user:p@ss").decode()
    assert "p@ss" not in repr(found)
    assert proxy_for(parse_url("https://r.internal.example/")) is None
    assert proxy_for(parse_url("https://127.0.0.1/")) is None
    assert proxy_for(parse_url("http://r.example/")) is None


@pytest.mark.parametrize("address", ["socks5://proxy.example", "https://proxy.example", "http://["])
def test_a_proxy_that_cannot_be_used_is_refused(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("https_proxy", address)
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(BadSetting, match="proxy"):
        proxy_for(parse_url("https://r.example/"))


@contextmanager
def tunnelling(answer: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A proxy that joins every CONNECT to the same port number on loopback, after that answer."""
    asked: list[bytes] = []
    over = threading.Event()

    def pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve(client: socket.socket) -> None:
        with client:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1)
            asked.append(head)
            client.sendall(answer)
            if b" 200 " not in answer:
                return
            port = int(head.split(b" ")[1].rpartition(b":")[2])
            with socket.create_connection(("127.0.0.1", port)) as server:
                back = threading.Thread(target=pump, args=(server, client))
                back.start()
                pump(client, server)
                back.join()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        workers: list[threading.Thread] = []

        def accept() -> None:
            while not over.is_set():
                try:
                    client, _ = listener.accept()
                except TimeoutError:
                    continue
                client.settimeout(30)
                workers.append(threading.Thread(target=serve, args=(client,)))
                workers[-1].start()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()[1], asked
        finally:
            over.set()
            thread.join()
            for worker in workers:
                worker.join()


@pytest.fixture
def named_authority(tmp_path: Path) -> Authority:
    return make_authority(tmp_path / "named", names="DNS:registry.example")


def test_a_registry_is_reached_through_a_proxy_by_its_name(
    ways: Ways,
    tmp_path: Path,
    named_authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The certificate that counts is the registry's, and the proxy sees nothing but its name."""
    from tests.images.registry import running_registry

    made = make_image({"via": b"proxy"})
    with (
        running_registry(tmp_path / "r", authority=named_authority, checks_name=False) as registry,
        tunnelling(b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n") as (port, asked),
    ):
        registry.push("app:1", made)
        monkeypatch.setenv("https_proxy", f"http://me:secret@127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "")
        name = f"registry.example:{registry.port}"
        place = tmp_path / "certs.d" / name
        place.mkdir(parents=True)
        (place / "ca.crt").write_bytes(named_authority.ca.read_bytes())
        settings = RegistrySettings(certificates=(tmp_path / "certs.d",))
        image = pull(parse_reference(f"{name}/app:1"), ways(settings=settings))
        assert image.digest == made.digest
        assert asked[0].startswith(f"CONNECT {name} HTTP/1.1\r\n".encode())
        assert b"Proxy-Authorization: Basic " in asked[0]


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 403 Forbidden\r\n\r\n", b"nonsense\r\n\r\n", b"HTTP/1.1 407 Who?\r\n\r\n"]
)
def test_a_proxy_that_refuses_is_named(
    ways: Ways, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    with tunnelling(answer) as (port, _):
        monkeypatch.setenv("https_proxy", f"http://me:secret@127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(RegistryUnreachable, match="proxy") as caught:
            pull(parse_reference("registry.example/app:1"), ways())
    assert "secret" not in caught.value.message


def test_a_certificate_for_another_name_is_not_trusted(
    ways: Ways, tmp_path: Path, named_authority: Authority
) -> None:
    from tests.images.registry import running_registry

    with running_registry(tmp_path / "r", authority=named_authority, checks_name=False) as registry:
        settings = trusting(tmp_path, registry, named_authority)
        with pytest.raises(RegistryUntrusted):
            pull(parse_reference(f"{registry.host}/app:1"), ways(settings=settings))


def test_the_hosts_own_authorities_count(
    private_registry: RunningRegistry,
    authority: Authority,
    ways: Ways,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reference = parse_reference(private_registry.push("by-host:1", make_image({"h": b"1"})))
    log_in(ways, private_registry.host, PASSWORD)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    assert pull(reference, ways()).layers


def test_a_certificate_file_that_is_none_is_named(ways: Ways, tmp_path: Path) -> None:
    with hostile(honest(make_image({"x": b"1"}))) as server:
        place = tmp_path / "certs.d" / server.host
        place.mkdir(parents=True)
        (place / "ca.crt").write_text("nonsense")
        settings = RegistrySettings(certificates=(tmp_path / "certs.d",))
        with pytest.raises(BadSetting, match=r"ca\.crt"):
            pull(parse_reference(f"{server.host}/x:1"), ways(settings=settings))
