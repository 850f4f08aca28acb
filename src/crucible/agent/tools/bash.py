"""The tool `bash`: a command line in the sandbox, in a fresh shell that begins where the one before it ended."""

from __future__ import annotations

from typing import ClassVar

from crucible.agent.tools.base import Code, Context, Outcome
from crucible.agent.tools.parameters import Parameter
from crucible.agent.tools.transcript import Transcript
from crucible.agent.tools.wording import MOST_SHOWN, shown
from crucible.agent.tools.work import Asked, WorkTool, keep_output
from crucible.agent.workplace import Ran
from crucible.errors import BadToolCall

DEFAULT_TIMEOUT_S = 120
MOST_TIMEOUT_S = 3600
# A command line and its surroundings must fit into what a sandbox takes as one.
LONGEST = 30_000
_WORDS_AT_END = "\n[{}]"

# The directory is remembered in the sandbox itself: so it goes back with a rewind, and along with a branch. Not a login
# shell: that would undo what the image says about PATH.
_CHOOSE = (
    'if command -v bash >/dev/null 2>&1; then exec bash -c "$1" bash "$2"; '
    'else exec sh -c "$1" sh "$2"; fi'
)
_RUN = """\
if [ -f "${TMPDIR:-/tmp}/.crucible-cwd" ]; then
  IFS= read -r __crucible_was <"${TMPDIR:-/tmp}/.crucible-cwd"
  cd "$__crucible_was" 2>/dev/null || echo "[$__crucible_was is gone; this runs in $PWD]" >&2
  unset __crucible_was
fi
trap 'pwd >"${TMPDIR:-/tmp}/.crucible-cwd" 2>/dev/null' EXIT
eval "$1"
"""


class Bash(WorkTool):
    name: ClassVar = "bash"
    description: ClassVar = (
        "Runs a command line in the sandbox with bash (sh where there is none) and gives what it wrote and its exit "
        "status. Each call is a fresh shell: variables and functions are not kept, but the working directory is. It "
        "begins in /workspace. There is no terminal and no input. What should go on running must be put into the "
        "background with its output sent to a file: `server >log 2>&1 &`."
    )
    parameters: ClassVar = (
        Parameter(
            name="command",
            kind="text",
            description="The command line; it may have several lines",
            is_required=True,
            least=1,
            most=LONGEST,
        ),
        Parameter(
            name="timeout_s",
            kind="number",
            description="After this many seconds it is ended with all that it started",
            default=DEFAULT_TIMEOUT_S,
            least=0.1,
            most=MOST_TIMEOUT_S,
        ),
    )

    def subject(self, asked: Asked) -> str:
        return _command(asked)

    def code(self, asked: Asked) -> Code:
        return Code(text=_command(asked), language="shell")

    async def work(self, asked: Asked, context: Context) -> Outcome:
        heard = Transcript(context.heard)
        ran = await context.workplace.run(
            ("/bin/sh", "-c", _CHOOSE, "sh", _RUN, _command(asked)),
            timeout_s=asked["timeout_s"],
            max_output=0,
            heard=heard.hear,
        )
        kept = heard.kept()
        where = await keep_output(context, kept) if heard.total > MOST_SHOWN else ""
        text = shown(kept, heard.total, where=where)
        return Outcome(
            text=_told(text, ran, asked["timeout_s"]),
            is_error=ran.exit_status != 0,
            exit_status=ran.exit_status,
            whole=kept,
        )


def _command(asked: Asked) -> str:
    command: str = asked["command"]
    if "\0" in command:
        raise BadToolCall("`command` has a NUL character in it, which no command line can have")
    if not command.strip():
        raise BadToolCall("`command` is empty")
    try:
        encoded = command.encode()
    except UnicodeEncodeError:
        raise BadToolCall("`command` has half a character in it (a lone surrogate)") from None
    if len(encoded) > LONGEST:
        raise BadToolCall(
            f"`command` is {len(encoded)} bytes long; at most {LONGEST} can be run. "
            "Write a script with `write` and run that"
        )
    return command


def _told(text: str, ran: Ran, timeout_s: float) -> str:
    text = text.rstrip("\n")
    if ran.timed_out:
        end = f"ended after {timeout_s:g} s, which was its time limit, with all that it started"
    elif ran.exit_status is None:
        end = ran.reason or "it has no exit status"
    elif ran.exit_status:
        end = f"exit status {ran.exit_status}" + (f": {ran.reason}" if ran.reason else "")
    else:
        return text or "[no output]"
    return f"{text}{_WORDS_AT_END.format(end)}".lstrip("\n")
