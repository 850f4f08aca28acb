"""A turn as a person sees it: the answer on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crucible.cli import render
from crucible.cli.talking.reaching import unread_key

if TYPE_CHECKING:
    from crucible_client import TurnEvent

_MOST_LINES = 12
_LONGEST_LINE = 400
_EMBEDDED = "  note: this is the embedded model, a very small one (135M) that is often wrong"
_WITH_A_KEY = (
    "with a key such as\n"
    "  ANTHROPIC_API_KEY in the environment or in your settings, a provider's model answers"
)
# Spaces of other scripts and what joins letters: text has them, and no terminal acts on them.
_OF_TEXT = "\n\t\u00a0\u00ad\u2007\u200c\u200d\u202f\u3000"
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class Showing:
    """`is_quiet` shows the answer alone. Without an answer on the way, `shows_text` leaves even that to the caller."""

    def __init__(self, *, is_quiet: bool = False, shows_text: bool = True) -> None:
        self._is_quiet = is_quiet
        self._shows_text = shows_text
        self._has_colour = sys.stderr is not None and sys.stderr.isatty()
        self._is_in_text = False
        self._is_in_thought = False
        self._lines = 0
        self._has_told_embedded = False

    def show(self, event: TurnEvent) -> None:
        data = event.data
        if event.kind == "usage":
            # The model's answer is whole: what it says after a call begins a line of its own, also where none is shown.
            self._end_text()
        if event.kind == "text":
            self._text(event.text_delta)
        elif event.kind == "thinking" and not self._is_quiet:
            self._thought(_said(data, "text"))
        elif not self._is_quiet:
            self._talk(event.kind, data)
        if event.is_last:
            self._end_text()

    def _text(self, text: str) -> None:
        self._end_thought()
        if self._shows_text and text:
            write(sys.stdout, _answer(text))
            self._is_in_text = not text.endswith("\n")

    def _thought(self, text: str) -> None:
        self._end_text()
        self._is_in_thought = True
        self._faint(readable(text), end="")

    def _talk(self, kind: str, data: Mapping[str, Any]) -> None:
        line = self._line(kind, data)
        if line:
            self._end_text()
            self._end_thought()
            self._faint(line)

    def _line(self, kind: str, data: Mapping[str, Any]) -> str:
        match kind:
            case "call" if data.get("state") == "asked":
                self._lines = 0
                return f"> {_short(_said(data, 'tool'))} {_arguments(_said(data, 'arguments'))}"
            case "judged" if data.get("findings"):
                return "\n".join(_finding(one) for one in data["findings"])
            case "output":
                return self._output(_said(data, "text"))
            case "result":
                return _result(data, was_shown=self._lines > 0)
            case "artifact":
                size = data.get("size")
                shown = render.size(size) if isinstance(size, int) else ""
                return f"  file: {_short(_said(data, 'name'))} ({_short(_said(data, 'media_type'))}, {shown})"
            case "retry":
                return f"  trying again: {_short(_said(data, 'reason'))}"
            case "recalled":
                return f"  remembered: {_short(_recalled(data))}"
            case "remembered":
                return f"  will remember: {_short(_recalled(data))}"
            case "compacted":
                return f"  compacted: {data.get('replaced')} messages"
            case "checkpoint":
                return f"  checkpoint {data.get('step', '')}"
            case "usage" if self._is_first_of_embedded(data):
                return f"{_EMBEDDED}; {unread_key() or _WITH_A_KEY}"
            case "notice":
                return f"  note: {_short(_said(data, 'text'))}"
            case _:
                return ""

    def _is_first_of_embedded(self, data: Mapping[str, Any]) -> bool:
        is_embedded = _said(data, "model").startswith("embedded:")
        is_first = is_embedded and not self._has_told_embedded
        self._has_told_embedded = self._has_told_embedded or is_embedded
        return is_first

    def _output(self, text: str) -> str:
        """The first lines of a command's output: the whole is in the result and in the ledger."""
        shown = []
        for line in readable(text).splitlines():
            self._lines += 1
            if self._lines <= _MOST_LINES:
                shown.append(f"  | {line[:_LONGEST_LINE]}")
            elif self._lines == _MOST_LINES + 1:
                shown.append("  | …")
        return "\n".join(shown)

    def _end_text(self) -> None:
        if self._is_in_text:
            write(sys.stdout, "\n")
        self._is_in_text = False

    def _end_thought(self) -> None:
        if self._is_in_thought:
            self._faint("")
        self._is_in_thought = False

    def _faint(self, text: str, *, end: str = "\n") -> None:
        write(sys.stderr, (f"{_DIM}{text}{_PLAIN}" if self._has_colour and text else text) + end)


def readable(text: str, *, harmless: str = "\n\t") -> str:
    """Lines and tabs as they are; nothing else that a model or a sandbox chose acts on the terminal."""
    return "".join(
        letter if letter in harmless or letter.isprintable() else render.visible(letter)
        for letter in text.replace("\r\n", "\n")
    )


def _answer(text: str) -> str:
    """Where it goes to a program or a file it is what was said, to the letter."""
    if sys.stdout is None or not sys.stdout.isatty():
        return text
    return readable(text, harmless=_OF_TEXT)


def write(stream: Any, text: str) -> None:
    if stream is None:
        return
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def _arguments(text: str) -> str:
    """The one that says most, else all of them."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return _short(text)
    if not isinstance(found, dict):
        return _short(text)
    for name in ("command", "code", "path", "pattern", "url", "query"):
        if isinstance(found.get(name), str):
            return _short(found[name])
    return _short(text)


def _result(data: Mapping[str, Any], *, was_shown: bool) -> str:
    status = data.get("exit_status")
    if data.get("error") and status is None:
        return f"  failed: {_short(_said(data, 'text'))}"
    if isinstance(status, int) and status:
        return f"  exit status {status}"
    if was_shown:
        return ""
    text = readable(_said(data, "text")).strip()
    first = text.splitlines()[0][:_LONGEST_LINE] if text else "done"
    return f"  {first}{' …' if chr(10) in text else ''}"


def _finding(one: Any) -> str:
    found = one if isinstance(one, dict) else {}
    return f"  risk ({_short(_said(found, 'severity'))}): {_short(_said(found, 'why'))}"


def _recalled(data: Mapping[str, Any]) -> str:
    found = data.get("facts") or data.get("items") or []
    texts = [one.get("text", "") if isinstance(one, dict) else str(one) for one in found]
    return "; ".join(text for text in texts if isinstance(text, str)) or _said(data, "text")


def _said(data: Mapping[str, Any], name: str) -> str:
    found = data.get(name)
    return found if isinstance(found, str) else ""


def _short(text: str) -> str:
    shown = render.visible(text.replace("\n", " ⏎ "))
    return shown if len(shown) <= _LONGEST_LINE else f"{shown[:_LONGEST_LINE]}…"
