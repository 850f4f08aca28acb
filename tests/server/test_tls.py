"""The doors over TLS: what is shown, what is refused before anything opens, what happens when the files change."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from tests.conftest import CommandLine
from tests.network.authority import client_context, server_pair
from tests.server.conftest import serving

from crucible.errors import CrucibleError, TlsUnusable
from crucible.server import tls
from crucible.server.tls import Certificate, TlsFiles

pytestmark = pytest.mark.usefixtures("run")

NAMES = ("*.box.test", "localhost")


def pair(directory: Path, *names: str) -> TlsFiles:
    files = TlsFiles(certificate=directory / "cert.pem", key=directory / "key.pem")
    certificate, key = server_pair(*(names or NAMES))
    files.certificate.write_bytes(certificate)
    files.key.touch(0o600)
    files.key.chmod(0o600)
    files.key.write_bytes(key)
    return files


def port_of(url: str) -> int:
    return httpx.URL(url).port or 0


async def shown(port: int, name: str) -> tuple[str, list[str]]:
    """The protocol of a connection under this name, and the names that the certificate shown is for."""
    context = client_context(checks_name=False)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    try:
        found = writer.get_extra_info("ssl_object")
        told = found.getpeercert()["subjectAltName"]
        return found.version(), [text for _, text in told]
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_with_files_the_door_speaks_tls_and_nothing_else(tmp_path: Path) -> None:
    files = pair(tmp_path)
    async with serving(tmp_path / "home", tls=files) as server:
        assert server.url.startswith("https://127.0.0.1:")
        port = port_of(server.url)
        async with httpx.AsyncClient(verify=client_context(), timeout=60) as client:
            answer = await client.get(f"https://localhost:{port}/health")
            assert answer.status_code == 200
            refused = await client.get(f"https://localhost:{port}/api/v1/sandboxes")
            assert refused.status_code == 401
            with pytest.raises(httpx.HTTPError):
                await client.get(f"http://localhost:{port}/health")
        # The user's own socket stays as it was.
        async with server.local() as local:
            assert (await local.get("/health")).status_code == 200


async def test_old_versions_of_tls_are_refused(tmp_path: Path) -> None:
    files = pair(tmp_path)
    assert Certificate(files).context.minimum_version is ssl.TLSVersion.TLSv1_2
    context = client_context(checks_name=False)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with serving(tmp_path / "home", tls=files) as server:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", port_of(server.url), ssl=context)
        version, _ = await shown(port_of(server.url), "localhost")
        assert version in ("TLSv1.2", "TLSv1.3")


async def test_files_that_are_no_good_are_refused_before_anything_opens(tmp_path: Path) -> None:
    files = pair(tmp_path)
    _, other = server_pair("other.test")
    certificate, key = files.certificate.read_bytes(), files.key.read_bytes()
    secret = serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"word"),
    )
    for path, data in (
        (files.key, other),
        (files.key, secret),
        (files.key, b""),
        (files.key, b"\0" * (tls.MOST_FILE_BYTES + 1)),
        (files.certificate, b""),
        (files.certificate, b"nonsense"),
        (files.certificate, key),
        (files.certificate, None),
        (files.key, None),
    ):
        path.unlink() if data is None else path.write_bytes(data)
        with pytest.raises(TlsUnusable) as refused:
            Certificate(files)
        assert str(path) in refused.value.message
        files.certificate.write_bytes(certificate)
        files.key.touch(0o600)
        files.key.write_bytes(key)
    files.key.chmod(0o600)
    Certificate(files)
    with pytest.raises(TlsUnusable):
        Certificate(TlsFiles(certificate=tmp_path, key=files.key))
    files.key.chmod(0o640)
    with pytest.raises(CrucibleError, match="others") as told:
        async with serving(tmp_path / "home", tls=files):
            pass
    assert told.value.hint == f"chmod 600 {files.key}"
    assert not (tmp_path / "home" / "http.sock").exists()


async def test_files_that_change_are_shown_to_who_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tls, "_LOOK_AGAIN_S", 0.0)
    files = pair(tmp_path)
    async with serving(tmp_path / "home", tls=files) as server:
        port = port_of(server.url)
        assert (await shown(port, "localhost"))[1] == list(NAMES)
        files.certificate.write_bytes(server_pair("new.test")[0])
        assert (await shown(port, "localhost"))[1] == list(NAMES)
        assert "the one before is still shown" in capfd.readouterr().err
        pair(tmp_path, "new.test")
        assert (await shown(port, "localhost"))[1] == ["new.test"]
        assert (await shown(port, "localhost"))[1] == ["new.test"]
        files.key.unlink()
        assert (await shown(port, "localhost"))[1] == ["new.test"]


def test_the_commands_refuse_files_that_are_no_good_and_leave_nothing(tmp_path: Path) -> None:
    """The daemon reads them itself, in a process of its own, and whoever starts it is told."""
    crucible = CommandLine(tmp_path / "home")
    files = pair(tmp_path)
    files.key.chmod(0o644)
    words = ("--tls-cert", files.certificate.name, "--tls-key", files.key.name)
    for command in (("serve", "--port", "0"), ("daemon", "start", "--http", "127.0.0.1:0")):
        refused = crucible(*command, *words, cwd=tmp_path)
        assert refused.returncode == 126
        assert f"{files.key} cannot be used for TLS" in refused.stderr.decode()
    alone = crucible("daemon", "start", *words, cwd=tmp_path)
    assert (alone.returncode, b"Give --http as well" in alone.stderr) == (126, True)
    assert crucible("daemon", "status").returncode == 3
