"""What can be spent, in whole numbers: there is no half token, and money is counted in millionths of a USD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from crucible.errors import BadSetting

MICRO: Final = 1_000_000
# The database keeps 64 bits; sums of many such amounts must fit.
MOST: Final = 10**15


class Measure(StrEnum):
    TOKENS = "tokens"
    USD = "usd"
    SANDBOX_SECONDS = "sandbox_seconds"
    ITERATIONS = "iterations"
    CALLS = "calls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """What a step costs or may cost. `usd` is in millionths; None is a price that nobody knows.

    `model` is what an unknown price is told of.
    """

    tokens: int = 0
    usd: int | None = 0
    sandbox_seconds: int = 0
    iterations: int = 0
    calls: int = 0
    model: str = ""

    def __post_init__(self) -> None:
        for measure in Measure:
            value = getattr(self, measure)
            if value is not None and not 0 <= value <= MOST:
                raise ValueError(f"{value} is no amount of {measure}")

    def of(self, measure: Measure) -> int:
        """0 for money that nobody knows: ask `usd` first."""
        value = getattr(self, measure)
        return 0 if value is None else int(value)

    def as_row(self) -> dict[str, int]:
        return {str(measure): self.of(measure) for measure in Measure}

    @classmethod
    def of_row(cls, row: Mapping[str, int]) -> Amount:
        return cls(
            tokens=row["tokens"],
            usd=row["usd"],
            sandbox_seconds=row["sandbox_seconds"],
            iterations=row["iterations"],
            calls=row["calls"],
        )


def parse_amount(measure: Measure, text: str) -> int:
    """`2.50` of USD is 2,500,000; anything else is whole. Raises BadSetting."""
    from decimal import ROUND_FLOOR, Decimal, InvalidOperation

    try:
        number = Decimal(text.replace("_", "").strip())
        scaled = number * MICRO if measure is Measure.USD else number
        if not scaled.is_finite() or not 0 <= scaled <= MOST:
            raise InvalidOperation
        if measure is not Measure.USD and scaled != scaled.to_integral_value():
            raise InvalidOperation
    except InvalidOperation:
        raise BadSetting(
            f"{text[:80]!r} is no amount of {measure.replace('_', ' ')}",
            hint="Write a number such as 100000, or 2.50 for USD",
        ) from None
    # A limit is rounded down, so that it is never more than what was written.
    return int(scaled.to_integral_value(ROUND_FLOOR))
