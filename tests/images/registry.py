"""A real registry (Debian's docker-registry) on loopback: plain, with TLS, with a login; and images to put there."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import io
import json
import random
import socket
import ssl
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crucible.images.oci.platforms import host_platform

USER = "tester"
PASSWORD = "correct horse"
# bcrypt of PASSWORD
_HASH = "$2b$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2"
_STARTS = 5

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass(frozen=True, kw_only=True)
class MadeImage:
    """An image as bytes: `manifest` refers to `config` and `layers` by digest."""

    manifest: bytes
    config: bytes
    layers: tuple[bytes, ...]
    media_type: str = OCI_MANIFEST

    @property
    def digest(self) -> str:
        return sha256(self.manifest)

    @property
    def blobs(self) -> dict[str, bytes]:
        return {sha256(data): data for data in (self.config, *self.layers)}


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def make_tar(files: Mapping[str, bytes]) -> bytes:
    """An uncompressed tar with those files, the same bytes each time."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def make_image(
    *layers: Mapping[str, bytes] | bytes,
    config: Mapping[str, Any] | None = None,
    platform: Mapping[str, str] | None = None,
) -> MadeImage:
    """Layers are given as files, or as a ready (uncompressed) tar. All are gzipped."""
    tars = [layer if isinstance(layer, bytes) else make_tar(layer) for layer in layers]
    packed = tuple(gzip.compress(tar, mtime=0) for tar in tars)
    here = host_platform()
    document = {
        **(platform or {"os": here.os, "architecture": here.architecture}),
        "config": dict(config or {}),
        "rootfs": {"type": "layers", "diff_ids": [sha256(tar) for tar in tars]},
    }
    blob = json.dumps(document).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": descriptor(blob, OCI_CONFIG),
        "layers": [descriptor(layer, OCI_LAYER) for layer in packed],
    }
    return MadeImage(manifest=json.dumps(manifest).encode(), config=blob, layers=packed)


def make_index(images: Sequence[tuple[MadeImage, Mapping[str, str]]]) -> bytes:
    """An index of images with their platforms."""
    entries = [
        {**descriptor(image.manifest, image.media_type), "platform": dict(platform)}
        for image, platform in images
    ]
    return json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries}).encode()


def descriptor(data: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": sha256(data), "size": len(data)}


@dataclass(frozen=True, kw_only=True)
class RunningRegistry:
    """`host` is what goes before the slash of a reference. `storage` is where it keeps its files."""

    host: str
    port: int
    storage: Path
    log: Path
    context: ssl.SSLContext | None = field(default=None, repr=False)
    has_login: bool = False

    def push(self, name: str, image: MadeImage) -> str:
        """Puts it there under `repository:tag` and gives the reference."""
        repository, _, tag = name.partition(":")
        for digest, data in image.blobs.items():
            self.put_blob(repository, digest, data)
        self.put_manifest(repository, tag or "latest", image.manifest, image.media_type)
        return f"{self.host}/{repository}:{tag or 'latest'}"

    def put_blob(self, repository: str, digest: str, data: bytes) -> None:
        status, headers = self.request("POST", f"/v2/{repository}/blobs/uploads/")
        assert status == 202, status
        location = headers["Location"].split(f":{self.port}", 1)[-1]
        joint = "&" if "?" in location else "?"
        status, _ = self.request(
            "PUT",
            f"{location}{joint}digest={digest}",
            data,
            {"Content-Type": "application/octet-stream"},
        )
        assert status == 201, status

    def put_manifest(self, repository: str, tag: str, data: bytes, media_type: str) -> None:
        path = f"/v2/{repository}/manifests/{tag}"
        status, _ = self.request("PUT", path, data, {"Content-Type": media_type})
        assert status == 201, status

    def push_index(self, name: str, images: Sequence[tuple[MadeImage, Mapping[str, str]]]) -> str:
        repository, _, tag = name.partition(":")
        for image, _ in images:
            for digest, data in image.blobs.items():
                self.put_blob(repository, digest, data)
            self.put_manifest(repository, image.digest, image.manifest, image.media_type)
        self.put_manifest(repository, tag, make_index(images), OCI_INDEX)
        return f"{self.host}/{repository}:{tag}"

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, http.client.HTTPMessage]:
        sent = dict(headers or {})
        if self.has_login:
            pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            sent["Authorization"] = f"Basic {pair}"
        client: http.client.HTTPConnection
        if self.context is None:
            client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        else:
            client = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=60, context=self.context
            )
        try:
            client.request(method, path, body, sent)
            response = client.getresponse()
            response.read()
            return response.status, response.headers
        finally:
            client.close()


@dataclass(frozen=True, kw_only=True)
class Authority:
    """A CA of the test's own, and a certificate of it for the registry."""

    ca: Path
    certificate: Path
    key: Path


def make_authority(directory: Path, *, names: str = "IP:127.0.0.1,DNS:localhost") -> Authority:
    directory.mkdir(parents=True, exist_ok=True)
    ca, ca_key = directory / "ca.crt", directory / "ca.key"
    certificate, key = directory / "server.crt", directory / "server.key"
    request, extensions = directory / "server.csr", directory / "extensions"
    extensions.write_text(f"subjectAltName={names}\n")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    _openssl(
        *("req", "-x509", *curve, "-keyout", str(ca_key), "-out", str(ca), "-days", "2"),
        *("-subj", "/CN=Crucible test authority"),
    )
    _openssl("req", *curve, "-keyout", str(key), "-out", str(request), "-subj", "/CN=registry")
    _openssl(
        *("x509", "-req", "-in", str(request), "-CA", str(ca), "-CAkey", str(ca_key)),
        *("-CAcreateserial", "-out", str(certificate), "-days", "2"),
        *("-extfile", str(extensions)),
    )
    return Authority(ca=ca, certificate=certificate, key=key)


@contextmanager
def running_registry(
    directory: Path,
    *,
    authority: Authority | None = None,
    has_login: bool = False,
    checks_name: bool = True,
) -> Iterator[RunningRegistry]:
    """Starts it on a free port, and ends it. The port may be taken in between: then another is tried.

    `checks_name`: whether the test's own requests want a certificate for 127.0.0.1.
    """
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "log"
    for attempt in range(_STARTS):
        port = _free_port()
        configuration = directory / "config.yml"
        configuration.write_text(_configuration(directory, port, authority, has_login))
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["docker-registry", "serve", str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(directory)},
            )
        if _answers(process, port):
            break
        assert attempt + 1 < _STARTS, log.read_text()
    context = None
    if authority is not None:
        context = ssl.create_default_context(cafile=str(authority.ca))
        context.check_hostname = checks_name
    try:
        yield RunningRegistry(
            host=f"127.0.0.1:{port}",
            port=port,
            storage=directory / "storage",
            log=log,
            context=context,
            has_login=has_login,
        )
    finally:
        process.kill()
        process.wait()


def _configuration(directory: Path, port: int, authority: Authority | None, has_login: bool) -> str:
    document: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "info", "accesslog": {"disabled": False}},
        "storage": {
            "filesystem": {"rootdirectory": str(directory / "storage")},
            "delete": {"enabled": True},
        },
        "http": {"addr": f"127.0.0.1:{port}", "secret": "of this test"},
    }
    if authority is not None:
        document["http"]["tls"] = {
            "certificate": str(authority.certificate),
            "key": str(authority.key),
        }
    if has_login:
        passwords = directory / "htpasswd"
        passwords.write_text(f"{USER}:{_HASH}\n")
        document["auth"] = {"htpasswd": {"realm": "the tests", "path": str(passwords)}}
    return json.dumps(document)  # which is YAML too


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    """False when it ended instead, as it does when its port is taken."""
    until = time.monotonic() + 60
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            if time.monotonic() > until:
                process.kill()
                process.wait()
                return False
            time.sleep(0.02)
        else:
            return process.poll() is None
    return False


def _free_port() -> int:
    """None of those that the kernel gives out: somebody who asks it for any port could answer in our name."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            port = random.randrange(20_000, 30_000)
            probe.bind(("127.0.0.1", port))
            return port


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)
