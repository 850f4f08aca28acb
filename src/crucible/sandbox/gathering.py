"""The images of sandboxes: those that are here, and how others come here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from crucible.errors import ImageMissing
from crucible.images.catalog import Image, load_image, load_images
from crucible.sandbox.backend import Backend
from crucible.sandbox.machines import Machines
from crucible.sandbox.placing import Placement
from crucible.sandbox.spec import SandboxSpec

# Brings an image here that is not: in a thread, until the last argument says that nobody waits any more. The second
# tells that nobody named this image.
Fetch = Callable[[str, bool, Callable[[], bool]], Image]


class Images:
    def __init__(self, home: Path, machines: Machines, fetch: Fetch | None) -> None:
        self._home = home
        self._machines = machines
        self._fetch = fetch

    async def find(self, name: str, *, is_guess: bool = False) -> Image:
        """The image of that name; fetched first if it is not here and there is somebody to fetch it."""
        try:
            return load_image(self._home, name)
        except ImageMissing:
            fetch = self._fetch
            if fetch is None:
                raise
        from crucible.sandbox.abandonable import beside

        is_stopped = False
        try:
            return await beside(lambda: fetch(name, is_guess, lambda: is_stopped))
        finally:
            is_stopped = True

    async def gather(self, spec: SandboxSpec, placed: Placement | None = None) -> Image:
        """All images of a sandbox as one, fetched where they are not here; of one elsewhere there is none to fetch."""
        if placed is not None:
            return self.of(spec, placed.backend)
        first = await self.find(spec.image)
        if not spec.images:
            return first
        for name in spec.images.values():
            await self.find(name)
        return self.of(spec)

    def of(self, spec: SandboxSpec, backend: Backend | None = None) -> Image:
        """The same, where all of them are here, or elsewhere."""
        if backend is not None and backend.is_remote:
            return self._machines.remote().image(spec.image)
        return load_images(self._home, spec.image, spec.images)
