"""Times as other products' APIs write them."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(seconds: float) -> str:
    """RFC 3339, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
