"""Registries that lie, break off, loop or keep silent."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

import pytest
from tests.images.oci.conftest import Ways, hasty
from tests.images.oci.hostile import Reply, Script, Seen, honest, hostile
from tests.images.registry import (
    OCI_INDEX,
    OCI_MANIFEST,
    MadeImage,
    make_image,
    sha256,
)

from crucible.errors import (
    DigestMismatch,
    ImageMalformed,
    ImageNotFound,
    ImageTooLarge,
    ImageUnsupported,
    RegistryBroken,
    RegistryBusy,
    RegistryDenied,
    RegistryUnreachable,
    WrongPlatform,
)
from crucible.images.oci.pull import pull
from crucible.images.oci.reference import parse_reference
from crucible.images.oci.settings import Mirror, RegistrySettings
from crucible.images.oci.store import Store


@pytest.fixture
def made() -> MadeImage:
    return make_image({"big": os.urandom(200_000)}, {"small": b"1"})


def nothing_is_stored(ways: Ways) -> bool:
    return not Store(ways.home).tags.all()


def on(part: str, reply: Reply, otherwise: Script) -> Script:
    return lambda request: reply if part in request.path else otherwise(request)


def test_an_honest_answer_is_taken(ways: Ways, made: MadeImage) -> None:
    """So that the refusals below are known to come from the lies."""
    with hostile(honest(made)) as server:
        assert pull(parse_reference(f"{server.host}/x:1"), ways()).digest == made.digest


def test_a_layer_with_other_bytes_is_refused_and_thrown_away(ways: Ways, made: MadeImage) -> None:
    layer = made.layers[0]
    wrong = Reply(body=bytes(len(layer)))
    with (
        hostile(on(sha256(layer), wrong, honest(made))) as server,
        pytest.raises(DigestMismatch, match=sha256(layer)),
    ):
        pull(parse_reference(f"{server.host}/x:1"), ways())
    store = Store(ways.home)
    assert nothing_is_stored(ways)
    assert not store.blobs.path(sha256(layer)).exists()
    assert store.blobs.path(sha256(layer) + ".part").stat().st_size == 0


def test_a_manifest_that_is_not_its_digest_is_refused(ways: Ways, made: MadeImage) -> None:
    other = make_image({"other": b"1"})
    script = on(
        "/manifests/",
        Reply(headers={"Content-Type": OCI_MANIFEST}, body=other.manifest),
        honest(made),
    )
    with hostile(script) as server, pytest.raises(DigestMismatch):
        pull(parse_reference(f"{server.host}/x@{made.digest}"), ways())


def test_a_manifest_that_is_not_the_digest_it_was_sent_with_is_refused(
    ways: Ways, made: MadeImage
) -> None:
    headers = {"Content-Type": OCI_MANIFEST, "Docker-Content-Digest": "sha256:" + "0" * 64}
    script = on("/manifests/", Reply(headers=headers, body=made.manifest), honest(made))
    with hostile(script) as server, pytest.raises(DigestMismatch):
        pull(parse_reference(f"{server.host}/x:1"), ways())


@pytest.mark.parametrize("change", [-1, 1, 1 << 40])
def test_a_content_length_that_is_not_the_manifests_size_is_refused_unread(
    ways: Ways, made: MadeImage, change: int
) -> None:
    layer = made.layers[0]
    reply = Reply(body=layer, length=len(layer) + change)
    with hostile(on(sha256(layer), reply, honest(made))) as server, pytest.raises(RegistryBroken):
        pull(parse_reference(f"{server.host}/x:1"), ways())


def test_an_endless_body_is_cut_at_the_manifests_size(ways: Ways, made: MadeImage) -> None:
    layer = made.layers[0]
    reply = Reply(body=layer + b"more", length=None)
    with (
        hostile(on(sha256(layer), reply, honest(made))) as server,
        pytest.raises(RegistryBroken, match="more than"),
    ):
        pull(parse_reference(f"{server.host}/x:1"), ways())


def test_a_broken_download_goes_on_where_it_broke_off(ways: Ways, made: MadeImage) -> None:
    layer = made.layers[0]
    ends = [1000, 70_000, len(layer)]

    def script(request: Seen) -> Reply:
        reply = honest(made)(request)
        if sha256(layer) not in request.path:
            return reply
        start = len(layer) - len(reply.body)
        return replace(reply, body=reply.body[: ends.pop(0) - start], length=len(reply.body))

    with hostile(script) as server:
        image = pull(parse_reference(f"{server.host}/x:1"), ways())
        asked = [seen.headers.get("Range") for seen in server.asked(sha256(layer))]
    assert asked == [None, "bytes=1000-", "bytes=70000-"]
    assert image.layers[0].path.read_bytes() == layer


def test_what_a_killed_process_had_is_gone_on_with(ways: Ways, made: MadeImage) -> None:
    layer = made.layers[0]
    part = Store(ways.home).blobs.path(sha256(layer) + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(layer[:5000])
    with hostile(honest(made)) as server:
        image = pull(parse_reference(f"{server.host}/x:1"), ways())
        assert server.asked(sha256(layer))[0].headers["Range"] == "bytes=5000-"
    assert image.layers[0].path.read_bytes() == layer


@pytest.mark.parametrize("left", [b"not what it should be" * 100, b"x" * 500_000])
def test_a_part_that_was_tampered_with_is_fetched_anew(
    ways: Ways, made: MadeImage, left: bytes
) -> None:
    layer = made.layers[0]
    part = Store(ways.home).blobs.path(sha256(layer) + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(left)
    with hostile(honest(made)) as server:
        image = pull(parse_reference(f"{server.host}/x:1"), ways())
    assert image.layers[0].path.read_bytes() == layer


def test_a_server_without_ranges_is_asked_for_all_of_it(ways: Ways, made: MadeImage) -> None:
    layer = made.layers[0]
    part = Store(ways.home).blobs.path(sha256(layer) + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(layer[:5000])
    with hostile(honest(made, ranges=False)) as server:
        image = pull(parse_reference(f"{server.host}/x:1"), ways())
    assert image.layers[0].path.read_bytes() == layer


def test_another_range_than_was_asked_for_is_refused(ways: Ways, made: MadeImage) -> None:
    layer = made.layers[0]
    part = Store(ways.home).blobs.path(sha256(layer) + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(layer[:5000])
    headers = {"Content-Range": f"bytes 4000-{len(layer) - 1}/{len(layer)}"}
    reply = Reply(status=206, headers=headers, body=layer[4000:])
    with (
        hostile(on(sha256(layer), reply, honest(made))) as server,
        pytest.raises(RegistryBroken, match="another part"),
    ):
        pull(parse_reference(f"{server.host}/x:1"), ways())


def test_a_server_that_always_breaks_off_is_given_up(ways: Ways, made: MadeImage) -> None:
    layer = made.layers[0]

    def script(request: Seen) -> Reply:
        reply = honest(made)(request)
        if sha256(layer) not in request.path:
            return reply
        return replace(reply, body=reply.body[:10], length=len(reply.body))

    with (
        hostile(script) as server,
        pytest.raises(RegistryUnreachable, match="broke off at byte 50") as caught,
    ):
        pull(parse_reference(f"{server.host}/x:1"), ways())
    assert "again" in caught.value.hint
    assert Store(ways.home).blobs.path(sha256(layer) + ".part").read_bytes() == layer[:50]


def test_endless_redirects_end(ways: Ways) -> None:
    def script(request: Seen) -> Reply:
        return Reply(status=307, headers={"Location": f"{request.path}x"})

    with hostile(script) as server:
        with pytest.raises(RegistryBroken, match="more than 5 redirects"):
            pull(parse_reference(f"{server.host}/x:1"), ways())
        assert len(server.seen) == 6


@pytest.mark.parametrize(
    "location",
    [
        "http://example.com/blob",
        "ftp://127.0.0.1/blob",
        "file:///etc/passwd",
        "http://user:password@127.0.0.1/x",
        "http://127.0.0.1:99999/",
        "http://[::1/",
        "\thttp://127.0.0.1/\x00",
        "",
    ],
)
def test_a_redirect_to_where_nobody_should_go_is_refused(ways: Ways, location: str) -> None:
    """Loopback may point to loopback in plain HTTP, and nowhere else."""
    with (
        hostile(lambda _: Reply(status=302, headers={"Location": location})) as server,
        pytest.raises(RegistryBroken),
    ):
        pull(parse_reference(f"{server.host}/x:1"), ways())


def test_a_login_is_not_sent_to_where_a_redirect_leads(ways: Ways, made: MadeImage) -> None:
    log_in(ways, "127.0.0.1", "user", "pass")  # for another port: must not be used either
    with hostile(honest(made)) as elsewhere:

        def script(request: Seen) -> Reply:
            if "Authorization" not in request.headers:
                return Reply(status=401, headers={"WWW-Authenticate": 'Basic realm="x"'})
            if "/blobs/" in request.path:
                return Reply(
                    status=307, headers={"Location": f"http://{elsewhere.host}{request.path}"}
                )
            return honest(made)(request)

        with hostile(script) as server:
            log_in(ways, server.host, "user", "a secret")
            pull(parse_reference(f"{server.host}/x:1"), ways())
        assert server.asked("/blobs/")
        assert elsewhere.asked("/blobs/")
        assert all("Authorization" not in seen.headers for seen in elsewhere.seen)


def test_a_challenge_from_where_a_redirect_led_is_not_answered(ways: Ways, made: MadeImage) -> None:
    challenge = Reply(status=401, headers={"WWW-Authenticate": 'Basic realm="give me"'})
    with hostile(lambda _: challenge) as elsewhere:

        def script(request: Seen) -> Reply:
            if "/blobs/" in request.path:
                return Reply(status=307, headers={"Location": f"http://{elsewhere.host}/b"})
            return honest(made)(request)

        with hostile(script) as server:
            log_in(ways, server.host, "user", "a secret")
            log_in(ways, elsewhere.host, "user", "a secret")
            with pytest.raises(RegistryDenied):
                pull(parse_reference(f"{server.host}/x:1"), ways())
        assert all("Authorization" not in seen.headers for seen in elsewhere.seen)


def test_a_token_is_fetched_from_another_host_and_used(ways: Ways, made: MadeImage) -> None:
    token = json.dumps({"token": "abc.def", "expires_in": 300}).encode()
    with hostile(lambda _: Reply(body=token)) as realm:

        def script(request: Seen) -> Reply:
            if request.headers.get("Authorization") != "Bearer abc.def":
                challenge = f'Bearer realm="http://{realm.host}/token",service="the registry"'
                return Reply(status=401, headers={"WWW-Authenticate": challenge})
            return honest(made)(request)

        with hostile(script) as server:
            log_in(ways, server.host, "user", "pass word")
            assert pull(parse_reference(f"{server.host}/a/b:1"), ways()).digest == made.digest
        [asked] = realm.seen
        expected = base64.b64encode(b"user:pass word").decode()
        assert asked.headers["Authorization"] == f"Basic {expected}"
        assert "service=the+registry" in asked.path
        assert "scope=repository%3Aa%2Fb%3Apull" in asked.path


def test_an_identity_token_is_exchanged(ways: Ways, made: MadeImage) -> None:
    with hostile(lambda _: Reply(body=b'{"access_token": "t"}')) as realm:

        def script(request: Seen) -> Reply:
            if request.headers.get("Authorization") != "Bearer t":
                challenge = f'Bearer realm="http://{realm.host}/token"'
                return Reply(status=401, headers={"WWW-Authenticate": challenge})
            return honest(made)(request)

        with hostile(script) as server:
            write_login(ways, {server.host: {"identitytoken": "the identity"}})
            pull(parse_reference(f"{server.host}/a/b:1"), ways())
        assert realm.seen[0].method == "POST"
        assert b"refresh_token=the+identity" in realm.seen[0].body


def test_a_login_is_not_sent_to_a_realm_without_tls(ways: Ways) -> None:
    challenge = {"WWW-Authenticate": 'Bearer realm="http://192.0.2.1/token"'}
    with hostile(lambda _: Reply(status=401, headers=challenge)) as server:
        log_in(ways, server.host, "user", "a secret")
        with pytest.raises(RegistryBroken, match="not reached over TLS"):
            pull(parse_reference(f"{server.host}/x:1"), ways())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"[]",
        b'{"token": 5}',
        b'{"token": "a\\r\\nX: y"}',
        b"[" * 100_000,
        b'{"token":"' + b"a" * (2 << 20),
    ],
)
def test_a_token_service_that_gives_no_token_is_broken(ways: Ways, body: bytes) -> None:
    def script(request: Seen) -> Reply:
        if request.path.startswith("/token"):
            return Reply(body=body)
        challenge = f'Bearer realm="http://{request.headers["Host"]}/token"'
        return Reply(status=401, headers={"WWW-Authenticate": challenge})

    with hostile(script) as server, pytest.raises(RegistryBroken):
        pull(parse_reference(f"{server.host}/x:1"), ways())


def test_a_registry_that_is_never_content_is_asked_twice(ways: Ways) -> None:
    """No login is tried again and again: that would lock accounts."""
    challenge = {"WWW-Authenticate": 'Basic realm="x"'}
    with hostile(lambda _: Reply(status=401, headers=challenge)) as server:
        log_in(ways, server.host, "user", "pass")
        with pytest.raises(RegistryDenied):
            pull(parse_reference(f"{server.host}/x:1"), ways())
        assert len(server.seen) == 2


def test_too_many_requests_are_waited_out_as_long_as_asked(ways: Ways, made: MadeImage) -> None:
    waits = ["7", formatdate(usegmt=True), None]

    def script(request: Seen) -> Reply:
        if waits:
            wait = waits.pop(0)
            return Reply(status=429, headers={"Retry-After": wait} if wait else {})
        return honest(made)(request)

    with hostile(script) as server:
        assert pull(parse_reference(f"{server.host}/x:1"), ways()).digest == made.digest
    assert ways.pauses[0] == 7
    assert len(ways.pauses) == 3


@pytest.mark.parametrize("wait", ["86400", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_registry_that_asks_to_wait_for_too_long_is_busy(ways: Ways, wait: str) -> None:
    with (
        hostile(lambda _: Reply(status=429, headers={"Retry-After": wait})) as server,
        pytest.raises(RegistryBusy, match="429"),
    ):
        pull(parse_reference(f"{server.host}/x:1"), ways())
    assert not ways.pauses


def test_a_failing_server_is_given_up_after_a_few_tries(ways: Ways) -> None:
    with hostile(lambda _: Reply(status=503)) as server:
        with pytest.raises(RegistryBusy, match="503"):
            pull(parse_reference(f"{server.host}/x:1"), ways())
        assert len(server.seen) == 5
    assert ways.pauses == sorted(ways.pauses)


@pytest.mark.parametrize("length", [-1, None])
def test_a_gigantic_manifest_is_refused(ways: Ways, length: int | None) -> None:
    reply = Reply(headers={"Content-Type": OCI_MANIFEST}, body=b" " * (5 << 20), length=length)
    with hostile(lambda _: reply) as server, pytest.raises(ImageTooLarge, match="manifest"):
        pull(parse_reference(f"{server.host}/x:1"), ways())


@pytest.mark.parametrize(
    "reply", [Reply(stalls=True, length=100), Reply(drips=True, length=1 << 20)]
)
def test_a_manifest_that_does_not_come_is_not_waited_for(ways: Ways, reply: Reply) -> None:
    """Neither silence nor a byte now and then holds us past the deadline."""
    with hostile(lambda _: reply) as server, pytest.raises((RegistryUnreachable, RegistryBroken)):
        pull(parse_reference(f"{server.host}/x:1"), ways(settings=hasty()))


@pytest.mark.parametrize("reply", [Reply(stalls=True), Reply(drips=True)])
def test_a_layer_that_does_not_come_is_not_waited_for(
    ways: Ways, made: MadeImage, reply: Reply
) -> None:
    layer = made.layers[0]
    reply = replace(reply, length=len(layer))
    with (
        hostile(on(sha256(layer), reply, honest(made))) as server,
        pytest.raises(RegistryUnreachable, match="broke off"),
    ):
        pull(parse_reference(f"{server.host}/x:1"), ways(settings=hasty()))


def test_headers_that_never_end_are_not_waited_for(ways: Ways) -> None:
    import socket
    import threading

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            listener.settimeout(0.05)
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    try:
                        connection.sendall(b"HTTP/1.1 200 OK\r\n")
                        while not over.wait(0.05):
                            connection.sendall(b"X: y\r\n")
                    except OSError:
                        continue

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            name = f"127.0.0.1:{listener.getsockname()[1]}/x:1"
            with pytest.raises(RegistryUnreachable):
                pull(parse_reference(name), ways(settings=hasty()))
        finally:
            over.set()
            thread.join()


def with_manifest(**changes: object) -> Reply:
    made = make_image({"a": b"1"})
    document = {**json.loads(made.manifest), **changes}
    document = {name: value for name, value in document.items() if value is not ...}
    kind = str(document.get("mediaType") or OCI_MANIFEST)
    return Reply(headers={"Content-Type": kind}, body=json.dumps(document).encode())


def test_schema_1_is_refused_by_name(ways: Ways) -> None:
    kind = "application/vnd.docker.distribution.manifest.v1+prettyjws"
    reply = Reply(headers={"Content-Type": kind}, body=b'{"schemaVersion": 1, "name": "x"}')
    with hostile(lambda _: reply) as server, pytest.raises(ImageUnsupported, match="schema 1"):
        pull(parse_reference(f"{server.host}/x:1"), ways())


def layer(**changes: object) -> dict[str, object]:
    return {"layers": [{"digest": ZERO, "size": 1, "mediaType": TAR, **changes}]}


ZERO = "sha256:" + "0" * 64
TAR = "application/vnd.oci.image.layer.v1.tar"
EMPTY = "application/vnd.oci.empty.v1+json"


@pytest.mark.parametrize(
    "changes, error",
    [
        ({"manifests": []}, ImageMalformed),  # both an index and a manifest
        ({"schemaVersion": 3}, ImageMalformed),
        ({"mediaType": "application/vnd.cncf.helm"}, ImageUnsupported),
        ({"config": {"mediaType": EMPTY, "digest": ZERO, "size": 2}}, ImageUnsupported),
        ({"layers": "all of them"}, ImageMalformed),
        ({"layers": []}, ImageMalformed),  # the configuration has one
        (layer(digest="sha256:../../etc/passwd"), ImageMalformed),
        (layer(digest="md5:" + "0" * 32), ImageMalformed),
        (layer(digest="sha256:" + "A" * 64), ImageMalformed),
        (layer(size=-1), ImageMalformed),
        (layer(size=True), ImageMalformed),
        (layer(size=1 << 45), ImageTooLarge),
        (layer(size=1 << 60), ImageMalformed),
        (layer(mediaType=f"{TAR}+gzip+encrypted"), ImageUnsupported),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(
    ways: Ways, changes: dict[str, object], error: type[Exception]
) -> None:
    made = make_image({"a": b"1"})
    script = on("/manifests/", with_manifest(**changes), honest(made))
    with hostile(script) as server, pytest.raises(error):
        pull(parse_reference(f"{server.host}/x:1"), ways())
    assert nothing_is_stored(ways)


def test_an_index_sent_as_a_manifest_is_refused(ways: Ways) -> None:
    body = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}).encode()
    reply = Reply(headers={"Content-Type": OCI_MANIFEST}, body=body)
    with hostile(lambda _: reply) as server, pytest.raises(ImageMalformed, match="calls itself"):
        pull(parse_reference(f"{server.host}/x:1"), ways())


def test_an_empty_index_offers_nothing(ways: Ways) -> None:
    body = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}).encode()
    reply = Reply(headers={"Content-Type": OCI_INDEX}, body=body)
    with hostile(lambda _: reply) as server, pytest.raises(WrongPlatform, match="it has nothing"):
        pull(parse_reference(f"{server.host}/x:1"), ways())


def test_a_wrong_size_for_a_layer_that_is_here_does_not_cost_the_layer(
    ways: Ways, made: MadeImage
) -> None:
    """Else one hostile image could take the layers of all others away."""
    with hostile(honest(made)) as server:
        image = pull(parse_reference(f"{server.host}/good:1"), ways())
    document = json.loads(made.manifest)
    document["layers"][0]["size"] += 1
    evil = replace(made, manifest=json.dumps(document).encode())
    with hostile(honest(evil)) as server, pytest.raises(ImageMalformed, match="bytes, not"):
        pull(parse_reference(f"{server.host}/evil:1"), ways())
    assert image.layers[0].path.read_bytes() == made.layers[0]


def test_a_blob_that_the_registry_lacks_is_said_so(ways: Ways, made: MadeImage) -> None:
    script = on(sha256(made.layers[1]), Reply(status=404), honest(made))
    with hostile(script) as server, pytest.raises(ImageNotFound, match="is missing"):
        pull(parse_reference(f"{server.host}/x:1"), ways())


def test_past_a_lying_mirror_the_registry_is_asked(ways: Ways, made: MadeImage) -> None:
    lies = on("/blobs/", Reply(body=b"lies"), honest(made))
    with hostile(lies) as mirror, hostile(honest(made)) as server:
        settings = RegistrySettings(mirrors=(Mirror(registry=server.host, host=mirror.host),))
        reference = parse_reference(f"{server.host}/x@{made.digest}")
        assert pull(reference, ways(settings=settings)).digest == made.digest
        assert mirror.asked("/blobs/")


def test_plain_http_is_not_spoken_to_a_host_that_was_not_named(
    ways: Ways, made: MadeImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a name that is not loopback's, though it leads there."""
    import socket

    real = socket.create_connection

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        return real(("127.0.0.1", address[1]), timeout)

    monkeypatch.setattr(socket, "create_connection", connect)
    with hostile(honest(made)) as server:
        name = f"registry.example:{server.port}"
        with pytest.raises(RegistryUnreachable, match="TLS"):
            pull(parse_reference(f"{name}/x:1"), ways())
        assert not server.seen
        settings = RegistrySettings(insecure=frozenset((name,)))
        image = pull(parse_reference(f"{name}/x:1"), ways(settings=settings))
    assert image.digest == made.digest


def test_a_named_host_that_only_has_the_plain_port_is_found_there(
    ways: Ways, made: MadeImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    real = socket.create_connection

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        return real(("127.0.0.1", {80: server.port, 443: 9}[address[1]]), timeout)

    monkeypatch.setattr(socket, "create_connection", connect)
    settings = RegistrySettings(insecure=frozenset(("registry.example",)))
    with hostile(honest(made)) as server:
        image = pull(parse_reference("registry.example/x:1"), ways(settings=settings))
        with pytest.raises(RegistryUnreachable):
            pull(parse_reference("other.example/x:1"), ways(settings=settings))
    assert image.digest == made.digest


def log_in(ways: Ways, host: str, user: str, password: str) -> None:
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    write_login(ways, {host: {"auth": pair}})


def write_login(ways: Ways, entries: dict[str, dict[str, str]]) -> None:
    path = Path(ways.environment["HOME"]) / ".docker" / "config.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text())["auths"] if path.exists() else {}
    path.write_text(json.dumps({"auths": {**known, **entries}}))
