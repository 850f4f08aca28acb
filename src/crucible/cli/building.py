"""Builds an image for a command, with what goes on told: one that was asked for, or the one that a project wants."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crucible.build.builder import Built, missing_images
from crucible.build.builder import build as run_build
from crucible.build.dockerfile import MAX_BYTES, parse_dockerfile
from crucible.build.instructions import Arg, BuildFile
from crucible.build.recipe import parse_recipe
from crucible.build.work import Order
from crucible.cli import render
from crucible.config import Config, load_config
from crucible.errors import BuildStepFailed, CrucibleError, ImageNotBuilt, PathRefused
from crucible.images.oci.reference import parse_reference
from crucible.sandbox.spec import DEFAULT_RUN_TIMEOUT_S, SandboxSpec

if TYPE_CHECKING:
    from crucible.cli.specs import Asked

# Of what a sandbox is asked to be, what the machines that its image is built in are as well.
_SHARED = (
    "memory_mib", "cpus", "disk_mib", "backend", "min_isolation", "network", "allow", "deny", "connections",
)  # fmt: skip


def make(order: Order, talk: Talk | None = None) -> Built:
    from crucible.assemble import manager

    config = load_config()
    talk = talk or Talk()
    _pull_missing(order, config, talk.begin)
    own = manager(config)
    try:
        work = run_build(order, own, tell=talk.tell, output=talk.output, begin=talk.begin)
        return asyncio.run(work)
    finally:
        own.records.close()


def make_for_project(asked: Asked) -> None:
    """The image that the project's devcontainer.json wants. Says nothing when all of it is there already."""
    from crucible.sandbox.workspace.credentials import withheld_of

    build, spec = asked.build or {}, asked.spec
    arguments: dict[str, str] = build.get("args", {})
    path = Path(build["dockerfile"])
    # What is no plain file could keep us waiting.
    file = read_build_file(path) if path.is_file() else None
    if file is None:
        raise PathRefused(
            f"There is no {str(path)!r}, which {asked.image.origin} names",
            hint="--no-devcontainer leaves the file aside; --image names another image",
        )
    declared = {each.name for each in file.instructions if isinstance(each, Arg)}
    withheld = withheld_of(
        Path(build["context"]),
        include=bool(spec.get("include_credentials")),
        own_state=load_config().home,
    )
    order = Order(
        file=file,
        context=Path(build["context"]),
        name=parse_reference(asked.image.value),
        arguments={name: text for name, text in arguments.items() if name in declared},
        target=build.get("target", ""),
        spec=SandboxSpec(**{name: spec[name] for name in _SHARED if name in spec}),
        timeout_s=DEFAULT_RUN_TIMEOUT_S,
        withheld=withheld,
    )
    talk = Talk(_introduction(path, asked, arguments.keys() - declared))
    try:
        make(order, talk)
    except BuildStepFailed as error:
        # Its status would pass for that of the command that was to be run.
        raise ImageNotBuilt(asked.image.origin, error.message) from None
    except CrucibleError:
        talk.begin()
        raise
    finally:
        if talk.has_begun and withheld is not None and (told := withheld.told()):
            talk.tell(told)


def read_build_file(path: Path) -> BuildFile | None:
    """A Dockerfile, or a recipe by its name; None where there is none."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PathRefused(f"{str(path)!r} cannot be read: {error.strerror}") from None
    parse = parse_recipe if path.suffix == ".toml" else parse_dockerfile
    return parse(data, origin=path.name)


class Talk:
    """Lines and output for standard error. With an introduction, nothing is said before there is something to do."""

    def __init__(self, introduction: str = "") -> None:
        self._waiting = [introduction] if introduction else None
        self.has_begun = not introduction

    def begin(self) -> None:
        self.has_begun = True
        waiting, self._waiting = self._waiting or [], None
        for line in waiting:
            self.tell(line)

    def tell(self, line: str) -> None:
        if self._waiting is not None:
            self._waiting.append(line)
        else:
            render.tell(render.visible(line))

    def output(self, data: bytes) -> None:
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()


def _introduction(path: Path, asked: Asked, unused: set[str]) -> str:
    network: Any = asked.spec.get("network", SandboxSpec().network)
    line = (
        f"building the image from {path}; its steps run in sandboxes (network: {network});"
        " --no-devcontainer leaves it aside"
    )
    return f"{line}; not used: {', '.join(sorted(unused))}" if unused else line


def _pull_missing(order: Order, config: Config, begin: Callable[[], None]) -> None:
    """Before all else, where an interrupt ends it at once."""
    names = missing_images(order, config.home)
    if not names or not config.pulls_images:
        return
    from crucible.cli.layer_bars import LayerBars
    from crucible.images.obtaining import obtain
    from crucible.images.oci.pull import Policy, Pulling
    from crucible.sandbox.image_use import images_in_use

    begin()
    for name in names:
        bars = LayerBars(f"pulling {name}")
        how = Pulling(
            home=config.home,
            policy=Policy.MISSING,
            report=bars.note,
            progress=bars.layer,
            in_use=lambda: images_in_use(config.home),
        )
        try:
            obtain(name, how)
        finally:
            bars.clear()
