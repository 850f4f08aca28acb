"""A build file cut into its stages, and which of them a target needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crucible.build.instructions import Arg, BuildFile, Copy, From, Instruction
from crucible.build.words import BadWord, expand
from crucible.errors import BadSetting, BuildFileInvalid, suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """`image` is what it begins from, variables resolved. `stages` names the earlier ones by name and number."""

    number: int
    name: str
    line: int
    image: str
    steps: tuple[Instruction, ...]
    stages: Mapping[str, int]

    @property
    def base_stage(self) -> int | None:
        return self.stages.get(self.image.lower())

    def copied_stage(self, name: str) -> int | None:
        """The stage that a COPY --from means; None is an image."""
        return self.stages.get(name.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The stages to be built, in order; the last one is the result. `arguments` were set before the first FROM."""

    stages: tuple[Stage, ...]
    arguments: Mapping[str, str]

    @property
    def count(self) -> int:
        return sum(1 + len(stage.steps) for stage in self.stages)

    @property
    def images(self) -> tuple[str, ...]:
        """What it begins from or copies from that is no stage of its own."""
        names = [stage.image for stage in self.stages if stage.base_stage is None]
        for stage in self.stages:
            copies = [step.stage for step in stage.steps if isinstance(step, Copy) and step.stage]
            names += [name for name in copies if stage.copied_stage(name) is None]
        return tuple(dict.fromkeys(names))


def plan(file: BuildFile, *, given: Mapping[str, str], target: str = "") -> Plan:
    """Raises BuildFileInvalid, or BadSetting for a target or an argument that the file does not know."""
    declared = [each.name for each in file.instructions if isinstance(each, Arg)]
    for name in given:
        if name not in declared:
            raise BadSetting(
                f"{file.origin} has no ARG {name[:80]!r}",
                hint=suggestion(name, dict.fromkeys(declared)) if declared else "It declares none",
            )
    arguments = _global_arguments(file, given)
    stages = _cut(file, arguments)
    last = _target(stages, target, file.origin)
    wanted = _needed(stages, last)
    return Plan(stages=tuple(stages[number] for number in sorted(wanted)), arguments=arguments)


def _global_arguments(file: BuildFile, given: Mapping[str, str]) -> dict[str, str]:
    arguments: dict[str, str] = {}
    for each in file.instructions:
        if isinstance(each, From):
            break
        if isinstance(each, Arg):
            default = None if each.default is None else _expand(file, each, each.default, arguments)
            value = given.get(each.name, default)
            if value is not None:
                arguments[each.name] = value
    return arguments


def _cut(file: BuildFile, arguments: Mapping[str, str]) -> list[Stage]:
    starts = [at for at, each in enumerate(file.instructions) if isinstance(each, From)]
    stages: list[Stage] = []
    known: dict[str, int] = {}
    for number, at in enumerate(starts):
        first = file.instructions[at]
        assert isinstance(first, From)  # noqa: S101 - that is how it was found
        end = starts[number + 1] if number + 1 < len(starts) else len(file.instructions)
        image = _expand(file, first, first.image, arguments)
        if not image:
            raise BuildFileInvalid(file.origin, first.line, "FROM names no image")
        stage = Stage(
            number=number,
            name=first.name,
            line=first.line,
            image=image,
            steps=file.instructions[at + 1 : end],
            stages=dict(known),
        )
        stages.append(stage)
        if first.name in known:
            raise BuildFileInvalid(
                file.origin, first.line, f"there is another stage {first.name!r} already"
            )
        known[str(number)] = number
        if first.name:
            known[first.name] = number
    return stages


def _target(stages: Sequence[Stage], target: str, origin: str) -> int:
    if not target:
        return len(stages) - 1
    for stage in stages:
        if target.lower() in (stage.name, str(stage.number)):
            return stage.number
    names = [stage.name for stage in stages if stage.name]
    raise BadSetting(
        f"{origin} has no stage {target[:80]!r}",
        hint=suggestion(target, names) if names else "None has a name",
    )


def _needed(stages: Sequence[Stage], last: int) -> set[int]:
    wanted: set[int] = set()
    waiting = [last]
    while waiting:
        number = waiting.pop()
        if number in wanted:
            continue
        wanted.add(number)
        stage = stages[number]
        others = [stage.base_stage]
        others += [
            stage.copied_stage(x.stage) for x in stage.steps if isinstance(x, Copy) and x.stage
        ]
        waiting += [other for other in others if other is not None]
    return wanted


def _expand(file: BuildFile, each: Instruction, text: str, variables: Mapping[str, str]) -> str:
    try:
        return expand(text, variables, file.escape)
    except BadWord as problem:
        raise BuildFileInvalid(file.origin, each.line, str(problem)) from None
