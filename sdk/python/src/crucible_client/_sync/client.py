"""One server: what there is on it, and a way in for sandboxes."""

# Made of the file of this name in `_async` by scripts/python_sdk.py; `make docs` writes it anew.

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self, Unpack
from urllib.parse import quote

from crucible_client._sync.chat import Chat
from crucible_client._sync.commands import (
    USUAL_OUTPUT_BYTES,
    USUAL_TIMEOUT_S,
    Words,
    collect,
    described,
    with_input,
)
from crucible_client._sync.conversations import SANDBOX_S, Conversations
from crucible_client._sync.http import Http
from crucible_client._sync.memory import Memory
from crucible_client._sync.runs import Runs
from crucible_client._sync.session import Session
from crucible_client._sync.skills import Skills
from crucible_client._sync.uploading import send_file
from crucible_client._sync.waiting import Told
from crucible_client.address import Address, find_address
from crucible_client.agent import (
    AgentHealth,
    Approval,
    Intent,
    Replay,
    SessionInfo,
    SessionOptions,
)
from crucible_client.conversations import Upload, upload_ids
from crucible_client.reading import Reader
from crucible_client.records import Budget
from crucible_client.results import Result
from crucible_client.settings import Settings
from crucible_client.values import SandboxInfo, Snapshot

REQUEST_S = 60.0
REPLAY_S = 3600.0


class Client:
    """`url` is like `http://127.0.0.1:7070`, `https://…` or `unix:///…/http.sock`; without it CRUCIBLE_URL counts, and
    without a token CRUCIBLE_TOKEN. Nothing is sent before something is asked for.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout_s: float = REQUEST_S,
        address: Address | None = None,
    ) -> None:
        self._address = address or find_address(url, token)
        self._timeout_s = timeout_s
        self.http = Http(self._address, timeout_s=timeout_s)
        self.runs = Runs(self.http)
        self.memory = Memory(self.http)
        self.skills = Skills(self.http)
        self.conversations = Conversations(self.http)

    @property
    def url(self) -> str:
        return self._address.shown

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Sandboxes that were made with it should be closed first: their lines run through it."""
        self.http.close()

    def twin(self) -> Self:
        """Another way to the same server."""
        return type(self)(address=self._address, timeout_s=self._timeout_s)

    def version(self) -> str:
        return Reader(self.http.call("GET", "/version")).text("version")

    def run(
        self,
        command: Words,
        *,
        image: str = "base",
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str | None = None,
        input: str | bytes | None = None,
        timeout_s: float | None = USUAL_TIMEOUT_S,
        on_stdout: Told | None = None,
        on_stderr: Told | None = None,
        max_output_bytes: int = USUAL_OUTPUT_BYTES,
        settings: Settings | None = None,
    ) -> Result:
        """One command in a sandbox that is made for it and is gone afterwards: the fastest way to run one."""
        asked = {
            **described(command, environment, workdir, user, timeout_s, ""),
            **with_input(input),
            "settings": {**(settings or {}), "image": image},
        }
        told = self.http.events("POST", "/run/stream", json=asked)
        return collect(told, on_stdout, on_stderr, max_output_bytes)

    def sandboxes(self) -> list[SandboxInfo]:
        return [SandboxInfo.read(one) for one in self.http.pages("/sandboxes")]

    def snapshots(self) -> list[Snapshot]:
        return [Snapshot.read(one) for one in self.http.pages("/snapshots")]

    def remove_snapshot(self, tag: str) -> None:
        self.http.call("DELETE", f"/snapshots/{quote(tag, safe='')}")

    def create_session(self, **options: Unpack[SessionOptions]) -> Session:
        """A session of the agent. Its sandbox is opened when it is first needed; it goes with the session."""
        told = self.http.call("POST", "/sessions", json=dict(options), is_keyed=True)
        return Session(self.http, SessionInfo.read(told))

    def session(self, id: str) -> Session:
        """One that is there already. Raises SessionMissing."""
        told = self.http.call("GET", f"/sessions/{quote(id, safe='')}")
        return Session(self.http, SessionInfo.read(told))

    def sessions(self) -> list[SessionInfo]:
        return [SessionInfo.read(one) for one in self.http.pages("/sessions")]

    def health(self) -> AgentHealth:
        """What the agent's engine has to do, lane by lane."""
        return AgentHealth.read(self.http.call("GET", "/agent"))

    def chat(
        self,
        prompt: str,
        *,
        conversation: str | None = None,
        attachments: Sequence[Upload | str] = (),
        intent: Intent | None = None,
        **options: Unpack[SessionOptions],
    ) -> Chat:
        """A turn in a conversation, or in a new one that is made as the options say.

        It has begun, with the attachments in `/workspace`, when this returns; it goes on if nobody follows it.
        """
        asked = {
            "conversation": conversation,
            "prompt": prompt,
            "attachments": upload_ids(attachments),
            "intent": intent,
            "options": dict(options) or None,
        }
        told = self.http.call("POST", "/chat", json=asked, is_keyed=True, timeout_s=SANDBOX_S)
        return Chat(self.http, told)

    def upload(self, source: str | os.PathLike[str] | bytes, *, name: str | None = None) -> Upload:
        """A file by its path, or bytes with a name, for `attachments`. It is gone after a day if no prompt uses it."""
        return send_file(self.http, source, name)

    def remove_upload(self, upload: Upload | str) -> None:
        """What a prompt has put into a sandbox stays there."""
        (id,) = upload_ids([upload])
        self.http.call("DELETE", f"/upload/{quote(id, safe='')}")

    def replay(self, run: str) -> Replay:
        """Runs a recorded session again in a fresh sandbox, with the recorded answers of its model."""
        path = f"/runs/{quote(run, safe='')}/replay"
        return Replay.read(self.http.call("POST", path, timeout_s=REPLAY_S))

    def get_budget(self) -> Budget:
        """What the user who calls may spend, and has spent."""
        return Budget.read(self.http.call("GET", "/budget"))

    def approvals(self) -> list[Approval]:
        """What waits for a person, in all sessions."""
        told = Reader(self.http.call("GET", "/approvals"))
        return [Approval.read(one) for one in told.items("items")]
