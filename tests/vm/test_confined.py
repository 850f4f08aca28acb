"""A sandbox that is read-only and has no powers: attacked from inside, as root."""

from __future__ import annotations

import pytest
from tests.conftest import Run
from tests.vm.conftest import Open, python, shell

from crucible.errors import GuestRefused
from crucible.sandbox.holding import Held
from crucible.sandbox.session import Command
from crucible.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def confined(open_sandbox: Open, run: Run) -> Held:
    held = open_sandbox(SandboxSpec(read_only=True, drop_capabilities=True))
    run(held.furnish())
    return held


WRITES = """
import os, sys
found = []
for top in ("/", "/etc", "/home", "/root", "/usr", "/var", "/var/tmp", "/opt", os.path.expanduser("~user")):
    name = os.path.join(top, "attempt")
    for make in (lambda: open(name, "w").close(), lambda: os.mkdir(name), lambda: os.symlink("x", name)):
        try:
            make()
            found.append(name)
        except OSError as error:
            if error.errno not in (30, 13, 2):
                found.append((name, error.errno))
print(found)
"""


@pytest.mark.parametrize("user", ["root", "user"])
async def test_nothing_on_the_disk_can_be_written(confined: Held, user: str) -> None:
    done = await python(confined, WRITES, user=user)
    assert (done.output, done.errors) == (b"[]\n", b"")


async def test_what_is_there_can_be_neither_changed_nor_removed(confined: Held) -> None:
    script = "echo x >> /etc/passwd; rm /etc/hostname; mv /bin/ls /bin/sl; chmod 777 /etc; touch /etc/hosts"
    done = await shell(confined, script, user="root")
    assert done.errors.count(b"Read-only file system") == 5


async def test_scratch_files_in_memory_can_be_written(confined: Held) -> None:
    done = await shell(confined, "for d in /tmp /dev/shm; do echo ok > $d/x && cat $d/x; done")
    assert done.output == b"ok\nok\n"


async def test_the_host_cannot_write_to_it_either(confined: Held) -> None:
    with pytest.raises(GuestRefused):
        await confined.machine.files.write(b"/etc/attempt", b"x")


async def test_it_cannot_be_made_writable_again(confined: Held) -> None:
    script = "mount -o remount,rw / ; mount -t tmpfs none /etc; unshare -m true; unshare -Urm mount -o remount,rw /"
    done = await shell(confined, script, user="root")
    assert done.exit.status != 0
    assert (await python(confined, WRITES, user="root")).output == b"[]\n"


async def test_root_has_no_powers(confined: Held) -> None:
    done = await shell(confined, "grep -E '^(Cap|NoNewPrivs)' /proc/self/status", user="root")
    facts = dict(line.split(b":\t") for line in done.output.splitlines())
    assert {facts[key] for key in (b"CapPrm", b"CapEff", b"CapBnd", b"CapAmb")} == {b"0" * 16}
    assert facts[b"NoNewPrivs"] == b"1"


async def test_root_cannot_do_what_needs_powers(confined: Held) -> None:
    attempts = (
        "import os, socket\n"
        "def attempt(work):\n"
        "    try: work(); return 'done'\n"
        "    except PermissionError: return 'refused'\n"
        "open('/tmp/mine', 'w').close()\n"
        "print(attempt(lambda: os.chown('/tmp/mine', 1, 1)), attempt(lambda: os.setuid(1)),"
        " attempt(lambda: os.chroot('/tmp')), attempt(lambda: os.kill(1, 0)),"
        " attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)))"
    )
    done = await python(confined, attempts, user="root")
    assert done.output.split()[:3] + done.output.split()[4:] == [b"refused"] * 4


async def test_a_setuid_program_gives_nothing(confined: Held) -> None:
    done = await shell(
        confined, "ls -l /bin/su >/dev/null && su -c id root </dev/null", user="user"
    )
    assert done.exit.status != 0


async def test_an_ordinary_command_still_runs(confined: Held) -> None:
    command = Command(argv=[b"python3", b"-c", b"print(6 * 7)"])
    assert (await confined.machine.run(command)).output == b"42\n"
