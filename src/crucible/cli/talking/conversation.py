"""The prompt of `chat`: lines for the model, and commands that begin with a slash."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from crucible.cli import render
from crucible.cli.consent import is_somebody_there
from crucible.cli.talking.approving import answer
from crucible.cli.talking.lines import ask_line, remembered_lines
from crucible.cli.talking.reaching import hint_of, is_number, title_of
from crucible.cli.talking.showing import Showing, readable
from crucible.cli.talking.turns import follow
from crucible.errors import suggestion

if TYPE_CHECKING:
    from crucible_client import Client, Session

_LONGEST_SHOWN = 400


class Conversation:
    def __init__(self, client: Client, session: Session, *, agrees: bool) -> None:
        self._client = client
        self._session = session
        self._agrees = agrees
        self._is_over = False
        self._commands: dict[str, tuple[str, Callable[[str], None]]] = {
            "help": ("show this", self._help),
            "model": ("NAME: take another model", self._model),
            "thinking": ("off, low, medium or high", self._thinking),
            "system": ("TEXT: tell the model something first", self._system),
            "tools": ("NAMES: use these tools alone, like `bash read`; `all` for all", self._tools),
            "history": ("show what was said", self._history),
            "context": ("show how full the model's context is", self._context),
            "pin": ("N: keep message N of /history word for word", self._pin),
            "clear": ("forget what was said; the sandbox stays", self._clear),
            "compact": ("put a summary in the place of what is old", self._compact),
            "approvals": ("answer what waits", self._approvals),
            "rewind": ("N: go N steps back, with --checkpoints", self._rewind),
            "branch": ("N: go on in a copy of this session as it was before step N", self._branch),
            "resume": ("go on with a turn that was interrupted", self._resume),
            "cost": ("show tokens and cost so far", self._cost),
            "session": ("show the session and its sandbox", self._show_session),
            "exit": ("leave; the session stays", self._exit),
        }

    def run(self) -> None:
        from crucible_client.errors import CrucibleError as ClientError

        with remembered_lines():
            self._greet()
            while not self._is_over:
                line = self._line()
                if line is None:
                    break
                try:
                    self._take(line)
                except KeyboardInterrupt:
                    render.tell("")
                except ClientError as error:
                    render.tell(f"error: {render.visible(error.message)} ({error.code})")
                    if hint := hint_of(error):
                        render.tell(f"hint: {render.visible(hint)}")
        if is_somebody_there():
            render.tell(f"Go on later with `crucible chat --session {self._session.id}`")

    def _take(self, line: str) -> None:
        if not line.strip():
            return
        if not line.startswith("/"):
            self._name_it(line)
            with closing(self._session.stream(line)) as events:
                self._turn(events)
            return
        word, _, rest = line[1:].partition(" ")
        command = self._commands.get(word)
        if command is None:
            render.tell(f"There is no /{render.visible(word)}. {suggestion(word, self._commands)}")
        else:
            command[1](rest.strip())

    def _name_it(self, prompt: str) -> None:
        """By the first thing that is asked, so that it is known again in a list."""
        if not self._session.info.title:
            self._session.configure(title=title_of(prompt))

    def _turn(self, events: Any) -> None:
        end = follow(self._session, events, Showing(), agrees=self._agrees)
        how = end.get("end")
        if how != "done":
            error = end.get("error") or {}
            render.tell(f"[{how}] {render.visible(str(error.get('message', '')))}".rstrip())
            if error.get("hint"):
                render.tell(f"hint: {render.visible(str(error['hint']))}")

    def _greet(self) -> None:
        if is_somebody_there():
            models = self._session.info.models
            named = models.get("agent") or "the default model"
            render.tell(f"session {self._session.id}, {named}; /help lists commands")

    def _line(self) -> str | None:
        """None at the end of input. An interrupt at the prompt drops what was typed."""
        while True:
            try:
                line = ask_line("> ", is_kept=True) if is_somebody_there() else sys.stdin.readline()
                return line.rstrip("\n") if line else None
            except KeyboardInterrupt:
                render.tell("")

    def _help(self, _: str) -> None:
        for name, (what, _run) in self._commands.items():
            render.tell(f"  /{name:<10} {what}")

    def _model(self, name: str) -> None:
        if name:
            self._session.configure(models={"agent": name, "chat": name})
        render.tell(str(dict(self._session.refresh().models) or "the default model"))

    def _thinking(self, effort: str) -> None:
        self._session.configure(thinking=effort or "off")  # type: ignore[arg-type]

    def _system(self, text: str) -> None:
        self._session.configure(system=text)

    def _tools(self, names: str) -> None:
        if names:
            self._session.configure(tools=None if names == "all" else names.split())
        else:
            render.tell("/tools needs names or patterns of tools, or `all`")

    def _history(self, _: str) -> None:
        for place, message in enumerate(self._session.get_history()):
            text = _text_of(message)[:_LONGEST_SHOWN].replace("\n", " ")
            mark = "*" if message.get("pinned") else " "
            render.say(f"{place:>4}{mark} {message.get('role')}: {readable(text)}")

    def _context(self, _: str) -> None:
        usage = self._session.get_context_usage()
        render.tell(
            f"{usage.used_tokens} of {usage.limit_tokens} tokens ({usage.share:.0%}) of {usage.model}, "
            f"{usage.messages} messages, {usage.pinned} pinned; compacts at {usage.compacts_at}"
        )

    def _pin(self, place: str) -> None:
        if is_number(place):
            self._session.pin(int(place))
        else:
            render.tell("/pin needs the number of a message in /history")

    def _clear(self, _: str) -> None:
        self._session.clear()

    def _compact(self, _: str) -> None:
        usage = self._session.compact()
        render.tell(f"{usage.used_tokens} tokens are left in {usage.messages} messages")

    def _approvals(self, _: str) -> None:
        waiting = self._session.approvals()
        if not waiting:
            render.tell("Nothing waits")
        for approval in waiting:
            answer(self._session, approval, agrees=False)

    def _rewind(self, steps: str) -> None:
        if steps and not is_number(steps):
            render.tell("/rewind needs the number of steps")
            return
        info = self._session.rewind(int(steps or 1))
        render.tell(f"{info.messages} messages are left")

    def _branch(self, step: str) -> None:
        if not is_number(step):
            render.tell("/branch needs the number of a step")
            return
        self._session = self._session.branch(int(step))
        render.tell(f"now in session {self._session.id}")

    def _resume(self, _: str) -> None:
        with closing(self._session.resume().events()) as events:
            self._turn(events)

    def _cost(self, _: str) -> None:
        info = self._session.refresh()
        usage = info.usage
        render.tell(
            f"{usage.input_tokens} tokens in, {usage.output_tokens} out, {info.cost_usd:.4f} USD"
        )

    def _show_session(self, _: str) -> None:
        info = self._session.refresh()
        where = f"{info.sandbox} ({info.isolation})" if info.sandbox else "not opened yet"
        render.tell(f"session {info.id}, {info.turns} turns, {info.state}; sandbox: {where}")

    def _exit(self, _: str) -> None:
        self._is_over = True


def _text_of(message: Any) -> str:
    if message.get("role") == "assistant":
        parts = message.get("parts", [])
        return " ".join(
            part.get("text") or f"[{part.get('name')} {part.get('arguments')}]"
            for part in parts
            if part.get("type") != "thinking"
        )
    if message.get("role") == "tool":
        return " ".join(str(result.get("text", "")) for result in message.get("results", []))
    return str(message.get("text", ""))
