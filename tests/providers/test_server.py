"""The provider server itself: many conversations at once, and as a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from tests.agent.models.asking import answer, ask_for, make_registry, ref
from tests.conftest import Run
from tests.providers.server import KEY, ProviderServer
from tests.providers.turns import Turn

from crucible.agent.models.registry import Registry
from crucible.agent.models.settings import load_settings

_MANY = 50
_ROOT = Path(__file__).resolve().parent.parent.parent


def test_fifty_conversations_at_once_do_not_mix(run: Run) -> None:
    async def talk(registry: Registry, number: int) -> list[str]:
        flavour = ("anthropic", "openai", "groq")[number % 3]
        first = await answer(registry.model(ref(flavour)), ask_for(f"I am <{number}>."))
        again = ask_for(f"I am <{number}>.", first.message, "and?")
        second = await answer(registry.model(ref(flavour)), again)
        return [first.message.text, second.message.text]

    async def talk_all(server: ProviderServer) -> list[list[str]]:
        registry = make_registry(server)
        try:
            return await asyncio.gather(*(talk(registry, number) for number in range(_MANY)))
        finally:
            await registry.close()

    with ProviderServer() as server:
        for number in range(_MANY):
            turns = [Turn(text=f"first {number}"), Turn(text=f"second {number}")]
            server.script(turns, match=f"<{number}>")
        found = run(talk_all(server))
    assert found == [[f"first {number}", f"second {number}"] for number in range(_MANY)]
    assert len(server.requests) == 2 * _MANY


def test_it_runs_as_a_process_of_its_own(tmp_path: Path, run: Run) -> None:
    scripts = tmp_path / "scripts.json"
    scripts.write_text(json.dumps([{"match": "hello", "turns": [{"text": "from elsewhere"}]}]))
    words = [sys.executable, "-m", "tests.providers.server", str(scripts)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = process.stdout.readline().strip()
        settings = load_settings({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/openai/v1"})

        async def ask() -> str:
            registry = Registry(settings)
            try:
                found = await answer(registry.model(ref("openai")), ask_for("hello"))
                return found.message.text
            finally:
                await registry.close()

        try:
            assert run(ask()) == "from elsewhere"
        finally:
            process.stdin.close()
