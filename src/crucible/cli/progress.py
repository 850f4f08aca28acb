"""One line on a terminal that tells what takes so long. Anything shorter than a second stays silent."""

from __future__ import annotations

import os
import sys
import time

from crucible.cli.render import tell, visible

QUIET_S = 1.0
_ERASE = "\r\x1b[K"


class ProgressLine:
    """Written to stderr, and only when that is a terminal which can erase a line."""

    def __init__(self, first: str = "", *, quiet_s: float = QUIET_S) -> None:
        self._quiet_s = quiet_s
        self._began = time.monotonic()
        self._text = first
        self._is_drawn = False
        self._is_shown = (
            sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        )

    def note(self, stage: str, detail: str) -> None:
        self._text = f"{stage}: {detail}" if detail else stage
        self.tick()

    def tell(self, text: str) -> None:
        """A line that stays, also where the terminal is raw."""
        self.clear()
        if sys.stderr is not None:
            end = "\r\n" if self._is_shown else "\n"
            sys.stderr.write(f"{visible(text)}{end}")
            sys.stderr.flush()

    def tick(self) -> None:
        waited = time.monotonic() - self._began
        if not self._is_shown or waited < self._quiet_s:
            return
        try:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        except OSError:
            columns = 80
        line = f"{visible(self._text or 'working')} ({waited:.0f} s)"
        sys.stderr.write(f"{_ERASE}{line[: columns - 1]}")
        sys.stderr.flush()
        self._is_drawn = True

    def clear(self) -> None:
        if self._is_drawn:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()
            self._is_drawn = False


class StepLines:
    """Long work in named steps: one line for each on stderr, with the time it took, terminal or not."""

    def __init__(self) -> None:
        self._stage = self._detail = ""
        self._began = time.monotonic()
        self._line = ProgressLine(quiet_s=0)

    def note(self, stage: str, detail: str) -> None:
        if stage != self._stage:
            self.finish()
            self._stage, self._began = stage, time.monotonic()
            self._line = ProgressLine(quiet_s=0)
        self._detail = detail
        self._line.note(stage, detail)

    def finish(self) -> None:
        self._line.clear()
        if self._stage:
            took = time.monotonic() - self._began
            tell(f"{visible(self._stage):<10} {visible(self._detail)} ({took:.1f} s)")
        self._stage = ""
