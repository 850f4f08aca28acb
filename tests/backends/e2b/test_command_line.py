"""The real `crucible` with sandboxes elsewhere: the same words, the same answers, nothing left there."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.backends.e2b.elsewhere import access, key_of, remote_names
from tests.conftest import CommandLine, end_owner
from tests.server.conftest import until
from tests.server.scripted import Staged

RUN = ("run", "--no-network", "--")


@pytest.fixture
def line(provider: Staged, tmp_path: Path) -> Iterator[CommandLine]:
    found = CommandLine(tmp_path / "home")
    found.environment |= {**access(provider), "SANDBOX_PROVIDER": "remote_e2b"}
    yield found
    end_owner(found.home)


async def used(line: CommandLine, *words: str, **given: Any) -> tuple[int, str, str]:
    done = await asyncio.to_thread(line, *words, **given)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_a_command_runs_elsewhere_and_that_is_told(
    line: CommandLine, provider: Staged
) -> None:
    status, output, talk = await used(line, *RUN, "echo", "hi")
    assert (status, output) == (0, "hi\n")
    assert "provider: remote_e2b: it was asked for (remote_e2b, hardware-vm (claimed))" in talk
    assert (await used(line, *RUN, "status", "7"))[0] == 7
    assert (await used(line, *RUN, "cat", input=b"to and fro"))[1] == "to and fro"
    status, _, talk = await used(line, *RUN, "nosuch")
    assert (status, "command-not-found" in talk) == (127, True)
    assert remote_names(provider) == []


async def test_an_option_goes_before_the_variable(line: CommandLine, provider: Staged) -> None:
    words = ("run", "--no-network", "--provider", "local_microvm", "--", "echo", "hi")
    status, _, talk = await used(line, *words)
    assert status != 0
    assert "base" in talk  # there is no image here, and nobody went elsewhere for want of it
    assert remote_names(provider) == []


async def test_a_named_sandbox_lives_its_life_elsewhere(
    line: CommandLine, provider: Staged
) -> None:
    assert (await used(line, "create", "box", "--no-network"))[0] == 0
    assert (await used(line, "start", "box"))[0] == 0
    assert (await used(line, "exec", "box", "--", "echo", "inside"))[1] == "inside\n"
    (found,) = json.loads((await used(line, "list", "--json"))[1])
    assert (found["state"], found["backend"]) == ("running", "remote_e2b")
    assert found["placed"] == "remote_e2b: it was asked for"
    assert "hardware-vm (claimed)" in (await used(line, "inspect", "box"))[1]
    assert (await used(line, "network", "show", "box"))[0] == 0
    status, _, talk = await used(line, "network", "mode", "box", "full")
    assert (status, "unsupported" in talk) == (126, True)
    (remote,) = remote_names(provider)
    await asyncio.to_thread(end_owner, line.home)
    assert (await used(line, "exec", "box", "--", "echo", "again"))[1] == "again\n"
    assert remote_names(provider) == [remote]
    assert (await used(line, "stop", "box"))[0] == 0
    assert (await used(line, "rm", "box"))[0] == 0
    assert remote_names(provider) == []


async def test_what_a_killed_run_left_is_ended_by_the_next_command(
    line: CommandLine, provider: Staged
) -> None:
    running = line.start(*RUN, "sleep")
    try:
        await until(lambda: any(one.processes for one in provider.backend.machines.values()))
    finally:
        running.send_signal(signal.SIGKILL)
        await asyncio.to_thread(running.wait)
    assert len(remote_names(provider)) == 1
    assert (await used(line, *RUN, "echo", "hi"))[1] == "hi\n"
    assert remote_names(provider) == []


async def test_a_directory_is_not_sent_elsewhere(
    line: CommandLine, provider: Staged, tmp_path: Path
) -> None:
    status, _, talk = await used(
        line, "run", "--no-network", "--dir", str(tmp_path), "--", "echo", "hi"
    )
    assert (status, "unsupported" in talk) == (126, True)
    assert remote_names(provider) == []


@pytest.mark.parametrize(
    "text", ["mode = 'remote_e2b'", "mode = 'auto'", "fallback_to_remote = true"]
)
async def test_a_project_cannot_send_its_user_elsewhere(
    line: CommandLine, provider: Staged, tmp_path: Path, text: str
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "crucible.toml").write_text(f"[provider]\n{text}\n")
    del line.environment["SANDBOX_PROVIDER"]
    status, _, talk = await used(line, *RUN, "echo", "hi", cwd=project)
    assert (status, "elsewhere" in talk) == (126, True)
    assert remote_names(provider) == []


async def test_a_key_that_is_wrong_is_told_and_not_shown(
    line: CommandLine, provider: Staged
) -> None:
    line.environment["E2B_API_KEY"] = wrong = key_of(provider) + "00"
    status, output, talk = await used(line, *RUN, "echo", "hi")
    assert (status, output, "E2B_API_KEY" in talk) == (126, "", True)
    assert wrong not in talk
    del line.environment["E2B_API_KEY"]
    status, _, talk = await used(line, *RUN, "echo", "hi")
    assert (status, "E2B_API_KEY is not set" in talk) == (126, True)
