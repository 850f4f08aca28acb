"""The rate of the processor's counter, which emulated guests read too and cannot measure themselves.

What the kernel shows of it is rounded on some processors and the momentary clock on others, so it
is measured: once per boot of the host, with the instruction itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable

TYPICAL_KHZ = 2_500_000
# Two measurements of one processor differ by less than this.
SAME = 2e-4
_READ_COUNTER = bytes.fromhex("0f3148c1e2204809d0c3")  # rdtsc; shl rdx, 32; or rax, rdx; ret
_MEASURED_S = 0.05
_TRIES = 20


def measure_khz() -> int | None:
    """None where no program may be run from memory."""
    import ctypes
    import mmap

    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    page.write(_READ_COUNTER)
    code = ctypes.c_char.from_buffer(page)
    counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(code))
    began_ns, began = _reading(counter)
    time.sleep(_MEASURED_S)
    ended_ns, ended = _reading(counter)
    del counter, code
    page.close()
    return (ended - began) * 1_000_000 // (ended_ns - began_ns)


def steadied(measured_khz: int, known_khz: object) -> int:
    """The rate that was known before, unless this is another processor: templates are made for a rate."""
    if isinstance(known_khz, int) and abs(measured_khz - known_khz) <= SAME * measured_khz:
        return known_khz
    return measured_khz


def _reading(counter: Callable[[], int]) -> tuple[int, int]:
    """The clock and the counter of one moment: of many tries the one that took least."""
    best = (1 << 62, 0, 0)
    for _ in range(_TRIES):
        before = time.monotonic_ns()
        value = counter()
        after = time.monotonic_ns()
        best = min(best, (after - before, (before + after) // 2, value))
    return best[1], best[2]
