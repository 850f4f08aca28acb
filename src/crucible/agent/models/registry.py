"""All models by their names. Each is made once, tries again by itself and falls back where the user wants that."""

from __future__ import annotations

from collections.abc import Callable

from crucible.agent.models.base import Model, ModelRef, Purpose
from crucible.agent.models.catalog import EMBEDDED, SCRIPTED
from crucible.agent.models.embedded import EmbeddedModel
from crucible.agent.models.fallback import ModelWithFallback
from crucible.agent.models.persistent import Patience, Persistent
from crucible.agent.models.provider import ProviderModel
from crucible.agent.models.scripted import ScriptedModel, load_script
from crucible.agent.models.settings import ModelsSettings, full_ref
from crucible.errors import UnknownModel, suggestion

EMBEDDED_REF = ModelRef(provider=EMBEDDED, name="smollm2-135m")


class Registry:
    """The `Models` of the engine. Belongs to one event loop."""

    def __init__(
        self,
        settings: ModelsSettings,
        *,
        patience: Patience | None = None,
        persist: Callable[[Model, Patience], Model] = Persistent,
    ) -> None:
        self._settings = settings
        self._patience = patience or Patience()
        self._persist = persist
        self._plain: dict[ModelRef, Model] = {}
        self._made: dict[ModelRef, Model] = {}

    def parse(self, text: str) -> ModelRef:
        """As people write it. Raises UnknownModel, also for a provider that nobody has set."""
        found, known = (
            full_ref(text, self._settings),
            (*self._settings.providers, EMBEDDED, SCRIPTED),
        )
        if found.provider not in known:
            name = found.provider
            raise UnknownModel(f"There is no provider {name!r}", hint=suggestion(name, known))
        return found

    def default(self, purpose: Purpose) -> ModelRef:
        settings = self._settings
        if named := settings.named.get(purpose):
            return named
        if settings.preferred == EMBEDDED:
            return EMBEDDED_REF
        if settings.preferred == SCRIPTED:
            return ModelRef(provider=SCRIPTED, name="demo")
        candidates = [settings.preferred] if settings.preferred else list(settings.providers)
        for name in candidates:
            provider = settings.providers[name]
            if purpose in provider.defaults and (settings.preferred or settings.is_ready(name)):
                return ModelRef(provider=name, name=provider.defaults[purpose])
        return EMBEDDED_REF

    def model(self, ref: ModelRef) -> Model:
        """Raises UnknownModel and NoKey."""
        if ref not in self._made:
            first = self._single(ref)
            others = [self._single(one) for one in self._settings.fallback if one != ref]
            self._made[ref] = ModelWithFallback(first, others) if others else first
        return self._made[ref]

    async def close(self) -> None:
        models, self._plain, self._made = self._plain, {}, {}
        for model in models.values():
            await model.close()

    def _single(self, ref: ModelRef) -> Model:
        if ref not in self._plain:
            self._plain[ref] = self._persist(self._make(ref), self._patience)
        return self._plain[ref]

    def _make(self, ref: ModelRef) -> Model:
        if ref.provider == EMBEDDED:
            return EmbeddedModel(ref)
        if ref.provider == SCRIPTED:
            return ScriptedModel(load_script(ref.name), ref=ref)
        settings = self._settings
        access = settings.access(ref)
        figures = settings.catalog.figures(ref, settings.figures.get(str(ref)))
        return ProviderModel(ref, access, figures, settings.waits)
