"""Runs the tests that boot machines. A few that failed are run once more, alone, to tell what kind of failure it was.

The second run changes nothing in the verdict: what failed once has failed. A test that passes alone is listed as
unsteady, which says where to look: at what it shares with others, or at what it takes for granted of time.
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
# More than these are not worth the minutes.
_MOST_UNSTEADY = 3
_TESTS_FAILED = 1
# Takes a second to load, in every worker.
_UNUSED = ("-p", "no:schemathesis")


def main() -> int:
    shutil.rmtree(_CACHE, ignore_errors=True)
    status = _pytest("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "--durations=15")
    failed = _failed()
    if status != _TESTS_FAILED or not 1 <= len(failed) <= _MOST_UNSTEADY:
        return status
    print(f"\n==> Once more, alone: {', '.join(failed)}", flush=True)
    if _pytest("--last-failed", "--last-failed-no-failures", "none") == 0:
        print("\n==> UNSTEADY: failed beside others, passed alone. To be mended:", flush=True)
        print("\n".join(f"    {test}" for test in failed), flush=True)
    return status


def _pytest(*options: str) -> int:
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "vm",
        "-o",
        f"cache_dir={_CACHE}",
        *_UNUSED,
        *options,
    ]
    return subprocess.run(words, cwd=_ROOT, check=False).returncode


def _failed() -> list[str]:
    try:
        return sorted(json.loads(_LAST_FAILED.read_text()))
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    sys.exit(main())
