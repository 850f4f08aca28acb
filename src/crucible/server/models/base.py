"""How all requests and answers behave: unknown fields are refused, text is bounded."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

LONGEST_TEXT = 65_536
MOST_ITEMS = 1000

Name = Annotated[
    str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
]
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Texts = Annotated[list[Text], Field(max_length=MOST_ITEMS)]
Variables = Annotated[dict[Text, Text], Field(max_length=MOST_ITEMS)]
Item = TypeVar("Item")


class Asked(BaseModel):
    """Of a request."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Told(BaseModel):
    """Of an answer."""

    model_config = ConfigDict(frozen=True)


class Page(Told, Generic[Item]):
    """`next` is the cursor of the page after this one, and null on the last."""

    items: list[Item]
    next: str | None = None


class Problem(Told):
    """What every error looks like (RFC 9457), as `application/problem+json`."""

    type: str
    title: str
    status: int
    code: str = Field(
        description="Stays the same from version to version; docs/reference/errors.md has all"
    )
    message: str
    hint: str = Field(description="What to do about it, if there is something")
    request_id: str
