"""The VMM's cage, read from /proc of a real one and attacked by a program that stands in its place."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import socket
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Run
from tests.vm.conftest import Open, shell

from crucible.backends.qemu import jail, memory
from crucible.backends.qemu.disks import find_chain
from crucible.backends.qemu.foundry import MOST_THREADS
from crucible.backends.qemu.limits import GROUP_PREFIX, LimitsGroup
from crucible.backends.qemu.qmp import Monitor
from crucible.backends.qemu.vmm import identify
from crucible.errors import BootFailed
from crucible.sandbox.holding import Held
from crucible.sandbox.manager import Manager
from crucible.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.vm

OURS = Path("/proc/self")
ATTACKER = "/usr/bin/python3"


def proc(held: Held) -> Path:
    return Path("/proc", str(held.machine.handle.pid))


def status(held: Held) -> dict[str, str]:
    lines = (proc(held) / "status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def targets(held: Held) -> dict[int, str]:
    return {int(path.name): str(path.readlink()) for path in (proc(held) / "fd").iterdir()}


def groups(held: Held) -> list[Path]:
    """The limits groups that the kernel says the VMM is in."""
    lines = (proc(held) / "cgroup").read_text().splitlines()
    places = [line.split(":", 2)[1:] for line in lines]
    return [
        Path("/sys/fs/cgroup", controllers, path.lstrip("/"))
        for controllers, path in places
        if Path(path).name == f"{GROUP_PREFIX}{held.record.id}"
    ]


def digests(paths: Sequence[Path]) -> dict[str, str]:
    return {str(path): _digest(path) for path in paths}


def _digest(path: Path) -> str:
    """Of all that is not zero, and where it lies. What counts as a hole changes with what is cached."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        size = path.stat().st_size
        for offset in memory.chunks_with_data(file.fileno(), size):
            chunk = os.pread(file.fileno(), memory.CHUNK, offset)
            if not memory.is_zero(chunk):
                total.update(b"%d" % offset + chunk)
    return f"{size} {total.hexdigest()}"


def test_the_vmm_is_the_process_that_was_written_down(box: Held) -> None:
    argv = (proc(box) / "cmdline").read_bytes().split(b"\0")
    assert argv[0].startswith(b"/usr/bin/qemu-system-")
    assert b"crucible-" + box.record.id.encode() in argv


def test_it_runs_as_the_sandboxs_own_user_of_the_host(box: Held) -> None:
    uid = str(box.record.host_uid)
    assert int(uid) > 1_900_000_000
    assert status(box)["Uid"].split() == [uid] * 4
    assert status(box)["Gid"].split() == [uid] * 4
    assert status(box)["Groups"] == ""


def test_two_sandboxes_are_two_users(box: Held, open_sandbox: Open) -> None:
    assert status(box)["Uid"] != status(open_sandbox())["Uid"]


def test_it_can_gain_no_privileges(box: Held) -> None:
    found = status(box)
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")
    assert {int(found[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}


def test_every_thread_of_it_is_filtered(box: Held) -> None:
    seen = 0
    for thread in (proc(box) / "task").iterdir():
        # Those that wait for the disk come and go.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            assert "Seccomp:\t2\n" in (thread / "status").read_text()
            seen += 1
    assert seen >= 1


@pytest.mark.parametrize("kind", ["user", "pid", "mnt", "net", "ipc", "uts"])
def test_it_has_namespaces_of_its_own(box: Held, kind: str) -> None:
    theirs, ours = (proc(box) / "ns" / kind).readlink(), (OURS / "ns" / kind).readlink()
    assert theirs != ours


def test_it_has_no_network_but_loopback(box: Held) -> None:
    lines = (proc(box) / "net" / "dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in lines] == ["lo"]


def test_its_environment_tells_nothing(box: Held) -> None:
    words = [word for word in (proc(box) / "environ").read_bytes().split(b"\0") if word]
    assert words in ([], [b"PWD=/"])


def test_it_sees_no_directory_of_the_host_but_its_programs(box: Held) -> None:
    lines = (proc(box) / "mountinfo").read_text().splitlines()
    mounts = {fields[4]: fields[5].split(",") for fields in map(str.split, lines)}
    allowed = {"/", "/usr", "/proc", "/dev/null", "/etc/ld.so.cache"}
    allowed |= {"/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin"}
    outside = [path for path in mounts if path not in allowed and not path.startswith("/proc/")]
    assert outside == []
    writable = {path for path, options in mounts.items() if "ro" not in options}
    assert {path for path in writable if not path.startswith("/proc")} <= {"/dev/null"}


def test_it_holds_no_descriptor_but_its_own_machine(box: Held) -> None:
    """Everything that is not of the kernel is named: the sandbox's own files, or the sealed memory."""
    directory = str(box.record.directory)
    files = [target for target in targets(box).values() if target.startswith("/")]
    known = ("/dev/null", "/memfd:crucible-ram (deleted)")
    strangers = [
        target for target in files if not target.startswith(f"{directory}/") and target not in known
    ]
    assert strangers == []


def test_of_its_files_only_the_top_of_the_disk_and_its_log_can_be_written(box: Held) -> None:
    writable = set()
    for number, target in targets(box).items():
        info = (proc(box) / "fdinfo" / str(number)).read_text()
        flags = int(info.split("flags:")[1].split()[0], 8)
        if target.startswith("/") and flags & os.O_ACCMODE != os.O_RDONLY:
            writable.add(target)
    top = find_chain(box.record.directory).top
    memory = "/memfd:crucible-ram (deleted)"
    expected = {str(top), str(box.record.directory / "vmm.log"), memory, "/dev/null"}
    assert writable <= expected


def test_its_limits_are_in_force(box: Held) -> None:
    lines = (proc(box) / "limits").read_text().splitlines()
    found = {line[:26].strip(): line[26:].split()[:2] for line in lines}
    assert found["Max core file size"] == ["0", "0"]
    assert found["Max open files"] == ["256", "256"]
    assert int(found["Max file size"][1]) < 9 << 30
    assert int(found["Max data size"][1]) == (box.record.spec.memory_mib + 1024) << 20


def test_it_is_in_limits_groups_of_its_own(box: Held) -> None:
    group = f"crucible-{box.record.id}"
    lines = (proc(box) / "cgroup").read_text().splitlines()
    inside = {
        name
        for _, names, path in (line.split(":", 2) for line in lines)
        for name in (names.split(",") if names else ["memory", "pids", "cpu"])
        if Path(path).name == group
    }
    assert {"memory", "pids"} <= inside


def test_its_groups_cap_memory_and_processes(box: Held) -> None:
    found = {
        path.name: int(path.read_text())
        for directory in groups(box)
        for path in directory.iterdir()
        if path.name in ("memory.limit_in_bytes", "memory.max", "pids.max")
    }
    memory = found.get("memory.limit_in_bytes", found.get("memory.max", 0))
    assert 0 < memory <= (2 * box.record.spec.memory_mib + 192) << 20
    assert found["pids.max"] == MOST_THREADS + 1


def test_its_sockets_are_for_us_alone(box: Held, module_home: Path) -> None:
    directory = box.record.directory
    assert directory.stat().st_mode & 0o777 == 0o700
    for name in ("monitor.sock", "agent.sock"):
        status_of = (directory / name).stat()
        assert (status_of.st_mode & 0o777, status_of.st_uid) == (0o600, os.geteuid())
    assert module_home.stat().st_mode & 0o077 == 0


def test_a_machine_that_ended_leaves_no_limits_group(manager: Manager, run: Run) -> None:
    async def scene() -> list[Path]:
        async with manager.open(SandboxSpec()) as held:
            found = groups(held)
            assert [path.is_dir() for path in found] == [True] * len(found)
            return found

    before = run(scene())
    assert before
    assert not [path for path in before if path.exists()]


def test_a_machine_at_work_leaves_template_and_image_as_they_were(
    manager: Manager, module_home: Path, run: Run
) -> None:
    places = [module_home / name for name in ("templates", "blanks", "images", "kernels")]
    shared = [path for place in places for path in place.rglob("*") if path.is_file()]
    before = digests(shared)

    async def scene() -> None:
        async with manager.open(SandboxSpec()) as held:
            await shell(held, "head -c 8000000 /dev/urandom > /usr/share/noise; sync; rm -rf /etc")

    run(scene())
    assert digests(shared) == before


def test_a_machine_that_cannot_be_limited_never_runs(
    manager: Manager, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its VMM is put into its limits group while it starts; the guest does not begin before that is done."""
    before = manager.records.sandboxes()
    begun: list[str] = []
    execute = Monitor.execute

    def refuse(self: LimitsGroup, *pids: int) -> None:
        raise PermissionError(1, "not today")

    async def watched(self: Monitor, command: str, *rest: Any, **fields: Any) -> Any:
        begun.append(command)
        return await execute(self, command, *rest, **fields)

    monkeypatch.setattr(LimitsGroup, "admit", refuse)
    monkeypatch.setattr(Monitor, "execute", watched)

    async def scene() -> None:
        async with manager.open(SandboxSpec()):
            pass

    with pytest.raises(BootFailed, match="under its limits"):
        run(scene())
    assert begun
    assert "cont" not in begun
    assert manager.records.sandboxes() == before


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a VMM stood: its cage, and copies of all descriptors it was given."""

    cage: jail.Cage
    descriptors: tuple[int, ...]
    held: Held


@pytest.fixture(scope="module")
def place(open_sandbox: Open) -> Iterator[Place]:
    """A real machine is started and what it was started with is written down on the way."""
    seen: list[tuple[jail.Cage, tuple[int, ...]]] = []
    spawn = jail.spawn

    def watching(
        cage: jail.Cage, argv: Sequence[str], *, descriptors: Sequence[int], **rest: int
    ) -> subprocess.Popen[bytes]:
        seen.append((cage, tuple(map(os.dup, descriptors))))
        return spawn(cage, argv, descriptors=descriptors, **rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jail, "spawn", watching)
        held = open_sandbox()
    [(cage, descriptors)] = seen
    yield Place(cage=cage, descriptors=descriptors, held=held)
    for descriptor in descriptors:
        os.close(descriptor)


def break_out(place: Place, program: str, *words: str, tmp_path: Path) -> Any:
    """Runs a Python program exactly where the VMM runs; gives what it printed, as JSON."""
    report = tmp_path / "report"
    errors = os.open(report, os.O_RDWR | os.O_CREAT, 0o600)
    info_read, info_write = os.pipe()
    groups = place.cage.group.directories
    ready = (
        "import sys, json, os, time\n"
        f"while open('/proc/self/cgroup').read().count('{GROUP_PREFIX}') < {len(groups)}:\n"
        "    time.sleep(0.01)\n"
    )
    argv = [ATTACKER, "-I", "-c", ready + program, *words]
    try:
        child = jail.spawn(
            place.cage, argv, descriptors=place.descriptors, errors=errors, info=info_write
        )
        place.cage.group.admit(child.pid, identify(child.pid, info_read).pid)
        child.wait(200)
    finally:
        for descriptor in (errors, info_read, info_write):
            os.close(descriptor)
    text = report.read_text()
    try:
        return json.loads(text)
    except ValueError:
        raise AssertionError(f"the attack itself failed: {text}") from None


TRYING = """
def attempt(work):
    try:
        return "done: " + repr(work())[:80]
    except OSError as error:
        return "refused"
"""


def test_a_broken_out_vmm_is_nobody(place: Place, tmp_path: Path) -> None:
    found = break_out(
        place,
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print(json.dumps([status['CapEff'].strip(), status['NoNewPrivs'].strip(), os.getpid(),"
        " sorted(os.environ)]), file=sys.stderr)",
        tmp_path=tmp_path,
    )
    assert found[:3] == ["0000000000000000", "1", 1]
    assert set(found[3]) <= {"PWD", "LC_CTYPE"}


def test_a_broken_out_vmm_reads_no_file_of_the_host(
    place: Place, box: Held, module_home: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o666)
    paths = [
        "/etc/shadow", "/etc/passwd", "/root", "/home", "/var", "/tmp", "/sys", "/run",
        str(secret), str(module_home), str(module_home / "records.sqlite"),
        str(box.record.directory), str(place.held.record.directory), str(box.record.directory / "agent.sock"),
        "/proc/1/root/etc/shadow", f"/proc/{os.getpid()}/root", "/proc/self/cwd/../../etc/shadow",
    ]  # fmt: skip
    found = break_out(
        place,
        TRYING
        + "print(json.dumps({p: attempt(lambda: os.listdir(p) if os.path.isdir(p) else open(p).read())"
        " for p in sys.argv[1:]}), file=sys.stderr)",
        *paths,
        tmp_path=tmp_path,
    )
    assert set(found.values()) == {"refused"}, found


def test_a_broken_out_vmm_can_write_nowhere(place: Place, tmp_path: Path) -> None:
    found = break_out(
        place,
        TRYING + "print(json.dumps({p: attempt(lambda: open(p + '/x', 'w')) for p in"
        " ('', '/usr', '/usr/bin', '/etc', '/proc', '/proc/self', '/tmp', '/dev', '/dev/shm', '/var/tmp')}),"
        " file=sys.stderr)",
        tmp_path=tmp_path,
    )
    assert set(found.values()) == {"refused"}, found


def test_a_broken_out_vmm_reaches_no_network(place: Place, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as stack:
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0crucible-test-{os.getpid()}")
        abstract.listen()
        found = break_out(
            place,
            TRYING + "import socket\n"
            "def tcp(host, port):\n"
            "    with socket.create_connection((host, port), 3): return 1\n"
            "def abstract():\n"
            "    with socket.socket(socket.AF_UNIX) as s: s.connect('\\0crucible-test-' + sys.argv[2])\n"
            "def packet():\n"
            "    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s: return 1\n"
            "port = int(sys.argv[1])\n"
            "print(json.dumps({'host': attempt(lambda: tcp('127.0.0.1', port)),"
            " 'internet': attempt(lambda: tcp('1.1.1.1', 53)),"
            " 'abstract': attempt(abstract), 'packet': attempt(packet)}), file=sys.stderr)",
            str(server.getsockname()[1]),
            str(os.getpid()),
            tmp_path=tmp_path,
        )
    assert set(found.values()) == {"refused"}, found


def test_a_broken_out_vmm_reaches_no_process_of_the_host(place: Place, tmp_path: Path) -> None:
    found = break_out(
        place,
        TRYING + "print(json.dumps([sorted(p for p in os.listdir('/proc') if p.isdecimal()),"
        " attempt(lambda: os.kill(int(sys.argv[1]), 0)), attempt(lambda: os.setuid(0)),"
        " attempt(lambda: os.setgid(0)), attempt(lambda: os.chroot('/'))]), file=sys.stderr)",
        str(os.getpid()),
        tmp_path=tmp_path,
    )
    assert found == [["1"], "refused", "refused", "refused", "refused"]


LOOK_AT_DEVICE = (
    TRYING
    + """
path = sys.argv[1]
status = os.stat(path)
opened = attempt(lambda: os.open(path, os.O_RDWR))
made = attempt(lambda: os.mknod(path + "2", 0o20600, status.st_rdev))
seen = attempt(lambda: os.listdir("/sys"))
print(json.dumps([opened, oct(status.st_mode), status.st_rdev, made, seen]), file=sys.stderr)
"""
)


@pytest.fixture
def device(public_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for /dev/kvm where there is none, and harms nothing: `/dev/full`, for root alone."""
    path = public_directory / "kvm"
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 7))
    monkeypatch.setattr(jail, "KVM_DEVICE", path)
    return path


def test_a_device_that_is_roots_alone_is_lent_to_the_vmm_and_to_nobody_else(
    place: Place, device: Path, tmp_path: Path
) -> None:
    before = device.stat()
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    sys_before = [line for line in lines if line.split()[4] == "/sys"]
    cage = dataclasses.replace(place.cage, needs_kvm=True)
    lent = dataclasses.replace(place, cage=cage)
    opened, mode, number, made, sys_seen = break_out(
        lent, LOOK_AT_DEVICE, str(device), tmp_path=tmp_path
    )
    assert (opened[:4], mode, number) == ("done", "0o20600", os.makedev(1, 7))
    assert (made, sys_seen) == ("refused", "refused")
    after = device.stat()
    assert (after.st_mode, after.st_uid, after.st_ino) == (before.st_mode, 0, before.st_ino)
    # Nothing of what was mounted to lend it is seen here. Others of this host mount what they like.
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    assert not [line for line in lines if line.split()[4] == str(device)]
    assert [line for line in lines if line.split()[4] == "/sys"] == sys_before


def test_a_vmm_that_needs_no_device_gets_none(place: Place, device: Path, tmp_path: Path) -> None:
    found = break_out(
        place,
        TRYING + "print(json.dumps(attempt(lambda: os.stat(sys.argv[1]))), file=sys.stderr)",
        str(device),
        tmp_path=tmp_path,
    )
    assert found == "refused"


def test_where_root_may_make_no_devices_the_device_stays_closed(
    place: Place, device: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "mknod", refuse)
    cage = dataclasses.replace(place.cage, needs_kvm=True)
    lent = dataclasses.replace(place, cage=cage)
    found = break_out(lent, LOOK_AT_DEVICE, str(device), tmp_path=tmp_path)
    assert found[0] == "refused"


ON_DESCRIPTORS = (
    TRYING
    + """
import ctypes, mmap, stat
libc = ctypes.CDLL(None, use_errno=True)
def call(value):
    if value != 0:
        raise OSError(ctypes.get_errno(), "")
def punch(fd):
    call(libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(4096)))
def extend(fd):
    call(libc.fallocate(fd, 0, ctypes.c_long(os.fstat(fd).st_size), ctypes.c_long(4096)))
def share(fd):
    with mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as view:
        view[0] = view[0]
def reopen(fd):
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    try:
        os.pwrite(again, os.pread(again, 1, 0), 0)
    finally:
        os.close(again)
ways = {
    "write": lambda fd: os.pwrite(fd, b"\\xa5", 100),
    "cut": lambda fd: os.ftruncate(fd, 0),
    "lengthen": lambda fd: os.ftruncate(fd, os.fstat(fd).st_size + 4096),
    "punch": punch,
    "extend": extend,
    "map": share,
    "reopen": reopen,
    "chmod": lambda fd: os.fchmod(fd, 0o777),
    "own": lambda fd: os.fchown(fd, os.getuid(), os.getgid()),
    "times": lambda fd: os.utime(fd, (5, 5)),
}
found = {}
for name in os.listdir("/proc/self/fd"):
    fd = int(name)
    try:
        target = os.readlink(f"/proc/self/fd/{fd}")
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:
        continue
    if fd > 2 and is_file:
        for way, work in ways.items():
            found[f"{target} {way}"] = attempt(lambda: work(fd))
print(json.dumps(found), file=sys.stderr)
"""
)


def test_a_broken_out_vmm_can_alter_nothing_but_its_own_disk(
    place: Place, box: Held, tmp_path: Path, run: Run, open_sandbox: Open
) -> None:
    """Every way of writing is tried on every file that the VMM was given."""
    *frozen, top = find_chain(place.held.record.directory).layers
    frozen += [place.held.record.directory / name for name in ("root.squashfs", "exchange.raw")]
    before = digests(frozen)
    found = break_out(place, ON_DESCRIPTORS, tmp_path=tmp_path)
    tried = {name.rsplit(" ", 1)[0] for name in found}
    assert tried == {*map(str, frozen), str(top), "/memfd:crucible-ram (deleted)"}
    done = {name for name, what in found.items() if what != "refused"}
    assert done == {
        f"{top} {way}" for way in ("write", "cut", "lengthen", "punch", "extend", "map")
    }
    assert digests(frozen) == before
    for held in (box, open_sandbox()):
        assert run(shell(held, "echo unharmed")).output == b"unharmed\n"


def test_a_broken_out_vmm_cannot_fork_without_end(place: Place, tmp_path: Path) -> None:
    found = break_out(
        place,
        "count = 0\n"
        "try:\n"
        "    while count < 500:\n"
        "        if os.fork() == 0:\n"
        "            import time; time.sleep(30); os._exit(0)\n"
        "        count += 1\n"
        "except OSError:\n"
        "    pass\n"
        "print(json.dumps(count), file=sys.stderr)\n"
        "os._exit(0)",
        tmp_path=tmp_path,
    )
    assert found < MOST_THREADS
