"""Volumes, by their names."""

from __future__ import annotations

from crucible.errors.base import Refused


class VolumeMissing(Refused):
    code = "volume-missing"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"There is no volume {name!r}", hint=f"Make it with `crucible volume create {name}`"
        )


class VolumeTaken(Refused):
    code = "volume-taken"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"A volume {name!r} exists already", hint="List them with `crucible volume list`"
        )


class VolumeBusy(Refused):
    """A volume has one writer at a time."""

    code = "volume-busy"

    def __init__(self, name: str, holder: str) -> None:
        super().__init__(
            f"The volume {name!r} is in use by the sandbox {holder!r}",
            hint=f"Wait until that has stopped, or only read it: --volume {name}:TARGET:ro",
        )


class VolumeTooLarge(Refused):
    code = "volume-too-large"

    def __init__(self, name: str, most: int) -> None:
        super().__init__(
            f"What the sandbox has in the volume {name!r} is more than {most >> 20} MiB and was not kept",
            hint="Remove something of it inside, and stop the sandbox again",
        )
