"""An error as one text, for wires whose clients show no more than that."""

from __future__ import annotations

from crucible.errors import CrucibleError
from crucible.server.problems import fields_of


def explanation(error: CrucibleError) -> str:
    fields = fields_of(error, "")
    return f"{fields['message']}. {fields['hint']}" if error.hint else str(fields["message"])
