"""From one image of a sandbox against another, as root with all tools: what namespaces hold, and what they do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Run
from tests.vm.composition import make_app, script, within
from tests.vm.conftest import Open

from crucible.sandbox.holding import Held
from crucible.sandbox.session import Command
from crucible.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.vm

FIRST = ""
MARK = "only-of-the-first"


@pytest.fixture(scope="module")
def pair(open_sandbox: Open, module_home: Path, run: Run) -> Held:
    """The first image has a file, a process and a segment of memory; `peer` has every tool to look for them."""
    images = {"peer": "base", "app": make_app(module_home)}
    held = open_sandbox(SandboxSpec(image="base", images=images))

    async def furnish() -> None:
        await held.furnish()
        await script(held, FIRST, f"echo secret > /{MARK}; chmod 644 /{MARK}", user="0")
        waiting = (
            "import ctypes, time; c = ctypes.CDLL(None); assert c.shmget(4711, 4096, 0o1666) >= 0;"
            f" print('up', flush=True); time.sleep(9**6) # {MARK}"
        )
        process = await held.machine.start(
            Command(argv=[b"python3", b"-c", waiting.encode()], user="0")
        )
        assert await process.read() is not None

    run(furnish())
    return held


async def python(held: Held, program: str, *, image: str = "peer", user: str = "0") -> str:
    done = await within(held, image, "python3", "-c", program, user=user)
    return (done.output + done.errors).decode()


async def test_processes_of_another_image_are_not_seen(pair: Held) -> None:
    seen = await python(
        pair,
        "import glob\n"
        "for name in glob.glob('/proc/[0-9]*/cmdline'):\n"
        "    try: print(open(name, 'rb').read())\n"
        "    except OSError: pass\n",
    )
    assert MARK not in seen.replace("[0-9]", "")
    there = await script(pair, FIRST, f"cat /proc/[0-9]*/cmdline | grep -c {MARK}", user="0")
    assert int(there.output) >= 1


async def test_no_signal_and_no_trace_reaches_them(pair: Held) -> None:
    program = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "own = {int(name) for name in os.listdir('/proc') if name.isdecimal()}\n"
        "own |= set(map(int, os.listdir('/proc/1/task')))\n"
        "hit = []\n"
        "for pid in range(2, 5000):\n"
        "    if pid in own or pid == os.getpid(): continue\n"
        "    try: os.kill(pid, 9); hit.append(pid)\n"
        "    except ProcessLookupError: pass\n"
        "    if libc.ptrace(16, pid, 0, 0) == 0: hit.append(('traced', pid))\n"
        "print(hit)\n"
    )
    assert await python(pair, program) == "[]\n"
    # The first process of the world itself can be neither ended nor traced.
    assert "Operation not permitted" in await python(
        pair,
        "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); libc.ptrace(16, 1, 0, 0);"
        " print(os.strerror(ctypes.get_errno()))",
    )


async def test_every_way_up_ends_at_its_own_root(pair: Held) -> None:
    ways = (
        "/", "/..", "/proc/1/root", "/proc/self/root/..", "/proc/1/cwd", "/workspace/..",
        "/workspace/../..", "/usr/local/share/crucible/../../../..", "/proc/1/root/../..",
    )  # fmt: skip
    program = (
        "import os\n"
        f"for way in {ways!r}:\n"
        "    try: found = os.listdir(way)\n"
        "    except OSError: continue\n"
        f"    if {MARK!r} in found: print('found', way)\n"
    )
    assert await python(pair, program) == ""


async def test_a_second_root_is_no_way_out(pair: Held) -> None:
    program = (
        "import os\n"
        "top = os.open('/', os.O_RDONLY)\n"
        "os.makedirs('/tmp/in', exist_ok=True); os.chroot('/tmp/in'); os.fchdir(top)\n"
        "for _ in range(64): os.chdir('..')\n"
        "os.chroot('.')\n"
        f"print({MARK!r} in os.listdir('/'), 'disk' in os.listdir('/'), 'image' in os.listdir('/'))\n"
    )
    assert await python(pair, program) == "False False False\n"


async def test_nothing_can_be_mounted_or_uncovered(pair: Held) -> None:
    tries = (
        "mount -t tmpfs none /mnt; mount --bind / /mnt; umount -l /; umount -l /workspace;"
        " mount -o remount,rw /usr/local/share/crucible; unshare -m true; mknod /tmp/vda b 254 0;"
        " nsenter -t 1 -m true; mount -t proc proc /mnt"
    )
    done = await script(pair, "peer", tries, user="0")
    assert done.exit.status != 0
    in_its_own = (
        "unshare -Urm sh -c 'umount -l /workspace; umount -l /proc; umount -l /; mount --bind / /mnt;"
        f" ls / /mnt /mnt/.. 2>/dev/null' | grep -c {MARK}"
    )
    done = await script(pair, "peer", in_its_own, user="0")
    assert done.output == b"0\n"


async def test_files_are_not_reached_by_their_handles(pair: Held) -> None:
    program = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "handle = (ctypes.c_ubyte * 136)(128)\n"
        "mount = os.open('/workspace', os.O_RDONLY)\n"
        "print(libc.open_by_handle_at(mount, handle, 0), os.strerror(ctypes.get_errno()))\n"
    )
    assert await python(pair, program) == "-1 Operation not permitted\n"


async def test_memory_queues_and_names_are_apart(pair: Held) -> None:
    program = "import ctypes, socket; c = ctypes.CDLL(None); print(c.shmget(4711, 0, 0), socket.gethostname())"
    assert await python(pair, program) == "-1 peer\n"
    shared = await python(pair, program, image=FIRST)
    assert not shared.startswith("-1 ")


async def test_the_way_into_others_is_the_first_images_alone(pair: Held) -> None:
    found = await script(pair, "app", "ls /usr/bin/nsexec /run/nsexec.sock", user="0")
    assert found.output == b""
    program = (
        "import socket\n"
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "try: s.connect('/run/nsexec.sock'); print('connected')\n"
        "except OSError as error: print(error.strerror)\n"
    )
    assert await python(pair, program) == "No such file or directory\n"


HOSTILE_REQUESTS = (
    "b''", "b'x' * 100_000", "b'\\xff' * 200", "(3).to_bytes(4, 'little') + b'app'",
    "(2**32 - 1).to_bytes(4, 'little')",
)  # fmt: skip


async def test_what_is_said_to_the_agent_is_not_believed(pair: Held) -> None:
    program = (
        "import array, os, socket\n"
        f"for body in ({', '.join(HOSTILE_REQUESTS)}):\n"
        "    for count in (0, 1, 3, 50):\n"
        "        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "        s.connect('/run/nsexec.sock')\n"
        "        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * count))]\n"
        "        try: s.sendmsg([body], rights if count else [])\n"
        "        except OSError: continue\n"
        "        if body: s.recv(100)\n"
        "        s.close()\n"
        "for _ in range(300):\n"
        "    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "    s.connect('/run/nsexec.sock'); s.close()\n"
        "print('done')\n"
    )
    assert await python(pair, program, image=FIRST) == "done\n"
    assert (await script(pair, FIRST, "nsexec app echo well")).output == b"well\n"


async def test_the_network_of_the_machine_is_one(pair: Held) -> None:
    """No boundary, and not said to be one: loopback and nameless sockets are common to all images."""
    serving = (
        "import socket; s = socket.create_server(('127.0.0.1', 4713));"
        " a = socket.socket(socket.AF_UNIX); a.bind('\\0common'); a.listen();"
        " print('up', flush=True); s.accept(); a.accept()"
    )
    process = await pair.machine.start(Command(argv=[b"python3", b"-c", serving.encode()]))
    assert await process.read() is not None
    program = (
        "import socket; socket.create_connection(('127.0.0.1', 4713));"
        " a = socket.socket(socket.AF_UNIX); a.connect('\\0common'); print('reached')"
    )
    assert await python(pair, program) == "reached\n"
    assert (await process.wait()).status == 0
    await process.forget()
