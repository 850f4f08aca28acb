"""A sandbox as a program has it: made or found, used, and gone when its block ends."""

# Made of the file of this name in `_async` by scripts/python_sdk.py; `make docs` writes it anew.

from __future__ import annotations

import builtins
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self, Unpack
from urllib.parse import quote

from crucible_client._sync import code as coding
from crucible_client._sync.client import Client
from crucible_client._sync.code import Contexts
from crucible_client._sync.commands import (
    USUAL_OUTPUT_BYTES,
    USUAL_TIMEOUT_S,
    Commands,
    Words,
)
from crucible_client._sync.files import Files
from crucible_client._sync.hold import LEASE_S, Hold
from crucible_client._sync.ports import Ports
from crucible_client._sync.pty import Pty
from crucible_client._sync.waiting import Told, finish
from crucible_client.errors import BadAnswer, SandboxMissing
from crucible_client.execution import CodeResult, Context, Execution
from crucible_client.records import Budget
from crucible_client.results import Result
from crucible_client.settings import Settings
from crucible_client.values import NetworkPolicy, SandboxInfo, Snapshot

# An image that is not there is fetched first.
CREATE_S = 900.0
STATE_S = 300.0


class Sandbox:
    """Made by `create`, `connect`, `restore` or `fork`.

    Without a name it is temporary: it goes with its block, with `close`, or with the program, even one that is
    killed. With a name it stays, unless a block that made it ends.
    """

    def __init__(
        self, client: Client, info: SandboxInfo, *, owns_client: bool, hold: Hold | None
    ) -> None:
        self.client = client
        self.info = info
        self._http = client.http
        self._path = f"/sandboxes/{quote(info.name, safe='')}"
        self._owns_client = owns_client
        self._hold = hold
        self._is_made_here = False
        self._is_removed = False
        self.commands = Commands(self._http, self._path)
        self.files = Files(self._http, self._path)
        self.pty = Pty(self._http, self._path)
        self.ports = Ports(self._http, self._path)
        self.contexts = Contexts(self._http, self._path)

    @classmethod
    def _usual_client(cls) -> Client:
        return Client()

    @classmethod
    def create(
        cls,
        image: str = "base",
        *,
        name: str | None = None,
        ttl_s: float = 0.0,
        host_directory: str | None = None,
        client: Client | None = None,
        wait_s: float = CREATE_S,
        **settings: Unpack[Settings],
    ) -> Self:
        """A new sandbox that runs. After `ttl_s`, if it is given, it is removed in any case."""
        own = client or cls._usual_client()
        try:
            # A temporary one is born with a short life; the line that holds it prolongs it.
            longest = wait_s + LEASE_S
            life = ttl_s if name else min(ttl_s or longest, longest)
            asked = {
                "name": name or new_name(),
                "settings": {"image": image, **settings, "ttl_s": life},
                "lease_s": None if name else LEASE_S,
                "host_directory": host_directory,
            }
            told = own.http.call("POST", "/sandboxes", json=asked, is_keyed=True, timeout_s=wait_s)
            return cls._made(own, told, owns_client=client is None, is_held=not name, ttl_s=ttl_s)
        except BaseException:
            if client is None:
                own.close()
            raise

    @classmethod
    def connect(cls, name: str, *, client: Client | None = None) -> Self:
        """One that is there, by its name; started or resumed if it does not run. Raises SandboxMissing."""
        own = client or cls._usual_client()
        try:
            path = f"/sandboxes/{quote(name, safe='')}"
            info = SandboxInfo.read(own.http.call("GET", path))
            if info.state != "running":
                verb = "resume" if info.state == "paused" else "start"
                told = own.http.call("POST", f"{path}/{verb}", timeout_s=STATE_S)
                info = SandboxInfo.read(told)
            return cls(own, info, owns_client=client is None, hold=None)
        except BaseException:
            if client is None:
                own.close()
            raise

    @classmethod
    def list(cls, *, client: Client | None = None) -> builtins.list[SandboxInfo]:
        """All that there are, whoever made them."""
        own = client or cls._usual_client()
        try:
            return own.sandboxes()
        finally:
            if client is None:
                own.close()

    @classmethod
    def restore(cls, tag: str, *, name: str | None = None, client: Client | None = None) -> Self:
        """A new sandbox that goes on where a snapshot was taken."""
        own = client or cls._usual_client()
        try:
            asked = {"name": name or new_name(), "ttl_s": 0 if name else LEASE_S}
            told = own.http.call(
                "POST",
                f"/snapshots/{quote(tag, safe='')}/restore",
                json=asked,
                is_keyed=True,
                timeout_s=STATE_S,
            )
            return cls._made(own, told, owns_client=client is None, is_held=not name)
        except BaseException:
            if client is None:
                own.close()
            raise

    @classmethod
    def _made(
        cls,
        client: Client,
        told: Any,
        *,
        owns_client: bool,
        is_held: bool,
        ttl_s: float = 0.0,
    ) -> Self:
        info = SandboxInfo.read(told)
        hold = None
        if is_held:
            path = f"/sandboxes/{quote(info.name, safe='')}"
            hold = Hold(client.http, path, ttl_s=ttl_s)
        made = cls(client, info, owns_client=owns_client, hold=hold)
        made._is_made_here = True
        return made

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def is_temporary(self) -> bool:
        return self._hold is not None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, state={self.info.state!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        finish(self._leave)

    def close(self) -> None:
        """Lets go of it. A temporary one is removed, a named one stays as it is."""
        try:
            if self._hold is not None:
                self.remove()
        finally:
            if self._owns_client:
                self.client.close()

    def remove(self) -> None:
        """Ends it, with all that is in it. One that is gone already is gone."""
        if self._hold is not None:
            self._hold.release()
        if self._is_removed:
            return
        with suppress(SandboxMissing):
            self._http.call("DELETE", self._path, params={"force": True}, timeout_s=STATE_S)
        self._is_removed = True

    def run(
        self,
        command: Words,
        *,
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str | None = None,
        input: str | bytes | None = None,
        timeout_s: float | None = USUAL_TIMEOUT_S,
        on_stdout: Told | None = None,
        on_stderr: Told | None = None,
        max_output_bytes: int = USUAL_OUTPUT_BYTES,
    ) -> Result:
        """Runs a command to its end: text as a shell would, a list as a program with its arguments."""
        return self.commands.run(
            command,
            environment=environment,
            workdir=workdir,
            user=user,
            input=input,
            timeout_s=timeout_s,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            max_output_bytes=max_output_bytes,
        )

    def run_code(
        self,
        code: str,
        *,
        context: Context | str | None = None,
        environment: Mapping[str, str] | None = None,
        timeout_s: float | None = coding.USUAL_TIMEOUT_S,
        on_stdout: Told | None = None,
        on_stderr: Told | None = None,
        on_result: Callable[[CodeResult], object] | None = None,
    ) -> Execution:
        """Runs Python. Variables, imports and functions stay for the next piece of code in the same context.

        Code that raises is a result. Raises DeadlineOver after `timeout_s`; the context goes on.
        """
        return coding.run_code(
            self._http,
            self._path,
            code,
            context=context,
            environment=environment,
            timeout_s=timeout_s,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            on_result=on_result,
        )

    def snapshot(self, tag: str | None = None) -> Snapshot:
        """Memory, processes and disk of this moment, kept under a name; the sandbox goes on."""
        told = self._http.call(
            "POST",
            f"{self._path}/snapshots",
            json={"tag": tag or f"{self.name}-{secrets.token_hex(3)}"[-63:].lstrip(".-_")},
            is_keyed=True,
            timeout_s=STATE_S,
        )
        return Snapshot.read(told)

    def fork(self, name: str | None = None) -> Self:
        """A running copy, with its memory and processes. Without a name it is temporary."""
        return (self._fork([name or new_name()], is_held=not name))[0]

    def fork_many(self, count: int) -> Sequence[Self]:
        """So many temporary copies of one moment; all of them or none."""
        return self._fork([new_name() for _ in range(count)], is_held=True)

    def _fork(self, names: Sequence[str], *, is_held: bool) -> Sequence[Self]:
        asked = {"names": names, "ttl_s": LEASE_S if is_held else 0}
        told = self._http.call(
            "POST", f"{self._path}/fork", json=asked, is_keyed=True, timeout_s=STATE_S
        )
        if not isinstance(told, list) or len(told) != len(names):
            raise BadAnswer("The server's answer is not the list of copies it should be")
        return [
            self._made(self.client.twin(), one, owns_client=True, is_held=is_held) for one in told
        ]

    def refresh(self) -> SandboxInfo:
        return self._ask("GET", "")

    def get_budget(self) -> Budget:
        """What programs in it have spent on models, where the gateway counts that."""
        return Budget.read(self._http.call("GET", f"{self._path}/budget"))

    def pause(self) -> SandboxInfo:
        """Holds it still; it keeps its memory and takes no time."""
        return self._ask("POST", "/pause")

    def resume(self) -> SandboxInfo:
        return self._ask("POST", "/resume")

    def stop(self, *, grace_s: float = 5.0) -> SandboxInfo:
        """Shuts it down; its disk stays."""
        return self._ask("POST", "/stop", grace_s=grace_s)

    def start(self) -> SandboxInfo:
        return self._ask("POST", "/start")

    def change_network(
        self,
        *,
        mode: Literal["off", "allowlist", "full"] | None = None,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        remove: Sequence[str] = (),
    ) -> NetworkPolicy:
        """What it may reach, from now on: what is open and not allowed any more is cut."""
        asked = {"mode": mode, "allow": [*allow], "deny": [*deny], "remove": [*remove]}
        return NetworkPolicy.read(self._http.call("PATCH", f"{self._path}/network", json=asked))

    def _ask(self, method: str, verb: str, **params: float) -> SandboxInfo:
        told = self._http.call(method, f"{self._path}{verb}", params=params, timeout_s=STATE_S)
        self.info = SandboxInfo.read(told)
        return self.info

    def _leave(self) -> None:
        try:
            if self._is_made_here:
                self.remove()
        finally:
            self.close()


def new_name() -> str:
    return f"sb-{secrets.token_hex(5)}"
