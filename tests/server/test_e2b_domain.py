"""An unmodified client that knows E2B_DOMAIN alone, against a server with a certificate and names of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.network.authority import root_text
from tests.server.conftest import serving
from tests.server.test_e2b_clients import PROGRAMS, client_of, lines_of, matrix
from tests.server.test_tls import pair

from crucible.errors import SandboxMissing
from crucible.sandbox.spec import SandboxSpec
from crucible.server.doorway import E2bDomain
from crucible.server.tokens import Scope

pytestmark = [pytest.mark.vm, pytest.mark.usefixtures("run")]

VERSION = "1.11.1"
DOMAIN = "box.test"
# Names for this one process and no other.
NAMING = 'mount --make-rprivate / && mount --bind "$1" /etc/hosts && shift && exec "$@"'


@pytest.mark.timeout(1500)
async def test_a_client_that_knows_a_domain_alone_works(module_home: Path, tmp_path: Path) -> None:
    files = pair(tmp_path, f"*.{DOMAIN}")
    trusted, hosts = tmp_path / "trusted.pem", tmp_path / "hosts"
    trusted.write_text(root_text())
    hosts.write_text(f"127.0.0.1 localhost api.{DOMAIN}\n")
    e2b = E2bDomain(name=DOMAIN, is_public=True)
    async with serving(module_home, tls=files, e2b=e2b) as server:
        async with server.domain.manager.open(SandboxSpec()):
            pass  # the template is there now: a client waits a minute for an answer
        port = httpx.URL(server.url).port
        environment = {
            "E2B_DOMAIN": f"{DOMAIN}:{port}",
            "E2B_API_KEY": server.token(Scope.RUN),
            "SSL_CERT_FILE": str(trusted),
            "PYTHONPATH": str(client_of(f"e2b-{VERSION}")),
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
        }
        process = await asyncio.create_subprocess_exec(
            *("unshare", "--mount", "sh", "-c", NAMING, "sh", str(hosts)),
            *(sys.executable, "-S", str(PROGRAMS / "by_domain.py")),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=environment,
        )  # fmt: skip
        seen: dict[str, str] = {}
        failed: list[dict[str, Any]] = []
        created = ""
        try:
            async for told in lines_of(process):
                seen[told["verb"]] = "yes"
                if not told["ok"]:
                    failed.append(told)
                if told["verb"] == "create":
                    created = told["id"]
                    assert told["host"] == f"8000-{created}.{DOMAIN}:{port}"
                    record = server.domain.manager.records.find(created)
                    assert record.spec.environment == {"FROM": "create"}
                    with hosts.open("a") as file:
                        for inner in (8000, 49983, 49999):
                            file.write(f"127.0.0.1 {inner}-{created}.{DOMAIN}\n")
                    assert process.stdin is not None
                    process.stdin.write(b"\n")
            assert await process.wait() == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        assert not failed, "\n".join(one["trace"] for one in failed)
        with pytest.raises(SandboxMissing):
            server.domain.manager.records.find(created)
        wanted = matrix()[VERSION]
        assert seen == {verb: told for verb, told in wanted.items() if told == "yes"}
