"""Files of a sandbox over HTTP, with the paths that a hostile caller would try."""

from __future__ import annotations

import io
import tarfile

import pytest
from tests.server.conftest import Server

pytestmark = pytest.mark.vm

FILES = "/api/v1/sandboxes/box/files"


async def test_bytes_come_back_as_they_were_written(server: Server, box: str) -> None:
    data = bytes(range(256)) * 40_000
    async with server.client() as client:
        at = {"path": "/workspace/new/ü name"}
        written = await client.put(FILES, params={**at, "parents": True}, content=data)
        assert written.json() == {"path": "/workspace/new/ü name", "size": len(data)}
        assert (await client.get(FILES, params=at)).content == data
        part = await client.get(FILES, params={**at, "offset": 255, "length": 3})
        assert part.content == b"\xff\x00\x01"
        stat = (await client.get(f"{FILES}/stat", params=at)).json()
        assert (stat["type"], stat["size"], stat["mode"] & 0o777) == ("file", len(data), 0o644)


async def test_a_tree_is_listed_moved_and_removed(server: Server, box: str) -> None:
    async with server.client() as client:
        made = await client.post(f"{FILES}/mkdir", json={"path": "/workspace/a/b", "parents": True})
        assert made.status_code == 204
        await client.put(FILES, params={"path": "/workspace/a/b/c"}, content=b"")
        moved = await client.post(
            f"{FILES}/move", json={"source": "/workspace/a/b", "target": "/workspace/a/d"}
        )
        assert moved.status_code == 204
        listed = (await client.get(f"{FILES}/list", params={"path": "/workspace/a"})).json()
        assert [(one["name"], one["type"]) for one in listed["items"]] == [("d", "directory")]
        at = {"path": "/workspace/a"}
        assert (await client.delete(FILES, params=at)).status_code >= 400
        assert (await client.delete(FILES, params={**at, "recursive": True})).status_code == 204
        gone = await client.get(FILES, params=at)
        assert (gone.status_code, gone.json()["code"]) == (404, "guest-refused")


async def test_a_tree_goes_in_and_out_as_an_archive(server: Server, box: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("inside/file")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"abc"))
    archive = "/api/v1/sandboxes/box/archive"
    async with server.client() as client:
        at = {"path": "/workspace/unpacked"}
        await client.post(f"{FILES}/mkdir", json=at)
        assert (await client.put(archive, params=at, content=packed.getvalue())).status_code == 200
        out = await client.get(archive, params=at)
    with tarfile.open(fileobj=io.BytesIO(out.content)) as tar:
        names = [name for name in tar.getnames() if name.endswith("file")]
        assert tar.extractfile(names[0]).read() == b"abc"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "path",
    ["", "relative", "../../etc/passwd", "~/x", "a" * 5000, "/" + "a" * 4096, "/nul\0byte"],
)
async def test_what_is_no_path_is_refused(server: Server, box: str, path: str) -> None:
    async with server.client() as client:
        answer = await client.get(FILES, params={"path": path})
        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"] == "application/problem+json"


async def test_no_path_leads_to_the_host(server: Server, box: str) -> None:
    (server.home / "secret").write_text("of the host")
    async with server.client() as client:
        for path in (
            f"/../../..{server.home}/secret",
            f"/workspace/../../../..{server.home}/secret",
            f"/proc/1/root{server.home}/secret",
        ):
            answer = await client.get(FILES, params={"path": path})
            assert answer.status_code in (403, 404, 422), path
        link = ["ln", "-sfn", str(server.home), "/workspace/link"]
        await client.post("/api/v1/sandboxes/box/exec", json={"argv": link})
        answer = await client.get(FILES, params={"path": "/workspace/link/secret"})
        assert answer.status_code == 404
