"""What the command line does with bad input and on a broken host: a clear error, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CommandLine

from crucible import system
from crucible.backends.qemu.host import has_hardware_virtualization
from crucible.errors import GuestGone, GuestSilent
from crucible.images import bundle
from crucible.sandbox.guest import process as process_module
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import open_records
from crucible.sandbox.session import Command
from crucible.sandbox.spec import MEMORY_TIERS_MIB, SandboxSpec

pytestmark = pytest.mark.vm

Done = subprocess.CompletedProcess[bytes]


@pytest.fixture(scope="module")
def refusing(module_home: Path) -> CommandLine:
    """The command line on a home that all tests of refusals share; none may leave anything there."""
    return CommandLine(module_home)


def expect_error(done: Done, status: int, message: str, *, hint: str = "") -> None:
    """One error line and one hint on standard error, nothing on standard output."""
    text = done.stderr.decode()
    assert (done.returncode, done.stdout) == (status, b""), text
    lines = text.splitlines()
    assert lines[0].startswith("error: "), text
    assert message in lines[0], text
    assert "Traceback" not in text
    assert any(line.startswith("hint: ") and hint in line for line in lines[1:]), text


def expect_nothing_left(home: Path) -> None:
    records = open_records(home)
    assert [record.name for record in records.sandboxes()] == []
    records.close()
    assert [path.name for path in (home / "sandboxes").glob("*")] == []
    assert [path.name for path in (home / "scratch").glob("*")] == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "../x",
        "/etc",
        "a b",
        " a",
        "-a",
        ".a",
        "a\nb",
        "x" * 64,
        "x" * 300,
        "ü",
        "a\tb",
    ],
)
@pytest.mark.parametrize("verb", ["create", "run"])
def test_a_name_that_is_none_is_refused(refusing: CommandLine, verb: str, name: str) -> None:
    words = (
        ["run", f"--name={name}", "--", "true"] if verb == "run" else ["create", "--", name or "."]
    )
    expect_error(refusing(*words), 126, "is not a sandbox name", hint="1 to 63 letters")
    expect_nothing_left(refusing.home)


@pytest.mark.parametrize(
    "options, message, hint",
    [
        (["--image", "nosuch"], "Image 'nosuch' was not found", "base"),
        (["--image", "../../etc"], "was not found", "base"),
        (["--backend", "nosuch"], "There is no backend 'nosuch'", "qemu-tcg"),
        (["--min-isolation", "strong"], "is not an isolation label", "software-vm"),
        (["--backend", "qemu-tcg", "--min-isolation", "hardware-vm"], "'software-vm'", "doctor"),
        (["--memory", "64M"], "64 MiB of memory is too little", "128M"),
        (["--memory", "0"], "too little", "128M"),
        (["--memory", "64G"], "more than a sandbox can have", "32G"),
        (["--memory", "much"], "'much' is not a size", "512M"),
        (["--memory", "-512M"], "is not a size", "512M"),
        (["--memory", "512B"], "is not a size", "512M"),
        (["--memory", "1e3"], "is not a size", "512M"),
        (["--memory", "99999999999999999999G"], "is not a size", "512M"),
        (["--disk", "1M"], "A disk of 1 MiB cannot be given", "256M"),
        (["--disk", "2T"], "cannot be given", "1024G"),
        (["--cpus", "0"], "0 processors cannot be given", "1 to 16"),
        (["--cpus", "17"], "17 processors cannot be given", "1 to 16"),
        (["--cpus", "1.5"], "is no value for --cpus", "whole number"),
        (["--timeout", "soon"], "'soon' is not a duration", "30s"),
        (["--timeout", "-1"], "is not a duration", "30s"),
        (["--timeout", "31d"], "out of range", "30d"),
        (["--env", "NAME"], "'NAME' is not NAME=VALUE", "--env NAME=VALUE"),
        (["--env", "=value"], "is not NAME=VALUE", "--env NAME=VALUE"),
        (["--dir", "/no/such/directory"], "is not a directory", "--dir"),
        (["--dir", "/etc/passwd"], "is not a directory", "--dir"),
        (["--nosuch"], "has no option '--nosuch'", ""),
        (["--memory"], "", ""),
    ],
)  # fmt: skip
def test_a_setting_that_means_nothing_is_refused(
    refusing: CommandLine, options: list[str], message: str, hint: str
) -> None:
    words = ["run", *options] if options == ["--memory"] else ["run", *options, "--", "true"]
    expect_error(refusing(*words), 126, message, hint=hint)
    expect_nothing_left(refusing.home)


def test_isolation_beyond_what_the_machine_has_is_refused(refusing: CommandLine) -> None:
    done = refusing("run", "--min-isolation", "hardware-vm", "--", "echo", "hi")
    if has_hardware_virtualization() and done.returncode == 0:
        assert done.stdout == b"hi\n"
    else:
        expect_error(done, 126, "Isolation 'hardware-vm' was asked for", hint="doctor")
    expect_nothing_left(refusing.home)


def test_more_memory_than_the_host_has_is_refused_with_the_figures(refusing: CommandLine) -> None:
    total_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    wanted = next((tier for tier in MEMORY_TIERS_MIB if tier > total_mib), 2 * MEMORY_TIERS_MIB[-1])
    done = refusing("run", "--memory", f"{wanted}M", "--", "true")
    assert done.returncode == 126
    assert str(wanted // 1000).encode() in done.stderr
    expect_nothing_left(refusing.home)


@pytest.mark.parametrize(
    "words, status, message",
    [
        (["nosuch"], 127, "has no command 'nosuch'"),
        (["/no/such"], 127, "has no command '/no/such'"),
        ([""], 127, "has no command ''"),
        (["/etc/passwd"], 126, "'/etc/passwd' cannot be executed"),
        (["/tmp"], 126, "'/tmp' cannot be executed"),
    ],
)
def test_a_command_that_cannot_be_run_has_the_status_of_the_shell(
    refusing: CommandLine, words: list[str], status: int, message: str
) -> None:
    done = refusing("run", "--", *words)
    assert (done.returncode, done.stdout) == (status, b"")
    assert message in done.stderr.decode()
    expect_nothing_left(refusing.home)


def test_no_command_at_all_is_refused(refusing: CommandLine) -> None:
    expect_error(refusing("run"), 126, "CMD is missing", hint="Usage")


def test_a_user_or_directory_that_is_not_in_the_sandbox_is_refused(refusing: CommandLine) -> None:
    for options, message in (
        (["--user", "nosuch"], "has no user 'nosuch'"),
        (["--workdir", "/etc/passwd"], "/etc/passwd is not a directory"),
    ):
        done = refusing("run", *options, "--", "true")
        assert done.returncode == 125
        assert message in done.stderr.decode()
    expect_nothing_left(refusing.home)


def test_a_command_that_runs_out_of_time_ends_with_124(refusing: CommandLine) -> None:
    done = refusing("run", "--timeout", "4s", "--", "sh", "-c", "echo begun; sleep 60")
    assert (done.returncode, done.stdout) == (124, b"begun\n")
    expect_nothing_left(refusing.home)


def test_bytes_that_are_no_text_pass_untouched(refusing: CommandLine) -> None:
    data = bytes(range(256)) * 100
    done = refusing("run", "--", "cat", input=data)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


@pytest.mark.parametrize(
    "verb", ["start", "stop", "rm", "pause", "resume", "inspect", "stats", "logs"]
)
def test_a_sandbox_that_is_not_there_is_refused(crucible: CommandLine, verb: str) -> None:
    expect_error(crucible(verb, "nosuch"), 126, "no sandbox named 'nosuch'", hint="crucible list")


def test_a_name_that_is_taken_is_refused_and_the_first_sandbox_stays(crucible: CommandLine) -> None:
    crucible.ok("create", "box")
    expect_error(
        crucible("create", "box"), 126, "A sandbox named 'box' exists", hint="crucible rm box"
    )
    expect_error(crucible("run", "--name", "box", "--", "true"), 126, "exists already")
    assert "box" in crucible.ok("list")
    crucible.ok("rm", "box")


def replace_with_copy(path: Path, keep: int) -> None:
    """Cuts a file of this home short without touching what it is linked to."""
    data = path.read_bytes()[:keep]
    path.unlink()
    path.write_bytes(data)


def test_an_image_cut_short_is_called_damaged(crucible: CommandLine) -> None:
    [root] = (crucible.home / "images" / "base").glob("*/root.squashfs")
    replace_with_copy(root, 1 << 20)
    done = crucible("run", "--", "true")
    expect_error(done, 125, "Image 'base' is damaged: root.squashfs", hint="crucible setup")
    expect_nothing_left(crucible.home)


def test_a_missing_kernel_is_told_with_the_command_that_fetches_it(crucible: CommandLine) -> None:
    shutil.rmtree(crucible.home / "kernels")
    expect_error(
        crucible("run", "--", "true"), 125, "The guest kernel is not usable", hint="crucible setup"
    )
    expect_nothing_left(crucible.home)


def test_a_template_cut_short_is_made_again_for_all_who_ask(crucible: CommandLine) -> None:
    """That one is made, and what else can be wrong with one, is shown without machines in tests/backends."""
    assert crucible.ok("run", "--", "echo", "first") == "first\n"
    templates = crucible.home / "templates"
    newest = max(
        (path for path in templates.iterdir() if path.is_dir()),
        key=lambda path: path.stat().st_mtime,
    )
    size = (newest / "ram").stat().st_size
    replace_with_copy(newest / "ram", size // 2)
    asking = [
        crucible.start(
            "run", "--", "echo", str(number), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for number in range(3)
    ]
    answers = [process.communicate(timeout=400) for process in asking]
    assert [output for output, _ in answers] == [b"0\n", b"1\n", b"2\n"], answers
    assert (newest / "ram").stat().st_size == size
    expect_nothing_left(crucible.home)


@pytest.mark.parametrize("missing", [("qemu-system",), ("bwrap",), ("qemu-system", "bwrap")])
def test_programs_that_are_not_installed_are_named_with_the_command_that_brings_them(
    crucible: CommandLine, tmp_path: Path, missing: tuple[str, ...]
) -> None:
    for path in Path("/usr/bin").iterdir():
        if not path.name.startswith(missing):
            (tmp_path / path.name).symlink_to(path)
    crucible.environment["PATH"] = str(tmp_path)
    done = crucible("run", "--", "true")
    packages = {"qemu-system": system.needs()[0].package, "bwrap": "bubblewrap"}
    command = system.install_command(tuple(packages[name] for name in missing))
    expect_error(done, 125, "not installed (prerequisite-missing)", hint=f"Run `{command}`")
    assert all(name in done.stderr.decode().splitlines()[0] for name in missing)
    expect_nothing_left(crucible.home)


def test_a_virtualization_device_that_does_not_work_is_found_out(crucible: CommandLine) -> None:
    """Where it does work, so must the sandbox."""
    done = crucible("run", "--backend", "qemu-kvm", "--", "echo", "hi", timeout=200)
    if done.returncode == 0:
        assert done.stdout == b"hi\n"
        return
    expect_error(done, 126, "Backend 'qemu-kvm' does not work here: ", hint="--backend qemu-tcg")
    if os.geteuid() == 0 and Path("/dev/kvm").exists():
        # It was really tried, and not refused because only root may open the device.
        assert b"Permission denied" not in done.stderr
        assert (
            b"The machine did not start: its VMM stopped: qemu" in done.stderr
            or b"did not answer" in done.stderr
        )
    again = crucible("run", "--backend", "qemu-kvm", "--", "echo", "hi")
    assert (again.returncode, again.stderr) == (126, done.stderr)
    expect_nothing_left(crucible.home)


@pytest.fixture
def broken_image(home: Path) -> str:
    shelf = home / "images" / "broken"
    with bundle.workplace(shelf) as work:
        (work / "content").mkdir()
        (work / "content" / "root.squashfs").write_bytes(b"hsqs" + os.urandom(1 << 20))
        (work / "content" / "packages.txt").write_text("")
        facts: bundle.Facts = {"user": "", "workdir": "/", "environment": (), "recipe": "0"}
        bundle.publish(work / "content", shelf, facts=facts)
    return "broken"


def test_a_guest_that_panics_is_told_with_its_last_words(
    crucible: CommandLine, broken_image: str
) -> None:
    done = crucible("run", "--image", broken_image, "--", "true", timeout=200)
    expect_error(done, 125, "ended before it answered", hint="Its console said: ")
    expect_nothing_left(crucible.home)


async def test_a_machine_that_is_killed_is_gone_with_the_reason(manager: Manager) -> None:
    async with manager.open(SandboxSpec()) as held:
        process = await held.machine.start(Command(argv=[b"sleep", b"600"]))
        os.kill(held.machine.handle.pid, signal.SIGKILL)
        with pytest.raises(GuestGone, match="its VMM stopped"):
            await process.wait()
        with pytest.raises(GuestGone):
            await held.machine.stats()


async def test_a_guest_that_falls_silent_is_told_in_bounded_time(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the time that its command has, and a little more."""
    monkeypatch.setattr(process_module, "BACKSTOP_S", 0.5)
    async with manager.open(SandboxSpec()) as held:
        command = Command(argv=[b"sh", b"-c", b"echo up; sleep 600"], timeout_s=8.0)
        process = await held.machine.start(command)
        assert await process.read() is not None
        os.kill(held.machine.handle.pid, signal.SIGSTOP)
        with pytest.raises(GuestSilent, match="did not answer within"):
            await process.read()


async def test_a_guest_that_powers_off_is_gone_with_the_reason(manager: Manager) -> None:
    async with manager.open(SandboxSpec()) as held:
        os.kill(held.machine.handle.pid, signal.SIGTERM)
        assert await held.machine.ended() == "its VMM was told to stop"


@pytest.fixture
def cramped(home: Path) -> Iterator[Path]:
    """A home on a filesystem that has no room left but what a test gives back."""
    place = home / "cramped"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g,mode=700", "none", place], check=True)
    try:
        template = max((home / "templates").glob("[!.]*"), key=lambda path: path.stat().st_mtime)
        (place / "templates").mkdir()
        for part in ("kernels", "images", "initramfs", "blanks", "cache", template):
            target = place / "templates" if part is template else place
            subprocess.run(["cp", "-a", "--sparse=always", home / part, target], check=True)
        open_records(place).close()
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def fill(place: Path, *, leave: int) -> None:
    free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
    with (place / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free - leave)


@pytest.mark.parametrize("leave_kib", [0, 24, 64])
def test_a_full_disk_of_the_host_is_told_and_nothing_is_leaked(
    cramped: Path, leave_kib: int
) -> None:
    fill(cramped, leave=leave_kib << 10)
    crucible = CommandLine(cramped)
    done = crucible("run", "--", "echo", "hi")
    if leave_kib == 0 or done.returncode != 0:
        expect_error(done, 125, "The host's disk is full", hint="crucible system")
    (cramped / "filler").unlink()
    assert crucible.ok("run", "--", "echo", "hi") == "hi\n"
    expect_nothing_left(cramped)


def test_a_disk_of_the_host_that_fills_up_later_fails_writes_and_stops_nothing(
    cramped: Path,
) -> None:
    fill(cramped, leave=8 << 20)
    script = "dd if=/dev/urandom of=/tmp/large bs=1M count=40 conv=fsync && echo stored; echo alive"
    done = CommandLine(cramped)("run", "--timeout", "60s", "--", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (0, b"alive\n")
    assert b"Input/output error" in done.stderr


@pytest.mark.parametrize(
    "content, message, hint",
    [
        (b"garbage" * 500, "cannot be used: file is not a database", "Move the file away"),
        (None, "was written by a newer Crucible (format 99", "Upgrade Crucible"),
    ],
    ids=["damaged", "newer"],
)
def test_a_state_that_cannot_be_read_is_told_and_left_alone(
    crucible: CommandLine, content: bytes | None, message: str, hint: str
) -> None:
    path = crucible.home / "records.sqlite"
    if content is None:
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA user_version = 99")
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    expect_error(crucible("run", "--", "true"), 125, message, hint=hint)
    assert path.read_bytes() == before
    path.unlink()
