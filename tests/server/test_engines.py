"""The engine behind the doors is made once, when somebody asks for it, and holds up nothing that is served beside."""

from __future__ import annotations

import gc
from typing import cast

import pytest

from crucible.agent.engine import Engine
from crucible.errors import EngineClosed
from crucible.server.engines import LazyEngine

pytestmark = pytest.mark.usefixtures("run")


async def test_what_was_loaded_with_it_is_never_looked_through_for_garbage() -> None:
    loaded: list[object] = []

    async def make() -> Engine:
        assert not gc.isenabled()
        loaded.append([[]])
        return cast(Engine, object())

    engine = LazyEngine(make)
    assert await engine.get() is await engine.get()
    assert gc.isenabled()
    assert not any(one is loaded[0] for one in gc.get_objects())


async def test_one_that_cannot_be_made_leaves_garbage_to_be_looked_for() -> None:
    async def make() -> Engine:
        raise EngineClosed

    with pytest.raises(EngineClosed):
        await LazyEngine(make).get()
    assert gc.isenabled()
