"""Builds an image: each stage from its base, step by step, out of the cache where a step was done before.

The name is written last. A build that fails or is broken off leaves the name as it was; what it did is in the cache.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from crucible.build.context import Context
from crucible.build.drafts import Draft
from crucible.build.running import Output
from crucible.build.stage import StageBuild
from crucible.build.stages import plan
from crucible.build.work import SCRATCH, Begin, Order, Tell, Work, find_packaged
from crucible.images.catalog import Image
from crucible.images.layers.growing import GrowingRoot
from crucible.images.obtaining import evict
from crucible.images.oci.reference import parse_reference
from crucible.images.oci.settings import load_settings
from crucible.images.oci.store import Store
from crucible.sandbox.image_use import images_in_use
from crucible.sandbox.manager import Manager
from crucible.sandbox.scratch import scratch_directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """`ran` and `cached` count the steps that make layers."""

    image: Image
    digest: str
    ran: int
    cached: int


def missing_images(order: Order, home: Path) -> tuple[str, ...]:
    """What has to be pulled before it can be built."""
    store = Store(home)
    planned = plan(order.file, given=order.arguments, target=order.target)
    with store.opened():
        return tuple(
            name
            for name in planned.images
            if name != SCRATCH
            and find_packaged(home, name) is None
            and store.find(str(parse_reference(name))) is None
        )


async def build(
    order: Order, manager: Manager, *, tell: Tell, output: Output, begin: Begin = lambda: None
) -> Built:
    """`tell` gets a line for each step, `output` what the steps write. No image may be missing.

    `begin` is called before whatever is not in the cache: of a build that is all there it never is.
    """
    planned = plan(order.file, given=order.arguments, target=order.target)
    home = manager.config.home
    with ExitStack() as stack:
        context = stack.enter_context(closing(Context(order.context, withheld=order.withheld)))
        scratch = stack.enter_context(scratch_directory(home, "build"))
        work = Work(
            order=order,
            manager=manager,
            scratch=scratch,
            tell=tell,
            output=output,
            growing=stack.enter_context(GrowingRoot(scratch)),
            begin=begin,
        )
        work.total = planned.count
        try:
            with work.store.opened():
                done: dict[int, Draft] = {}
                for stage in planned.stages:
                    base = await work.base_of(stage, done)
                    made = StageBuild(work, stage, base, done, context, planned.arguments)
                    done[stage.number] = await made.run()
                result = work.name_result(done[planned.stages[-1].number])
        finally:
            work.tidy()
    limit_bytes = load_settings().limit_bytes
    evict(home, limit_bytes, lambda: images_in_use(home), keep=str(order.name))
    return Built(image=result, digest=result.manifest_digest, ran=work.ran, cached=work.cached)
