"""Settings of a sandbox that another product's request comes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from crucible.errors import BadSetting
from crucible.server.models.sandboxes import Settings


def settings_of(given: Mapping[str, Any]) -> Settings:
    """Raises BadSetting: the values are the caller's, if not in the caller's words."""
    try:
        return Settings(**given)
    except ValidationError as error:
        fault = error.errors(include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise BadSetting(f"The sandbox cannot be as asked: {place}: {fault['msg']}") from None
