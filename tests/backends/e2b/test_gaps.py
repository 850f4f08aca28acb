"""What a sandbox elsewhere cannot do is refused by a typed error, each by itself; `tests/contract/gaps.py` has why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.backends.e2b.elsewhere import access, managing
from tests.server.scripted import Staged

from crucible.errors import Unsupported
from crucible.sandbox.backend import Machine
from crucible.sandbox.identity import new_identity
from crucible.sandbox.session import Command
from crucible.sandbox.snapshots import Snapshots
from crucible.sandbox.spec import SandboxSpec

TRUE = [b"echo"]

REFUSED: dict[str, Callable[[Machine], Awaitable[object]]] = {
    "dial": lambda machine: machine.dial(80),
    "stats": lambda machine: machine.stats(),
    "pause": lambda machine: machine.pause(),
    "outlet": lambda machine: machine.outlet(),
    "confine": lambda machine: machine.confine(read_only=True, no_powers=False),
    "become": lambda machine: machine.become("other", new_identity("other")),
    "limits": lambda machine: machine.start(Command(argv=TRUE, limits={4: 4})),
    "image": lambda machine: machine.start(Command(argv=TRUE, image="app")),
    "numbered user": lambda machine: machine.start(Command(argv=TRUE, user="1234")),
    "user and group": lambda machine: machine.start(Command(argv=TRUE, user="root:root")),
    "variable": lambda machine: machine.start(Command(argv=TRUE, environment={b"A": b"\xff"})),
    "watch": lambda machine: machine.watch(b"/tmp/\xff"),
}


async def test_every_gap_is_refused_by_its_name(provider: Staged, tmp_path: Path) -> None:
    async with (
        managing(tmp_path / "home", access(provider)) as manager,
        manager.open(SandboxSpec(network="off")) as held,
    ):
        for gap, attempt in REFUSED.items():
            with pytest.raises(Unsupported) as refused:
                await attempt(held.machine)
            assert "remote_e2b" in refused.value.message, gap
        with pytest.raises(Unsupported):
            held.machine.files.layer_out()


async def test_snapshots_forks_and_new_networks_are_refused(
    provider: Staged, tmp_path: Path
) -> None:
    async with managing(tmp_path / "home", access(provider)) as manager:
        await manager.create("box", SandboxSpec(network="off"))
        await manager.start("box")
        snapshots = Snapshots(manager)
        with pytest.raises(Unsupported, match="snapshots"):
            await snapshots.take("box", "tag")
        with pytest.raises(Unsupported, match="forks"):
            await snapshots.fork("box", ["copy"])
        with pytest.raises(Unsupported, match="network"):
            await manager.change_network("box", lambda spec: SandboxSpec(network="full"))
        assert manager.records.snapshots() == []
        assert [record.name for record in manager.records.sandboxes()] == ["box"]
