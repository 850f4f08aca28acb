"""What all stages of a build share: the order, the store, the sandboxes, the counting of steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from crucible.build import cache, drafts
from crucible.build.drafts import Draft, LayerFile, draft_of, empty_draft
from crucible.build.instructions import BuildFile
from crucible.build.packaged import read_packaged
from crucible.build.running import Output
from crucible.build.stages import Stage
from crucible.errors import ImageMissing
from crucible.images import pulled
from crucible.images.catalog import Image, list_images, load_image
from crucible.images.layers.growing import GrowingRoot
from crucible.images.layers.limits import DEFAULT
from crucible.images.layers.making import make_root
from crucible.images.oci import platforms
from crucible.images.oci.files import locked
from crucible.images.oci.model import ImageConfig, PulledImage
from crucible.images.oci.reference import RegistryReference, parse_reference
from crucible.images.oci.store import Store
from crucible.sandbox.manager import Manager
from crucible.sandbox.spec import SandboxSpec
from crucible.sandbox.workspace.credentials import Withheld

Tell = Callable[[str], None]
# Called before anything is done that is not in the cache.
Begin = Callable[[], None]
SCRATCH = "scratch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to build. `spec` is of the machines that RUN steps get: its image is each step's own.

    `withheld` is what of the context stays on this host.
    """

    file: BuildFile
    context: Path
    name: RegistryReference
    arguments: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    uses_cache: bool = True
    spec: SandboxSpec = field(default_factory=SandboxSpec)
    timeout_s: float | None = None
    epoch_s: int | None = None
    withheld: Withheld | None = None


@dataclass(slots=True, kw_only=True)
class Work:
    """What all stages of one build share."""

    order: Order
    manager: Manager
    scratch: Path
    tell: Tell
    output: Output
    growing: GrowingRoot
    begin: Begin = lambda: None
    total: int = 0
    number: int = 0
    ran: int = 0
    cached: int = 0
    rooted: set[str] = field(default_factory=set)

    @property
    def home(self) -> Path:
        return self.manager.config.home

    @property
    def store(self) -> Store:
        return Store(self.home)

    def step(self, text: str) -> None:
        self.number += 1
        self.tell(f"[{self.number}/{self.total}] {text}")

    async def base_of(self, stage: Stage, done: Mapping[int, Draft]) -> Draft:
        self.step(f"FROM {stage.image}")
        if stage.base_stage is not None:
            return done[stage.base_stage]
        return await self.image(stage.image)

    async def image(self, name: str) -> Draft:
        """An image as layers: one of the store, or one that was made of packages."""
        if name == SCRATCH:
            return empty_draft()
        packaged = find_packaged(self.home, name)
        if packaged is not None:
            return self._packaged(packaged)
        reference = str(parse_reference(name))
        stored = self.store.find(reference)
        if stored is None:
            here = tuple(image.name for image in list_images(self.home))
            raise ImageMissing(name, here)
        return draft_of(stored)

    def _packaged(self, image: Image) -> Draft:
        """Its one layer is read out of its root, once for each of its versions."""
        platform = platforms.host_platform()
        base = Draft(
            config=ImageConfig(
                environment=image.environment,
                user=image.user,
                workdir=image.workdir,
                os=platform.os,
                architecture=platform.architecture,
            )
        )
        key = cache.key_of((), "image", image.digest)
        known = cache.find(self.store, key)
        if known is not None:
            return replace(
                base, layers=known.layers, config=replace(base.config, created=known.config.created)
            )
        self.begin()
        self.tell(f"reading {image.name} as a layer; the next build has it")
        with self.layer_file(DEFAULT.total_bytes) as file:
            read_packaged(image, file)
            made = base.with_layer(file.finish(self.store), epoch_s=self.order.epoch_s)
        self.judge_and_remember(key, made)
        return made

    def layer_file(self, most_bytes: int) -> LayerFile:
        return LayerFile(self.scratch / f"layer-{os.urandom(4).hex()}", most_bytes=most_bytes)

    def remember(self, key: str, draft: Draft) -> None:
        cache.keep(self.store, key, self._written(key, draft))

    def judge_and_remember(self, key: str, draft: Draft) -> None:
        """For a layer that a machine wrote: making the root of it is where it is judged, as of any image."""
        written = self._written(key, draft)
        self.root(written)
        cache.keep(self.store, key, written)

    def _written(self, key: str, draft: Draft) -> PulledImage:
        return drafts.write(self.store, draft, f"{key[:12]} of the build cache")

    def root(self, image: PulledImage) -> Image:
        self.rooted.add(image.digest)
        return make_root(image, self.home, write=self.growing.write)

    def name_result(self, draft: Draft) -> Image:
        reference = str(self.order.name)
        written = drafts.write(self.store, draft, reference)
        made = self.root(written)
        self.store.tags.set(reference, written.digest, written.digest)
        return made

    def tidy(self) -> None:
        """Roots of steps in between take much room and can be made again. Not while others may be at them."""
        with locked(self.store.directory / "lock", waits=False) as is_ours:
            if not is_ours:
                return
            named = {tag.digest for tag in self.store.tags.all() if not tag.is_internal}
            for digest in self.rooted - named:
                pulled.description_of(self.home, digest).unlink(missing_ok=True)


def find_packaged(home: Path, name: str) -> Image | None:
    """The image of that name if it was made of packages here, and so has no layers."""
    try:
        found = load_image(home, name)
    except ImageMissing:
        return None
    return None if found.manifest_digest else found
