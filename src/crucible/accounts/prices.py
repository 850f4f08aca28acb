"""What a call of a model costs, in whole millionths of a USD, rounded up.

The table is that of `genai-prices` as it was installed: nothing is fetched. What the user sets goes before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from crucible.accounts.amounts import MICRO, MOST
from crucible.errors import BadSetting
from crucible.user_file import gather

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

VARIABLE: Final = "CRUCIBLE_PRICES"
# They run on hardware that is paid for anyway.
LOCAL: Final = frozenset(("ollama", "embedded", "scripted"))
MOST_NAME: Final = 256

_THEIR_NAMES: Final = {"gemini": "google"}
_MILLION: Final = Decimal(1_000_000)
_DEAREST: Final = Decimal(1_000_000)
_SETTING: Final = re.compile(r"([^=\s:]{1,64}):([^=\s]{1,256})=([0-9./]{1,80})")
_FORM: Final = (
    "Write PROVIDER:MODEL=INPUT/OUTPUT[/CACHE_READ/CACHE_WRITE], in USD for a million tokens"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """`input` counts all that went in: what was read from a cache and written to one is part of it."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPrice:
    """What the user has set, in USD for a million tokens."""

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal

    def usd(self, tokens: Tokens) -> Decimal:
        plain = max(0, tokens.input - tokens.cache_read - tokens.cache_write)
        return (
            plain * self.input
            + tokens.cache_read * self.cache_read
            + tokens.cache_write * self.cache_write
            + tokens.output * self.output
        ) / _MILLION


class Prices:
    """`own` is by `provider:model`; a model of `*` stands for all of its provider that are not named."""

    def __init__(self, own: Mapping[str, OwnPrice] | None = None) -> None:
        self._own = dict(own or {})

    @classmethod
    def of_setting(cls, text: str) -> Prices:
        """As CRUCIBLE_PRICES and the user's file have it: entries between commas. Raises BadSetting."""
        entries = [part.strip() for part in text.split(",") if part.strip()]
        return cls(dict(_parse(entry) for entry in entries))

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Prices:
        """By CRUCIBLE_PRICES, else by the user's own file. Raises BadSetting."""
        found = gather(environment, only="prices").get(VARIABLE)
        return cls() if found is None else cls.of_setting(found.text)

    def load(self) -> None:
        """What takes a while, now rather than at the first question."""
        _find("openai", "gpt-4o")

    def cost(self, provider: str, model: str, tokens: Tokens) -> int | None:
        """None when nobody knows the price."""
        if provider in LOCAL:
            return 0
        if (own := self._set(provider, model)) is not None:
            return _rounded_up(own.usd(tokens))
        info = _find(provider, model)
        return None if info is None else _by_table(info, tokens)

    def worst_case(
        self, provider: str, model: str, *, input_tokens: int, output_tokens: int
    ) -> int | None:
        """What no call within these bounds costs more than, whatever it does with the provider's cache."""
        plain = Tokens(input=input_tokens, output=output_tokens)
        ways = (
            plain,
            replace(plain, cache_read=input_tokens),
            replace(plain, cache_write=input_tokens),
            replace(plain, cache_write=input_tokens, cache_write_1h=input_tokens),
        )
        costs = [self.cost(provider, model, way) for way in ways]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return None
        # Each way was rounded up by itself; a call that mixes them may be a millionth more.
        return max(known) + 1 if max(known) else 0

    def context_window(self, provider: str, model: str) -> int | None:
        """The most tokens that one call of it can be about, if that is known."""
        info = None if provider in LOCAL else _find(provider, model)
        return None if info is None else info.context_window

    def _set(self, provider: str, model: str) -> OwnPrice | None:
        return self._own.get(f"{provider}:{model}") or self._own.get(f"{provider}:*")


@lru_cache(maxsize=256)
def _find(provider: str, model: str) -> ModelInfo | None:
    """Past the table's own lookup, which remembers every name it was ever asked for: guests choose names."""
    from genai_prices.data_snapshot import find_provider_by_id, get_snapshot

    if not model or len(model) > MOST_NAME:
        return None
    known = get_snapshot().providers
    found = find_provider_by_id(known, _THEIR_NAMES.get(provider, provider))
    return None if found is None else found.find_model(model.lower(), all_providers=known)


def _by_table(info: ModelInfo, tokens: Tokens) -> int | None:
    from genai_prices import Usage

    price = info.get_prices(datetime.now(UTC))
    # What has no price at all would be counted as nothing.
    if price.input_mtok is None or (tokens.output and price.output_mtok is None):
        return None
    usage = Usage(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_read_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
        cache_write_1h_tokens=tokens.cache_write_1h,
    )
    try:
        return _rounded_up(price.calc_price(usage)["total_price"])
    except ValueError:
        # Counts that contradict each other: all of it at the dearest rate is never too little.
        return _rounded_up(_dearest(price.__dict__, tokens))


def _dearest(rates: Mapping[str, object], tokens: Tokens) -> Decimal:
    found = [Decimal(0)]
    for name, rate in rates.items():
        if name.endswith("_mtok"):
            tiers = getattr(rate, "tiers", ())
            base: Any = getattr(rate, "base", rate)
            found += [Decimal(base), *(Decimal(tier.price) for tier in tiers)]
    return max(found) * tokens.total / _MILLION


def _rounded_up(usd: Decimal) -> int:
    return min(MOST, int((usd * MICRO).to_integral_value(ROUND_CEILING)))


def _parse(entry: str) -> tuple[str, OwnPrice]:
    match = _SETTING.fullmatch(entry)
    if match is None:
        raise BadSetting(f"{entry[:80]!r} is no price of a model", hint=_FORM)
    try:
        rates = [Decimal(text) for text in match[3].split("/")]
    except InvalidOperation:
        raise BadSetting(f"{entry[:80]!r} is no price of a model", hint=_FORM) from None
    if len(rates) not in (2, 4) or max(rates) > _DEAREST:
        raise BadSetting(f"{entry[:80]!r} is no price of a model", hint=_FORM)
    reading, writing = rates[2:] if len(rates) == 4 else (rates[0], rates[0])
    price = OwnPrice(input=rates[0], output=rates[1], cache_read=reading, cache_write=writing)
    return f"{match[1]}:{match[2]}", price
