"""Owners and runs that die at a chosen step. A program of its own: `python -m tests.e2e.dying HOME`.

It has everything imported and forks a child for each order that comes on its standard input, so that
dying a hundred times does not take a hundred starts. The steps are calls that change something: each
is a word, such as `records.update running`, with a number that says the how-many-eth time it was.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crucible import assemble
from crucible.backends.qemu import (
    backend,
    disks,
    jail,
    layers,
    limits,
    machine,
    memory,
    saved,
    vmm,
)
from crucible.backends.qemu.qmp import Monitor
from crucible.cli.main import main
from crucible.config import Config
from crucible.sandbox import owner, snapshots, takeover, volume_use, volumes
from crucible.sandbox.guest.channel import GuestChannel
from crucible.sandbox.output_log import OutputLog
from crucible.sandbox.records import Records
from crucible.sandbox.service import commands, dispatch, lifecycle, transfers
from crucible.sandbox.service.conversation import Conversation
from crucible.wire.requests import verb_of

GROUPS_FILE = "groups.made"
STEPS_FILE = "steps.taken"
# Where it matters that the other side already works on what it was told.
AFTER = (
    "monitor.migrate", "monitor.stop", "monitor.blockdev-add", "monitor.blockdev-snapshot",
    "monitor.block-stream", "monitor.blockdev-reopen", "monitor.blockdev-del", "monitor.remove-fd",
    "monitor.cont", "jail.spawn", "guest.SHUTDOWN", "guest.FREEZE", "guest.EXEC",
    "guest.END_ALL", "guest.TAR_OUT", "volumes._put",
)  # fmt: skip
# Imported here so that no child has to.
LOADED = (layers, machine, takeover, owner, lifecycle, transfers, commands, volume_use)

Call = Callable[..., Any]


class Death:
    """Counts the steps from the chosen verb on, and dies at the chosen one."""

    def __init__(self, home: Path, verb: str, step: str) -> None:
        self._home = home
        self._verb = verb
        self._step = step
        self._counts: Counter[str] = Counter()
        self._steps = os.open(home / STEPS_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.is_armed = verb == "run"

    def hear(self, verb: str) -> None:
        self.is_armed = self.is_armed or verb == self._verb

    def reach(self, word: str) -> None:
        if not self.is_armed:
            return
        self._counts[word] += 1
        step = f"{word} #{self._counts[word]}"
        os.write(self._steps, step.encode() + b"\n")
        if step == self._step:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(self, place: Any, name: str, describe: Callable[..., str]) -> None:
        call: Call = getattr(place, name)

        @functools.wraps(call)
        def stepped(*args: Any, **fields: Any) -> Any:
            word = describe(*args, **fields)
            self.reach(f"before {word}")
            result = call(*args, **fields)
            if word in AFTER:
                self.reach(f"after {word}")
            return result

        setattr(place, name, stepped)


def install(death: Death, home: Path) -> None:
    for name in ("add", "update", "delete", "add_snapshot", "mark_snapshot", "delete_snapshot"):
        death.wrap(Records, name, functools.partial(_record_word, name))
    death.wrap(Monitor, "send", lambda self, command, *rest, **fields: f"monitor.{command}")
    death.wrap(GuestChannel, "open", lambda self, request: f"guest.{verb_of(request).name}")
    death.wrap(Conversation, "accept", lambda self: "client.accept")
    death.wrap(Conversation, "started", lambda self, facts: "client.started")
    death.wrap(Conversation, "succeed", lambda self, facts: "client.succeed")
    death.wrap(OutputLog, "append", lambda self, piece: f"log.{piece.channel.name}")
    for place, name in (
        (jail, "spawn"), (limits, "make_group"), (disks, "create_layer"), (memory, "save"),
        (saved, "describe"), (shutil, "rmtree"), (snapshots, "_make"), (volumes, "_write"), (volumes, "_put"),
    ):  # fmt: skip
        death.wrap(place, name, _named(place, name))
    for user in (vmm, backend):
        death.wrap(user, "bury", lambda *args: "vmm.bury")
    _hear_verbs(death)
    _write_groups(home)


def _record_word(name: str, *args: Any, **fields: Any) -> str:
    state = fields.get("state") or next((word for word in args[2:] if isinstance(word, str)), "")
    return f"records.{name} {state}".strip()


def _named(place: Any, name: str) -> Callable[..., str]:
    word = f"{place.__name__.rpartition('.')[2]}.{name}"
    return lambda *args, **fields: word


def _hear_verbs(death: Death) -> None:
    find = dispatch.Service.verb

    def heard(self: dispatch.Service, name: str) -> dispatch.Verb:
        death.hear(name)
        return find(self, name)

    dispatch.Service.verb = heard  # type: ignore[method-assign]


def _write_groups(home: Path) -> None:
    """Every limits group that is made is told, so that one that stays behind is known."""
    make = limits.make_group

    def told(sandbox_id: str, caps: limits.Caps, directory: Path) -> limits.LimitsGroup:
        made = make(sandbox_id, caps, directory)
        with (home / GROUPS_FILE).open("a") as file:
            file.writelines(f"{directory}\n" for directory in made.directories)
        return made

    limits.make_group = told


def serve(home: Path) -> None:
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _be(home, order)
        print(pid, flush=True)
        if order["waits"]:
            os.waitpid(pid, 0)
            print("ended", flush=True)
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break


def _be(home: Path, order: dict[str, Any]) -> None:
    os.setsid()
    log = os.open(home / "owner.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(log, 2)
    disks.LONGEST_CHAIN = order.get("longest_chain", disks.LONGEST_CHAIN)
    install(Death(home, order["verb"], order["step"]), home)
    status = 70
    try:
        if order["verb"] == "run":
            status = main(["run", *order["argv"]])
        else:
            assemble.run_owner(Config(home=home, owner_idle_s=60))
            status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
