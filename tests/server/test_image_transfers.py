"""Images over HTTP: pulled and pushed with what goes on told, built, exported, imported, and what is not taken."""

from __future__ import annotations

import asyncio
import io
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Run
from tests.images.registry import RunningRegistry, make_image, make_tar, running_registry
from tests.server.conftest import Server, until
from tests.server.test_commands import events_in
from tests.server.test_images import plant

from crucible.server import telling
from crucible.server.routes import image_builds, image_transfers
from crucible.server.telling import Telling, told_as_events
from crucible.server.tokens import Scope

IMAGES = "/api/v1/images"
DOCKERFILE = b"FROM scratch\nCOPY greeting /greeting\n"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


def archive(**files: bytes) -> bytes:
    return make_tar({name.replace("__", "."): data for name, data in files.items()})


async def test_a_pull_and_a_push_tell_what_they_do(bare: Server, registry: RunningRegistry) -> None:
    source = registry.push("team/app:1", make_image({"file": b"x" * 5000}))
    async with bare.client() as client:
        pulled = events_in((await client.post(f"{IMAGES}/pull/stream", json={"name": source})).text)
        assert pulled[-1][0] == "done", pulled[-1]
        assert {"progress", "layer"} & {kind for kind, _, _ in pulled}
        target = f"{registry.host}/team/copy:2"
        body = {"name": source, "target": target}
        pushed = events_in((await client.post(f"{IMAGES}/push", json=body)).text)
        assert (pushed[-1][0], pushed[-1][2]["name"]) == ("done", target)
        again = events_in((await client.post(f"{IMAGES}/pull/stream", json={"name": target})).text)
        assert again[-1][2]["digest"] == pulled[-1][2]["digest"]
        gone = events_in(
            (
                await client.post(f"{IMAGES}/pull/stream", json={"name": f"{registry.host}/no:1"})
            ).text
        )
        assert (gone[-1][0], gone[-1][2]["status"]) == ("error", 404)


async def test_an_image_is_exported_and_imported(bare: Server, tmp_path: Path) -> None:
    plant(bare.home, tmp_path, "app")
    async with bare.client() as client:
        for form in ("oci-archive", "docker-archive"):
            named = {"name": "localhost/app:1", "form": form}
            exported = await client.get(f"{IMAGES}/export", params=named)
            assert exported.status_code == 200, exported.text
            taken = await client.post(
                f"{IMAGES}/import",
                params={"name": f"localhost/{form}:2", "form": form},
                content=exported.content,
            )
            assert taken.status_code == 201, taken.text
        names = {one["name"] for one in (await client.get(IMAGES)).json()["items"]}
        assert {"localhost/oci-archive:2", "localhost/docker-archive:2"} <= names
        missing = await client.get(f"{IMAGES}/export", params={"name": "localhost/none:1"})
        assert (missing.status_code, missing.json()["code"]) == (404, "image-missing")
    assert not list((bare.home / "scratch").glob("*"))


async def test_an_image_is_built_from_what_is_sent(bare: Server) -> None:
    body = archive(Dockerfile=DOCKERFILE, greeting=b"hello\n")
    async with bare.client() as client:
        path = f"{IMAGES}/build?name=localhost/greeting:1"
        told = events_in((await client.post(path, content=body)).text)
        assert told[-1][0] == "done", told[-1]
        assert any("COPY greeting" in data["text"] for kind, _, data in told if kind == "step")
        again = events_in((await client.post(path, content=body)).text)
        assert again[-1][2]["steps_cached"] >= 1
        assert again[-1][2]["digest"] == told[-1][2]["digest"]
        exported = await client.get(f"{IMAGES}/export", params={"name": "localhost/greeting:1"})
        assert exported.status_code == 200
    await until(lambda: not list((bare.home / "scratch").glob("*")))


def _odd_tar(name: str, kind: bytes, target: str = "") -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        tar.addfile(member)
    return data.getvalue()


@pytest.mark.parametrize(
    "body, code",
    [
        (b"", "path-refused"),
        (b"no tar at all" * 100, "path-refused"),
        (archive(greeting=b"x"), "path-refused"),
        (make_tar({"../outside": b"x"}), "path-refused"),
        (make_tar({"/etc/passwd": b"x"}), "path-refused"),
        (_odd_tar("Dockerfile", tarfile.SYMTYPE, "/etc/passwd"), "path-refused"),
        (_odd_tar("Dockerfile", tarfile.FIFOTYPE), "path-refused"),
        (archive(Dockerfile=b"NOSUCH x\n"), "build-file-invalid"),
        (archive(Dockerfile=b"\xff\xfe\0"), "build-file-invalid"),
        (archive(Dockerfile=DOCKERFILE)[:700], "path-refused"),
    ],
)
async def test_a_context_that_makes_no_sense_is_refused(
    bare: Server, body: bytes, code: str
) -> None:
    async with bare.client() as client:
        answer = await client.post(f"{IMAGES}/build?name=localhost/x:1", content=body)
    assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
    assert not list((bare.home / "scratch").glob("*"))


@pytest.mark.parametrize("body", [b"", b"no tar", make_tar({"index.json": b"{}"}), b"\0" * 4096])
async def test_a_file_that_is_no_image_is_refused(bare: Server, body: bytes) -> None:
    async with bare.client() as client:
        for form in ("oci-archive", "docker-archive"):
            answer = await client.post(
                f"{IMAGES}/import", params={"name": "localhost/x:1", "form": form}, content=body
            )
            assert 400 <= answer.status_code < 503, answer.text
            assert answer.json()["code"] != "internal", answer.text
            assert str(bare.home) not in answer.json()["hint"]
    assert not list((bare.home / "scratch").glob("*"))


async def test_bodies_are_bounded(bare: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_transfers, "MOST_IMPORT_BYTES", 1000)
    monkeypatch.setattr(image_builds, "MOST_CONTEXT_BYTES", 1000)
    async with bare.client() as client:
        for path in ("import?name=localhost/x:1", "build?name=localhost/x:1"):
            answer = await client.post(f"{IMAGES}/{path}", content=bytes(2000))
            assert (answer.status_code, answer.json()["code"]) == (413, "request-too-large")
    assert not list((bare.home / "scratch").glob("*"))


@pytest.mark.parametrize("name", ["oci:/etc", "docker-archive:/etc/passwd", "oci-archive:x"])
async def test_no_file_of_the_host_can_be_named(bare: Server, name: str) -> None:
    async with bare.client() as client:
        for path in ("pull/stream", "push", "pull"):
            answer = await client.post(f"{IMAGES}/{path}", json={"name": name})
            assert (answer.status_code, answer.json()["code"]) == (422, "bad-reference")


async def test_only_who_may_change_what_all_share_moves_images(bare: Server) -> None:
    async with bare.client(Scope.RUN) as client:
        answers = [
            await client.post(f"{IMAGES}/pull/stream", json={"name": "x"}),
            await client.post(f"{IMAGES}/push", json={"name": "x"}),
            await client.post(f"{IMAGES}/import?name=x", content=b""),
            await client.post(f"{IMAGES}/build?name=x", content=b""),
            await client.get(f"{IMAGES}/export?name=x"),
        ]
    assert {answer.status_code for answer in answers} == {403}


async def test_work_whose_caller_goes_or_does_not_read_is_let_go(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "MOST_WAITING", 1)
    ended = threading.Event()

    def talk(told: Telling) -> dict[str, Any]:
        try:
            while True:
                told.note("talk", "on")
        finally:
            ended.set()

    events = told_as_events(talk, "id")
    assert (await anext(events)).startswith(b"event: progress")
    await events.aclose()
    assert await asyncio.to_thread(ended.wait, 60)


async def test_a_defect_in_the_work_is_told_as_one(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(told: Telling) -> dict[str, Any]:
        raise ValueError("secret detail")

    (told,) = [one async for one in told_as_events(fail, "id")]
    assert b"event: error" in told
    assert b"secret detail" not in told
    assert "secret detail" in capsys.readouterr().err
