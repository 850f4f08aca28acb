"""Long lists in pages: a cursor names the last item of a page, so that what comes or goes between shifts nothing."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Query

from crucible.errors import BadRequest
from crucible.server.models.base import Page

LARGEST_PAGE = 500
_LONGEST_CURSOR = 1024

Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="Items on a page")]
Cursor = Annotated[
    str | None, Query(max_length=_LONGEST_CURSOR, description="`next` of the page before")
]
Row = TypeVar("Row")
Item = TypeVar("Item")


def page(
    rows: Sequence[Row],
    *,
    key: Callable[[Row], str],
    show: Callable[[Row], Item],
    limit: int,
    cursor: str | None,
) -> Page[Item]:
    """The first `limit` of those whose key comes after the cursor's."""
    after = "" if cursor is None else _parse(cursor)
    coming = sorted((row for row in rows if key(row) > after), key=key)
    shown = coming[:limit]
    following = _cursor(key(shown[-1])) if len(coming) > limit else None
    return Page(items=[show(row) for row in shown], next=following)


def next_page(
    rows: Sequence[Row], *, key: Callable[[Row], str], show: Callable[[Row], Item], limit: int
) -> Page[Item]:
    """Of rows that a database has sorted and begun after `read_cursor`: one more than the page, if there is more."""
    shown = rows[:limit]
    following = _cursor(key(shown[-1])) if len(rows) > limit else None
    return Page(items=[show(row) for row in shown], next=following)


def read_cursor(cursor: str | None) -> tuple[str, ...]:
    """The words of the key that a cursor names, which had colons between them; none without a cursor."""
    return () if cursor is None else tuple(_parse(cursor).split(":"))


def bad_cursor() -> BadRequest:
    return BadRequest("The cursor is none that this server gave")


def _cursor(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode()


def _parse(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor.encode()).decode()
    except (binascii.Error, ValueError):
        raise bad_cursor() from None
