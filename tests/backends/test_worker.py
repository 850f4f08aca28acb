"""A worker over a real sshd: what is asked arrives as it was asked, and what is lost is never reported as done."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.backends.scripted_worker import (
    plan_of,
    scripted_manager,
    scripted_worker,
)
from tests.backends.ssh_server import SshServer, end_shared, ssh_server
from tests.conftest import Run

from crucible.backends.worker.address import SshHost, Worker, by_command, by_ssh
from crucible.backends.worker.backend import WorkerBackend
from crucible.backends.worker.connection import Connection
from crucible.backends.worker.machine import WorkerMachine
from crucible.client.protocol import LENDING
from crucible.config import Config, Ssh
from crucible.diagnosis.doctor import diagnose
from crucible.errors import (
    BackendUnusable,
    BadSetting,
    CrucibleError,
    GuestGone,
    WorkerLacksCrucible,
    WorkerLost,
    WorkerMismatch,
    WorkerUnreachable,
)
from crucible.sandbox.session import Channel, Command, Completed
from crucible.sandbox.spec import SandboxSpec
from crucible.wire.generation import GENERATION

DEADLINE_S = 120.0
SHELL_FOOD = (
    b"a b",
    b"c\nd",
    b"'\"$(touch /tmp/never)`x`\\",
    b"",
    b"-rf",
    b"--",
    b"*",
    b"\xff\xfe",
)


@pytest.fixture(scope="module")
def there() -> Iterator[Path]:
    """The worker's home. Its socket has a path that the kernel takes."""
    with tempfile.TemporaryDirectory(prefix="worker-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def server(there: Path) -> Iterator[SshServer]:
    with ssh_server({"CRUCIBLE_HOME": str(there)}) as running:
        yield running


@pytest.fixture(scope="module")
def short() -> Iterator[Path]:
    """Where connections can be shared: logging in anew for every test would take most of the time."""
    with tempfile.TemporaryDirectory(prefix="ssh-") as name:
        yield Path(name)
        end_shared(Path(name))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def opened(worker: Worker) -> Connection:
    connection = await Connection.open(worker)
    await connection.close()
    return connection


def stranger(script: str, here: Path) -> Worker:
    """A worker whose `microvmctl` is that script. What is between us and it does not matter here."""
    program = here / f"microvmctl-{os.urandom(4).hex()}"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return by_command((str(program),), here)


def greeting(**changes: object) -> str:
    facts = {
        "contract": 1, "crucible": "9.9.9", "lending": LENDING, "generation": GENERATION,
        "backend": "qemu-kvm", "isolation": "hardware-vm", **changes,
    }  # fmt: skip
    return f"printf '%s %s\\n' \"$3\" {shlex.quote(json.dumps(facts))}"


async def test_a_worker_says_who_it_is(
    server: SshServer, here: Path, short: Path, run: Run
) -> None:
    claims = (await opened(by_ssh(server.host(), short))).claims
    assert (claims.backend, claims.isolation) == ("qemu-tcg", "software-vm")


async def test_a_command_that_begins_with_ssh_is_held_to_the_same_caution(
    server: SshServer, short: Path, run: Run
) -> None:
    host = server.host()
    words = (
        "ssh", "-i", host.identity, "-o", f"UserKnownHostsFile={host.known_hosts}",
        "-o", "StrictHostKeyChecking=no", "-p", str(host.port), f"{host.user}@{host.host}", "--",
        "microvmctl",
    )  # fmt: skip
    worker = by_command(words, short)
    assert worker.words.index("StrictHostKeyChecking=yes") < worker.words.index(
        "StrictHostKeyChecking=no"
    )
    assert (await opened(worker)).claims.isolation == "software-vm"


async def test_a_host_whose_key_is_not_known_is_not_spoken_to(
    server: SshServer, here: Path, run: Run
) -> None:
    empty = server.directory / "knows_nobody"
    empty.write_bytes(b"")
    with pytest.raises(WorkerUnreachable) as refused:
        await opened(by_ssh(server.host(known_hosts=str(empty)), here))
    assert "host key" in refused.value.message.lower()
    assert "known_hosts" in refused.value.hint
    assert not empty.read_text()


async def test_a_host_with_another_key_is_not_spoken_to(
    server: SshServer, here: Path, run: Run
) -> None:
    other = server.directory / "other_hosts"
    public = (server.directory / "user_key.pub").read_text()
    other.write_text(f"[127.0.0.1]:{server.port} {public}")
    with pytest.raises(WorkerUnreachable):
        await opened(by_ssh(server.host(known_hosts=str(other)), here))


async def test_a_worker_that_does_not_take_our_key_is_told_as_such(
    server: SshServer, here: Path, run: Run
) -> None:
    with pytest.raises(WorkerUnreachable) as refused:
        await opened(by_ssh(server.host(identity=str(server.directory / "host_key")), here))
    assert "ssh-copy-id" in refused.value.hint


async def test_a_port_where_nobody_listens_is_unreachable(here: Path, run: Run) -> None:
    with pytest.raises(WorkerUnreachable):
        await opened(by_ssh(SshHost(host="127.0.0.1", port=1), here))


async def test_a_command_that_is_not_here_is_told_as_such(here: Path, run: Run) -> None:
    with pytest.raises(WorkerUnreachable) as missing:
        await opened(by_command(("no-such-way-to-a-worker", "microvmctl"), here))
    assert "no-such-way-to-a-worker" in missing.value.message


async def test_a_worker_without_crucible_is_told_with_the_fix(
    server: SshServer, here: Path, short: Path, run: Run
) -> None:
    with pytest.raises(WorkerLacksCrucible) as lacking:
        await opened(by_ssh(server.host(program="microvmctl-of-nobody"), short))
    assert "not found" in lacking.value.message
    assert "Install crucible" in lacking.value.hint


@pytest.mark.parametrize("changes", [{"lending": 99}, {"generation": 99}, {"lending": None}])
async def test_another_release_that_does_not_understand_us_is_refused(
    here: Path, run: Run, changes: dict[str, object]
) -> None:
    with pytest.raises(WorkerMismatch) as mismatch:
        await opened(stranger(greeting(**changes), here))
    assert "9.9.9" in mismatch.value.message
    assert "pip install" in mismatch.value.hint


async def test_what_a_login_shell_says_first_is_passed_over(here: Path, run: Run) -> None:
    noise = "echo Welcome; printf 'no newline'; echo; echo '0123456789abcdef {}'; "
    connection = await opened(stranger(noise + greeting(), here))
    assert connection.claims.version == "9.9.9"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("yes", id="endless lines"),
        pytest.param("cat /dev/zero", id="a line without end"),
        pytest.param("echo hello", id="no greeting"),
        pytest.param("exit 3", id="nothing"),
        pytest.param("printf '%s {\\n' \"$3\"", id="not JSON"),
        pytest.param("printf '%s 17\\n' \"$3\"", id="no object"),
        pytest.param("printf '%s ' \"$3\"; yes '[' | head -c 60000 | tr -d '\\n'; echo", id="deep"),
    ],
)
async def test_what_is_no_worker_is_taken_for_none(here: Path, run: Run, script: str) -> None:
    with pytest.raises(WorkerLacksCrucible):
        await opened(stranger(script, here))


async def test_a_workers_words_reach_no_terminal_as_they_are(here: Path, run: Run) -> None:
    with pytest.raises(WorkerLacksCrucible) as told:
        await opened(stranger(r"printf '\033]0;owned\007boo\n' >&2; exit 4", here))
    assert told.value.message.isprintable()
    assert "boo" in told.value.message
    claims = (await opened(stranger(greeting(isolation="\x1b[2J"), here))).claims
    assert claims.isolation.isprintable()


async def test_an_isolation_that_nobody_knows_is_not_believed(here: Path, run: Run) -> None:
    worker = stranger(greeting(isolation="fort-knox") + "; cat >/dev/null", here)
    backend = WorkerBackend(worker=worker, home=here)
    with pytest.raises(CrucibleError, match="fort-knox"):
        await backend.isolation()
    await backend.settled()


async def test_a_worker_that_cannot_run_sandboxes_says_why(here: Path, run: Run) -> None:
    missing = {"code": "prerequisite-missing", "message": "no qemu", "hint": "apt install qemu"}
    script = greeting(missing=missing, isolation="") + "; cat >/dev/null"
    backend = WorkerBackend(worker=stranger(script, here), home=here)
    found = await backend.probe()
    assert found is not None
    assert "no qemu" in found.what
    assert "apt install qemu" in found.fix
    await backend.settled()


async def test_a_worker_that_cannot_be_reached_is_the_reason_and_not_its_isolation(
    here: Path, run: Run
) -> None:
    backend = WorkerBackend(worker=by_ssh(SshHost(host="127.0.0.1", port=1), here), home=here)
    manager = scripted_manager(here, backend)
    with pytest.raises(BackendUnusable, match="cannot be reached"):
        await manager.create("box", SandboxSpec(backend="worker"))
    manager.records.close()


@pytest.mark.parametrize(
    "fields",
    [
        {"host": "-oProxyCommand=touch pwned"},
        {"host": ""},
        {"host": "a b"},
        {"host": "a\nb"},
        {"host": "host;id"},
        {"host": "h", "user": "-l"},
        {"host": "h", "user": "a b"},
        {"host": "h", "user": "$(id)"},
        {"host": "h", "port": 70000},
        {"host": "h", "port": -1},
        {"host": "h", "identity": 'a"b'},
        {"host": "h", "known_hosts": "a\nb"},
        {"host": "h", "program": "-x"},
        {"host": "h", "program": ""},
    ],
)
def test_what_ssh_could_take_for_something_else_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(BadSetting):
        SshHost(**fields)  # type: ignore[arg-type]


def test_a_host_is_never_read_as_an_option(here: Path) -> None:
    words = by_ssh(SshHost(host="worker.example", user="me", port=22), here).words
    assert words[words.index("--") :] == ("--", "worker.example", "microvmctl")
    assert "StrictHostKeyChecking=yes" in words
    assert not [word for word in words if word.lower() == "stricthostkeychecking=no"]


async def test_a_program_with_an_odd_name_is_one_word_for_the_workers_shell(
    server: SshServer, here: Path, short: Path, run: Run
) -> None:
    odd = server.directory / "a b '$(touch pwned)' `touch pwned` ; * & é"
    odd.mkdir()
    program = odd / "micro vm ctl"
    program.write_text(f"#!/bin/sh\n{greeting()}\n")
    program.chmod(0o755)
    connection = await opened(by_ssh(server.host(program=str(program)), short))
    assert connection.claims.version == "9.9.9"
    assert not list(server.directory.rglob("pwned"))


def test_commands_of_a_minute_share_one_connection(
    server: SshServer, short: Path, run: Run
) -> None:
    worker = by_ssh(server.host(), short)
    (path,) = [word for word in worker.words if word.startswith("ControlPath=")]
    run(opened(worker))
    assert Path(path.partition("=")[2].strip('"')).is_socket()
    run(opened(worker))
    at = worker.words.index("--")
    over = [*worker.words[:at], "-O", "check", *worker.words[at : at + 2]]
    done = subprocess.run(over, capture_output=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr


def test_where_a_socket_would_not_fit_nothing_is_shared() -> None:
    words = by_ssh(SshHost(host="h"), Path("/" + "x" * 100)).words
    assert "ControlPath=none" in words


async def test_what_is_run_arrives_as_it_was_asked_for(
    server: SshServer, there: Path, here: Path, short: Path, run: Run
) -> None:
    async with scripted_worker(there) as backend:
        machine = await _boot(server, short, here, "command")
        command = Command(
            argv=(b"true", *SHELL_FOOD),
            environment={b"NAME WITH $(id)": b"line\nbreak '\"`id`"},
        )
        done = await machine.run(command)
        assert (done.exit.status, done.output) == (0, b"up\n")
        (there_,) = backend.machines
        assert there_.argv == [(b"true", *SHELL_FOOD)]
        assert there_.environments == [{b"NAME WITH $(id)": b"line\nbreak '\"`id`"}]
        await machine.close()
        await until(lambda: there_.has_ended)


async def test_a_temporary_sandbox_ends_with_the_connection_to_it(
    server: SshServer, there: Path, here: Path, short: Path, run: Run
) -> None:
    async with scripted_worker(there) as backend:
        machine = await _boot(server, short, here, "command")
        process = await machine.start(Command(argv=(b"forever",)))
        assert (await process.read(grants=True)) is not None
        await _cut(machine)
        with pytest.raises(WorkerLost) as lost:
            await process.wait()
        assert "temporary" in lost.value.hint
        assert "lost" in await machine.ended()
        await until(lambda: backend.machines[0].has_ended)
        await machine.close()


async def test_a_named_sandbox_is_found_again_after_the_connection_was_lost(
    server: SshServer, there: Path, here: Path, short: Path, run: Run
) -> None:
    async with scripted_worker(there) as backend:
        machine = await _boot(server, short, here, "sandbox")
        process = await machine.start(Command(argv=(b"forever",)))
        chunk = await process.read()
        assert chunk is not None
        assert (chunk.channel, chunk.data) == (Channel.OUTPUT, b"up\n")
        await _cut(machine)
        with pytest.raises(WorkerLost):
            await process.wait()
        assert not machine.has_ended
        await until(lambda: backend.machines[0].loans == 2)
        done = await _when_back(machine)
        assert done.exit.status == 0
        assert not backend.machines[0].has_ended
        await machine.close()
        await until(lambda: backend.machines[0].has_ended)


async def test_a_machine_that_ended_meanwhile_is_told_as_ended(
    server: SshServer, there: Path, here: Path, short: Path, run: Run
) -> None:
    async with scripted_worker(there) as backend:
        machine = await _boot(server, short, here, "sandbox")
        backend.machines[0].end("its kernel panicked")
        assert await machine.ended() == "its kernel panicked"
        with pytest.raises(GuestGone, match="panicked"):
            await machine.run(Command(argv=(b"true",)))
        await machine.close()


async def test_a_holder_that_died_leaves_a_sandbox_that_the_next_one_adopts(
    server: SshServer, there: Path, here: Path, short: Path, run: Run
) -> None:
    async with scripted_worker(there) as worker:
        machine = await _boot(server, short, here, "sandbox")
        await machine.detach()
        backend = WorkerBackend(worker=by_ssh(server.host(), short), home=here)
        plan = plan_of(here, "a1", lifetime="sandbox")
        again = await backend.adopt(plan, machine.handle, is_paused=False)
        assert (await again.run(Command(argv=(b"true",)))).exit.status == 0
        assert not worker.machines[0].has_ended
        await again.close()
        with pytest.raises(GuestGone):
            await backend.adopt(plan, machine.handle, is_paused=False)


async def test_two_borrowers_do_not_share_a_machine(
    server: SshServer, there: Path, here: Path, short: Path, run: Run
) -> None:
    async with scripted_worker(there) as worker:
        first = await _boot(server, short, here, "sandbox")
        backend = WorkerBackend(worker=by_ssh(server.host(), short), home=here)
        plan = plan_of(here, "a1", lifetime="sandbox")
        second = await backend.adopt(plan, first.handle, is_paused=False)
        with pytest.raises(WorkerLost, match="another host"):
            await first.run(Command(argv=(b"forever",)))
        assert (await second.run(Command(argv=(b"true",)))).exit.status == 0
        await first.close()
        assert worker.machines[0].loans == 2
        assert not worker.machines[0].has_ended
        await second.close()


async def test_a_removed_sandbox_is_removed_on_the_worker_too_even_if_later(
    server: SshServer, there: Path, here: Path, short: Path, run: Run
) -> None:
    async with scripted_worker(there) as worker:
        machine = await _boot(server, short, here, "sandbox")
        away = WorkerBackend(worker=by_ssh(SshHost(host="127.0.0.1", port=1), here), home=here)
        await machine.detach()
        away.forget("a1")
        await away.settled()
        assert [mark.name for mark in (here / "worker-removals").iterdir()] == ["lent-a1"]
        backend = WorkerBackend(worker=by_ssh(server.host(), short), home=here)
        other = await backend.boot(plan_of(here, "b2", lifetime="command"))
        await other.close()
        backend.forget("never-was")
        await backend.settled()
        assert not list((here / "worker-removals").iterdir())
        assert worker.machines[0].has_ended


async def test_what_only_the_worker_can_do_is_done_by_it(
    server: SshServer, there: Path, here: Path, short: Path, run: Run
) -> None:
    async with scripted_worker(there):
        machine = await _boot(server, short, here, "command")
        assert await machine.console() == b"the kernel said this\n"
        await machine.pause()
        await machine.resume()
        assert (await machine.run(Command(argv=(b"true",)))).exit.status == 0
        await machine.close()


def test_the_doctor_shows_a_worker_and_what_it_claims(
    server: SshServer, here: Path, run: Run
) -> None:
    host = server.host()
    ssh = Ssh(
        host=host.host,
        user=host.user,
        port=host.port,
        identity=host.identity,
        known_hosts=host.known_hosts,
    )
    found = diagnose(Config(home=here, transport="ssh", ssh=ssh), deep=False)[-1]
    assert (found.status, found.name) == ("ok", f"worker {host.user}@127.0.0.1")
    assert "as it says itself: software-vm" in found.finding
    end_shared(here)


def test_the_doctor_tells_why_a_worker_is_not_there(here: Path) -> None:
    ssh = Ssh(host="127.0.0.1", port=1)
    found = diagnose(Config(home=here, transport="ssh", ssh=ssh), deep=False)[-1]
    assert (found.status, found.name) == ("fail", "worker 127.0.0.1")
    assert found.fix


async def _boot(server: SshServer, short: Path, here: Path, lifetime: str) -> WorkerMachine:
    backend = WorkerBackend(worker=by_ssh(server.host(), short), home=here)
    return await backend.boot(plan_of(here, "a1", lifetime=lifetime))


async def _cut(machine: WorkerMachine) -> None:
    """Ends the process that carries the connection, as a network that goes away would."""
    process = machine._loan._connection._process
    os.kill(process.pid, signal.SIGKILL)


async def _when_back(machine: WorkerMachine) -> Completed:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await machine.run(Command(argv=(b"true",)))
            except WorkerLost:
                await asyncio.sleep(0.05)
