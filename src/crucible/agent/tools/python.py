"""The tool `python`: code in the session's own interpreter, whose variables stay, and what it shows as artifacts."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import ClassVar

from crucible.agent.tools.base import Artifact, Code, Context, Outcome
from crucible.agent.tools.parameters import Parameter
from crucible.agent.tools.transcript import Transcript
from crucible.agent.tools.wording import clean_text, cut, shown
from crucible.agent.tools.work import Asked, WorkTool, keep_output
from crucible.agent.tools.write import encoded
from crucible.agent.workplace import Evaluated, Shown
from crucible.errors import BadToolCall

DEFAULT_TIMEOUT_S = 120
MOST_TIMEOUT_S = 3600
MOST_CODE = 1 << 20
MOST_ARTIFACTS = 20
LARGEST_ARTIFACT = 8 << 20
_PRINTED_SHOWN = 16_000
_VALUES_SHOWN = 6_000
_TRACEBACK_SHOWN = 5_000

# Forms that a person would rather see than text, the best first, and how a file of them is called.
_RICH = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/svg+xml": "svg",
    "application/vnd.plotly.v1+json": "plotly.json",
    "application/vnd.vega.v5+json": "vega.json",
    "application/vnd.vegalite.v5+json": "vegalite.json",
    "application/vnd.crucible.data+json": "data.json",
    "application/vnd.crucible.chart+json": "chart.json",
    "text/html": "html",
    "application/pdf": "pdf",
    "text/markdown": "md",
    "text/latex": "tex",
}
_IN_BASE64 = frozenset(("image/png", "image/jpeg", "application/pdf"))


class Python(WorkTool):
    name: ClassVar = "python"
    description: ClassVar = (
        "Runs Python in the sandbox's interpreter, which keeps variables and imports between calls like a notebook. "
        "Gives what was printed and the value of the last expression. Figures, Plotly and HTML charts and tables are "
        "shown to the user; `display(x)` shows x. For shell commands use `bash`."
    )
    parameters: ClassVar = (
        Parameter(
            name="code",
            kind="text",
            description="The program",
            is_required=True,
            least=1,
            most=MOST_CODE,
        ),
        Parameter(
            name="timeout_s",
            kind="number",
            description="After this many seconds it is interrupted",
            default=DEFAULT_TIMEOUT_S,
            least=0.1,
            most=MOST_TIMEOUT_S,
        ),
    )

    def subject(self, asked: Asked) -> str:
        return _code(asked)

    def code(self, asked: Asked) -> Code:
        return Code(text=_code(asked), language="python")

    async def work(self, asked: Asked, context: Context) -> Outcome:
        heard = Transcript(context.heard)
        done = await context.workplace.evaluate(
            _code(asked), timeout_s=asked["timeout_s"], heard=heard.hear
        )
        kept = heard.kept()
        where = await keep_output(context, kept) if heard.total > _PRINTED_SHOWN else ""
        artifacts = tuple(_artifacts(done))
        parts = [
            shown(kept, heard.total, where=where, most=_PRINTED_SHOWN).rstrip("\n"),
            *_told(done, artifacts),
        ]
        return Outcome(
            text="\n".join(part for part in parts if part) or "[no output]",
            is_error=bool(done.error) or done.timed_out,
            artifacts=artifacts,
            whole=kept,
        )


def _code(asked: Asked) -> str:
    code: str = asked["code"]
    if not code.strip():
        raise BadToolCall("`code` is empty")
    if "\0" in code:
        raise BadToolCall("`code` has a NUL character in it")
    encoded(code, of="code")
    return code


def _told(done: Evaluated, artifacts: tuple[Artifact, ...]) -> Iterator[str]:
    plain = (clean_text(one.forms.get("text/plain", "")) for one in done.shown)
    yield cut("\n".join(text for text in plain if text), _VALUES_SHOWN)
    if artifacts:
        yield f"[shown to the user: {', '.join(one.name for one in artifacts)}]"
    if done.traceback:
        yield cut(clean_text(done.traceback).rstrip("\n"), _TRACEBACK_SHOWN)
    elif done.error:
        yield cut(clean_text(done.error), _TRACEBACK_SHOWN)
    if done.timed_out:
        yield f"[interrupted at its time limit, after {done.duration_s:.1f} s]"


def _artifacts(done: Evaluated) -> Iterator[Artifact]:
    number = 0
    for one in done.shown:
        for kind, data in _rich(one):
            number += 1
            if number > MOST_ARTIFACTS:
                return
            word = "figure" if kind.startswith("image/") else "result"
            yield Artifact(name=f"{word}-{number}.{_RICH[kind]}", media_type=kind, data=data)


def _rich(one: Shown) -> Iterator[tuple[str, bytes]]:
    """The best form that it has, and beside it the data that a page may draw it from."""
    has_best = False
    for kind in _RICH:
        form = one.forms.get(kind)
        if form is None or (has_best and "crucible" not in kind):
            continue
        try:
            data = base64.b64decode(form) if kind in _IN_BASE64 else form.encode("utf-8", "replace")
        except (binascii.Error, ValueError):
            continue
        if 0 < len(data) <= LARGEST_ARTIFACT:
            has_best = True
            yield kind, data
