"""Where the state directory is. Asked by every command before anything is loaded, so it needs nothing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def home_directory(values: Mapping[str, str]) -> str:
    """As the environment says; empty if it says nothing."""
    if explicit := values.get("CRUCIBLE_HOME"):
        return explicit
    if data := values.get("XDG_DATA_HOME"):
        return f"{data}/crucible"
    home = values.get("HOME")
    return f"{home}/.local/share/crucible" if home else ""
