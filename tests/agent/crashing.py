"""A program that holds an engine until it is killed. `python -m tests.agent.crashing ROOT KIND`.

It says `ready` and the session's id once the turn is where the test wants it, and then goes on for ever.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from tests.agent.scenes import Say, call, scene
from tests.agent.test_trust import Asks

from crucible.agent.keeping.sql import SqlSessions
from crucible.agent.options import PolicyRules
from crucible.store.database import Database

LONG = "echo begun; sleep 100000"


def lines(kind: str) -> tuple[Say, ...]:
    quick = Say(calls=(call("write", path="/workspace/a", content="kept"),))
    match kind:
        case "model":
            return quick, Say(text="half of", amid=asyncio.Event())
        case "tool":
            both = (call("bash", id="q", command="echo quick"), call("bash", id="l", command=LONG))
            return quick, Say(text="I run it.", calls=both)
        case _:
            return quick, Say(calls=(call("bash", command="echo approved"),))


async def main(root: Path, kind: str) -> None:
    database = Database(f"sqlite:///{root / 'crucible.db'}")
    extra: dict[str, Any] = {"judge": Asks()} if kind == "approval" else {}
    async with scene(root, *lines(kind), store=SqlSessions(database), **extra) as stage:
        session = await stage.session(policy=PolicyRules(allow=("write(*)",)))
        seen: set[str] = set()
        async for event in stage.engine.stream(session.id, "write and run it"):
            if event.kind == "result" and event.data["call"] == "q":
                seen.add("quick")
            if event.kind == "output" and event.data["text"].startswith("begun"):
                seen.add("begun")
            if event.kind == "text" and event.data["text"] == "of":
                seen.add("half")
            if event.kind == "approval-asked":
                seen.add("asked")
            if seen in ({"quick", "begun"}, {"half"}, {"asked"}):
                # What was told is written a moment later; a crash before that is a crash earlier.
                await (await stage.engine._sessions.find(session.id)).write()
                print("ready", session.id, flush=True)
                await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
