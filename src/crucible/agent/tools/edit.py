"""The tool `edit`: exact replacements in a file, all of them or none."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from crucible.agent.tools import matching
from crucible.agent.tools.base import Code, Context, Outcome
from crucible.agent.tools.matching import Edit, Edited
from crucible.agent.tools.parameters import Parameter
from crucible.agent.tools.paths import facts_of, missing, resolve
from crucible.agent.tools.wording import clean_text, cut_line, quoted, size_words
from crucible.agent.tools.work import Asked, WorkTool, failed
from crucible.agent.tools.write import MOST_CONTENT, code_of, encoded
from crucible.errors import BadToolCall

LARGEST_FILE = 8 << 20
MOST_EDITS = 100
_AROUND = 3
_SHOWN_LINES = 40
_SHOWN_LINE = 300

_REPLACEMENT = (
    Parameter(
        name="old_string",
        kind="text",
        description="The exact text to replace, with its blanks, and enough of it to occur once",
        is_required=True,
        most=MOST_CONTENT,
    ),
    Parameter(
        name="new_string",
        kind="text",
        description="What stands there afterwards",
        is_required=True,
        most=MOST_CONTENT,
    ),
    Parameter(
        name="replace_all",
        kind="flag",
        description="Replace it wherever it occurs",
        default=False,
    ),
)


class EditTool(WorkTool):
    name: ClassVar = "edit"
    description: ClassVar = (
        "Replaces text in a file of the sandbox. `old_string` must match exactly and once, or `replace_all` be set. "
        "Several replacements go into `edits`, which are made in order: all of them, or none if one does not match."
    )
    parameters: ClassVar = (
        Parameter(
            name="path",
            kind="text",
            description="Absolute, or relative to /workspace",
            is_required=True,
        ),
        *(
            Parameter(
                name=one.name,
                kind=one.kind,
                description=one.description,
                default=one.default,
                most=one.most,
            )
            for one in _REPLACEMENT
        ),
        Parameter(
            name="edits",
            kind="list",
            description="Several replacements, instead of `old_string` and `new_string`",
            least=1,
            most=MOST_EDITS,
            of=_REPLACEMENT,
        ),
    )

    def subject(self, asked: Asked) -> str:
        _edits(asked)
        return resolve(asked["path"])

    def code(self, asked: Asked) -> Code | None:
        """What is put in; the file around it is not known yet."""
        return code_of(resolve(asked["path"]), "\n".join(edit.new for edit in _edits(asked)))

    async def work(self, asked: Asked, context: Context) -> Outcome:
        path, edits, workplace = resolve(asked["path"]), _edits(asked), context.workplace
        facts = await facts_of(workplace, path)
        if facts is None:
            return failed(f"{await missing(workplace, path)} Make a new file with `write`.")
        if facts.kind != "f":
            return failed(f"{quoted(path)} is no regular file, so it cannot be edited.")
        if facts.size > LARGEST_FILE:
            return failed(
                f"{quoted(path)} has {size_words(facts.size)}; at most {size_words(LARGEST_FILE)} can be edited. "
                "Use a program in `bash`."
            )
        data = await workplace.read(path, length=LARGEST_FILE + 1)
        # What is no UTF-8 in the file stays as it is.
        text = data.decode("utf-8", "surrogateescape")
        # Comparing a large file with what does not match takes a while.
        edited = await asyncio.to_thread(_all_of, text, edits)
        await workplace.write(path, edited.text.encode("utf-8", "surrogateescape"))
        return Outcome(text=_told(path, edits, edited))


def _edits(asked: Asked) -> list[Edit]:
    given = asked["edits"]
    if given is None:
        if asked["old_string"] is None or asked["new_string"] is None:
            raise BadToolCall("`edit` needs `old_string` and `new_string`, or `edits`.")
        given = [asked]
    elif asked["old_string"] is not None or asked["new_string"] is not None:
        raise BadToolCall("`edit` takes `old_string` and `new_string`, or `edits`, not both.")
    for one in given:
        encoded(one["old_string"], of="old_string")
        encoded(one["new_string"], of="new_string")
    return [
        Edit(old=one["old_string"], new=one["new_string"], is_everywhere=bool(one["replace_all"]))
        for one in given
    ]


def _all_of(text: str, edits: list[Edit]) -> Edited:
    edited = Edited(text=text, lines=())
    for number, edit in enumerate(edits, 1):
        try:
            edited = matching.apply(edited.text, edit)
        except BadToolCall as error:
            if len(edits) == 1:
                raise
            raise BadToolCall(
                f"Edit {number} of {len(edits)} failed, and none was made: {error.message}"
            ) from None
    return edited


def _told(path: str, edits: list[Edit], edited: Edited) -> str:
    count = "1 edit" if len(edits) == 1 else f"{len(edits)} edits"
    lines = edited.text.splitlines()
    first = max(1, edited.lines[0] - _AROUND)
    length = min(edits[-1].new.count("\n") + 1 + 2 * _AROUND, _SHOWN_LINES)
    shown = "\n".join(
        f"{number:6}\t{cut_line(clean_text(line), _SHOWN_LINE)}"
        for number, line in enumerate(lines[first - 1 : first - 1 + length], first)
    )
    more = "" if len(edits) == 1 else " Around the last one:"
    return f"Edited {quoted(path)} ({count}).{more}\n{shown}"
