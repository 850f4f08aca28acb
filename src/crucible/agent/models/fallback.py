"""Several models of which the next is asked when one cannot answer now. Who answered is in what was answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace

from crucible.agent.models.base import Model, ModelEvent, ModelRef, Profile, Request, Retrying
from crucible.agent.models.persistent import is_passing, may_have_cost
from crucible.errors import ModelError


class ModelWithFallback:
    """Goes by the first's name and by its abilities; those that lack one of them are not asked what needs it."""

    def __init__(self, first: Model, others: Sequence[Model]) -> None:
        self._models = (first, *others)

    @property
    def ref(self) -> ModelRef:
        return self._models[0].ref

    @property
    def profile(self) -> Profile:
        return self._models[0].profile

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        able = self.able(request)
        for number, (model, fitted) in enumerate(able):
            is_told = False
            try:
                async with aclosing(model.stream(fitted)) as events:  # type: ignore[type-var]
                    async for event in events:
                        is_told = is_told or not isinstance(event, Retrying)
                        yield event
                return
            except ModelError as error:
                if is_told or number + 1 == len(able) or not is_passing(error):
                    raise
                cost, reason = may_have_cost(error), error.message
            yield Retrying(
                attempt=number + 1,
                delay_s=0.0,
                reason=reason,
                model=able[number + 1][0].ref,
                may_have_cost=cost,
            )

    def able(self, request: Request) -> tuple[tuple[Model, Request], ...]:
        """Who may come to answer it, in their order, each with the request as it gets it."""
        others = (one for one in self._models[1:] if _can(one.profile, request))
        return tuple((one, _fitted(request, one.profile)) for one in (self._models[0], *others))

    async def close(self) -> None:
        for model in self._models:
            await model.close()


def _can(profile: Profile, request: Request) -> bool:
    return (profile.calls_tools or not request.tools) and (
        profile.takes_schema or request.schema is None
    )


def _fitted(request: Request, profile: Profile) -> Request:
    most = min(request.max_output_tokens or profile.output_tokens, profile.output_tokens)
    pictures = request.pictures if profile.sees_pictures else {}
    return replace(request, max_output_tokens=most, pictures=pictures)
