"""Recorded runs of a server: what its agents did, step by step, and whether that is what was signed."""

# Made of the file of this name in `_async` by scripts/python_sdk.py; `make docs` writes it anew.

from __future__ import annotations

import builtins
from urllib.parse import quote

from crucible_client._sync.http import Http
from crucible_client.reading import Reader
from crucible_client.records import By, RunEntry, RunInfo, RunTotal, Verdict


class Runs:
    """Of a client. A run has the id of its session."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        *,
        since: float | None = None,
        to: float | None = None,
        model: str | None = None,
        state: str | None = None,
        limit: int | None = 100,
    ) -> list[RunInfo]:
        """The latest first, of those that were opened in that time; all of them with a limit of None."""
        asked = {"from": since, "to": to, "model": model, "state": state}
        found = self._http.pages("/runs", params=asked, most=limit)
        return [RunInfo.read(one) for one in found]

    def get(self, run: str) -> RunInfo:
        """Raises RunMissing."""
        return RunInfo.read(self._http.call("GET", _path(run)))

    def entries(
        self, run: str, *, kind: str | None = None, limit: int | None = None
    ) -> builtins.list[RunEntry]:
        """In the order in which they were recorded."""
        asked = {"kind": kind}
        found = self._http.pages(f"{_path(run)}/entries", params=asked, most=limit)
        return [RunEntry.read(one) for one in found]

    def content(self, run: str, name: str, *, first: int | None = None) -> bytes:
        """What went into a step or came out of it; no more than the `first` bytes. Raises ContentGone."""
        path = f"{_path(run)}/blobs/{quote(name, safe='')}"
        return self._http.whole(path, params={"first": first})

    def totals(
        self,
        by: By = "day",
        *,
        since: float | None = None,
        to: float | None = None,
        model: str | None = None,
    ) -> builtins.list[RunTotal]:
        """What all steps of that time came to, by day, by model, or by both."""
        asked = {"by": by, "from": since, "to": to, "model": model}
        told = Reader(self._http.call("GET", "/runs/totals", params=asked))
        return [RunTotal.read(one) for one in told.items("items")]

    def export(self, run: str, *, contents: bool = False) -> bytes:
        """The run in one signed file: a manifest, or a zip file with the contents beside it."""
        return self._http.whole(f"{_path(run)}/manifest", params={"contents": contents})

    def public_key(self) -> str:
        """In PEM, to check exports with."""
        return Reader(self._http.call("GET", "/runs/key")).text("pem")

    def verify(
        self, run: str | None = None, *, exported: bytes | None = None, key: str | None = None
    ) -> Verdict:
        """Of a run by its id, or of what `export` gave. `key` is a public key in PEM, if it is not the server's."""
        asked = {"run": run, "key": key}
        told = self._http.call("POST", "/runs/verify", params=asked, content=exported)
        return Verdict.read(told)


def _path(run: str) -> str:
    return f"/runs/{quote(run, safe='')}"
