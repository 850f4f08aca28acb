"""The skills there are: those that came with the program, and those the user has added. Every file is known by hash."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from crucible.agent.skills.archives import DOCUMENT_NAME, LARGEST_SKILL, MOST_FILES, unpack
from crucible.agent.skills.declared import Binary, DeclaredTool, Script, parse_tools
from crucible.agent.skills.document import NAME, SkillDocument, check_skill_name, parse_document
from crucible.errors import BadSkill, SkillChanged, SkillMissing, SkillTaken

DIRECTORY = "skills"
_SEAL = "sealed.json"
_FILES = "files"
_BUILT_IN = Path(__file__).with_name("builtin")

Origin = Literal["built in", "added"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """`hashes` are those of its files as they were when it was added; `directory` holds them."""

    document: SkillDocument
    tools: tuple[DeclaredTool, ...]
    origin: Origin
    directory: Path
    hashes: Mapping[str, str]
    added_at: float = 0.0
    source: str = ""

    @property
    def name(self) -> str:
        return self.document.name

    def read(self, path: str) -> bytes:
        """A file of it, which must be what it was when it was added. Raises SkillChanged."""
        expected = self.hashes.get(path)
        try:
            data = _beneath(self.directory, path).read_bytes()
        except OSError:
            data = b""
            expected = None
        if expected is None or hashlib.sha256(data).hexdigest() != expected:
            raise SkillChanged(
                f"{path!r} of skill {self.name!r} is not what it was when the skill was added",
                hint=f"Look at it, then `crucible skill remove {self.name}` and add it anew",
            )
        return data

    def check_files(self) -> None:
        """Raises SkillChanged for the first file that is not what it was."""
        for path in self.hashes:
            self.read(path)


class Shelf:
    """Reads what is there each time it is asked: skills may be added while sessions run."""

    def __init__(self, home: Path) -> None:
        self._root = home / DIRECTORY

    def all(self) -> list[Skill]:
        """Those that can be used, by name. One that was added goes before one of the same name that is built in."""
        return self.look()[0]

    def broken(self) -> Mapping[str, str]:
        """Those that were added and cannot be used, with what is wrong. The others are not worse for them."""
        return self.look()[1]

    def look(self) -> tuple[list[Skill], Mapping[str, str]]:
        """Both at once, as they are in this moment."""
        found = {skill.name: skill for skill in _built_in()}
        broken: dict[str, str] = {}
        for path in _directories(self._root):
            found.pop(path.name, None)
            try:
                found[path.name] = self._added(path)
            except (BadSkill, SkillChanged) as error:
                broken[path.name] = error.message
        return [found[name] for name in sorted(found)], broken

    def find(self, name: str) -> Skill:
        """Raises SkillMissing, SkillChanged."""
        if NAME.fullmatch(name) and (self._root / name).is_dir():
            return self._added(self._root / name)
        for skill in _built_in():
            if skill.name == name:
                return skill
        raise SkillMissing(name[:80])

    def add(self, source: Path, *, replaces: bool = False, told_as: str = "") -> Skill:
        """From a directory or a tar archive of one. All of it is there, or nothing.

        `replaces`: also where one of that name was added before. `told_as` is where it came from, if not from there.
        """
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._root.parent, prefix="skill-") as scratch:
            skill = _taken_in(source, Path(scratch) / _FILES)
            whole = Path(scratch) / "whole"
            whole.mkdir()
            skill.directory.rename(whole / _FILES)
            seal = {
                "hashes": skill.hashes,
                "added_at": time.time(),
                "source": told_as or str(source),
            }
            (whole / _SEAL).write_text(json.dumps(seal))
            target = self._root / skill.name
            if replaces and target.exists():
                _exchange(target, whole)
            else:
                try:
                    whole.rename(target)
                except OSError:
                    raise SkillTaken(skill.name) from None
        return self._added(target)

    def check(self, source: Path) -> Skill:
        """As `add` would find it; nothing is kept."""
        with tempfile.TemporaryDirectory(prefix="crucible-skill-") as scratch:
            return _taken_in(source, Path(scratch) / _FILES)

    def remove(self, name: str) -> None:
        target = self._root / check_skill_name(name)
        if not target.is_dir():
            raise SkillMissing(name)
        # First out of sight: whoever lists meanwhile sees all of it or nothing.
        with tempfile.TemporaryDirectory(dir=self._root.parent, prefix="skill-") as scratch:
            target.rename(Path(scratch) / name)

    def _added(self, path: Path) -> Skill:
        try:
            seal = json.loads((path / _SEAL).read_text())
            hashes = {str(key): str(value) for key, value in seal["hashes"].items()}
            added_at, source = float(seal["added_at"]), str(seal["source"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SkillChanged(
                f"What was noted of skill {path.name!r} cannot be read: {error}",
                hint=f"Remove it with `crucible skill remove {path.name}` and add it anew",
            ) from None
        files = path / _FILES
        skill = Skill(
            document=replace(_EMPTY, name=path.name), tools=(), origin="added", directory=files, hashes=hashes,
            added_at=added_at, source=source,
        )  # fmt: skip
        document = parse_document(_decoded(skill.read(DOCUMENT_NAME)))
        tools = (
            parse_tools(_decoded(skill.read(document.tools_file))) if document.tools_file else ()
        )
        return Skill(
            document=document, tools=tools, origin="added", directory=files, hashes=hashes,
            added_at=added_at, source=source,
        )  # fmt: skip


@cache
def _built_in() -> tuple[Skill, ...]:
    return tuple(read_skill(path, origin="built in") for path in _directories(_BUILT_IN))


_EMPTY = SkillDocument(name="unread", description="", body="", metadata={})


def read_skill(directory: Path, *, origin: Origin = "added") -> Skill:
    """A skill as it lies there now, checked whole. Raises BadSkill."""
    hashes = {
        path: hashlib.sha256(_beneath(directory, path).read_bytes()).hexdigest()
        for path in _listed(directory)
    }
    if DOCUMENT_NAME not in hashes:
        raise BadSkill(
            f"{directory} has no {DOCUMENT_NAME}", hint="A skill is a directory with one"
        )
    document = parse_document(_decoded((directory / DOCUMENT_NAME).read_bytes()))
    if origin == "built in" and document.name != directory.name:
        raise BadSkill(f"Skill {document.name!r} lies in a directory {directory.name!r}")
    tools: tuple[DeclaredTool, ...] = ()
    if document.tools_file:
        if document.tools_file not in hashes:
            raise BadSkill(f"The skill has no file {document.tools_file!r}")
        tools = parse_tools(_decoded((directory / document.tools_file).read_bytes()))
        _check_files(tools, hashes)
    return Skill(document=document, tools=tools, origin=origin, directory=directory, hashes=hashes)


def _check_files(tools: tuple[DeclaredTool, ...], hashes: Mapping[str, str]) -> None:
    for tool in tools:
        match tool.backend:
            case Script(path=path) if path not in hashes:
                raise BadSkill(f"Tool {tool.name!r} names {path!r}, which the skill does not have")
            case Binary(sources=sources):
                for source in sources.values():
                    if source.path and hashes.get(source.path) != source.sha256:
                        raise BadSkill(
                            f"Tool {tool.name!r} names {source.path!r}, which is missing or has another sha256"
                        )
            case _:
                pass


def _directories(root: Path) -> list[Path]:
    try:
        return sorted(path for path in root.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []


def _listed(directory: Path) -> Iterator[str]:
    """Its files, as paths beneath it. Links and devices are refused: a skill is what its bytes are."""
    count, size = 0, 0
    for root, directories, files in os.walk(directory, followlinks=False):
        directories[:] = sorted(name for name in directories if name != "__pycache__")
        for name in sorted([*directories, *files]):
            path = Path(root) / name
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                continue
            if not stat.S_ISREG(mode):
                raise BadSkill(f"{name!r} of the skill is a link or a device, not a file")
            count, size = count + 1, size + path.lstat().st_size
            if count > MOST_FILES or size > LARGEST_SKILL:
                raise BadSkill(
                    f"The skill has more than {MOST_FILES} files or {LARGEST_SKILL >> 20} MiB"
                )
            yield path.relative_to(directory).as_posix()


def _copy(source: Path, target: Path) -> None:
    for path in _listed(source):
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / path, place)


def _taken_in(source: Path, place: Path) -> Skill:
    """Copied to a place of our own first: what is checked is what is kept."""
    place.mkdir()
    if source.is_dir():
        _copy(source, place)
    else:
        place = unpack(source, place)
    return read_skill(place)


def _exchange(target: Path, whole: Path) -> None:
    """The new one in the place of the old, which is back if that fails."""
    old = whole.with_name("old")
    target.rename(old)
    try:
        whole.rename(target)
    except OSError:
        old.rename(target)
        raise


def _beneath(directory: Path, path: str) -> Path:
    return directory.joinpath(*path.split("/"))


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadSkill("A file of the skill that should be text is not UTF-8") from None
