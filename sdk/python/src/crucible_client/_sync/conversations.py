"""Conversations of a server: sessions that people find again, with what was said, given and made in them."""

# Made of the file of this name in `_async` by scripts/python_sdk.py; `make docs` writes it anew.

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Unpack
from urllib.parse import quote

from crucible_client._sync.chat import Chat
from crucible_client._sync.http import Http
from crucible_client.agent import SessionOptions
from crucible_client.conversations import (
    Applied,
    Artifact,
    ConversationInfo,
    Format,
    Transcript,
    Upload,
    upload_ids,
)
from crucible_client.reading import Reader

# A copy of the sandbox is made; files go into a sandbox that may have to be started first.
SANDBOX_S = 600.0


class Conversations:
    """Of a client. A conversation has the id of its session; all but `list` and `create` raise ConversationMissing."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, words: str = "", *, limit: int | None = 100) -> list[ConversationInfo]:
        """Pinned ones first, then those that were last used; only those with the words in title or text."""
        found = self._http.pages("/conversations", params={"q": words}, most=limit)
        return [ConversationInfo.read(one) for one in found]

    def create(self, **options: Unpack[SessionOptions]) -> ConversationInfo:
        """An empty one. Without a title it is called after its first prompt."""
        told = self._http.call("POST", "/conversations", json=dict(options), is_keyed=True)
        return ConversationInfo.read(told)

    def get(self, id: str) -> ConversationInfo:
        return ConversationInfo.read(self._http.call("GET", _path(id)))

    def rename(self, id: str, title: str) -> ConversationInfo:
        return ConversationInfo.read(self._http.call("PATCH", _path(id), json={"title": title}))

    def pin(self, id: str, *, pinned: bool = True) -> ConversationInfo:
        return ConversationInfo.read(self._http.call("PATCH", _path(id), json={"pinned": pinned}))

    def delete(self, id: str) -> None:
        """Its turn is stopped. After ten minutes it is gone for good, with sandbox and files."""
        self._http.call("DELETE", _path(id))

    def restore(self, id: str) -> ConversationInfo:
        """One that was deleted less than ten minutes ago."""
        return ConversationInfo.read(self._http.call("POST", f"{_path(id)}/restore"))

    def transcript(self, id: str, *, turns: int = 30, before_turn: int | None = None) -> Transcript:
        """The newest turns, or those before one. What was taken back is left out."""
        asked = {"turns": turns, "before_turn": before_turn}
        told = self._http.call("GET", f"{_path(id)}/transcript", params=asked)
        return Transcript.read(told)

    def edit(
        self,
        id: str,
        turn: int,
        prompt: str,
        *,
        attachments: Sequence[Upload | str] = (),
        kept: Sequence[str] = (),
    ) -> Chat:
        """Takes back that turn and all after it, and asks anew. The sandbox stays as it is.

        `kept` names files that came with the prompt and come with the new one.
        """
        asked = {
            "turn": turn,
            "prompt": prompt,
            "attachments": upload_ids(attachments),
            "kept": list(kept),
        }
        told = self._http.call(
            "POST", f"{_path(id)}/edit", json=asked, is_keyed=True, timeout_s=SANDBOX_S
        )
        return Chat(self._http, told)

    def retry(self, id: str) -> Chat:
        """The last prompt again, in the place of what came of it."""
        told = self._http.call("POST", f"{_path(id)}/retry", timeout_s=SANDBOX_S)
        return Chat(self._http, told)

    def branch(self, id: str, turn: int) -> ConversationInfo:
        """A new one with the turns up to and with that one, and a copy of the sandbox where there can be one."""
        told = self._http.call(
            "POST",
            f"{_path(id)}/branch",
            json={"turn": turn},
            is_keyed=True,
            timeout_s=SANDBOX_S,
        )
        return ConversationInfo.read(told)

    def export(self, id: str, format: Format = "markdown") -> str:
        """All turns that were not taken back."""
        data = self._http.whole(f"{_path(id)}/export", params={"format": format})
        return data.decode(errors="replace")

    def artifacts(self, id: str) -> builtins.list[Artifact]:
        """What its tools handed over, the oldest first."""
        told = Reader(self._http.call("GET", f"{_path(id)}/artifacts"))
        return [Artifact.read(one) for one in told.items("items")]

    def artifact(self, id: str, artifact: Artifact | str) -> bytes:
        """Its bytes. Raises ArtifactMissing, or ArtifactErased."""
        blob = artifact if isinstance(artifact, str) else artifact.blob
        path = f"{_path(id)}/artifacts/{quote(blob, safe='')}"
        return self._http.whole(path, params={"download": True})

    def artifacts_zip(self, id: str) -> bytes:
        """All that were not erased."""
        return self._http.whole(f"{_path(id)}/artifacts.zip")

    def apply(self, id: str, paths: Sequence[str]) -> Applied:
        """Writes what the sandbox changed to the directory of the server that the conversation began with.

        Only for who runs the server. What was changed there meanwhile is refused and stays.
        """
        asked = {"paths": [*paths]}
        told = self._http.call("POST", f"{_path(id)}/apply", json=asked, timeout_s=SANDBOX_S)
        return Applied.read(told)

    def changes_zip(self, id: str, paths: Sequence[str] = ()) -> bytes:
        """New and changed files, or those of them that are named; all files if it began with no directory."""
        return self._http.whole(f"{_path(id)}/changes.zip", params={"path": [*paths]})


def _path(id: str) -> str:
    return f"/conversations/{quote(id, safe='')}"
