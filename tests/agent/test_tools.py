"""The built-in tools at work in a directory of this host. In a sandbox: tests/vm/test_agent_tools.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator

import pytest
from tests.agent.places import LocalWorkplace
from tests.agent.tool_claims import CLAIMS, OF_TOOLS_ALONE, Bench, Claim, processes_of_host
from tests.conftest import Run

from crucible.agent.tools import bash, glob, grep, searching
from crucible.agent.tools.transcript import KEPT_HEAD, KEPT_TAIL
from crucible.agent.workplace import FileFacts


@pytest.fixture(scope="module")
def bench(run: Run) -> Iterator[Bench]:
    place = LocalWorkplace()
    yield Bench(place, processes=processes_of_host)
    run(place.close())


@pytest.mark.parametrize("claim", [*CLAIMS, *OF_TOOLS_ALONE], ids=lambda claim: claim.__name__)
async def test_in_a_directory(claim: Claim, bench: Bench, run: Run) -> None:
    await claim(bench)


async def test_an_image_without_bash_has_its_sh(bench: Bench, run: Run) -> None:
    await bench.workplace.run(
        ("sh", "-c", "mkdir -p /few && ln -s /usr/bin/dash /few/sh"), timeout_s=60
    )
    script = "cd /tmp; echo $0; exit 5"
    argv = ("/few/sh", "-c", bash._CHOOSE, "sh", bash._RUN, script)
    ran = await bench.workplace.run(
        argv, timeout_s=60, environment={"PATH": "/few", "TMPDIR": "/few"}
    )
    assert (ran.stdout, ran.stderr, ran.exit_status) == (b"sh\n", b"", 5)
    assert await bench.workplace.read("/few/.crucible-cwd") == b"/tmp\n"


async def test_output_without_end_takes_no_more_memory_than_is_kept(bench: Bench, run: Run) -> None:
    outcome = await bench.call("bash", command="yes 'a long line of nothing'", timeout_s=1)
    assert KEPT_HEAD < len(outcome.whole) < KEPT_HEAD + KEPT_TAIL + 100
    assert len(outcome.text) < 30_000
    assert "time limit" in outcome.text


@pytest.mark.parametrize("letter", ["\x1b", "x", "\xff", "\n"])
async def test_no_answer_is_longer_than_a_model_is_given(
    letter: str, bench: Bench, run: Run
) -> None:
    data = letter.encode("latin-1") * 300_000
    await bench.workplace.write("/workspace/big", data)
    await bench.workplace.write("/workspace/lines", b"\n".join([data[:200]] * 9000))
    for tool, arguments in (
        ("bash", {"command": "cat /workspace/big"}),
        ("bash", {"command": "cat /workspace/lines"}),
        ("read", {"path": "big"}),
        ("read", {"path": "lines", "limit": 100_000}),
        ("grep", {"pattern": ".", "path": "lines", "limit": 5000}),
        ("python", {"code": "text = open('/workspace/big', errors='replace').read()\n"
                            "print(text)\ndisplay(text)\nraise ValueError(text)"}),
    ):  # fmt: skip
        outcome = await bench.call(tool, **arguments)
        assert len(outcome.text) < 30_000, tool


class Endless(LocalWorkplace):
    """A sandbox that tells of a tree without an end."""

    async def walk(self, path: str) -> AsyncGenerator[FileFacts, None]:
        while True:
            yield FileFacts(path=f"{path}/.git/x", kind="f", size=1, mode=0o644, modified_at=0.0)
            await asyncio.sleep(0)


async def test_a_tree_without_an_end_is_left(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glob, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(searching, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(grep, "_UNABLE", 1)
    place = Endless()
    try:
        assert "not everything was looked at" in await Bench(place).ok("glob", pattern="*.py")
        assert "took longer" in await Bench(place).refused("grep", pattern="x")
    finally:
        await place.close()
