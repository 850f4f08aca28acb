"""Attacks from inside a sandbox, as root and as an ordinary user: on the agent, the machine and the host."""

from __future__ import annotations

import asyncio
import io
import platform
import socket
import tarfile
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.conftest import Run
from tests.vm.conftest import python, shell

from crucible.errors import GuestRefused
from crucible.sandbox.holding import Held
from crucible.sandbox.manager import Manager
from crucible.sandbox.session import Command, Completed
from crucible.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.vm

ROOT = ""
USER = "nobody"
both = pytest.mark.parametrize("user", [ROOT, USER], ids=["root", "user"])


def is_refused(done: Completed) -> bool:
    return done.exit.status != 0


async def succeeds(held: Held, script: str, user: str = ROOT) -> bytes:
    done = await shell(held, script, user=user)
    assert done.exit.status == 0, done.errors
    return done.output


async def with_words(held: Held, script: str, words: Sequence[str], user: str = ROOT) -> bytes:
    """What a script prints that is given these words."""
    argv = [b"/bin/sh", b"-c", script.encode(), b"sh", *(word.encode() for word in words)]
    done = await held.machine.run(Command(argv=argv, user=user, timeout_s=300))
    return done.output


async def is_alive(held: Held) -> bool:
    return (await shell(held, "echo alive")).output == b"alive\n"


@both
async def test_the_agent_cannot_be_seen(box: Held, user: str) -> None:
    words = await succeeds(box, "cat /proc/[0-9]*/cmdline /proc/[0-9]*/comm | tr '\\0' ' '", user)
    assert b"/init" not in words
    pids = (await succeeds(box, "ls /proc", user)).split()
    assert {pid for pid in pids if pid.isdigit()} - {b"1"} != set()
    assert await is_alive(box)


@pytest.mark.parametrize("number", ["TERM", "KILL", "STOP", "SEGV", "HUP"])
async def test_the_first_process_cannot_be_ended(box: Held, number: str) -> None:
    await shell(box, f"kill -{number} 1")
    assert await is_alive(box)


async def test_killing_everything_ends_only_the_users_processes(box: Held) -> None:
    await python(box, "import os, signal; os.kill(-1, signal.SIGKILL)")
    assert await is_alive(box)


@both
async def test_the_first_process_gives_away_nothing(box: Held, user: str) -> None:
    for attempt in (
        "ls /proc/1/root/dev/vda",
        "ls /proc/1/root/modules",
        "ls /proc/1/root/init",
        "cat /proc/1/mem",
        "nsenter -t 1 -a true",
        "ls -l /proc/1/fd/*",
    ):
        done = await shell(box, attempt, user=user)
        assert is_refused(done) or b"crucible" not in done.output, attempt
    assert is_refused(await shell(box, "nsenter -t 1 -m -p true", user=user))


@both
async def test_no_disk_of_the_machine_is_there(box: Held, user: str) -> None:
    devices = (await succeeds(box, "find /dev -type b -o -type c | sort", user)).decode().split()
    allowed = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"}
    unknown = {name for name in devices if name.rsplit("/", 1)[1] not in allowed}
    assert {name for name in unknown if not name.startswith("/dev/pts/")} == set()


@both
@pytest.mark.parametrize("device", ["b 254 0", "b 253 0", "c 1 1", "c 1 2", "c 10 1", "c 4 64"])
async def test_no_device_can_be_made(box: Held, user: str, device: str) -> None:
    script = f"""
    for place in /tmp /dev/shm /workspace /run; do
        mknod $place/node-{user} {device} && head -c 1 $place/node-{user} && echo made in $place
    done
    echo tried"""
    done = await shell(box, script, user=user)
    assert done.output == b"tried\n"


@both
async def test_devices_in_an_archive_are_not_made(box: Held, user: str) -> None:
    """Unpacking is done by the agent, which has the power that commands lack."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        node = tarfile.TarInfo(f"vda-{user}")
        node.type, node.devmajor, node.devminor, node.mode = tarfile.BLKTYPE, 254, 0, 0o666
        archive.addfile(node)

    async def data() -> AsyncIterator[bytes]:
        yield buffer.getvalue()

    await box.machine.files.tar_in(b"/tmp", data())
    assert is_refused(await shell(box, f"ls /tmp/vda-{user}", user=user))


ATTEMPTS = (
    "mount -t tmpfs none /mnt",
    "mount --bind / /mnt",
    "mount -o remount,rw /sys",
    "mount -o remount,rw /proc/sys",
    "umount /proc",
    "mount -t sysfs none /mnt",
    "unshare -m true",
    "unshare -n true",
    "unshare -U -r mount -t tmpfs none /mnt",
    "unshare -U -r -m sh -c 'umount /proc/sys && echo 1 > /proc/sys/kernel/sysrq'",
    "unshare -U -r -m -p -f --mount-proc sh -c 'echo c > /proc/sysrq-trigger'",
    "unshare -U -r -m -n sh -c 'mount -t sysfs none /mnt'",
    "pivot_root / /mnt",
    "losetup -f",
    "swapoff -a && swapon /swap",
    "hwclock -w",
    "dmesg",
    "chroot /proc/1/root ls /modules",
    "date -s 2001-01-01",
)
# Each in a shell of its own: its status, and what it said in one line.
TRY_ALL = 'set -f; for attempt; do said=$(sh -c "$attempt" 2>&1 < /dev/null); echo "$?" $said; done'


@pytest.fixture(scope="module")
def statuses(box: Held, run: Run) -> dict[tuple[str, str], tuple[int, str]]:
    """How each attempt of each user ended: all made one after the other, by one command."""

    async def tried() -> dict[tuple[str, str], tuple[int, str]]:
        found = {}
        for user in (ROOT, USER):
            lines = (await with_words(box, TRY_ALL, ATTEMPTS, user)).decode().splitlines()
            for attempt, line in zip(ATTEMPTS, lines, strict=True):
                status, _, said = line.partition(" ")
                found[user, attempt] = int(status), said
            assert await is_alive(box)
        return found

    return run(tried())


@both
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_the_machine_cannot_be_reconfigured(
    statuses: dict[tuple[str, str], tuple[int, str]], user: str, attempt: str
) -> None:
    status, said = statuses[user, attempt]
    assert status not in (0, 127), said


# Arguments are such that the kernel looks at the caller's powers first.
SYSCALLS = {
    "init_module": "175, b'', 0, b''",
    "finit_module": "313, 0, b'', 0",
    "delete_module": "176, b'overlay', 0o4000",
    "reboot": "169, 0xfee1dead, 672274793, 0x1234567, 0",
    "kexec_load": "246, 0, 0, 0, 0",
    "iopl": "172, 3",
    "ioperm": "173, 0x64, 1, 1",
    "settimeofday": "164, struct.pack('qq', 5, 5), 0",
    "adjtimex": "159, struct.pack('i204x', 0x0001)",
    "bpf": "321, 5, bytes(128), 128",
    "perf_event_open": "298, bytes(128), 0, -1, -1, 0",
    "open_by_handle_at": "304, 3, bytes(64), 0",
    "setns": "308, os.open('/proc/1/ns/mnt', 0), 0",
    "ptrace": "101, 16, 1, 0, 0",
    "acct": "163, b'/tmp/acct'",
    "swapon": "167, b'/tmp/swap', 0",
    "sethostname": "170, b'other', 5",
    "vhangup": "153",
    "syslog": "103, 5, 0, 0",
}


# Each in a process of its own: its name, and what it came to.
CALL_ALL = f"""
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
for name, words in {SYSCALLS!r}.items():
    if (child := os.fork()) == 0:
        try:
            answer = eval(f"libc.syscall({{words}})"), ctypes.get_errno()
        except PermissionError as error:
            answer = -1, error.errno
        print(name, *answer, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def answers(box: Held, run: Run) -> dict[tuple[str, str], str]:
    """What the kernel said to each call of each user: all made one after the other, by one program."""

    async def called() -> dict[tuple[str, str], str]:
        found = {}
        for user in (ROOT, USER):
            done = await python(box, CALL_ALL, user=user)
            for line in done.output.decode().splitlines():
                name, _, answer = line.partition(" ")
                found[user, name] = answer
            assert await is_alive(box)
        return found

    return run(called())


@both
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86_64")
@pytest.mark.parametrize("name", SYSCALLS)
def test_the_kernel_refuses_calls_that_reach_beyond_the_sandbox(
    answers: dict[tuple[str, str], str], user: str, name: str
) -> None:
    assert answers[user, name] in ("-1 1", "-1 13", "-1 38")  # EPERM, EACCES, ENOSYS


KNOBS = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/sysrq",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hostname",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
    "/sys/block/vda/queue/read_ahead_kb",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/class/tty/ttyS0/uevent",
    "/sys/power/state",
)
READ_ALL = (
    'for path; do printf "%s\\0" "$(test -e "$path" && echo there; cat "$path" 2> /dev/null)"; done'
)
TURN_ALL = (
    'for path; do sh -c "echo 1 > $path" 2> /dev/null && printf "turned\\0" || printf "\\0"; done'
)


@pytest.fixture(scope="module")
def knobs(box: Held, run: Run) -> dict[tuple[str, str], tuple[bytes, bytes, bytes]]:
    """Each knob before each user has tried to turn it, whether that was done, and afterwards."""

    async def tried() -> dict[tuple[str, str], tuple[bytes, bytes, bytes]]:
        found = {}
        for user in (ROOT, USER):
            before = await with_words(box, READ_ALL, KNOBS)
            turned = await with_words(box, TURN_ALL, KNOBS, user)
            after = await with_words(box, READ_ALL, KNOBS)
            parts = [text.split(b"\0")[:-1] for text in (before, turned, after)]
            for path, *three in zip(KNOBS, *parts, strict=True):
                found[user, path] = three[0], three[1], three[2]
        return found

    return run(tried())


@both
@pytest.mark.parametrize("path", KNOBS)
def test_the_kernels_knobs_cannot_be_turned(
    knobs: dict[tuple[str, str], tuple[bytes, bytes, bytes]], user: str, path: str
) -> None:
    before, turned, after = knobs[user, path]
    assert before.startswith(b"there")
    assert turned == b""
    assert after == before


async def test_the_groups_that_fence_the_user_are_not_shown(box: Held) -> None:
    assert await succeeds(box, "ls -A /sys/fs/cgroup") == b""


async def test_a_crash_cannot_be_asked_for(box: Held) -> None:
    await shell(box, "echo c > /proc/sysrq-trigger; echo b > /proc/sysrq-trigger")
    assert await is_alive(box)


@both
@pytest.mark.parametrize(
    "path", ["/proc/kcore", "/proc/keys", "/dev/mem", "/dev/kmsg", "/proc/kmsg"]
)
async def test_the_kernels_memory_and_secrets_are_hidden(box: Held, user: str, path: str) -> None:
    assert (await shell(box, f"timeout 2 head -c 1 {path}", user=user)).output == b""


async def test_root_has_only_the_powers_of_a_container(box: Held) -> None:
    text = (await succeeds(box, "cat /proc/self/status")).decode()
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    powerful = {"SYS_ADMIN": 21, "SYS_MODULE": 16, "SYS_RAWIO": 17, "SYS_PTRACE": 19, "SYS_BOOT": 22,
                "SYS_TIME": 25, "MKNOD": 27, "NET_ADMIN": 12, "SYSLOG": 34, "BPF": 39, "PERFMON": 38}  # fmt: skip
    for kind in ("CapEff", "CapBnd", "CapPrm", "CapInh"):
        mask = int(fields[kind], 16)
        assert {name for name, bit in powerful.items() if mask >> bit & 1} == set()


NETWORK = """
import socket, sys
results = []
for family, kind, address in (
    (socket.AF_INET, socket.SOCK_STREAM, ("1.1.1.1", 443)),
    (socket.AF_INET, socket.SOCK_DGRAM, ("1.1.1.1", 53)),
    (socket.AF_INET, socket.SOCK_STREAM, ("10.0.2.2", int(sys.argv[1]) if len(sys.argv) > 1 else 22)),
    (socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80)),
    (socket.AF_INET, socket.SOCK_STREAM, ("192.168.0.1", 80)),
    (socket.AF_INET6, socket.SOCK_STREAM, ("2606:4700:4700::1111", 443)),
):
    with socket.socket(family, kind) as sock:
        sock.settimeout(3)
        try:
            sock.connect(address)
            if kind == socket.SOCK_DGRAM:
                sock.send(b"x")
            results.append(address)
        except OSError:
            pass
try:
    results.append(socket.getaddrinfo("debian.org", 443))
except OSError:
    pass
print(results)
"""


@both
async def test_no_network_can_be_reached(box: Held, user: str) -> None:
    done = await python(box, NETWORK, user=user)
    assert (done.exit.status, done.output) == (0, b"[]\n")


@both
async def test_loopback_is_the_sandboxs_own(box: Held, user: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = f"import socket; socket.create_connection(('127.0.0.1', {port}), 3)"
        assert is_refused(await python(box, program, user=user))


async def test_there_is_no_way_to_the_host_by_vsock(box: Held) -> None:
    program = (
        "import socket; s = socket.socket(socket.AF_VSOCK); s.settimeout(3); s.connect((2, 1024))"
    )
    assert is_refused(await python(box, program))


@both
async def test_the_agents_port_cannot_be_opened(box: Held, user: str) -> None:
    done = await shell(box, "ls /dev/vport* /dev/hvc* /dev/virtio-ports", user=user)
    assert is_refused(done)


async def test_no_file_of_the_host_is_there(box: Held) -> None:
    done = await shell(
        box, "cat /etc/shadow | cut -d: -f2 | sort -u; ls /work /root /home; hostname"
    )
    assert platform.node().encode() not in done.output.split()
    assert b"work" not in (await succeeds(box, "ls /")).split()
    mounts = await succeeds(box, "cat /proc/self/mountinfo")
    assert b"virtiofs" not in mounts
    assert b" 9p " not in mounts


async def test_the_image_is_not_changed_by_what_is_written_over_it(
    box: Held, manager: Manager
) -> None:
    await succeeds(box, "echo altered > /usr/bin/altered && rm /usr/bin/who")
    async with manager.open(SandboxSpec()) as other:
        done = await shell(other, "ls /usr/bin/who /usr/bin/altered")
        assert done.output == b"/usr/bin/who\n"


async def test_a_fork_bomb_leaves_the_sandbox_answering(manager: Manager) -> None:
    bomb = b"import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    async with manager.open(SandboxSpec()) as held:
        process = await held.machine.start(Command(argv=[b"python3", b"-c", bomb]))
        async with asyncio.timeout(140):
            while (await held.machine.stats()).processes < 100:
                assert await is_alive(held)
        await process.forget()
        async with asyncio.timeout(140):
            while (await held.machine.stats()).processes > 2:
                assert await is_alive(held)


THREADS = """
import threading, time
threading.stack_size(32768)
count = 0
try:
    while count < 10000:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        count += 1
except RuntimeError:
    pass
print(count, flush=True)
import os
os._exit(0)
"""


@both
async def test_the_number_of_processes_is_bounded(box: Held, user: str) -> None:
    done = await python(box, THREADS, user=user)
    assert 200 < int(done.output) < 2048
    assert await is_alive(box)


async def test_a_hog_is_told_that_memory_ran_out_and_the_sandbox_answers_afterwards(
    manager: Manager,
) -> None:
    async with manager.open(SandboxSpec(memory_mib=512)) as held:
        done = await python(held, "x = []\nwhile True: x.append(b'x' * (8 << 20))", timeout_s=120)
        assert (done.exit.out_of_memory, done.exit.status) == (True, 137)
        assert await is_alive(held)
        assert (await held.machine.stats()).oom_kills > 0


async def test_root_cannot_make_the_first_process_the_one_to_be_killed(manager: Manager) -> None:
    async with manager.open(SandboxSpec()) as held:
        await shell(
            held, "echo 1000 > /proc/1/oom_score_adj; echo -1000 > /proc/self/oom_score_adj"
        )
        hog = "open('/proc/self/oom_score_adj', 'w').write('0')\nx = []\nwhile True: x.append(b'x' * (8 << 20))"
        assert (await python(held, hog, timeout_s=120)).exit.out_of_memory
        assert await is_alive(held)


async def test_memory_filled_by_files_is_bounded_too(manager: Manager) -> None:
    async with manager.open(SandboxSpec(memory_mib=512)) as held:
        for place in ("/dev/shm", "/run"):
            await shell(held, f"head -c 2000000000 /dev/zero > {place}/fill", timeout_s=120)
            assert await is_alive(held)
            await shell(held, f"rm -f {place}/fill")


async def test_a_full_disk_is_an_error_inside_and_nothing_else(manager: Manager) -> None:
    async with manager.open(SandboxSpec(disk_mib=256)) as held:
        done = await shell(held, "head -c 1000000000 /dev/zero > /tmp/fill", timeout_s=120)
        assert is_refused(done)
        assert b"No space left on device" in done.errors
        assert await is_alive(held)
        with pytest.raises(GuestRefused, match="disk is full"):
            await held.machine.files.write(b"/tmp/more", bytes(8 << 20))
        await succeeds(held, "rm /tmp/fill && sync && head -c 10000000 /dev/zero > /tmp/again")


async def test_a_busy_loop_does_not_keep_the_sandbox_from_answering(box: Held) -> None:
    process = await box.machine.start(Command(argv=[b"sh", b"-c", b"while :; do :; done"]))
    assert await is_alive(box)
    await process.forget()
