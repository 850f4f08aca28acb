"""What the user has set for models: by variables, else in the sections [models…] of the user's own file."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args

from crucible.agent.models.access import Access, Waits, checked_address
from crucible.agent.models.base import ModelRef, Purpose
from crucible.agent.models.catalog import (
    EMBEDDED,
    SCRIPTED,
    WIRES,
    Catalog,
    Figures,
    Provider,
    catalog,
    parse_ref,
)
from crucible.errors import BadSetting, NoKey, UnknownModel, suggestion
from crucible.user_file import gather, tables, user_file

PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
_LONGEST_KEY = 4096
_FIGURES = {one.name: one.type for one in fields(Figures)}
_OF_ACCESS = ("base_url", "key", "key_env")
_READABLE_BY_OTHERS = 0o044


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsSettings:
    """`named` are models by purpose; `figures` what the user says of models that the catalog does not know better.

    Addresses and keys are by the provider, or by a model as `provider:name`, whose own go before.
    """

    catalog: Catalog
    providers: Mapping[str, Provider]
    addresses: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    named: Mapping[Purpose, ModelRef] = field(default_factory=dict)
    fallback: tuple[ModelRef, ...] = ()
    preferred: str = ""
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    waits: Waits = field(default_factory=Waits)

    def access(self, ref: ModelRef) -> Access:
        """Raises UnknownModel and NoKey."""
        name = ref.provider
        provider = self.providers.get(name)
        if provider is None:
            known = [*self.providers, EMBEDDED, SCRIPTED]
            raise UnknownModel(f"There is no provider {name!r}", hint=suggestion(name, known))
        key = self.keys.get(str(ref)) or self.keys.get(name, "")
        if provider.needs_key and not key:
            raise NoKey(
                f"There is no key for {name}",
                hint=f"Set {provider.keys[0]}" if provider.keys else "Set it in your settings",
            )
        address = self.addresses.get(str(ref)) or self.addresses.get(name, provider.base_url)
        if not address:
            raise NoKey(
                f"The address of the provider {name!r} is not set",
                hint=f"Set {provider.addresses[0]}" if provider.addresses else "Set base_url",
            )
        return Access(provider=name, wire=provider.wire, base_url=address, key=key)

    def with_keys(self, keys: Mapping[str, str]) -> ModelsSettings:
        """With somebody's own, by provider. Those go before all that is set here for the same provider."""
        others = {
            name: key for name, key in self.keys.items() if name.partition(":")[0] not in keys
        }
        return replace(self, keys={**others, **keys})

    def is_ready(self, name: str) -> bool:
        provider = self.providers[name]
        if provider.needs_key:
            return name in self.keys
        return name in self.addresses


def load_settings(environment: Mapping[str, str] | None = None) -> ModelsSettings:
    values = dict(os.environ) if environment is None else environment
    known = catalog()
    given = {name: one.text for name, one in gather(values, only="models").items()}
    nested = tables(values, "models")
    named = _named(nested.get("named", {}))
    providers = _providers(known, nested.get("providers", {}))
    preferred = given.get("LLM_PROVIDER", "")
    if preferred and preferred not in (*providers, EMBEDDED, SCRIPTED):
        raise BadSetting(
            f"LLM_PROVIDER is {preferred[:80]!r}",
            hint=suggestion(preferred, [*providers, EMBEDDED, SCRIPTED]),
        )
    settings = ModelsSettings(
        catalog=known,
        providers=providers,
        addresses=_addresses(values, providers, nested),
        keys=_keys(values, providers, nested),
        preferred=preferred,
        figures=_figures(named),
    )
    return _with_names(settings, given)


def _with_names(settings: ModelsSettings, given: Mapping[str, str]) -> ModelsSettings:
    named: dict[Purpose, ModelRef] = {}
    for purpose in PURPOSES:
        text = given.get(f"LLM_{purpose.upper()}_MODEL") or given.get("LLM_MODEL")
        if text:
            named[purpose] = full_ref(text, settings)
    fallback = [text.strip() for text in given.get("LLM_FALLBACK", "").split(",")]
    return replace(
        settings,
        named=named,
        fallback=tuple(full_ref(text, settings) for text in fallback if text),
    )


def full_ref(text: str, settings: ModelsSettings) -> ModelRef:
    """`provider:name`, or a name alone where it is clear whose it is. Names have colons too: `llama3.2:1b`."""
    before, colon, _ = text.partition(":")
    if colon and before in (*settings.providers, EMBEDDED, SCRIPTED):
        return parse_ref(text)
    provider = settings.preferred or settings.catalog.provider_of(text)
    if provider is None or not text:
        return parse_ref(text)
    return ModelRef(provider=provider, name=text)


def _providers(known: Catalog, nested: Mapping[str, Any]) -> dict[str, Provider]:
    found = dict(known.providers)
    for name, table in nested.items():
        where = f"[models.providers.{name}]"
        if not isinstance(table, dict) or ":" in name or not name.isprintable():
            raise BadSetting(f"{where} is no provider")
        _refuse_unknown(table, ("base_url", "key", "key_env", "wire", "needs_key"), where)
        if name in found:
            continue
        wire = table.get("wire", "openai")
        if wire not in WIRES:
            raise BadSetting(f"{where} has the wire {wire!r}", hint=suggestion(str(wire), WIRES))
        found[name] = Provider(name=name, wire=wire, needs_key=bool(table.get("needs_key", False)))
    return found


def _addresses(
    values: Mapping[str, str], providers: Mapping[str, Provider], nested: Mapping[str, Any]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, provider in providers.items():
        table = nested.get("providers", {}).get(name, {})
        variable = next((one for one in provider.addresses if values.get(one)), "")
        if variable:
            text = values[variable]
            found[name] = (
                _ollama(text) if variable == "OLLAMA_HOST" else checked_address(text, variable)
            )
        elif text := table.get("base_url"):
            found[name] = checked_address(str(text), f"base_url of [models.providers.{name}]")
    for name, table in nested.get("named", {}).items():
        if text := table.get("base_url"):
            found[name] = checked_address(str(text), f'base_url of [models.named."{name}"]')
    return found


def _ollama(host: str) -> str:
    """As its own client reads the variable: a host, a port or an address, without the path."""
    text = host if "://" in host else f"http://{host}"
    scheme, _, rest = text.rstrip("/").partition("://")
    if rest.startswith(":"):
        rest = f"127.0.0.1{rest}"
    name = rest.rsplit("]", 1)[-1]
    port = "" if ":" in name or scheme == "https" else ":11434"
    # What a server listens on is no address to go to.
    rest = rest.replace("0.0.0.0", "127.0.0.1", 1)  # noqa: S104
    return checked_address(f"{scheme}://{rest}{port}/v1", "OLLAMA_HOST")


def _keys(
    values: Mapping[str, str], providers: Mapping[str, Provider], nested: Mapping[str, Any]
) -> dict[str, str]:
    tables_of_providers = nested.get("providers", {})
    found = {
        name: _key(values, tables_of_providers.get(name, {}), provider.keys)
        for name, provider in providers.items()
    }
    for name, table in nested.get("named", {}).items():
        found[name] = _key(values, table, ())
    return {name: _checked_key(key.strip(), name) for name, key in found.items() if key}


def _key(values: Mapping[str, str], table: Mapping[str, Any], usual: Sequence[str]) -> str:
    variables = [*usual, *([str(table["key_env"])] if "key_env" in table else [])]
    key = next((values[one] for one in reversed(variables) if values.get(one)), "")
    if not key and "key" in table:
        _refuse_readable(user_file(values))
        key = str(table["key"])
    return key


def _checked_key(key: str, name: str) -> str:
    if not key or len(key) > _LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise BadSetting(
            f"The key for {name} is no key: it is empty, too long or has odd characters"
        )
    return key


def _refuse_readable(path: Path | None) -> None:
    if path is not None and stat.S_IMODE(path.stat().st_mode) & _READABLE_BY_OTHERS:
        raise BadSetting(
            f"{path} has a key in it and can be read by others", hint=f"Run `chmod 600 {path}`"
        )


def _named(nested: Any) -> dict[str, Mapping[str, Any]]:
    """What the user has written of single models, looked through."""
    for name, table in nested.items():
        where = f'[models.named."{name}"]'
        if not isinstance(table, dict):
            raise BadSetting(f"{where} is no table")
        _refuse_unknown(table, (*_FIGURES, *_OF_ACCESS), where)
        for key, value in table.items():
            wanted: type[object] = (
                str if key in _OF_ACCESS else int if _FIGURES[key] == "int" else bool
            )
            if type(value) is not wanted or (type(value) is int and value <= 0):
                # What was meant as a key is not shown.
                shown = "no text" if key == "key" else repr(value)
                raise BadSetting(f"{key} of {where} is {shown}"[:200])
    return dict(nested)


def _figures(named: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {
        name: {key: value for key, value in table.items() if key in _FIGURES}
        for name, table in named.items()
    }


def _refuse_unknown(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise BadSetting(f"{where} has no use for {key!r}", hint=suggestion(key, known))
