"""What the resident program tells whoever reads its log: one line each, with the time."""

from __future__ import annotations

import sys
import time


def tell(text: str) -> None:
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"{now} {text}", file=sys.stderr, flush=True)  # noqa: T201 - standard error is the log
