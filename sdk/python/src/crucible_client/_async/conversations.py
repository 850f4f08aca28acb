"""Conversations of a server: sessions that people find again, with what was said, given and made in them."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Unpack
from urllib.parse import quote

from crucible_client._async.chat import AsyncChat
from crucible_client._async.http import AsyncHttp
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


class AsyncConversations:
    """Of a client. A conversation has the id of its session; all but `list` and `create` raise ConversationMissing."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http

    async def list(self, words: str = "", *, limit: int | None = 100) -> list[ConversationInfo]:
        """Pinned ones first, then those that were last used; only those with the words in title or text."""
        found = await self._http.pages("/conversations", params={"q": words}, most=limit)
        return [ConversationInfo.read(one) for one in found]

    async def create(self, **options: Unpack[SessionOptions]) -> ConversationInfo:
        """An empty one. Without a title it is called after its first prompt."""
        told = await self._http.call("POST", "/conversations", json=dict(options), is_keyed=True)
        return ConversationInfo.read(told)

    async def get(self, id: str) -> ConversationInfo:
        return ConversationInfo.read(await self._http.call("GET", _path(id)))

    async def rename(self, id: str, title: str) -> ConversationInfo:
        return ConversationInfo.read(
            await self._http.call("PATCH", _path(id), json={"title": title})
        )

    async def pin(self, id: str, *, pinned: bool = True) -> ConversationInfo:
        return ConversationInfo.read(
            await self._http.call("PATCH", _path(id), json={"pinned": pinned})
        )

    async def delete(self, id: str) -> None:
        """Its turn is stopped. After ten minutes it is gone for good, with sandbox and files."""
        await self._http.call("DELETE", _path(id))

    async def restore(self, id: str) -> ConversationInfo:
        """One that was deleted less than ten minutes ago."""
        return ConversationInfo.read(await self._http.call("POST", f"{_path(id)}/restore"))

    async def transcript(
        self, id: str, *, turns: int = 30, before_turn: int | None = None
    ) -> Transcript:
        """The newest turns, or those before one. What was taken back is left out."""
        asked = {"turns": turns, "before_turn": before_turn}
        told = await self._http.call("GET", f"{_path(id)}/transcript", params=asked)
        return Transcript.read(told)

    async def edit(
        self,
        id: str,
        turn: int,
        prompt: str,
        *,
        attachments: Sequence[Upload | str] = (),
        kept: Sequence[str] = (),
    ) -> AsyncChat:
        """Takes back that turn and all after it, and asks anew. The sandbox stays as it is.

        `kept` names files that came with the prompt and come with the new one.
        """
        asked = {
            "turn": turn,
            "prompt": prompt,
            "attachments": upload_ids(attachments),
            "kept": list(kept),
        }
        told = await self._http.call(
            "POST", f"{_path(id)}/edit", json=asked, is_keyed=True, timeout_s=SANDBOX_S
        )
        return AsyncChat(self._http, told)

    async def retry(self, id: str) -> AsyncChat:
        """The last prompt again, in the place of what came of it."""
        told = await self._http.call("POST", f"{_path(id)}/retry", timeout_s=SANDBOX_S)
        return AsyncChat(self._http, told)

    async def branch(self, id: str, turn: int) -> ConversationInfo:
        """A new one with the turns up to and with that one, and a copy of the sandbox where there can be one."""
        told = await self._http.call(
            "POST",
            f"{_path(id)}/branch",
            json={"turn": turn},
            is_keyed=True,
            timeout_s=SANDBOX_S,
        )
        return ConversationInfo.read(told)

    async def export(self, id: str, format: Format = "markdown") -> str:
        """All turns that were not taken back."""
        data = await self._http.whole(f"{_path(id)}/export", params={"format": format})
        return data.decode(errors="replace")

    async def artifacts(self, id: str) -> builtins.list[Artifact]:
        """What its tools handed over, the oldest first."""
        told = Reader(await self._http.call("GET", f"{_path(id)}/artifacts"))
        return [Artifact.read(one) for one in told.items("items")]

    async def artifact(self, id: str, artifact: Artifact | str) -> bytes:
        """Its bytes. Raises ArtifactMissing, or ArtifactErased."""
        blob = artifact if isinstance(artifact, str) else artifact.blob
        path = f"{_path(id)}/artifacts/{quote(blob, safe='')}"
        return await self._http.whole(path, params={"download": True})

    async def artifacts_zip(self, id: str) -> bytes:
        """All that were not erased."""
        return await self._http.whole(f"{_path(id)}/artifacts.zip")

    async def apply(self, id: str, paths: Sequence[str]) -> Applied:
        """Writes what the sandbox changed to the directory of the server that the conversation began with.

        Only for who runs the server. What was changed there meanwhile is refused and stays.
        """
        asked = {"paths": [*paths]}
        told = await self._http.call("POST", f"{_path(id)}/apply", json=asked, timeout_s=SANDBOX_S)
        return Applied.read(told)

    async def changes_zip(self, id: str, paths: Sequence[str] = ()) -> bytes:
        """New and changed files, or those of them that are named; all files if it began with no directory."""
        return await self._http.whole(f"{_path(id)}/changes.zip", params={"path": [*paths]})


def _path(id: str) -> str:
    return f"/conversations/{quote(id, safe='')}"
