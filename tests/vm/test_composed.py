"""Several images in one sandbox: each has files, processes and names of its own, and one directory is common."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.vm.composition import (
    make_app,
    make_bare,
    make_mischief,
    script,
    within,
)
from tests.vm.conftest import Open

from crucible.errors import GuestRefused
from crucible.sandbox.holding import Held
from crucible.sandbox.manager import Manager
from crucible.sandbox.session import Channel, Command
from crucible.sandbox.snapshots import Snapshots
from crucible.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.vm

FIRST = ""


@pytest.fixture(scope="module")
def images(module_home: Path) -> dict[str, str]:
    return {"app": make_app(module_home), "bare": make_bare(module_home)}


@pytest.fixture(scope="module")
def both(open_sandbox: Open, images: dict[str, str], run: Run) -> Held:
    held = open_sandbox(SandboxSpec(image="base", images=images, memory_mib=256))
    run(held.furnish())
    return held


async def test_each_image_has_files_and_names_of_its_own(both: Held) -> None:
    shown = "cat /srv/app/code; hostname; cat /etc/hostname; ls /usr/bin/python3"
    inside, first = await script(both, "app", shown), await script(both, FIRST, shown)
    assert inside.output == b"of the app\napp\napp\n"
    assert b"of the app" not in first.output
    assert first.output.endswith(b"/usr/bin/python3\n")


async def test_a_name_resolves_in_each(both: Held) -> None:
    shown = "cat /etc/hosts; cat /etc/resolv.conf"
    inside, first = await script(both, "app", shown), await script(both, FIRST, shown)
    assert b"\tapp\n" in inside.output
    assert b"localhost" in inside.output
    assert inside.output.split(b"nameserver")[1] == first.output.split(b"nameserver")[1]


async def test_an_image_of_one_program_runs_it(both: Held) -> None:
    done = await within(both, "bare", "/busybox-tool", "echo", "alone")
    assert done.output == b"alone\n"
    done = await script(both, FIRST, "echo in | nsexec bare /busybox-tool cat")
    assert done.output == b"in\n"


async def test_an_image_that_is_not_there_is_told(both: Held) -> None:
    with pytest.raises(GuestRefused, match="nosuch"):
        await within(both, "nosuch", "true")


async def test_commands_in_an_image_see_each_other_and_no_others(both: Held) -> None:
    waiting = await both.machine.start(
        Command(argv=[b"sh", b"-c", b"echo up; exec sleep 4711"], image="app",
                environment={b"PATH": b"/bin"})
    )  # fmt: skip
    try:
        assert await waiting.read() is not None
        await script(both, "app", "echo kept > /tmp/note", user="0")
        seen = await script(both, "app", "cat /tmp/note; until ps | grep 471[1]; do :; done")
        assert seen.output.startswith(b"kept\n")
        for other in (FIRST, "bare"):
            shell = ["sh"] if other == FIRST else ["/busybox-tool", "sh"]
            listing = "cat /proc/[0-9]*/cmdline; cat /tmp/note"
            unseen = await within(both, other, *shell, "-c", listing)
            assert b"sleep" not in unseen.output
            assert b"kept" not in unseen.output
    finally:
        await waiting.signal(9)
        await waiting.wait()
        await waiting.forget()


async def test_the_workspace_is_common(both: Held) -> None:
    common = "/workspace/common"
    await script(both, "app", f"mkdir {common}; echo from the app > {common}/one", user="0")
    assert (await script(both, FIRST, f"cat {common}/one")).output == b"from the app\n"
    await script(both, FIRST, f"echo back > {common}/two", user="0")
    assert (await script(both, "app", f"cat {common}/two")).output == b"back\n"
    assert (await within(both, "bare", "/busybox-tool", "ls", common)).output == b"one\ntwo\n"
    names = [bytes(entry.name) async for entry in both.machine.files.tree(common.encode())]
    assert names == [b"one", b"two"]


async def test_a_program_left_in_the_workspace_gives_nobody_powers(both: Held) -> None:
    planted = "cd /workspace && cp /bin/busybox busybox-su && chmod 4755 busybox-su && stat -c %a busybox-su"
    assert (await script(both, "app", planted, user="0")).output == b"4755\n"
    done = await script(both, FIRST, "/workspace/busybox-su id -u", user="user")
    assert done.output == b"1000\n"


NSEXEC = {
    "the image's own user and directory": ("nsexec app sh -c 'id -un; pwd'", b"app\n/srv/app\n"),
    "input and output": ("echo through | nsexec app -- cat", b"through\n"),
    "errors": ("nsexec app sh -c 'echo bad >&2' 2>&1", b"bad\n"),
    "its status": ("nsexec app sh -c 'exit 42'; echo $?", b"42\n"),
    "its death": ("nsexec app sh -c 'kill -9 $$'; echo $?", b"137\n"),
    "no such program": ("nsexec app nosuch 2>/dev/null; echo $?", b"127\n"),
    "not a program": ("nsexec app /srv/app/code 2>/dev/null; echo $?", b"126\n"),
    "no such image": ("nsexec nosuch true 2>&1 | grep -o 'there are: app, bare'; echo",
                      b"there are: app, bare\n\n"),
    "no words": ("nsexec 2>/dev/null; echo $?", b"125\n"),
    "another directory": ("nsexec -w /workspace app pwd", b"/workspace\n"),
    "a directory that is not there": ("nsexec -w /nowhere app pwd 2>/dev/null; echo $?", b"125\n"),
    "another user, for root": ("nsexec -u 0 app id -u", b"0\n"),
    "options of the command": ("nsexec app echo -e 'a\\nb'", b"a\nb\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", NSEXEC)
async def test_the_first_image_runs_commands_in_another(both: Held, case: str) -> None:
    line, output = NSEXEC[case]
    assert (await script(both, FIRST, line, user="0")).output == output


async def test_variables_go_along_unless_they_are_the_images_own(both: Held) -> None:
    environment = {b"PATH": b"/usr/bin:/bin", b"LANG": b"C.UTF-8", b"GIVEN": b"by the sandbox",
                   b"HOME": b"/root"}  # fmt: skip
    command = Command(argv=[b"nsexec", b"-e", b"MORE=1", b"app", b"env"], environment=environment)
    told = (await both.machine.run(command)).output.decode().splitlines()
    assert {"MODE=production", "GIVEN=by the sandbox", "MORE=1", "PATH=/bin"} <= set(told)
    # The first image's own; what it is in the other is for that to say.
    assert "LANG=of-the-app" in told
    assert "HOME=/home/app" in told


async def test_only_root_chooses_who_to_be_in_another_image(both: Held) -> None:
    done = await script(both, FIRST, "nsexec -u 0 app id", user="user")
    assert (done.exit.status, done.output) == (125, b"")
    assert b"permission" in done.errors


async def test_a_directory_is_not_handed_over(both: Held) -> None:
    done = await script(both, FIRST, "nsexec app ls -l /proc/self/fd/0/ < /etc")
    assert (done.exit.status, done.output) == (125, b"")


async def test_a_signal_reaches_the_command(both: Held) -> None:
    text = "trap 'echo told; exit 3' TERM; echo up; while :; do sleep 0.05; done"
    command = Command(argv=[b"nsexec", b"app", b"sh", b"-c", text.encode()])
    process = await both.machine.start(command)
    first = await process.read()
    assert first is not None
    assert first.data == b"up\n"
    await process.signal(15)
    output = b""
    while (chunk := await process.read()) is not None:
        # What the shell says of a `sleep` that got the signal too is no matter.
        output += chunk.data if chunk.channel is Channel.OUTPUT else b""
    assert output == b"told\n"
    assert (await process.wait()).status == 3
    await process.forget()


async def test_a_command_ends_with_the_program_that_asked_for_it(both: Held) -> None:
    asking = Command(argv=[b"nsexec", b"app", b"sh", b"-c", b"echo up; exec sleep 4712"])
    process = await both.machine.start(asking)
    assert await process.read() is not None
    await process.signal(9)
    assert (await process.wait()).status == 137
    await process.forget()
    gone = await within(
        both, "app", "sh", "-c", "while ps | grep 471[2]; do sleep 0.05; done; echo gone"
    )
    assert gone.output.endswith(b"gone\n")


async def test_what_it_starts_is_held_to_the_limits_of_its_caller(both: Held) -> None:
    shown = "cat /proc/self/cgroup; nsexec app cat /proc/self/cgroup"
    own, others = (await script(both, FIRST, shown)).output.splitlines()
    assert own == others
    bomb = "nsexec app sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 30 & done; echo all'"
    command = Command(argv=[b"sh", b"-c", bomb.encode()], limits={4: 12})
    ended = await both.machine.run(command)
    assert b"all" not in ended.output
    assert ended.exit.too_many_processes


async def test_many_at_once(both: Held) -> None:
    line = "for i in 1 2 3 4 5 6 7 8; do nsexec app echo $i & done; wait"
    done = await script(both, FIRST, line)
    assert sorted(done.output.split()) == [b"%d" % number for number in range(1, 9)]


@pytest.fixture(scope="module")
def misled(open_sandbox: Open, module_home: Path, run: Run) -> Held:
    images = {"odd": make_mischief(module_home)}
    held = open_sandbox(SandboxSpec(image="base", images=images, memory_mib=256))
    run(held.furnish())
    return held


async def test_an_image_full_of_links_leads_nowhere(misled: Held) -> None:
    await script(misled, FIRST, "echo common > /workspace/x", user="0")
    done = await script(misled, "odd", "cat /workspace/x; cat /etc/hostname; echo y > /workspace/y")
    assert done.output == b"common\nodd\n"
    assert (await script(misled, FIRST, "ls /workspace; ls /etc/y")).output == b"x\ny\n"


@pytest.fixture(scope="module")
def confined(open_sandbox: Open, images: dict[str, str], run: Run) -> Held:
    spec = SandboxSpec(
        image="base", images=images, memory_mib=256, read_only=True, drop_capabilities=True
    )
    held = open_sandbox(spec)
    run(held.furnish())
    return held


async def test_a_closed_sandbox_is_closed_in_every_image(confined: Held) -> None:
    attempts = (
        "for d in / /etc /srv/app /workspace /usr/local/share/crucible; do touch $d/x; done;"
        " touch /tmp/x && echo scratch; grep -e Cap -e NoNew /proc/self/status"
    )
    for line in (attempts, f"nsexec -u 0 app sh -c '{attempts}'"):
        image = "app" if line is attempts else FIRST
        done = await script(confined, image, line, user="0")
        assert done.errors.count(b"Read-only file system") == 5, done
        assert b"scratch\n" in done.output
        assert b"CapBnd:\t0000000000000000\n" in done.output
        assert b"CapEff:\t0000000000000000\n" in done.output
        assert b"NoNewPrivs:\t1\n" in done.output


async def test_copies_and_restarts_keep_what_is_in_every_image(
    manager: Manager, images: dict[str, str]
) -> None:
    spec = SandboxSpec(image="base", images=images, memory_mib=256)
    await manager.create("pair", spec)
    try:
        await manager.start("pair")
        held = manager.running("pair")
        await script(held, "app", "echo state > /srv/app/state; echo lost > /run/lost", user="0")
        running = await held.machine.start(
            Command(argv=[b"nsexec", b"app", b"sh", b"-c", b"echo up; read x; echo $x; exit 5"],
                    wants_input=True)
        )  # fmt: skip
        assert await running.read() is not None
        ids = []
        (copy,) = await Snapshots(manager).fork("pair", ["pair-copy"])
        for each in (held, copy):
            told = await script(each, "app", "cat /etc/machine-id /proc/sys/kernel/random/boot_id")
            ids.append(told.output)
            same = await script(each, FIRST, "cat /etc/machine-id /proc/sys/kernel/random/boot_id")
            assert same.output == told.output
        assert ids[0] != ids[1]
        (taken,) = [info for info in await copy.machine.list_execs() if not info.is_done]
        process = await copy.machine.attach(taken)
        await process.write(b"hello\n")
        assert (await process.wait()).status == 5
        assert (await script(copy, FIRST, "nsexec app cat state")).output == b"state\n"
        await running.signal(9)
        await running.wait()
        await manager.stop("pair")
        await manager.start("pair")
        held = manager.running("pair")
        kept = await script(held, FIRST, "nsexec app sh -c 'cat state; ls /run/lost; hostname'")
        assert kept.output == b"state\napp\n"
    finally:
        for record in manager.records.sandboxes():
            if record.name.startswith("pair"):
                await asyncio.shield(manager.remove(record.name, force=True))
