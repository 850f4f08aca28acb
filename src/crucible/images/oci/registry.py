"""What a registry is asked for: manifests, blobs, and whether a tag still means the same (OCI distribution)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crucible.errors import (
    DigestMismatch,
    ImageNotFound,
    ImageTooLarge,
    RegistryBroken,
    RegistryDenied,
)
from crucible.images.oci.digests import digest_of, is_digest
from crucible.images.oci.documents import (
    INDEX_TYPES,
    MANIFEST_TYPES,
    MAX_MANIFEST_BYTES,
    Index,
    Manifest,
    parse_document,
)
from crucible.images.oci.server import Ask, Server
from crucible.images.oci.transport import ConnectionFailed, Response

_ACCEPTED = ", ".join((*MANIFEST_TYPES, *INDEX_TYPES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A manifest or an index with its very bytes, whose digest is `digest`."""

    digest: str
    data: bytes
    document: Manifest | Index


class Repository:
    """One repository of one registry. `reference` is what a person asked for: messages name it."""

    def __init__(self, server: Server, repository: str, reference: str) -> None:
        self.server = server
        self.repository = repository
        self.reference = reference
        self.scope = f"repository:{repository}:pull"

    def manifest(self, wanted: str) -> Fetched:
        """By tag or digest. A digest is compared with the bytes, and so is the one the registry tells."""
        path = f"/v2/{self.repository}/manifests/{wanted}"
        with self._ask("GET", path, headers={"Accept": _ACCEPTED}) as response:
            self._check(response, "the image")
            try:
                data = response.read(MAX_MANIFEST_BYTES)
            except ConnectionFailed as error:
                raise RegistryBroken(self.server.name, f"the manifest broke off: {error}") from None
            if data is None:
                size = response.length or MAX_MANIFEST_BYTES + 1
                raise ImageTooLarge(self.reference, "The manifest", size, MAX_MANIFEST_BYTES)
            told = response.headers.get("Docker-Content-Digest") or ""
            kind = response.headers.get("Content-Type") or ""
        expected = wanted if is_digest(wanted) else told if is_digest(told) else ""
        found = digest_of(data, expected or "sha256:")
        if expected and found != expected:
            raise DigestMismatch(f"The manifest of `{self.reference}`", expected, found)
        return Fetched(digest=found, data=data, document=parse_document(self.reference, data, kind))

    def current_digest(self, tag: str) -> str:
        """What the tag means now, without fetching it; nothing when the registry does not tell.

        Asked by who has the image already, so a registry that is away or busy is not waited for.
        """
        ask = Ask(
            method="HEAD",
            path=f"/v2/{self.repository}/manifests/{tag}",
            scope=self.scope,
            headers={"Accept": _ACCEPTED},
            is_worth_waiting=False,
        )
        with self.server.ask(ask) as response:
            self._check(response, "the image")
            told = response.headers.get("Docker-Content-Digest") or ""
        return told if is_digest(told) else ""

    def blob(self, digest: str, offset: int = 0) -> Response:
        """The answer to a request for a blob from `offset` on: 200 means that it begins at 0 all the same."""
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        response = self._ask("GET", f"/v2/{self.repository}/blobs/{digest}", headers=headers)
        if response.status == 416 and offset:
            response.close()
            return self.blob(digest)
        try:
            self._check(response, digest)
        except BaseException:
            response.close()
            raise
        return response

    def has_blob(self, digest: str, *, scope: str = "") -> bool:
        path = f"/v2/{self.repository}/blobs/{digest}"
        with self.server.ask(Ask(method="HEAD", path=path, scope=scope or self.scope)) as response:
            return response.status == 200

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> Response:
        return self.server.ask(Ask(method=method, path=path, scope=self.scope, headers=headers))

    def _check(self, response: Response, what: str) -> None:
        status, name = response.status, self.server.name
        if status in (200, 206):
            return
        if status == 404:
            raise ImageNotFound(
                self.reference,
                f"registry {name}"
                if what == "the image"
                else f"registry {name}: {what} is missing",
                hint="Check the name and the tag; what is here already: `crucible image list`",
            )
        if status in (401, 403):
            raise RegistryDenied(name, f"access to {self.repository}")
        raise RegistryBroken(name, f"status {status} for {what}")


OpenRepository = Callable[[str], Repository]
