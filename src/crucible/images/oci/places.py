"""Where to look for an image: the mirrors that were set up for its registry, then the registry itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from crucible.images.oci.credentials import Credentials, find_credentials
from crucible.images.oci.reference import RegistryReference
from crucible.images.oci.registry import Repository
from crucible.images.oci.server import Pause, Server
from crucible.images.oci.settings import RegistrySettings
from crucible.images.oci.transport import Transport
from crucible.images.oci.trust import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A repository somewhere. `host` is also what its login is kept under."""

    host: str
    repository: str
    is_plain: bool = False


def places_for(reference: RegistryReference, settings: RegistrySettings) -> tuple[Place, ...]:
    """In the order to be asked; the last one is the registry itself."""
    mirrors = (mirror for mirror in settings.mirrors if mirror.registry == reference.registry)
    return (
        *(
            Place(
                host=mirror.host,
                repository="/".join(filter(None, (mirror.prefix, reference.repository))),
                is_plain=mirror.is_plain,
            )
            for mirror in mirrors
        ),
        Place(host=reference.registry, repository=reference.repository),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """`end` breaks every exchange that is under way, also one that pauses."""

    repository: Repository
    pause: Pause
    end: Callable[[], None]


@contextmanager
def connect(
    place: Place,
    reference: RegistryReference,
    settings: RegistrySettings,
    environment: Mapping[str, str],
    pause: Pause | None = None,
) -> Iterator[Connected]:
    transport = Transport(settings.patience, Trust(settings.certificates))
    known: list[Credentials | None] = []

    def credentials() -> Credentials | None:
        """Looked for when the registry asks, and once: a program may ask a person."""
        if not known:
            known.append(find_credentials(place.host, place.repository, environment=environment))
        return known[0]

    server = Server(
        place.host,
        transport=transport,
        settings=settings,
        credentials=credentials,
        is_plain=place.is_plain,
        pause=pause or transport.pause,
    )
    try:
        yield Connected(
            repository=Repository(server, place.repository, reference.familiar),
            pause=pause or transport.pause,
            end=transport.end,
        )
    finally:
        transport.end()
