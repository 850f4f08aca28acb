"""Runs the tests that boot machines. A few that failed beside others are tried once more, alone, and named.

Two machines at a time on two cores without hardware virtualization are slow in ways no test can foresee. So a
failure counts when it happens again with the host to itself. What passes only then is listed as unsteady: it is
a defect to mend, of the test or of what it tests, not a pass like any other.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_CACHE = _ROOT / ".state" / "machine-tests"
_LAST_FAILED = _CACHE / "v" / "cache" / "lastfailed"
# More than these are no accident.
_MOST_UNSTEADY = 3
_TESTS_FAILED = 1


def main() -> int:
    shutil.rmtree(_CACHE, ignore_errors=True)
    status = _pytest("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--durations=15")
    failed = _failed()
    if status != _TESTS_FAILED or not 1 <= len(failed) <= _MOST_UNSTEADY:
        return status
    print(f"\n==> Once more, alone: {', '.join(failed)}", flush=True)
    status = _pytest("--last-failed", "--last-failed-no-failures", "none")
    if status == 0:
        print("\n==> UNSTEADY: failed beside others, passed alone. To be mended:", flush=True)
        print("\n".join(f"    {test}" for test in failed), flush=True)
    return status


def _pytest(*options: str) -> int:
    words = [sys.executable, "-m", "pytest", "-m", "vm", "-o", f"cache_dir={_CACHE}", *options]
    return subprocess.run(words, cwd=_ROOT, check=False).returncode


def _failed() -> list[str]:
    try:
        return sorted(json.loads(_LAST_FAILED.read_text()))
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    sys.exit(main())
