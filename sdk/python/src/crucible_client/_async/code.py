"""Code that is run in a sandbox's contexts: what one piece leaves behind, the next one finds."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from contextlib import aclosing
from urllib.parse import quote

from crucible_client._async.http import AsyncHttp
from crucible_client._async.waiting import Told, tell
from crucible_client.errors import ConnectionLost
from crucible_client.execution import CodeResult, Context, Execution, Noted
from crucible_client.reading import Reader

USUAL_TIMEOUT_S = 300.0
CREATE_S = 120.0


async def run_code(
    http: AsyncHttp,
    path: str,
    code: str,
    *,
    context: Context | str | None,
    environment: Mapping[str, str] | None,
    timeout_s: float | None,
    on_stdout: Told | None,
    on_stderr: Told | None,
    on_result: Callable[[CodeResult], object] | None,
) -> Execution:
    id = context.id if isinstance(context, Context) else context
    asked = {
        "code": code,
        "context": id,
        "environment": dict(environment or {}),
        "timeout_s": timeout_s,
    }
    noted = Noted()
    async with aclosing(http.events("POST", f"{path}/code", json=asked)) as following:
        async for event in following:
            noted.take(event)
            match event.kind:
                case "stdout":
                    await tell(on_stdout, Reader(event.data).text("text"))
                case "stderr":
                    await tell(on_stderr, Reader(event.data).text("text"))
                case "result" if on_result is not None:
                    on_result(CodeResult.read(event.data))
                case "end":
                    return noted.whole()
    raise ConnectionLost("The server ended its answer before the code had ended")


class AsyncContexts:
    """Where code runs. Each context has variables, a directory and a process of its own."""

    def __init__(self, http: AsyncHttp, path: str) -> None:
        self._http = http
        self._path = f"{path}/contexts"

    async def create(
        self,
        *,
        language: str = "python",
        workdir: str | None = None,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Context:
        asked = {
            "language": language,
            "workdir": workdir,
            "user": user,
            "environment": dict(environment or {}),
        }
        told = await self._http.call(
            "POST", self._path, json=asked, is_keyed=True, timeout_s=CREATE_S
        )
        return Context.read(told)

    async def list(self) -> builtins.list[Context]:
        told = await self._http.call("GET", self._path)
        return [Context.read(one) for one in Reader(told).items("items")]

    async def interrupt(self, context: Context | str) -> None:
        """What runs in it gets a KeyboardInterrupt."""
        await self._http.call("POST", f"{self._at(context)}/interrupt")

    async def restart(self, context: Context | str) -> Context:
        """The same context with nothing in it."""
        told = await self._http.call("POST", f"{self._at(context)}/restart", timeout_s=CREATE_S)
        return Context.read(told)

    async def remove(self, context: Context | str) -> None:
        await self._http.call("DELETE", self._at(context))

    def _at(self, context: Context | str) -> str:
        id = context.id if isinstance(context, Context) else context
        return f"{self._path}/{quote(id, safe='')}"
