"""A `SKILL.md` read strictly: the open form's front matter, and the instructions behind it. Pure; input is hostile."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crucible.errors import BadSkill

LARGEST = 256 << 10
LARGEST_HEAD = 32 << 10
LONGEST_DESCRIPTION = 1024
LONGEST_COMPATIBILITY = 500
# Names the file beside SKILL.md that declares the skill's tools; other programs pass over what they do not know.
TOOLS_KEY = "crucible-tools"
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME = 64
_DEEPEST = 8
_LARGEST_NUMBER = 256
_FENCE = "---"
_KNOWN = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDocument:
    """`allowed_tools` are the tools it means to use; the session's own policy decides what it may."""

    name: str
    description: str
    body: str
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str]
    allowed_tools: tuple[str, ...] = ()

    @property
    def tools_file(self) -> str:
        return self.metadata.get(TOOLS_KEY, "")


def parse_document(text: str) -> SkillDocument:
    """Raises BadSkill, with what is wrong and where."""
    if len(text.encode(errors="replace")) > LARGEST:
        raise BadSkill(f"SKILL.md is larger than {LARGEST >> 10} KiB")
    head, body = _split(text.replace("\r\n", "\n"))
    fields = _load(head)
    for key in fields:
        if key not in _KNOWN:
            raise BadSkill(
                f"SKILL.md has no use for {key!r} in its front matter",
                hint=f"It may have {', '.join(_KNOWN)}; anything of your own goes below metadata",
            )
    return SkillDocument(
        name=check_skill_name(fields.get("name")),
        description=_text(fields, "description", LONGEST_DESCRIPTION, is_needed=True),
        body=body.strip("\n"),
        license=_text(fields, "license", LONGEST_COMPATIBILITY),
        compatibility=_text(fields, "compatibility", LONGEST_COMPATIBILITY),
        metadata=_metadata(fields.get("metadata")),
        allowed_tools=_allowed(fields.get("allowed-tools")),
    )


def check_skill_name(value: object) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_NAME or NAME.fullmatch(value) is None:
        raise BadSkill(
            f"A skill cannot have the name {value!r:.80}",
            hint="Small letters, digits and single hyphens between them, at most 64",
        )
    return value


def _split(text: str) -> tuple[str, str]:
    lines = text.split("\n")
    if not lines or lines[0].rstrip() != _FENCE:
        raise BadSkill("SKILL.md does not begin with front matter", hint="Its first line is ---")
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == _FENCE:
            head = "\n".join(lines[1:number])
            if len(head) > LARGEST_HEAD:
                raise BadSkill(f"The front matter is larger than {LARGEST_HEAD >> 10} KiB")
            return head, "\n".join(lines[number + 1 :])
    raise BadSkill("The front matter of SKILL.md has no end", hint="A line --- ends it")


def _load(head: str) -> dict[str, Any]:
    import yaml

    try:
        _refuse_bombs(head)
        _refuse_doubles(yaml.compose(head, yaml.SafeLoader))
        found = yaml.load(head, yaml.SafeLoader)
    except yaml.YAMLError as error:
        first = str(error).replace("\n", " ")[:200]
        raise BadSkill(f"The front matter is not YAML: {first}") from None
    except (RecursionError, ValueError, OverflowError):
        raise BadSkill("The front matter cannot be read") from None
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise BadSkill("The front matter is not a table of names and values")
    return found


def _refuse_bombs(head: str) -> None:
    """An alias stands for what it names as often as it is written: a few lines could become gigabytes.

    And every level that is open makes each next word slower to read.
    """
    import yaml

    depth = 0
    for event in yaml.parse(head, yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise BadSkill("The front matter has a YAML alias in it, which is not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise BadSkill(f"The front matter is nested deeper than {_DEEPEST} levels")


def _refuse_doubles(node: Any) -> None:
    """Who reads the first of two and who reads the last would read two skills."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        seen = {"<<"}
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                raise BadSkill(f"The front matter has {name!r:.80} twice, or merged into it")
            seen.add(name)
            _refuse_doubles(value)


def _text(fields: Mapping[str, Any], name: str, most: int, *, is_needed: bool = False) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise BadSkill(f"`{name}` of SKILL.md is no text")
    value = value.strip()
    if is_needed and not value:
        raise BadSkill(f"SKILL.md needs a {name!r}", hint="It tells a model when to use the skill")
    if len(value) > most:
        raise BadSkill(f"`{name}` of SKILL.md has {len(value)} characters; {most} are allowed")
    return value


def _metadata(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > 64:
        raise BadSkill("`metadata` of SKILL.md is no table of texts")
    found = {}
    for key, one in value.items():
        if not isinstance(key, str) or isinstance(one, dict | list):
            raise BadSkill("`metadata` of SKILL.md is no table of texts")
        if isinstance(one, int) and one.bit_length() > _LARGEST_NUMBER:
            raise BadSkill(f"{key!r:.80} in `metadata` of SKILL.md is too large a number")
        found[key] = one if isinstance(one, str) else str(one)
    return found


def _allowed(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(one, str) for one in words):
        raise BadSkill("`allowed-tools` of SKILL.md is no list of names")
    return tuple(words)
