"""`chat` at a terminal of its own, as somebody types into it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.agent.scenes import Say, call
from tests.conftest import CommandLine
from tests.e2e.test_terminal import CTRL_C, Terminal
from tests.server.agent_stage import Stage

pytestmark = pytest.mark.usefixtures("run")

EVIL = "\x1b]0;owned\x07\x1b[2Jhi\u202e"
RISKY = f"echo '{EVIL}' | base64 -d | sh"
CTRL_A, CTRL_K, CTRL_U, UP = b"\x01", b"\x0b", b"\x15", b"\x1b[A"


async def test_somebody_talks_edits_a_call_stops_a_turn_and_finds_lines_again(
    stage: Stage, tmp_path: Path
) -> None:
    stage.play(
        Say(text=f"Bonjour\u00a0! {EVIL}"),
        Say(calls=(call("bash", command=RISKY),)),
        Say(text="It ran."),
        Say(text="half of it", amid=asyncio.Event()),
    )
    crucible = CommandLine(tmp_path / "home")
    crucible.environment |= {
        "CRUCIBLE_URL": stage.server.url,
        "CRUCIBLE_TOKEN": stage.server.token(),
        "TERM": "xterm",
    }
    (tmp_path / "home").mkdir(exist_ok=True)
    await asyncio.to_thread(_type, crucible)
    (session,) = await stage.scene.engine.sessions()
    assert session.options.title == "Hello"
    assert "edited-2" in str(await stage.scene.engine.history(session.id))
    history = (tmp_path / "home" / "chat-history").read_text()
    assert "Run it, please" in history
    assert "edited-" not in history


def _type(crucible: CommandLine) -> None:
    with Terminal(crucible, "chat") as terminal:
        terminal.resize(24, 31)
        terminal.expect(rb"/help lists commands\r\n.*> ")
        shown = terminal.says(b"Hello", rb"(?s)Bonjour\xc2\xa0! (.*)> ")[1]
        # The editing of lines has escapes of its own behind the answer.
        assert shown.startswith(rb"\x1b]0;owned\x07\x1b[2Jhi\u202e" b"\r\n")
        terminal.says(b"Run it, please", rb"\[N\]o: ")
        now = terminal.says(b"e", rb"(?s)now: (\{.*?\})\r\n")[1]
        # It can be used as it stands, and nothing in it acts on the terminal.
        assert json.loads(now) == {"command": RISKY}
        assert now.decode().isprintable()
        assert now.isascii()
        terminal.expect(rb"as JSON: ")
        terminal.says(CTRL_A + CTRL_K + b'{"command": "echo edited-$((1+1))"}', rb"\| edited-2")
        terminal.expect(rb"It ran\.\r\n.*> ")
        terminal.says(b"Go on", rb"half of")
        terminal.type(CTRL_C)
        terminal.expect(rb"\[cancelled\]\r\n.*> ")
        terminal.type(UP)
        terminal.expect(rb"Go on")
        terminal.says(CTRL_U + b"/exit", rb"Go on later with")
        assert terminal.status() == 0
