"""Who a machine is: made anew for every start, so that no two copies share ids or randomness."""

from __future__ import annotations

import os

from crucible.sandbox.session import Identity

_ENTROPY_BYTES = 256


def new_identity(hostname: str) -> Identity:
    return Identity(
        entropy=os.urandom(_ENTROPY_BYTES),
        hostname=hostname,
        machine_id=_uuid4().replace("-", ""),
        boot_id=_uuid4(),
    )


def _uuid4() -> str:
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
