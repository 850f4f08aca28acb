"""What is set aside for a call of a model: the most that each of those can count which may come to answer it."""

from __future__ import annotations

from crucible.agent.models.base import Model, ModelRef
from crucible.agent.models.fallback import ModelWithFallback
from crucible.agent.seams import MostOf
from crucible.agent.weighing import Counted, Weighed, worst_case


class Counts:
    """What models have counted in the calls of an engine's sessions: each by its own tokenizer."""

    def __init__(self) -> None:
        self._by_session: dict[str, dict[ModelRef, Counted]] = {}

    def note(self, session: str, model: ModelRef, weighed: Weighed, input_tokens: int) -> None:
        counted = Counted(weighed=weighed, input_tokens=input_tokens)
        self._by_session.setdefault(session, {})[model] = counted

    def forget(self, session: str) -> None:
        self._by_session.pop(session, None)

    def most(self, session: str, model: Model, weighed: Weighed) -> tuple[MostOf, ...]:
        """For a request that continues the session's conversation."""
        return _most(model, weighed, self._by_session.get(session, {}))


def most_of_new(model: Model, weighed: Weighed) -> tuple[MostOf, ...]:
    """For a request that continues nothing."""
    return _most(model, weighed, {})


def _most(model: Model, weighed: Weighed, known: dict[ModelRef, Counted]) -> tuple[MostOf, ...]:
    request = weighed.request
    able = model.able(request) if isinstance(model, ModelWithFallback) else ((model, request),)
    return tuple(
        MostOf(
            model=one.ref,
            input_tokens=worst_case(weighed, known.get(one.ref)),
            output_tokens=fitted.max_output_tokens,
        )
        for one, fitted in able
    )
