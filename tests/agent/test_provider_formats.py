"""Whole turns over real HTTP in each provider's own format: a tool call, its result, the answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agent.scenes import results, run, scene
from tests.providers.server import FLAVOURS, ProviderServer
from tests.providers.turns import Turn, Use

from crucible.agent.models.registry import Registry
from crucible.agent.models.settings import load_settings


@pytest.mark.parametrize("flavour", ["anthropic", "openai", "deepseek", "groq", "together"])
def test_a_turn_with_tools_in_the_format_of(flavour: str, tmp_path: Path) -> None:
    assert flavour in FLAVOURS
    uses = (
        Use(name="bash", arguments={"command": "echo from the sandbox"}),
        Use(name="bash", arguments={"command": "echo beside it"}),
    )

    async def play(server: ProviderServer) -> None:
        environment = {**server.environment(flavour), "CRUCIBLE_CONFIG": "/dev/null"}
        models = Registry(load_settings(environment))
        async with scene(tmp_path, models=models) as stage:
            session = await stage.session(models={"agent": f"{flavour}:test-model"})
            answer = await stage.engine.generate(session.id, "run it")
            assert (answer.end, answer.text) == ("done", "It said so."), answer
            seen = results(await stage.engine.history(session.id))
            assert ["from the sandbox" in seen[0], "beside it" in seen[1]] == [True, True]
            assert answer.usage.output_tokens > 0
        await models.close()

    with ProviderServer() as server:
        server.script([Turn(text="I run it.", uses=uses), Turn(text="It said so.")])
        run(play(server))
