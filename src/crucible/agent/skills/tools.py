"""The tools of skills. All of them work inside the session's sandbox, whatever they are made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, get_args
from urllib.parse import quote, urlencode, urlsplit

from crucible.agent.models.base import ToolSpec
from crucible.agent.skills.declared import (
    Binary,
    DeclaredTool,
    Http,
    Runs,
    Script,
    filled,
    places,
)
from crucible.agent.skills.programs import Programs, architecture
from crucible.agent.skills.shelf import Skill
from crucible.agent.tools.base import Code, Context, Language, Outcome, Use
from crucible.agent.tools.fitting import faults_of
from crucible.agent.tools.transcript import Transcript
from crucible.agent.tools.wording import MOST_SHOWN, clean_text, shown
from crucible.agent.tools.work import keep_output
from crucible.errors import BadToolCall, Unsupported

PREFIX = "skill"
ROOT = "/skills"
_INTERPRETERS: Mapping[Runs, tuple[str, ...]] = {
    "python": ("python3",),
    "shell": ("sh",),
    "javascript": ("node",),
    "program": (),
}
_LANGUAGES: Mapping[Runs, Language] = {
    "python": "python",
    "shell": "shell",
    "javascript": "javascript",
}
# What a request of a skill is made with, in the sandbox: a Python that has no package but its own library.
_REQUEST = """\
import json, sys, urllib.error, urllib.request
asked = json.load(sys.stdin)
body = None if asked["body"] is None else json.dumps(asked["body"]).encode()
headers = dict(asked["headers"])
if body is not None:
    headers.setdefault("Content-Type", "application/json")
request = urllib.request.Request(asked["url"], data=body, headers=headers, method=asked["method"])
try:
    answer = urllib.request.urlopen(request, timeout=asked["timeout_s"])
except urllib.error.HTTPError as error:
    answer = error
except (OSError, ValueError) as error:
    sys.exit("%s could not be reached: %s" % (asked["url"], error))
data = answer.read(asked["most"])
sys.stdout.buffer.write(data)
sys.exit(0 if 200 <= answer.status < 300 else "the answer has status %d" % answer.status)
"""
_MOST_ANSWER = 8 << 20


def tool_name(skill: str, tool: str) -> str:
    """As a model calls it; providers allow 64 letters, digits, `_` and `-`."""
    name = f"{PREFIX}__{skill}__{tool}"
    if len(name) <= 64:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{PREFIX}__{skill[:12]}-{mark}__{tool[:30]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTool:
    skill: Skill
    declared: DeclaredTool
    programs: Programs

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=tool_name(self.skill.name, self.declared.name),
            description=self.declared.description,
            parameters=self.declared.parameters,
        )

    def use(self, arguments: Mapping[str, Any]) -> Use:
        self._check(arguments)
        return Use(
            tool=self.spec.name,
            arguments=dict(arguments),
            subject=self._subject(arguments),
            code=self._code(arguments),
            exact=_all_of(arguments) if len(arguments) > 1 else "",
        )

    async def run(self, use: Use, context: Context) -> Outcome:
        await context.workplace.open()
        match self.declared.backend:
            case Script() as script:
                await self._lay_out(context)
                argv = (*_INTERPRETERS[script.runs], f"{self._root}/{script.path}")
                return await self._ran(argv, json.dumps(use.arguments).encode(), context)
            case Http() as http:
                asked = json.dumps(_request(http, use.arguments, self.declared.timeout_s))
                return await self._ran(("python3", "-c", _REQUEST), asked.encode(), context)
            case Binary() as binary:
                program = await self._program(binary, context)
                words = (filled(word, use.arguments) for word in binary.arguments)
                return await self._ran(
                    (program, *words), json.dumps(use.arguments).encode(), context
                )

    @property
    def _root(self) -> str:
        return f"{ROOT}/{self.skill.name}"

    async def _ran(self, argv: tuple[str, ...], input: bytes, context: Context) -> Outcome:
        heard = Transcript(context.heard)
        ran = await context.workplace.run(
            argv,
            timeout_s=self.declared.timeout_s,
            input=input,
            environment={"SKILL_DIRECTORY": self._root},
            max_output=0,
            heard=heard.hear,
        )
        kept = heard.kept()
        where = await keep_output(context, kept) if heard.total > MOST_SHOWN else ""
        text = shown(kept, heard.total, where=where).strip("\n") or "[no output]"
        if ran.timed_out:
            text += f"\n[ended after {self.declared.timeout_s:g} s, its time limit]"
        elif ran.exit_status:
            text += f"\n[exit status {ran.exit_status}]"
        return Outcome(
            text=text, is_error=ran.exit_status != 0, exit_status=ran.exit_status, whole=kept
        )

    async def _lay_out(self, context: Context) -> None:
        """Its files into the sandbox, those that are not there as they should be."""
        for path in self.skill.hashes:
            data = self.skill.read(path)
            target = f"{self._root}/{path}"
            if not await _is_there(context, target, data):
                await context.workplace.write(target, data)
        await self._make_runnable(context, [f"{self._root}/{path}" for path in self._runnable()])

    def _runnable(self) -> list[str]:
        return [
            tool.backend.path
            for tool in self.skill.tools
            if isinstance(tool.backend, Script) and tool.backend.runs == "program"
        ]

    async def _make_runnable(self, context: Context, paths: list[str]) -> None:
        if paths:
            await context.workplace.run(("chmod", "755", "--", *paths), timeout_s=60)

    async def _program(self, binary: Binary, context: Context) -> str:
        source = binary.sources.get(architecture())
        if source is None:
            raise Unsupported(f"Skill {self.skill.name!r} has no program for {architecture()}")
        data = await self.programs.get(self.skill, source)
        target = f"{self._root}/bin/{source.sha256[:16]}"
        if not await _is_there(context, target, data):
            await context.workplace.write(target, data)
            await self._make_runnable(context, [target])
        return target

    def _check(self, arguments: Mapping[str, Any]) -> None:
        if told := faults_of(self.declared.parameters, arguments):
            raise BadToolCall(f"The arguments of `{self.spec.name}` do not fit: {told}")

    def _subject(self, arguments: Mapping[str, Any]) -> str:
        match self.declared.backend:
            case Http() as http:
                return str(_request(http, arguments, self.declared.timeout_s)["url"])
            case _:
                for name in ("command", "code", "query", "url", "path"):
                    if isinstance(arguments.get(name), str):
                        return str(arguments[name])
                return _all_of(arguments)

    def _code(self, arguments: Mapping[str, Any]) -> Code | None:
        """Of a skill that somebody added, its script; of those that come along, what the model wrote for it to run."""
        backend = self.declared.backend
        if self.skill.origin == "built in":
            return _given_code(arguments)
        if not isinstance(backend, Script):
            return None
        language = _LANGUAGES.get(backend.runs) or _language_by_name(backend.path)
        if language is None:
            return None
        text = self.skill.read(backend.path).decode(errors="replace")
        return Code(text=text, language=language)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSkill:
    """The tool with which a model reads a skill's instructions, and what else it has to read."""

    skills: tuple[Skill, ...]

    @property
    def spec(self) -> ToolSpec:
        # One line each: no description shall read as that of another skill.
        known = "\n".join(
            f"- {one.name}: {' '.join(clean_text(one.document.description).split())}"
            for one in self.skills
        )
        return ToolSpec(
            name=PREFIX,
            description=(
                "Reads the instructions of a skill, or with `path` another text of it. Read them before you do what "
                f"the skill is for. Skills:\n{known}"
            ),
            parameters={
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": [one.name for one in self.skills]},
                    "path": {"type": "string", "description": "A file that the instructions name"},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
        )

    def use(self, arguments: Mapping[str, Any]) -> Use:
        name, path = arguments.get("name"), arguments.get("path", "")
        known = [one.name for one in self.skills]
        if not isinstance(name, str) or name not in known:
            raise BadToolCall(f"There is no skill {name!r:.80}. Skills: {', '.join(known)}")
        if not isinstance(path, str):
            raise BadToolCall("`path` must be text")
        return Use(tool=PREFIX, arguments=dict(arguments), subject=f"{name} {path}".strip())

    async def run(self, use: Use, context: Context) -> Outcome:
        skill = next(one for one in self.skills if one.name == use.arguments["name"])
        path = str(PurePosixPath(use.arguments.get("path") or "."))
        if path == ".":
            return Outcome(text=_introduced(skill))
        if path not in skill.hashes:
            return Outcome(
                text=f"The skill has no {path!r}. It has: {', '.join(skill.hashes)}", is_error=True
            )
        data = skill.read(path)
        return Outcome(text=shown(data, len(data)), whole=data)


async def _is_there(context: Context, path: str, data: bytes) -> bool:
    """What lies there may have been changed by what ran since."""
    facts = await context.workplace.stat(path)
    if facts is None or facts.size != len(data):
        return False
    return await context.workplace.read(path) == data


def _introduced(skill: Skill) -> str:
    lines = [skill.document.body]
    if skill.tools:
        names = ", ".join(tool_name(skill.name, tool.name) for tool in skill.tools)
        lines.append(f"[Tools of this skill: {names}]")
    others = [path for path in skill.hashes if path != "SKILL.md"]
    if others:
        lines.append(f"[Files of this skill, read with `path`: {', '.join(others[:200])}]")
    return "\n\n".join(lines)


def _request(http: Http, arguments: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    url = filled(http.url, arguments, quote=lambda text: quote(text, safe=""))
    headers = {name: _one_line(filled(value, arguments)) for name, value in http.headers.items()}
    named = places(http.url).union(*map(places, http.headers.values()))
    rest = {name: value for name, value in arguments.items() if name not in named}
    body: dict[str, Any] | None = None
    if http.method == "GET":
        if rest:
            words = {
                name: value if isinstance(value, str) else json.dumps(value)
                for name, value in rest.items()
            }
            url += ("&" if urlsplit(url).query else "?") + urlencode(words)
    else:
        body = rest
    return {
        "method": http.method,
        "url": url,
        "headers": headers,
        "body": body,
        "timeout_s": timeout_s,
        "most": _MOST_ANSWER,
    }


def _all_of(arguments: Mapping[str, Any]) -> str:
    return json.dumps(dict(arguments), ensure_ascii=False, sort_keys=True)


def _given_code(arguments: Mapping[str, Any]) -> Code | None:
    code = arguments.get("code")
    found: list[Language] = [one for one in get_args(Language) if one == arguments.get("language")]
    return Code(text=code, language=found[0]) if found and isinstance(code, str) else None


def _one_line(text: str) -> str:
    if any(not letter.isprintable() for letter in text):
        raise BadToolCall("An argument that goes into a header has a control character in it")
    return text


def _language_by_name(path: str) -> Language | None:
    found: dict[str, Language] = {".py": "python", ".sh": "shell", ".js": "javascript"}
    return found.get(PurePosixPath(path).suffix)
