"""Writes what of the Python SDK is made from something else: `python_sdk.py`

`_sync` is `_async` without its waiting, and `_states.py` has the errors that a server tells of. A test fails on drift.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

from crucible import errors
from crucible.errors import CrucibleError

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "sdk" / "python" / "src" / "crucible_client"
WRITTEN_TWICE = ("__init__.py", "transport.py", "waiting.py")
_PAGES = (
    "_sync/sandbox.py", "_sync/client.py", "_sync/commands.py", "_sync/files.py", "_sync/code.py",
    "_sync/pty.py", "_sync/ports.py", "_sync/session.py",
    "_sync/chat.py", "_sync/conversations.py", "_sync/runs.py", "_sync/memory.py", "_sync/skills.py", "settings.py",
    "results.py", "execution.py", "values.py", "agent.py", "conversations.py", "records.py", "skills.py", "errors.py",
)  # fmt: skip
_REFERENCE_HEAD = """\
# Python

This page is generated from the sources of `crucible_client`; `make docs` writes it anew.
[The guide](../guides/python.md) says how it is used.

Shown is the half that waits. The other one has the same names with `Async` before those of the classes with methods
that wait, and `await` before their calls. `crucible.Sandbox` and `crucible.AsyncSandbox` are these classes for here;
`crucible.LocalClient` and `crucible.AsyncLocalClient` are its clients. A sandbox has its parts as `commands`, `files`,
`pty`, `ports` and `contexts`. A session of the agent is made by `create_session` of a client. Errors that a server
tells of are on [a page of their own](errors.md)."""
_RUFF = Path(sys.executable).with_name("ruff")

_WORDS = (
    (r"\bawait\s+", ""),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bAsync([A-Z]\w*)", r"\1"),
    (r"\b_async\b", "_sync"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\baclosing\b", "closing"),
    (r"\baclose\b", "close"),
    (r"\baiter_bytes\b", "iter_bytes"),
)
_MARK = "# Made of the file of this name in `_async` by scripts/python_sdk.py; `make docs` writes it anew."


def generated() -> dict[Path, str]:
    """What each generated file should hold."""
    made = {
        PACKAGE / "_sync" / source.name: _formatted(_without_waiting(source.read_text()))
        for source in sorted((PACKAGE / "_async").glob("*.py"))
        if source.name not in WRITTEN_TWICE
    }
    made[PACKAGE / "_states.py"] = _formatted(_states())
    made[ROOT / "docs" / "reference" / "python.md"] = _reference(made)
    return made


def _without_waiting(text: str) -> str:
    for pattern, replacement in _WORDS:
        text = re.sub(pattern, replacement, text)
    first, _, rest = text.partition("\n")
    return f"{first}\n\n{_MARK}\n{rest}"


def _formatted(text: str) -> str:
    for words in (
        ("check", "--quiet", "--fix-only", "--exit-zero", "--select", "I,F401"),
        ("format", "--quiet"),
    ):
        done = subprocess.run(
            [_RUFF, *words, "--stdin-filename", "sdk/python/generated.py", "-"],
            input=text, capture_output=True, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
        text = done.stdout
    return text


def _reference(made: dict[Path, str]) -> str:
    """The page of all classes: the synchronous half, and the values that both give."""
    lines = [_REFERENCE_HEAD]
    for name in _PAGES:
        path = PACKAGE / name
        for node in ast.parse(made.get(path) or path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                lines += ["", f"## {node.name}", "", *_described(node)]
    return "\n".join(lines) + "\n"


def _described(node: ast.ClassDef) -> list[str]:
    told = ast.get_docstring(node)
    lines = [*(told.splitlines() if told else []), ""]
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            lines.append(f"- `{part.target.id}: {ast.unparse(part.annotation)}`")
        elif isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
            lines.append(_method(part))
    return lines


def _method(node: ast.FunctionDef) -> str:
    said = " ".join((ast.get_docstring(node) or "").split())
    words = {one.id for one in node.decorator_list if isinstance(one, ast.Name)}
    returned = ast.unparse(node.returns).replace("builtins.", "") if node.returns else "None"
    if "property" in words:
        shown = f"{node.name}: {returned}"
    else:
        node.args.args = node.args.args[1:]
        shown = f"{node.name}({ast.unparse(node.args)}) -> {returned}"
    return f"- `{shown}`" + (f": {said}" if said else "")


def _states() -> str:
    lines = [
        '"""The errors that a server tells of, by the codes that it gives. Made by scripts/python_sdk.py."""',
        "",
        "from __future__ import annotations",
        "",
        "",
        "class CrucibleError(Exception):",
        '    """Base of all. `request_id` finds it in the server\'s log; `status` is the answer\'s, if one came."""',
        "",
        '    code = "crucible"',
        "",
        "    def __init__(",
        '        self, message: str, *, hint: str = "", request_id: str = "", status: int = 0',
        "    ) -> None:",
        "        super().__init__(message)",
        "        self.message = message",
        "        self.hint = hint",
        "        self.request_id = request_id",
        "        self.status = status",
        "",
        "    def __str__(self) -> str:",
        '        return f"{self.message} ({self.hint})" if self.hint else self.message',
    ]
    for kind in program_errors()[1:]:
        base = next(one for one in kind.__mro__[1:] if issubclass(one, CrucibleError))
        said = " ".join((kind.__doc__ or "").split())
        doc = [f'    """{said}"""', ""] if said and '"' not in said else []
        lines += [
            "",
            "",
            f"class {client_name(kind)}({client_name(base)}):",
            *doc,
            f'    code = "{kind.code}"',
        ]
    return "\n".join(lines) + "\n"


def client_name(kind: type[CrucibleError]) -> str:
    """The program's own, but for one that says something else in the client: that a server's answer is broken."""
    return {"BadAnswer": "BadModelAnswer"}.get(kind.__name__, kind.__name__)


def program_errors() -> list[type[CrucibleError]]:
    """Every error class of the program, bases first."""
    found: dict[str, type[CrucibleError]] = {}
    for module in ("base", *sorted(one.name for one in pkgutil.iter_modules(errors.__path__))):
        for name, kind in vars(importlib.import_module(f"crucible.errors.{module}")).items():
            if isinstance(kind, type) and issubclass(kind, CrucibleError):
                found.setdefault(name, kind)
    return sorted(found.values(), key=lambda kind: (len(kind.__mro__), kind.__name__))


def main() -> int:
    for path, text in generated().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            sys.stdout.write(f"Wrote {path.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
