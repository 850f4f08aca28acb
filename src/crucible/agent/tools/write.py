"""The tool `write`: a whole file, with the directories that it needs."""

from __future__ import annotations

from typing import ClassVar

from crucible.agent.tools.base import Code, Context, Language, Outcome
from crucible.agent.tools.parameters import Parameter
from crucible.agent.tools.paths import facts_of, resolve
from crucible.agent.tools.wording import quoted, size_words
from crucible.agent.tools.work import Asked, WorkTool, failed
from crucible.errors import BadToolCall

MOST_CONTENT = 4 << 20
_LANGUAGES: dict[str, Language] = {
    ".py": "python",
    ".pyw": "python",
    ".sh": "shell",
    ".bash": "shell",
    ".js": "javascript",
    ".cjs": "javascript",
    ".mjs": "javascript",
    ".jsx": "javascript",
    ".ts": "typescript",
    ".tsx": "typescript",
}
_INTERPRETERS: tuple[tuple[str, Language], ...] = (
    ("python", "python"),
    ("node", "javascript"),
    ("sh", "shell"),
)


class Write(WorkTool):
    name: ClassVar = "write"
    description: ClassVar = (
        "Writes a whole file in the sandbox, replacing what was there, and makes the directories it needs. "
        "To change a part of a file use `edit`."
    )
    parameters: ClassVar = (
        Parameter(
            name="path",
            kind="text",
            description="Absolute, or relative to /workspace",
            is_required=True,
        ),
        Parameter(
            name="content",
            kind="text",
            description="All that the file shall hold",
            is_required=True,
            most=MOST_CONTENT,
        ),
    )

    def subject(self, asked: Asked) -> str:
        return resolve(asked["path"])

    def code(self, asked: Asked) -> Code | None:
        return code_of(resolve(asked["path"]), asked["content"])

    async def work(self, asked: Asked, context: Context) -> Outcome:
        path, data = resolve(asked["path"]), encoded(asked["content"], of="content")
        facts = await facts_of(context.workplace, path)
        if facts is not None and facts.kind == "d":
            return failed(f"{quoted(path)} is a directory, so no file can be written there.")
        await context.workplace.write(path, data)
        lines = data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0)
        told = f"{size_words(len(data))}, {lines} line{'' if lines == 1 else 's'}"
        if facts is None:
            return Outcome(text=f"Created {quoted(path)} ({told}).")
        return Outcome(text=f"Overwrote {quoted(path)} ({told}; it had {size_words(facts.size)}).")


def encoded(text: str, *, of: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadToolCall(f"`{of}` has half a character in it (a lone surrogate)") from None


def code_of(path: str, text: str) -> Code | None:
    """What a file would run, for the inspection of risks: by its name, else by its first line."""
    name = path.rsplit("/", 1)[-1]
    language = _LANGUAGES.get(name[name.rfind(".") :].lower() if "." in name else "")
    if language is None and text.startswith("#!"):
        first = text[:200].split("\n", 1)[0]
        language = next((kind for word, kind in _INTERPRETERS if word in first), None)
    return None if language is None else Code(text=text, language=language)
