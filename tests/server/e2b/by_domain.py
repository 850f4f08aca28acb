# ruff: noqa: PT017 - it is a program of its own, and runs without pytest
"""Uses a sandbox through an unmodified `e2b` client that knows E2B_DOMAIN alone: a line of JSON for each verb.

After the first, it waits for a line: then the names of that sandbox are known to the resolver.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from e2b_code_interpreter import Sandbox

DEADLINE_S = 300.0


def main() -> None:
    box: Any = Sandbox(timeout=600, metadata={"who": "test"}, envs={"FROM": "create"})
    tell("create", True, id=box.sandbox_id, host=box.get_host(8000))
    sys.stdin.readline()
    for verb, work in VERBS.items():
        try:
            work(box)
            tell(verb, True)
        except Exception as error:
            tell(verb, False, trace=f"{error!r}\n{traceback.format_exc()}")


def tell(verb: str, ok: bool, **detail: Any) -> None:
    sys.stdout.write(json.dumps({"verb": verb, "ok": ok, **detail}) + "\n")
    sys.stdout.flush()


def connect(box: Any) -> None:
    assert Sandbox.connect(box.sandbox_id).commands.run("echo again").stdout == "again\n"


def info(box: Any) -> None:
    told = box.get_info()
    assert (told.sandbox_id, told.metadata) == (box.sandbox_id, {"who": "test"})
    assert box.is_running()


def listing(box: Any) -> None:
    assert box.sandbox_id in [one.sandbox_id for one in Sandbox.list()]


def timeout(box: Any) -> None:
    box.set_timeout(1200)


def commands(box: Any) -> None:
    done = box.commands.run("echo $FROM; echo no >&2", on_stdout=None)
    assert (done.stdout, done.stderr, done.exit_code) == ("create\n", "no\n", 0)


def files(box: Any) -> None:
    box.files.write("dir/a.txt", "hello")
    assert box.files.read("dir/a.txt") == "hello"
    assert [one.name for one in box.files.list("dir")] == ["a.txt"]


def signed_addresses(box: Any) -> None:
    box.files.write("/home/user/signed.txt", "signed")
    address = box.download_url("/home/user/signed.txt", use_signature_expiration=600)
    assert fetched(address) == b"signed"


def code(box: Any) -> None:
    box.run_code("x = 41")
    assert box.run_code("x + 1").text == "42"


def host(box: Any) -> None:
    """A server in the sandbox under the name that the client tells, as anybody would call it."""
    box.commands.run("mkdir -p /tmp/site && echo served > /tmp/site/word")
    box.commands.run("python3 -m http.server 8000 --directory /tmp/site", background=True)
    address = f"https://{box.get_host(8000)}/word"
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            assert fetched(address) == b"served\n"
        except urllib.error.HTTPError as error:
            assert error.code == 502, error.read()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return


def kill(box: Any) -> None:
    box.kill()
    assert not box.is_running()


def fetched(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=60) as answer:
        data: bytes = answer.read()
    return data


VERBS: dict[str, Callable[[Any], None]] = {
    "connect": connect,
    "info": info,
    "list": listing,
    "timeout": timeout,
    "commands": commands,
    "files": files,
    "signed addresses": signed_addresses,
    "code": code,
    "get_host": host,
    "kill": kill,
}

if __name__ == "__main__":
    main()
