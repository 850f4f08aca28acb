"""`kill -9` of the program that holds a session, in the middle of its turn: the next one goes on in its sandbox."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.agent.tool_claims import long_sleep
from tests.conftest import SMALL, kill_owner
from tests.providers.server import ProviderServer
from tests.providers.turns import Turn
from tests.vm.turn_stage import bash, told_results

from crucible.local import LocalClient
from crucible_client import Session
from crucible_client.agent import TurnEvent
from crucible_client.errors import ConnectionLost

pytestmark = pytest.mark.vm

# What somebody in the sandbox sees of a process is its words; these find none of their own.
_RUNS = "for one in /proc/[0-9]*; do tr '\\0' ' ' <$one/cmdline; echo; done 2>/dev/null | grep -c '^{} $'"


@pytest.fixture
def server(small_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    """The programs that hold sessions are started by this one, and inherit what it is told here."""
    with ProviderServer() as server:
        for name in [name for name in os.environ if name.startswith("CRUCIBLE_")]:
            monkeypatch.delenv(name)
        own = {"CRUCIBLE_HOME": str(small_home), "CRUCIBLE_CONFIG": os.devnull}
        for name, value in {**own, **server.environment("anthropic")}.items():
            monkeypatch.setenv(name, value)
        yield server


def test_the_next_program_goes_on_with_a_turn_of_one_that_was_killed(
    server: ProviderServer, small_home: Path
) -> None:
    """Once in a command, once in an answer; who watches is cut off, comes back and is told how it ended."""
    sleep = long_sleep()
    with LocalClient(timeout_s=240) as client:
        session = client.create_session(
            models={"agent": "anthropic:claude-sonnet-4-6"},
            memory=False,
            policy={"allow": ["bash(*)"]},
            sandbox={"memory_mib": SMALL.memory_mib},
        )
        server.script(
            [
                Turn(uses=(bash("echo kept > /tmp/kept; uname -n"),)),
                Turn(uses=(bash(f"echo begun; trap '' HUP TERM; {sleep}", timeout_s=3000),)),
            ]
        )
        last = _killed_when(session, small_home, session.stream("run it"), "output", "begun")
        assert (last.kind, last.data["end"]) == ("turn-ended", "interrupted")
        assert session.refresh().state == "interrupted"
        result = session.get_history()[-1]["results"][0]
        assert result["text"].startswith("interrupted")

        server.clear()
        server.script(
            [
                Turn(uses=(bash(f"cat /tmp/kept; uname -n; {_RUNS.format(sleep)}"),)),
                Turn(text="It is as it was, and I tell of it at length.", fault="stalled"),
            ]
        )
        after = session.refresh().last_event
        session.resume()
        last = _killed_when(session, small_home, session.events(after), "text", "")
        assert (last.kind, last.data["end"]) == ("turn-ended", "interrupted")
        told = told_results(server.requests[-1])[0].splitlines()
        host = session.get_history()[2]["results"][0]["text"].strip()
        assert "What ran when this session was cut short was ended" in told[0]
        assert told[1:4] == ["kept", host, "0"]

        server.clear()
        server.script([Turn(text="All is well.")])
        answer = session.generate("go on, run nothing")
        assert (answer.end, answer.text) == ("done", "All is well.")
        assert len(client.sandboxes()) == 1
        session.destroy()
        assert (client.sandboxes(), client.sessions()) == ([], [])


def _killed_when(
    session: Session, home: Path, events: Generator[TurnEvent], kind: str, word: str
) -> TurnEvent:
    """The last event of a turn whose program is killed when an event has that word."""
    is_killed, seen = False, 0
    while True:
        try:
            with closing(events):
                for event in events:
                    seen = event.number
                    if not is_killed and event.kind == kind and word in event.data["text"]:
                        kill_owner(home)
                        is_killed = True
                    if event.kind == "turn-ended":
                        return event
        except ConnectionLost:
            assert is_killed
            events = session.events(seen)
