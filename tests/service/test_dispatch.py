"""From a request to its answer, over records without any machine."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crucible.client import protocol
from crucible.config import Config
from crucible.sandbox.machines import Machines
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import open_records
from crucible.sandbox.service.dispatch import Service


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    records = open_records(tmp_path)
    yield Manager(config=Config(home=tmp_path), records=records, machines=Machines([]))
    records.close()


def asked(manager: Manager, request: dict[str, Any], service: Service | None = None) -> list[Any]:
    """All messages that a request is answered with."""

    async def talk() -> list[Any]:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        serving = asyncio.create_task((service or Service(manager)).serve(ours))
        reader, writer = await asyncio.open_connection(sock=theirs)
        writer.write(protocol.json_frame(request))
        data = await reader.read()
        await serving
        writer.close()
        return messages(data)

    return asyncio.run(talk())


def messages(data: bytes) -> list[Any]:
    found = []
    while data:
        _, length = protocol.parse_header(data[: protocol.HEADER_BYTES])
        end = protocol.HEADER_BYTES + length
        found.append(json.loads(data[protocol.HEADER_BYTES : end]))
        data = data[end:]
    return found


def test_a_request_is_accepted_before_it_is_answered(manager: Manager) -> None:
    assert asked(manager, {"verb": "prune"}) == [{"accepted": {}}, {"ok": {"removed": []}}]


@pytest.mark.parametrize(
    "request_, code",
    [
        ({}, "bad-setting"),
        ({"verb": "nothing"}, "bad-setting"),
        ({"verb": "__init__"}, "bad-setting"),
        ({"verb": ["start"]}, "bad-setting"),
        ({"verb": "start"}, "bad-setting"),
        ({"verb": "start", "name": "nobody"}, "sandbox-missing"),
        ({"verb": "stop", "name": "nobody", "grace_s": "long"}, "bad-setting"),
        ({"verb": "stop", "name": "nobody", "grace_s": True}, "bad-setting"),
        ({"verb": "remove", "name": "\udcff"}, "bad-setting"),
        ({"verb": "exec", "name": "nobody", "command": {"argv": ["x"]}}, "sandbox-missing"),
        ({"verb": "create", "name": "a", "spec": {}}, "image-missing"),
        ({"verb": "create", "name": "a", "spec": {"cpus": 99}}, "bad-setting"),
        ({"verb": "create", "name": "a", "spec": {}, "host_directory": "/no/such"}, "path-refused"),
        ({"verb": "restore", "name": "a", "tag": "nothing"}, "snapshot-missing"),
        ({"verb": "fork", "name": "a", "names": []}, "bad-setting"),
        ({"verb": "fork", "name": "a", "names": ["../b"]}, "bad-name"),
        ({"verb": "snapshot_import", "path": "/no/such", "tag": "a/b"}, "bad-name"),
        ({"verb": "read", "name": "nobody", "path": "relative"}, "sandbox-missing"),
        ({"verb": "dial", "name": "nobody", "port": 0}, "bad-setting"),
    ],
)
def test_what_cannot_be_done_is_told_with_its_code(
    manager: Manager, request_: dict[str, Any], code: str
) -> None:
    answer = asked(manager, request_)[-1]
    assert answer["error"]["code"] == code
    assert answer["error"]["exit_status"] == 126


def test_a_defect_of_ours_is_an_answer_too(
    manager: Manager, capfd: pytest.CaptureFixture[str]
) -> None:
    async def defect(request: dict[str, Any], client: object) -> dict[str, Any]:
        raise ZeroDivisionError("of ours")

    service = Service(manager)
    service.extra["break"] = defect
    answer = asked(manager, {"verb": "break"}, service)[-1]
    assert (answer["error"]["code"], answer["error"]["exit_status"]) == ("internal", 125)
    assert "ZeroDivisionError: of ours" in capfd.readouterr().err
