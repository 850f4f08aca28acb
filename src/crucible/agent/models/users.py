"""Models by user: who has given keys of their own gets models that are opened with those, and everybody the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from crucible.agent.models.base import Model, ModelRef, Purpose
from crucible.agent.models.registry import Registry
from crucible.agent.models.settings import ModelsSettings

Keys = Callable[[str], Awaitable[Mapping[str, str]]]
# Those of turns under way when somebody changed a key. None is needed longer than its turns.
_MOST_RETIRED = 16


class UserModels:
    """`keys` gives those of a user, by provider. They go before the machine's."""

    def __init__(self, settings: ModelsSettings, keys: Keys) -> None:
        self._settings = settings
        self._keys = keys
        self._common = Registry(settings)
        self._own: dict[str, tuple[Mapping[str, str], Registry]] = {}
        self._retired: list[Registry] = []

    def parse(self, text: str) -> ModelRef:
        return self._common.parse(text)

    def default(self, purpose: Purpose) -> ModelRef:
        return self._common.default(purpose)

    def model(self, ref: ModelRef) -> Model:
        return self._common.model(ref)

    def of(self, user: str) -> Registry:
        """As `prepare` last found them."""
        _, own = self._own.get(user, ({}, self._common))
        return own

    async def prepare(self, user: str) -> None:
        keys = await self._keys(user)
        known, own = self._own.get(user, ({}, None))
        if keys == known:
            return
        if own is not None:
            self._retired.append(own)
        if keys:
            self._own[user] = dict(keys), Registry(self._settings.with_keys(keys))
        else:
            del self._own[user]
        while len(self._retired) > _MOST_RETIRED:
            await self._retired.pop(0).close()

    async def close(self) -> None:
        made = [self._common, *(own for _, own in self._own.values()), *self._retired]
        self._own.clear()
        self._retired.clear()
        for registry in made:
            await registry.close()
