"""One stage: its instructions in order, each changing the draft of the image."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from crucible.build import cache
from crucible.build.context import Context
from crucible.build.copying import Order as CopyOrder
from crucible.build.copying import gather, place, write_layer
from crucible.build.drafts import Draft
from crucible.build.filesystem import ImageFiles
from crucible.build.instructions import (
    Arg,
    Cmd,
    Copy,
    Entrypoint,
    Env,
    Expose,
    Instruction,
    Label,
    Run,
    User,
    Workdir,
)
from crucible.build.items import Source
from crucible.build.running import Step, run_step
from crucible.build.stages import Stage
from crucible.build.words import BadWord, expand
from crucible.build.work import Work
from crucible.errors import BuildFileInvalid
from crucible.images.layers.growing import GrowingRoot
from crucible.images.layers.limits import DEFAULT

# What commands have where the image says nothing, and so what `ENV PATH=/opt/bin:$PATH` means there.
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PORT = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?(?:/(tcp|udp|sctp))?\Z")
_LAST_PORT = 65535
_MOST_PORTS = 1000
# A tar is larger than the files in it, by a header for each.
_TAR_SLACK = 2


@dataclass(slots=True)
class StageBuild:
    work: Work
    stage: Stage
    draft: Draft
    done: Mapping[int, Draft]
    context: Context
    global_arguments: Mapping[str, str]
    arguments: dict[str, str] = field(default_factory=dict)
    has_command: bool = False

    async def run(self) -> Draft:
        for instruction in self.stage.steps:
            self.work.step(_shown(instruction))
            try:
                await self._do(instruction)
            except BadWord as problem:
                raise self._bad(instruction, str(problem)) from None
        return self.draft

    async def _do(self, instruction: Instruction) -> None:
        match instruction:
            case Arg():
                self._declare(instruction)
            case Env():
                # Of one instruction, no value sees another: all are resolved before any is set.
                new = {name: self._text(value) for name, value in instruction.pairs}
                self._configure(environment=tuple({**self._environment, **new}.items()))
            case Label():
                named = {self._text(name): self._text(value) for name, value in instruction.pairs}
                labels = {**dict(self.draft.config.labels), **named}
                self._configure(labels=tuple(sorted(labels.items())))
            case Workdir():
                path = posixpath.join(self._workdir, self._text(instruction.path))
                self._configure(workdir=_normal(path))
            case User():
                self._configure(user=self._text(instruction.user))
            case Entrypoint():
                # What the image below would run was meant for its own entry point.
                command = self.draft.config.command if self.has_command else ()
                self._configure(entrypoint=instruction.argv, command=command)
            case Cmd():
                self.has_command = True
                self._configure(command=instruction.argv)
            case Expose():
                self._expose(instruction)
            case Copy():
                await self._copy(instruction)
            case Run():
                await self._run(instruction)

    def _declare(self, arg: Arg) -> None:
        value = self.work.order.arguments.get(arg.name)
        if value is None and arg.default is not None:
            value = self._text(arg.default)
        if value is None:
            value = self.global_arguments.get(arg.name)
        if value is not None:
            self.arguments[arg.name] = value

    def _expose(self, expose: Expose) -> None:
        ports = set(self.draft.config.exposed_ports)
        for text in map(self._text, expose.ports):
            match = _PORT.match(text)
            first = int(match[1]) if match else 0
            last = int(match[2] or match[1]) if match else 0
            if match is None or not 1 <= first <= last <= _LAST_PORT or last - first > _MOST_PORTS:
                raise self._bad(expose, f"{text[:60]!r} is no port")
            ports |= {f"{port}/{match[3] or 'tcp'}" for port in range(first, last + 1)}
        self._configure(exposed_ports=tuple(sorted(ports)))

    async def _copy(self, copy: Copy) -> None:
        order = self._copy_order(copy)
        with ExitStack() as stack:
            source: Source = self.context
            if copy.stage:
                taken = await self._copied_from(copy.stage)
                other = stack.enter_context(GrowingRoot(self.work.scratch))
                source = ImageFiles(taken.layers, other)
            gathered = gather(order, source)
            facts = (order.target, order.mode, order.owner, gathered.digest())
            key = cache.key_of(self.draft.diff_ids, "copy", *facts)
            if self._take_cached(key):
                return
            self.work.begin()
            image = ImageFiles(self.draft.layers, self.work.growing)
            with self.work.layer_file(DEFAULT.total_bytes) as file:
                epoch_s = self.work.order.epoch_s
                write_layer(place(order, gathered, image), file, epoch_s=epoch_s)
                layer = file.finish(self.work.store)
        self.draft = self.draft.with_layer(layer, epoch_s=epoch_s)
        self.work.ran += 1
        self.work.remember(key, self.draft)

    def _copy_order(self, copy: Copy) -> CopyOrder:
        written = self._text(copy.target)
        # A path that ends like this means a directory, which joining and cleaning would forget.
        slash = "/" if written.endswith(("/", "/.")) or written == "." else ""
        return CopyOrder(
            word=cast("Literal['COPY', 'ADD']", copy.word),
            sources=tuple(map(self._text, copy.sources)),
            target=_normal(posixpath.join(self._workdir, written)) + slash,
            mode=int(copy.chmod, 8) if copy.chmod else None,
            owner=self._text(copy.chown),
        )

    async def _copied_from(self, name: str) -> Draft:
        number = self.stage.copied_stage(name)
        return self.done[number] if number is not None else await self.work.image(name)

    async def _run(self, run: Run) -> None:
        work = self.work
        step = Step(
            argv=run.argv,
            text=run.text,
            environment={**self.arguments, **self._environment},
            workdir=self._workdir,
            user=run.user or self.draft.config.user,
        )
        key = cache.key_of(
            self.draft.diff_ids, "run", step.argv, step.user, step.workdir,
            sorted(step.environment.items()),
        )  # fmt: skip
        if self._take_cached(key):
            return
        work.begin()
        spec = work.order.spec
        most_bytes = _TAR_SLACK * (spec.disk_mib << 20)
        with (
            cache.StepName(work.store, self.draft, os.urandom(8).hex()) as name,
            work.layer_file(most_bytes) as file,
        ):
            work.root(name.image)
            await run_step(
                work.manager,
                replace(spec, image=name.reference),
                step,
                file,
                work.output,
                timeout_s=work.order.timeout_s,
            )
            layer = file.finish(work.store)
        self.draft = self.draft.with_layer(layer, epoch_s=work.order.epoch_s)
        work.ran += 1
        work.judge_and_remember(key, self.draft)

    def _take_cached(self, key: str) -> bool:
        known = cache.find(self.work.store, key) if self.work.order.uses_cache else None
        if known is None:
            return False
        self.draft = Draft(
            config=replace(self.draft.config, created=known.config.created), layers=known.layers
        )
        self.work.cached += 1
        self.work.tell("    from the cache")
        return True

    def _configure(self, **changes: object) -> None:
        self.draft = replace(self.draft, config=replace(self.draft.config, **changes))  # type: ignore[arg-type]

    @property
    def _environment(self) -> dict[str, str]:
        return dict(self.draft.config.environment)

    @property
    def _workdir(self) -> str:
        return _normal(self.draft.config.workdir)

    def _text(self, text: str) -> str:
        known = {"PATH": _USUAL_PATH, **self.arguments, **self._environment}
        return expand(text, known, self.work.order.file.escape)

    def _bad(self, instruction: Instruction, why: str) -> BuildFileInvalid:
        return BuildFileInvalid(self.work.order.file.origin, instruction.line, why)


def _normal(path: str) -> str:
    """Absolute, without `.` and `..`: above the root there is nothing."""
    return "/" + posixpath.normpath("/" + path).lstrip("/")


def _shown(instruction: Instruction) -> str:
    name = type(instruction).__name__.upper()
    match instruction:
        case Run():
            return f"RUN {instruction.text}"
        case Copy():
            return f"{instruction.word} {' '.join((*instruction.sources, instruction.target))}"
        case Env() | Label():
            return f"{name} {' '.join(key for key, _ in instruction.pairs)}"
        case Arg():
            return f"ARG {instruction.name}"
        case Workdir():
            return f"WORKDIR {instruction.path}"
        case User():
            return f"USER {instruction.user}"
        case Entrypoint() | Cmd():
            return f"{name} {' '.join(instruction.argv)}"
        case Expose():
            return f"EXPOSE {' '.join(instruction.ports)}"
        case _:
            return name
