"""One server as one session uses it: connected when it is first needed, in a task of its own, and again if it died."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from crucible.agent.tools.wording import clean, clean_text
from crucible.agent.workplace import Converses, Line, Workplace
from crucible.errors import CrucibleError, McpFailed, Unsupported
from crucible.mcp.settings import McpServer

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool

    from mcp import Client

MOST_TOOLS = 256
_MOST_PAGES = 32
_CLOSE_S = 10.0
_REASON_S = 1.0
_LONGEST_WORDS = 300
# What a program on this host needs to run at all.
_ALWAYS = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")


class Connection:
    """The protocol's client must be opened and closed by one task, so it lives in one."""

    def __init__(
        self, server: McpServer, workplace: Workplace, environment: Mapping[str, str]
    ) -> None:
        self.server = server
        self._workplace = workplace
        self._environment = environment
        self._opening = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._done = asyncio.Event()
        self._is_lost = False
        self._ended: CrucibleError | None = None
        self._line: Line | None = None

    async def tools(self) -> list[Tool]:
        """Raises McpFailed."""
        found: list[Tool] = []
        cursor: str | None = None
        client = await self._connected()
        for _ in range(_MOST_PAGES):
            page = await self._within(client.list_tools(cursor=cursor, cache_mode="refresh"))
            found += page.tools
            cursor = page.next_cursor
            if cursor is None or len(found) >= MOST_TOOLS:
                break
        return found[:MOST_TOOLS]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Raises McpFailed; a tool that failed is a result."""
        client = await self._connected()
        called: CallToolResult = await self._within(client.call_tool(tool, dict(arguments)))
        return called

    async def close(self) -> None:
        self._done.set()
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await asyncio.gather(self._task, return_exceptions=True)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._task = self._client = None

    async def _within(self, work: Any) -> Any:
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED

        try:
            async with asyncio.timeout(self.server.timeout_s):
                return await work
        except TimeoutError:
            raise McpFailed(
                self.server.name, f"it did not answer within {self.server.timeout_s:g} s"
            ) from None
        except MCPError as error:
            if error.error.code == CONNECTION_CLOSED:
                self._is_lost = True
                raise await self._lost() from None
            raise McpFailed(self.server.name, clean_text(str(error))[:500]) from None
        except CrucibleError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {clean_text(str(error))[:300]}"
            raise McpFailed(self.server.name, why) from error

    async def _lost(self) -> CrucibleError:
        """Why the connection is gone. If it is our doing, as with too long an answer over HTTP, its task tells."""
        if self._task is not None and self.server.url:
            await asyncio.wait({self._task}, timeout=_REASON_S)
        return self._ended or McpFailed(
            self.server.name, "it ended in the middle of a call" + self._last_words()
        )

    async def _connected(self) -> Client:
        async with self._opening:
            if self._is_lost or (self._task is not None and self._task.done()):
                await self.close()
            if self._client is None:
                self._done.clear()
                self._is_lost = False
                self._ended = None
                ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
                self._task = asyncio.create_task(self._live(ready), name=f"mcp {self.server.name}")
                try:
                    async with asyncio.timeout(self.server.timeout_s):
                        self._client = await ready
                except TimeoutError:
                    await self.close()
                    raise McpFailed(
                        self.server.name, f"it was not ready within {self.server.timeout_s:g} s"
                    ) from None
            return self._client

    async def _live(self, ready: asyncio.Future[Client]) -> None:
        from mcp import Client

        try:
            async with AsyncExitStack() as stack:
                transport = await self._transport(stack)
                client = await stack.enter_async_context(Client(transport, cache=None))
                ready.set_result(client)
                await self._done.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if not ready.done():
                ready.set_exception(_failed(self.server.name, error, self._last_words()))
            self._ended = _own_error(error)
        finally:
            self._client = None

    async def _transport(self, stack: AsyncExitStack) -> Any:
        server = self.server
        if server.url:
            from mcp.client.streamable_http import streamable_http_client

            client = await stack.enter_async_context(self._http())
            return streamable_http_client(server.url, http_client=client)
        if server.where == "host":
            from mcp import StdioServerParameters

            names = (*_ALWAYS, *server.environment_from)
            given = {name: self._environment[name] for name in names if name in self._environment}
            return StdioServerParameters(
                command=server.command[0],
                args=list(server.command[1:]),
                env={**given, **server.environment},
            )
        from crucible.mcp.lines import guest_streams

        if not isinstance(self._workplace, Converses):
            raise Unsupported(f"MCP server {server.name!r} cannot run where this session works")
        await self._workplace.open()
        self._line = await self._workplace.converse(server.command, environment=server.environment)
        return guest_streams(self._line)

    def _last_words(self) -> str:
        """What a server in the sandbox complained of, which mostly says why it ended."""
        complaints = clean(self._line.complaints).strip() if self._line is not None else ""
        return f"; it said: {complaints.splitlines()[-1][:_LONGEST_WORDS]}" if complaints else ""

    def _http(self) -> Any:
        import httpx2

        from crucible.mcp import outward

        server = self.server
        headers = {
            "Accept-Encoding": "identity",
            **server.headers,
            **{
                name: self._environment.get(variable, "")
                for name, variable in server.headers_env.items()
            },
        }
        if server.is_public_only:
            return outward.client(headers, server.timeout_s, server.name)
        return httpx2.AsyncClient(
            headers=headers, timeout=server.timeout_s, event_hooks=outward.bounds(server.name)
        )


def _own_error(error: BaseException) -> CrucibleError | None:
    if isinstance(error, BaseExceptionGroup):
        return next((found for one in error.exceptions if (found := _own_error(one))), None)
    return error if isinstance(error, CrucibleError) else None


def _failed(name: str, error: BaseException, last_words: str) -> CrucibleError:
    if isinstance(error, CrucibleError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return _failed(name, error.exceptions[0], last_words)
    why = f"it could not be reached: {type(error).__name__}: {clean_text(str(error))[:300]}"
    return McpFailed(name, why + last_words)
