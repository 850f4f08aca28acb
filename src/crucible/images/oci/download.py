"""A blob from a registry into the store: gone on with where it broke off, never more than its size, verified."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass

from crucible.errors import ImageMalformed, RegistryBroken, RegistryUnreachable
from crucible.images.oci.blobs import Blobs, Part, SizeWrong
from crucible.images.oci.model import Descriptor
from crucible.images.oci.registry import Repository
from crucible.images.oci.server import Pause
from crucible.images.oci.settings import Patience
from crucible.images.oci.transport import ConnectionFailed, Response

PARALLEL = 3
# A connection that brought that much before it broke was worth it, and its failure is forgiven.
_WORTHWHILE_BYTES = 1 << 20
_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)")

# digest, bytes that are here, bytes in all
Progress = Callable[[str, int, int], None]


class Stopped(Exception):
    """Another download failed, so this one is not wanted any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloads:
    """Fetches blobs of one repository into one store."""

    repository: Repository
    blobs: Blobs
    patience: Patience
    pause: Pause
    progress: Progress
    stopped: threading.Event

    def fetch_all(self, wanted: Sequence[Descriptor], end: Callable[[], None]) -> None:
        """Several at a time. The first failure ends the others through `end`, and is raised."""
        unique = list({blob.digest: blob for blob in wanted}.values())
        with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
            futures = [pool.submit(self.fetch, blob) for blob in unique]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                failed = [future for future in done if future.exception() is not None]
                if failed:
                    failed[0].result()
            except BaseException:
                self.stopped.set()
                for future in futures:
                    future.cancel()
                end()
                raise

    def fetch(self, wanted: Descriptor) -> None:
        try:
            is_here = self.blobs.has(wanted.digest, wanted.size)
        except SizeWrong as error:
            raise ImageMalformed(self.repository.reference, str(error)) from None
        if not is_here:
            with self.blobs.writing(wanted.digest, self._check_stopped) as part:
                if part is not None:
                    self._fill(part, wanted)
        self.progress(wanted.digest, wanted.size, wanted.size)

    def _fill(self, part: Part, wanted: Descriptor) -> None:
        if part.size > wanted.size:
            part.restart()
        is_continued = part.size > 0
        self._receive_all(part, wanted)
        if is_continued and part.digest != wanted.digest:
            # What was left from before may have been of another's making: once more, from the start.
            part.restart()
            self._receive_all(part, wanted)
        part.finish()

    def _receive_all(self, part: Part, wanted: Descriptor) -> None:
        failures, mark = 0, part.size
        while part.size < wanted.size:
            why = "it ended too early"
            try:
                self._receive(part, wanted)
            except ConnectionFailed as error:
                why = str(error)
            self._check_stopped()
            if part.size >= wanted.size:
                return
            if part.size - mark >= _WORTHWHILE_BYTES:
                failures, mark = 0, part.size
            failures += 1
            if failures >= self.patience.attempts:
                raise RegistryUnreachable(
                    self.repository.server.name,
                    f"{wanted.digest} broke off at byte {part.size} of {wanted.size}: {why}",
                    hint="Run the same command again: it goes on from there",
                )
            self.pause(self.patience.first_pause_s * 2 ** (failures - 1))

    def _receive(self, part: Part, wanted: Descriptor) -> None:
        with self.repository.blob(wanted.digest, part.size) as response:
            if not self._continues(response, part, wanted):
                part.restart()
            left = wanted.size - part.size
            if response.length is not None and response.length != left:
                raise self._broken(f"{response.length} bytes instead of {left} for {wanted.digest}")
            for chunk in response.chunks():
                self._check_stopped()
                if part.size + len(chunk) > wanted.size:
                    part.restart()
                    raise self._broken(f"more than {wanted.size} bytes for {wanted.digest}")
                part.write(chunk)
                self.progress(wanted.digest, part.size, wanted.size)

    def _continues(self, response: Response, part: Part, wanted: Descriptor) -> bool:
        """Whether the answer begins where the part ends."""
        if response.status != 206:
            return False
        told = _RANGE.fullmatch((response.headers.get("Content-Range") or "").strip())
        if told is None or int(told.group(1)) != part.size:
            raise self._broken(f"another part of {wanted.digest} than was asked for")
        if told.group(3) not in ("*", str(wanted.size)):
            raise self._broken(f"{wanted.digest} has {told.group(3)} bytes there")
        return True

    def _check_stopped(self) -> None:
        if self.stopped.is_set():
            raise Stopped

    def _broken(self, why: str) -> RegistryBroken:
        return RegistryBroken(self.repository.server.name, why)
