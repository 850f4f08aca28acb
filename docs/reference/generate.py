"""Writes the generated pages of docs/reference from the program itself: `python docs/reference/generate.py`.

A test compares the pages with what this makes, so a page that has drifted fails.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import crucible
from crucible.cli import helping, table
from crucible.cli.grammar import Command
from crucible.cli.main import find_command
from crucible.errors import CrucibleError

HERE = Path(__file__).parent

_CLI_HEAD = """\
# The command line

This page is generated from the program's own help; `make docs` writes it anew.

`crucible COMMAND --help` prints the same text. A word after `--` is never taken for an option, and everything
after the first word of a guest's command belongs to that command.

Data goes to standard output, talk to standard error. The guest's bytes pass through untouched.

| exit status | means |
|--:|---|
| the command's own | the command ran; 128 + N when signal N ended it |
| 124 | the command was ended by `--timeout` |
| 125 | Crucible failed |
| 126 | Crucible refused, or the command is not executable |
| 127 | the sandbox has no such command |
| 130 | Crucible was interrupted |

"""

_ERRORS_HEAD = """\
# Errors

This page is generated from the error classes; `make docs` writes it anew.

Every error has a code that stays the same from version to version, a message with the real values in it and, where
there is something to do, a hint. The command line prints the message and the hint on standard error and ends with the
exit status; programs that speak to the owner get all four. A command that fails inside a sandbox is a result, not
an error, and does not appear here.

A word in braces stands for a value.

| code | exit status | meaning |
|---|--:|---|
"""

_E2B_HEAD = """# E2B's clients and what of them works

Written by `make docs`; do not edit. `tests/server/test_e2b_clients.py` runs each release against a server and real
machines, and looks up in the records what the client says: `yes` works, `absent` is a verb that the release has not,
`npm` is the package of that name for JavaScript. 1.11.1 knows `E2B_DOMAIN` alone and is run by
`tests/server/test_e2b_domain.py`, with a certificate and names of the test's own.
See [the guide](../guides/e2b.md).

"""

_RISKS_HEAD = """# What inspection of code tells

Written by `make docs` from the table of rules; do not edit. The names stay the same from version to version.
What fires a rule, and what does not, is in [the guide](../guides/risk.md).

"""

# What classes without a sentence of their own stand for.
_MEANINGS = {
    "boot-failed": "A machine did not come up, or ended before it answered.",
    "build-failed": "The kernel, the image or a disk could not be made.",
    "command-not-executable": "The command exists in the sandbox and cannot be executed.",
    "command-not-found": "The sandbox has no such command.",
    "crucible": "Anything that has no code of its own.",
    "guest-panicked": "The kernel of the machine panicked while something was waiting for it.",
    "owner-protocol": "A client and the owner do not understand each other.",
    "prerequisite-missing": "The host lacks a program or a right; the hint is the command that mends it.",
    "state-damaged": "Files in the state directory are not what was written.",
    "vmm-gone": "QEMU has closed its monitor.",
}


def pages() -> dict[Path, str]:
    return {
        HERE / "cli.md": cli_page(),
        HERE / "errors.md": errors_page(),
        HERE / "e2b.md": e2b_page(),
        HERE / "risks.md": risks_page(),
        HERE.parent.parent / "api" / "openapi.json": openapi_page(),
    }


def cli_page() -> str:
    parts = [_CLI_HEAD, _block(helping.program_help())]
    for title, rows in table.GROUPS:
        parts.append(f"\n## {title}\n")
        for name, _, _ in rows:
            parts += _command_parts(find_command(name))
    return "".join(parts)


def errors_page() -> str:
    rows = [
        f"| `{kind.code}` | {kind.exit_status} | {meaning_of(kind)} |\n"
        for kind in sorted(error_classes(), key=lambda kind: kind.code)
    ]
    return _ERRORS_HEAD + "".join(rows)


def e2b_page() -> str:
    """From what the tests hold each release of the client to."""
    tests = HERE.parent.parent / "tests"
    matrix = json.loads((tests / "server" / "e2b" / "matrix.json").read_text())
    clients = tomllib.loads((tests / "clients.toml").read_text())["pypi"]
    releases = "".join(
        f"- {key[4:].replace('-', '.')}: e2b {pins['e2b']}, e2b-code-interpreter {pins['e2b-code-interpreter']}\n"
        for key, pins in clients.items()
        if key.startswith("e2b-")
    )
    head = "| verb | " + " | ".join(matrix) + " |\n|---|" + "---|" * len(matrix) + "\n"
    verbs = dict.fromkeys(verb for told in matrix.values() for verb in told)
    rows = [
        f"| {verb} | {' | '.join(told.get(verb, 'not tested') for told in matrix.values())} |\n"
        for verb in verbs
    ]
    return _E2B_HEAD + head + "".join(rows) + "\n" + releases


def risks_page() -> str:
    from crucible.agent.risk import Category
    from crucible.agent.risk.rules import RULES

    parts = [_RISKS_HEAD]
    for category in Category:
        parts.append(f"## {category}\n\n| rule | severity | why it is told |\n|---|---|---|\n")
        parts += (
            f"| `{rule.name}` | {rule.severity.name.lower()} | {rule.why} |\n"
            for rule in RULES.values()
            if rule.category is category
        )
        parts.append("\n")
    return "".join(parts).rstrip("\n") + "\n"


def openapi_page() -> str:
    from crucible.server.app import openapi_document

    return json.dumps(openapi_document(), indent=2, ensure_ascii=False) + "\n"


def error_classes() -> list[type[CrucibleError]]:
    """All that are defined anywhere in the package, one for each code."""
    for module in pkgutil.walk_packages(crucible.__path__, "crucible."):
        if not module.name.endswith("_main") and "__main__" not in module.name:
            importlib.import_module(module.name)
    found: dict[str, type[CrucibleError]] = {}
    for kind in _with_subclasses(CrucibleError):
        if kind.__module__.startswith("crucible."):
            found.setdefault(kind.code, kind)
    return list(found.values())


def meaning_of(kind: type[CrucibleError]) -> str:
    """Its docstring's first sentence, else the sentence it says itself, else what is written above."""
    text = (
        _MEANINGS.get(kind.code) or _first_sentence(kind.__dict__.get("__doc__")) or _message(kind)
    )
    return text.replace("|", "\\|")


def _command_parts(command: Command) -> Iterator[str]:
    yield f"\n### crucible {command.path}\n\n"
    yield _block(helping.command_help(command))
    for subcommand in command.subcommands:
        yield from _command_parts(subcommand)


def _block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```\n"


def _with_subclasses(kind: type[CrucibleError]) -> Iterator[type[CrucibleError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _with_subclasses(below)


def _first_sentence(docstring: str | None) -> str:
    return " ".join(docstring.split("\n\n")[0].split()) if docstring else ""


def _message(kind: type[CrucibleError]) -> str:
    """The text that its constructor hands on, with the names of the values in it."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    for node in ast.walk(tree):
        is_super = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "__init__"
        )
        if is_super and isinstance(node, ast.Call) and node.args:
            return f"{_template(node.args[0])}."
    return ""


def _template(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(value) for value in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"{{{_word(node.value)}}}"
    return ""


def _word(node: ast.expr) -> str:
    names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    return {"shown": "name", "why": "reason"}.get(names[0], names[0]) if names else "value"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        sys.stderr.write(f"Wrote {path.relative_to(HERE.parent.parent)}\n")
