"""Drives OpenSandbox's own client: one line of JSON in, `[verb, ...arguments]`, one line out.

Runs with the client's packages alone: nothing of ours can be imported here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from datetime import timedelta
from typing import Any

from opensandbox import Sandbox, SandboxManager, SandboxSync
from opensandbox.config import ConnectionConfig
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.models.execd import ExecutionHandlers, RunCommandOpts
from opensandbox.models.filesystem import DirectoryListEntry, MoveEntry, SearchEntry, WriteEntry
from opensandbox.models.sandboxes import NetworkPolicy, NetworkRule, SandboxFilter

logging.disable()

SMALL = {"cpu": "1", "memory": "512Mi"}
LONG = timedelta(seconds=120)


class Client:
    def __init__(self) -> None:
        self.boxes: dict[str, Sandbox] = {}

    def config(self, **options: Any) -> ConnectionConfig:
        return ConnectionConfig(request_timeout=LONG, **options)

    async def create(self, options: dict[str, Any]) -> Any:
        if policy := options.pop("policy", None):
            rules = [NetworkRule(action="allow", target=target) for target in policy]
            options["network_policy"] = NetworkPolicy(defaultAction="deny", egress=rules)
        if "timeout_s" in options:
            options["timeout"] = timedelta(seconds=options.pop("timeout_s"))
        given = {"resource": SMALL, "ready_timeout": LONG, **options}
        box = await Sandbox.create("base", connection_config=self.config(), **given)
        self.boxes[box.id] = box
        return box.id

    async def connect(self, box: str, options: dict[str, Any]) -> str:
        self.boxes[box] = await Sandbox.connect(box, connection_config=self.config(**options))
        return box

    async def run(self, box: str, command: Any, options: dict[str, Any]) -> Any:
        if "timeout_s" in options:
            options["timeout"] = timedelta(seconds=options.pop("timeout_s"))
        done = await self.boxes[box].commands.run(command, opts=RunCommandOpts(**options))
        return {
            "id": done.id,
            "exit_code": done.exit_code,
            "text": done.text,
            "stdout": [message.text for message in done.logs.stdout],
            "stderr": [message.text for message in done.logs.stderr],
            "error": done.error and done.error.name,
        }

    async def streamed(self, box: str, command: str) -> list[str]:
        """What came while the command still waited for the file that its first line makes us write."""
        heard: list[str] = []

        async def hear(message: Any) -> None:
            heard.append(message.text)
            if message.text == "begun\n":
                await self.boxes[box].files.write_file("/tmp/go", "go")

        handlers = ExecutionHandlers(on_stdout=hear)
        await self.boxes[box].commands.run(command, handlers=handlers)
        return heard

    async def status(self, box: str, command: str) -> Any:
        told = await self.boxes[box].commands.get_command_status(command)
        return {"running": told.running, "exit_code": told.exit_code}

    async def logs(self, box: str, command: str, cursor: int | None) -> Any:
        told = await self.boxes[box].commands.get_background_command_logs(command, cursor)
        return {"content": told.content, "cursor": told.cursor}

    async def interrupt(self, box: str, command: str) -> None:
        await self.boxes[box].commands.interrupt(command)

    async def session(self, box: str) -> Any:
        return await self.boxes[box].commands.create_session()

    async def write(self, box: str, path: str, text: str, options: dict[str, Any]) -> None:
        await self.boxes[box].files.write_file(path, text, **options)

    async def write_many(self, box: str, files: dict[str, str]) -> None:
        entries = [WriteEntry(path=path, data=text.encode()) for path, text in files.items()]
        await self.boxes[box].files.write_files(entries)

    async def read(self, box: str, path: str, options: dict[str, Any]) -> Any:
        return await self.boxes[box].files.read_file(path, **options)

    async def info(self, box: str, path: str) -> Any:
        found = (await self.boxes[box].files.get_file_info([path]))[path]
        return {"size": found.size, "mode": found.mode, "type": found.entry_type}

    async def listed(self, box: str, path: str) -> list[str]:
        found = await self.boxes[box].files.list_directory(DirectoryListEntry(path=path))
        return sorted(entry.path for entry in found)

    async def search(self, box: str, path: str, pattern: str) -> list[str]:
        found = await self.boxes[box].files.search(SearchEntry(path=path, pattern=pattern))
        return sorted(entry.path for entry in found)

    async def mkdir(self, box: str, path: str) -> None:
        await self.boxes[box].files.create_directories([WriteEntry(path=path, mode=700)])

    async def move(self, box: str, source: str, target: str) -> None:
        await self.boxes[box].files.move_files([MoveEntry(src=source, dest=target)])

    async def delete(self, box: str, path: str) -> None:
        await self.boxes[box].files.delete_files([path])

    async def rmdir(self, box: str, path: str) -> None:
        await self.boxes[box].files.delete_directories([path])

    async def state(self, box: str) -> Any:
        told = await self.boxes[box].get_info()
        return {"state": told.status.state, "expires_at": str(told.expires_at), "id": told.id}

    async def healthy(self, box: str) -> Any:
        return await self.boxes[box].is_healthy()

    async def metrics(self, box: str) -> Any:
        told = await self.boxes[box].get_metrics()
        return {"cpus": told.cpu_count, "memory": told.memory_total_in_mib}

    async def endpoint(self, box: str, port: int) -> Any:
        return (await self.boxes[box].get_endpoint(port)).endpoint

    async def renew(self, box: str, seconds: int) -> str:
        return str((await self.boxes[box].renew(timedelta(seconds=seconds))).expires_at)

    async def pause(self, box: str) -> None:
        await self.boxes[box].pause()

    async def resume(self, box: str) -> None:
        config = self.config()
        self.boxes[box] = await Sandbox.resume(box, connection_config=config, resume_timeout=LONG)

    async def kill(self, box: str) -> None:
        await self.boxes[box].kill()

    async def manage(self) -> Any:
        async with await SandboxManager.create(self.config()) as manager:
            found = await manager.list_sandbox_infos(SandboxFilter(states=["Running"]))
            return {
                "ids": [one.id for one in found.sandbox_infos],
                "total": found.pagination.total_items,
            }

    async def wrong_key(self, box: str) -> None:
        await Sandbox.connect(box, connection_config=self.config(api_key="wrong"))

    async def blocking(self) -> Any:
        """The same without asyncio, from its making to its end."""
        return await asyncio.to_thread(self._blocking)

    def _blocking(self) -> Any:
        config = ConnectionConfigSync(request_timeout=LONG)
        box = SandboxSync.create(
            "base", resource=SMALL, ready_timeout=LONG, connection_config=config
        )
        try:
            box.files.write_file("/tmp/word", "sync")
            return box.commands.run("cat /tmp/word").text
        finally:
            box.destroy()


async def main() -> None:
    client = Client()
    os.environ["OPENSANDBOX_DISABLE_METRICS"] = "1"
    while line := await asyncio.to_thread(sys.stdin.readline):
        verb, *given = json.loads(line)
        try:
            told = {"value": await getattr(client, verb)(*given)}
        except Exception as error:
            told = {"error": type(error).__name__, "message": str(error)}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
