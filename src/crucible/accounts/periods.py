"""Over which time a limit counts. Days and months are those of UTC, the same for every process and every user."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum


class Period(StrEnum):
    """`SESSION` is for plans alone: what each session of a user may spend in all."""

    TOTAL = "total"
    MONTH = "month"
    DAY = "day"
    SESSION = "session"


def day_of(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")


def first_day(period: Period, day: str) -> str:
    """The first day that counts with `day`. Days compare as texts."""
    match period:
        case Period.DAY:
            return day
        case Period.MONTH:
            return f"{day[:7]}-01"
        case Period.TOTAL | Period.SESSION:
            return ""


def resets_at(period: Period, day: str) -> float:
    """When it begins anew; 0.0 for never."""
    start = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
    match period:
        case Period.DAY:
            return (start + timedelta(days=1)).timestamp()
        case Period.MONTH:
            return (start.replace(day=1) + timedelta(days=32)).replace(day=1).timestamp()
        case Period.TOTAL | Period.SESSION:
            return 0.0
