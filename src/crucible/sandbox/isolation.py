"""The boundary a sandbox really has, as a closed, ordered set of labels."""

from __future__ import annotations

from enum import StrEnum

from crucible.errors import BadSetting


class Isolation(StrEnum):
    """Weakest last. What each one is worth is said in docs/threat-model.md."""

    HARDWARE_VM = "hardware-vm"
    SOFTWARE_VM = "software-vm"
    USERSPACE_KERNEL = "userspace-kernel"
    WASM = "wasm"
    NAMESPACE = "namespace"

    def satisfies(self, minimum: Isolation) -> bool:
        order = list(Isolation)
        return order.index(self) <= order.index(minimum)


def parse_isolation(text: str) -> Isolation:
    try:
        return Isolation(text)
    except ValueError:
        known = ", ".join(Isolation)
        raise BadSetting(f"{text!r} is not an isolation label", hint=f"One of: {known}") from None
