"""`skill`: what the agent can be taught by a directory with a SKILL.md."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, Command, Operand, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from crucible.agent.skills.shelf import Shelf, Skill

_SHOWN_DESCRIPTION = 80


def show_all(arguments: Arguments) -> int:
    from crucible.cli import render

    skills, broken = _shelf().look()
    if arguments.flag("json"):
        unusable = [{"name": name, "problem": why} for name, why in broken.items()]
        render.show_json([*(_fields(skill) for skill in skills), *unusable])
        return 0
    rows: list[tuple[str, ...]] = [
        (
            skill.name,
            skill.origin,
            str(len(skill.tools)),
            _short(skill.document.description),
        )
        for skill in skills
    ]
    rows += [(name, "unusable", "-", why) for name, why in broken.items()]
    render.show_table(("NAME", "ORIGIN", "TOOLS", "DESCRIPTION"), rows)
    return 0


def add(arguments: Arguments) -> int:
    from pathlib import Path

    from crucible.cli import render

    for source in arguments.words("PATH"):
        skill = _shelf().add(Path(source).absolute(), replaces=arguments.flag("replace"))
        render.tell(f"Added {skill.name}: {len(skill.hashes)} files, {len(skill.tools)} tools")
    return 0


def remove(arguments: Arguments) -> int:
    for name in arguments.words("NAME"):
        _shelf().remove(name)
    return 0


def check(arguments: Arguments) -> int:
    """A directory or an archive as it is, or a skill that was added: that none of its files was changed since."""
    from pathlib import Path

    from crucible.cli import render

    for word in arguments.words("SKILL"):
        if Path(word).exists():
            skill = _shelf().check(Path(word).absolute())
        else:
            skill = _shelf().find(word)
            skill.check_files()
        render.say(
            f"{skill.name}: {len(skill.hashes)} files and {len(skill.tools)} tools, all well"
        )
        for tool in skill.tools:
            kind = type(tool.backend).__name__.lower()
            render.say(f"  {tool.name} ({kind}): {_short(tool.description)}")
    return 0


def _shelf() -> Shelf:
    from crucible.agent.skills.shelf import Shelf
    from crucible.config import load_config

    return Shelf(load_config().home)


def _fields(skill: Skill) -> dict[str, Any]:
    document = skill.document
    return {
        "name": skill.name,
        "description": document.description,
        "origin": skill.origin,
        "license": document.license,
        "compatibility": document.compatibility,
        "tools": [tool.name for tool in skill.tools],
        "files": dict(skill.hashes),
        "added_at": skill.added_at or None,
        "source": skill.source,
    }


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_DESCRIPTION else f"{line[: _SHOWN_DESCRIPTION - 1]}…"


COMMANDS = (
    Command(
        "skill",
        notes="""\
A skill is a directory with a SKILL.md, in the open Agent Skills form. What it brings runs in
the session's sandbox. Its files are known by hash: one that was changed is not used.""",
        examples=(("crucible skill list", "what the agent knows"),),
        subcommands=(
            Command(
                "list",
                show_all,
                options=(JSON,),
                summary="List skills, built in and added",
                examples=(("crucible skill list --json", "for programs"),),
            ),
            Command(
                "add",
                add,
                operands=(
                    Operand("PATH", "a skill's directory, or a tar archive of one", arity="many", complete="path"),
                ),
                options=(Option("replace", "also where one of that name was added before"),),
                summary="Add skills for all sessions",
                examples=(("crucible skill add ./pdf-forms", "a directory"),),
            ),
            Command(
                "remove",
                remove,
                operands=(Operand("NAME", "a skill that was added", arity="many"),),
                summary="Remove skills that were added",
                examples=(("crucible skill remove pdf-forms", "by its name"),),
            ),
            Command(
                "check",
                check,
                operands=(Operand("SKILL", "a directory or an archive, or the name of a skill", arity="many"),),
                summary="Check whether skills are well written, and unchanged since they were added",
                examples=(("crucible skill check ./pdf-forms", "before it is added"),),
            ),
        ),
    ),
)  # fmt: skip
