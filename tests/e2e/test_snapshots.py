"""Saved states from the command line: taken while something runs, restored, forked, carried in a file."""

from __future__ import annotations

import hashlib
import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backports import zstd
from tests.conftest import SMALL, CommandLine
from tests.e2e.leftovers import leftovers

from crucible.backends.qemu import disks, parcel, saved
from crucible.client.answers import ServiceError
from crucible.client.connection import Owner
from crucible.client.exchange import Unseen, ask
from crucible.sandbox.records import open_records

pytestmark = pytest.mark.vm

# A program with something in memory that is on no disk, and a count that goes on.
COUNTER = """
import os, time, uuid
secret = uuid.uuid4().hex
count = 0
while True:
    count += 1
    with open("/tmp/.state", "w") as file:
        file.write(f"{os.getpid()} {secret} {count}")
    os.rename("/tmp/.state", "/tmp/state")
    time.sleep(0.25)
"""


@pytest.fixture(scope="module")
def crucible(small_home: Path) -> Iterator[CommandLine]:
    """With a sandbox `box` in which a counter runs, and a snapshot `moment` of it."""
    command_line = CommandLine(small_home)
    command_line.ok("create", "box", "--start", "--memory", f"{SMALL.memory_mib}M")
    command_line.ok("exec", "--detach", "box", "python3", "-c", COUNTER)
    wait_for_count(command_line, "box")
    command_line.ok("exec", "box", "sh", "-c", "echo before > /workspace/note; sync")
    command_line.ok("snapshot", "box", "moment")
    yield command_line
    for name in command_line.ok("list", "--quiet").split():
        command_line.ok("rm", "--force", name)
    for tag in command_line.ok("snapshot", "list", "--quiet").split():
        command_line.ok("snapshot", "remove", tag)


def counted(crucible: CommandLine, name: str) -> tuple[str, str, int]:
    pid, secret, count = crucible.ok("exec", name, "cat", "/tmp/state").split()
    return pid, secret, int(count)


def wait_for_count(crucible: CommandLine, name: str) -> None:
    while crucible("exec", name, "cat", "/tmp/state").returncode != 0:
        time.sleep(0.1)


def goes_on(crucible: CommandLine, name: str) -> bool:
    """Waits for that, as long as it takes."""
    _, _, first = counted(crucible, name)
    while counted(crucible, name)[2] <= first:
        time.sleep(0.05)
    return True


def identity(crucible: CommandLine, name: str) -> list[str]:
    script = "cat /etc/machine-id /proc/sys/kernel/random/uuid; hostname; head -c 16 /dev/urandom | od -An -tx1"
    return crucible.ok("exec", name, "sh", "-c", script).splitlines()


def facts(crucible: CommandLine, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(crucible.ok("inspect", "--json", name))
    return found


def test_the_sandbox_goes_on_after_a_snapshot(crucible: CommandLine) -> None:
    assert goes_on(crucible, "box")


def test_two_restores_have_the_processes_the_memory_and_the_disk_each_for_itself(
    crucible: CommandLine,
) -> None:
    for name in ("first", "second"):
        crucible.ok("snapshot", "restore", "moment", name)
    original = counted(crucible, "box")
    for name in ("first", "second"):
        assert counted(crucible, name)[:2] == original[:2]
        assert goes_on(crucible, name)
        assert crucible.ok("exec", name, "cat", "/workspace/note") == "before\n"
        crucible.ok("exec", name, "sh", "-c", f"echo {name} > /workspace/note")
    said = [
        crucible.ok("exec", name, "cat", "/workspace/note") for name in ("first", "second", "box")
    ]
    assert said == ["first\n", "second\n", "before\n"]
    crucible.ok("rm", "--force", "first", "second")


def test_forks_share_nothing_that_identifies_them(crucible: CommandLine) -> None:
    names = crucible.ok("fork", "box", "--count", "3", "--name", "clone").split()
    assert names == ["clone-1", "clone-2", "clone-3"]
    told = [identity(crucible, name) for name in ("box", *names)]
    for kind in zip(*told, strict=True):
        assert len(set(kind)) == len(kind), kind
    assert [lines[2] for lines in told] == ["box", *names]
    assert all(goes_on(crucible, name) for name in names)
    crucible.ok("rm", "--force", *names)


def test_output_of_a_forked_program_is_kept_for_the_copy(crucible: CommandLine) -> None:
    script = "import time\nfor n in range(10**6): print('x' * 1000, flush=True); time.sleep(0.001)"
    stream = crucible.ok("exec", "--detach", "box", "python3", "-c", script).strip()
    (name,) = crucible.ok("fork", "box", "--name", "talker").split()
    # More than a window: a copy whose output nobody takes would stand still there.
    while len(crucible.ok("logs", name)) < 600_000:
        time.sleep(0.1)
    crucible.ok("rm", "--force", name)
    assert stream.isdecimal()
    crucible.ok("exec", "box", "pkill", "-f", "range.10..6")


def test_a_fork_that_cannot_have_all_its_names_makes_none(crucible: CommandLine) -> None:
    request = {"verb": "fork", "name": "box", "names": ["fresh", "box"]}
    with pytest.raises(ServiceError, match="exists already"):
        ask(Owner(crucible.home).connect, request, progress=Unseen())
    assert "fresh" not in crucible.ok("list", "--quiet").split()
    assert goes_on(crucible, "box")
    assert leftovers(crucible.home) == []


def test_memory_and_disk_are_of_one_moment(crucible: CommandLine) -> None:
    script = """
import os
def write(directory, name):
    with open(directory + "/new", "w") as file:
        print(count, file=file, flush=True)
        os.fsync(file.fileno())
    os.utime(directory + "/new", (count, count))
    os.rename(directory + "/new", directory + "/" + name)
count = 0
while True:
    count += 1
    write("/workspace", "on-disk")
    write("/dev/shm", "in-memory")
"""
    crucible.ok("exec", "--detach", "box", "python3", "-c", script)
    crucible.ok("exec", "box", "sh", "-c", "while ! [ -s /dev/shm/in-memory ]; do sleep 0.05; done")
    crucible.ok("snapshot", "box", "writing")
    crucible.ok("exec", "box", "pkill", "-f", "in-memory")
    crucible.ok("snapshot", "restore", "writing", "written")
    crucible.ok("exec", "written", "pkill", "-f", "in-memory")
    said = crucible.ok("exec", "written", "cat", "/workspace/on-disk", "/dev/shm/in-memory")
    on_disk, in_memory = map(int, said.split())
    assert on_disk - in_memory in (0, 1)
    crucible.ok("rm", "--force", "written")
    crucible.ok("snapshot", "remove", "writing")


def test_a_snapshot_outlives_its_sandbox(crucible: CommandLine) -> None:
    (name,) = crucible.ok("fork", "box", "--name", "mortal").split()
    crucible.ok("exec", name, "sh", "-c", "echo mine > /workspace/note")
    crucible.ok("snapshot", name, "heirloom")
    crucible.ok("rm", "--force", name)
    crucible.ok("snapshot", "restore", "heirloom", "heir")
    assert crucible.ok("exec", "heir", "cat", "/workspace/note") == "mine\n"
    crucible.ok("rm", "--force", "heir")
    crucible.ok("snapshot", "remove", "heirloom")


def test_a_restored_sandbox_keeps_its_data_over_a_stop(crucible: CommandLine) -> None:
    """Its disk is by then a chain of several layers."""
    crucible.ok("snapshot", "restore", "moment", "kept")
    crucible.ok("exec", "kept", "sh", "-c", "echo after > /workspace/after")
    crucible.ok("snapshot", "kept", "layered")
    crucible.ok("exec", "kept", "sh", "-c", "echo last > /workspace/last")
    crucible.ok("stop", "kept")
    crucible.ok("start", "kept")
    script = "cat /workspace/note /workspace/after /workspace/last"
    assert crucible.ok("exec", "kept", "sh", "-c", script) == "before\nafter\nlast\n"
    assert len(list(Path(facts(crucible, "kept")["directory"]).glob("disk-*"))) >= 4
    crucible.ok("rm", "--force", "kept")
    crucible.ok("snapshot", "remove", "layered")


def test_a_snapshot_can_be_carried_in_a_file(crucible: CommandLine, tmp_path: Path) -> None:
    crucible.ok("snapshot", "export", "moment", tmp_path / "moment.crucible")
    secret = counted(crucible, "box")[1]
    crucible.ok("snapshot", "import", tmp_path / "moment.crucible", "carried")
    crucible.ok("snapshot", "restore", "carried", "arrived")
    assert counted(crucible, "arrived")[1] == secret
    assert crucible.ok("exec", "arrived", "cat", "/workspace/note") == "before\n"
    crucible.ok("rm", "--force", "arrived")
    crucible.ok("snapshot", "remove", "carried")


@pytest.fixture(scope="module")
def exported(crucible: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("exported") / "file"
    crucible.ok("snapshot", "export", "moment", path)
    return path.read_bytes()


def packed(files: list[list[Any]]) -> bytes:
    header = json.dumps({"facts": {}, "files": files}).encode()
    digest = hashlib.sha256(header).digest()
    return zstd.compress(parcel.MAGIC + struct.pack(">I", len(header)) + digest + header)


# More of them are told from snapshots in `tests/backends/test_parcel.py`.
HOSTILE = {
    "empty": b"",
    "text": b"not a snapshot",
    "something else packed": zstd.compress(b"something else"),
    "outside": packed([["../../escaped", 10, "0" * 64]]),
    "nothing in it": packed([]),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_file_that_is_no_snapshot_is_refused(
    crucible: CommandLine, tmp_path: Path, data: bytes
) -> None:
    (tmp_path / "file").write_bytes(data)
    refuses(crucible, tmp_path / "file")


@pytest.mark.parametrize("cut", [0.3, 0.999])
def test_a_file_cut_short_is_refused(
    crucible: CommandLine, tmp_path: Path, exported: bytes, cut: float
) -> None:
    (tmp_path / "file").write_bytes(exported[: int(len(exported) * cut)])
    refuses(crucible, tmp_path / "file")


def test_a_file_with_a_byte_changed_is_refused(
    crucible: CommandLine, tmp_path: Path, exported: bytes
) -> None:
    data = bytearray(exported)
    data[len(data) // 2] ^= 0x01
    (tmp_path / "file").write_bytes(data)
    refuses(crucible, tmp_path / "file")


@pytest.mark.parametrize("name", [disks.ROOT_NAME, disks.BLANK_NAME])
def test_a_file_with_a_bit_of_a_disk_changed_and_packed_anew_is_refused(
    crucible: CommandLine, tmp_path: Path, name: str
) -> None:
    """The checksum of the compression is right; only the digests tell."""
    directory = small_machine(tmp_path / "machine")
    (directory / name).write_bytes(b"this one")
    parcel.pack(directory, tmp_path / "file", FACTS)
    data = zstd.decompress((tmp_path / "file").read_bytes()).replace(b"this one", b"this onE")
    (tmp_path / "file").write_bytes(zstd.compress(data))
    assert b"(snapshot-damaged)" in refuses(crucible, tmp_path / "file")


FACTS = {
    "spec": json.dumps({"image": "base", "memory_mib": 512}),
    "sandbox_name": "box",
    "backend": "qemu-tcg",
    "isolation": "software-vm",
    "image_digest": "",
    "created_at": 0.0,
}


def small_machine(directory: Path) -> Path:
    """The files of a snapshot, as small as they can be."""
    directory.mkdir()
    for name in (disks.BLANK_NAME, disks.ROOT_NAME, saved.STATE_FILE, saved.MEMORY_FILE):
        (directory / name).write_bytes(b"contents")
    disks.create_layer(directory / "disk-1.qcow2", 1 << 20)
    machine = saved.SavedMachine(
        directory=directory, memory_mib=512, cpus=1, accelerator="tcg", disk_mib=1,
        kernel_digest="", agent_digest="", image_digest="", vmm="",
    )  # fmt: skip
    saved.describe(machine)
    return directory


def test_a_file_with_other_contents_than_it_says_is_refused(
    crucible: CommandLine, tmp_path: Path
) -> None:
    directory = small_machine(tmp_path / "machine")
    (directory / saved.MEMORY_FILE).write_bytes(b"contentS")
    parcel.pack(directory, tmp_path / "file", FACTS)
    refuses(crucible, tmp_path / "file")


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {**FACTS, "spec": 5},
        {**FACTS, "spec": "[]"},
        {**FACTS, "spec": '{"image": ["../../etc"]}'},
        {**FACTS, "spec": '{"environment": 5}'},
        {**FACTS, "spec": '{"memory_mib": 999999999}'},
        {**FACTS, "isolation": "perfect"},
        {**FACTS, "created_at": "yesterday"},
    ],
)
def test_a_file_whose_description_is_hostile_is_refused(
    crucible: CommandLine, tmp_path: Path, facts: dict[str, Any]
) -> None:
    parcel.pack(small_machine(tmp_path / "machine"), tmp_path / "file", facts)
    refuses(crucible, tmp_path / "file")


def test_a_file_that_is_whole_but_of_another_machine_is_taken_in_and_not_started(
    crucible: CommandLine, tmp_path: Path
) -> None:
    parcel.pack(small_machine(tmp_path / "machine"), tmp_path / "file", FACTS)
    crucible.ok("snapshot", "import", tmp_path / "file", "foreign")
    refused = crucible("snapshot", "restore", "foreign", "stranger")
    assert (refused.returncode, b"it was saved by" in refused.stderr) == (125, True), refused
    crucible.ok("snapshot", "remove", "foreign")
    assert leftovers(crucible.home) == []


def tags(home: Path) -> list[str]:
    records = open_records(home)
    try:
        return [record.tag for record in records.snapshots()]
    finally:
        records.close()


def refuses(crucible: CommandLine, path: Path) -> bytes:
    refused = crucible("snapshot", "import", path, "taken-in")
    assert refused.returncode in (125, 126), refused
    assert refused.stderr.startswith(b"error: ")
    assert b"Crucible failed" not in refused.stderr
    assert "taken-in" not in tags(crucible.home)
    assert leftovers(crucible.home) == []
    assert not Path("/tmp/escaped").exists()
    return refused.stderr


@pytest.mark.parametrize(
    "words, code",
    [
        (("snapshot", "box", "moment"), b"exists already"),
        (("snapshot", "nobody", "new"), b"There is no sandbox"),
        (("snapshot", "box", "bad/tag"), b"is not a snapshot name"),
        (("snapshot", "restore", "nothing", "new"), b"There is no snapshot"),
        (("snapshot", "restore", "moment", "box"), b"exists already"),
        (("snapshot", "remove", "nothing"), b"There is no snapshot"),
        (("snapshot", "export", "nothing", "/tmp/never"), b"There is no snapshot"),
        (("snapshot", "export", "moment", "/nowhere/file"), b"cannot be written"),
        (("snapshot", "import", "/nowhere/file", "new"), b"cannot be read"),
        (("snapshot", "import", "/nowhere/file", "moment"), b"exists already"),
        (("fork", "nobody"), b"There is no sandbox"),
        (("fork", "box", "--count", "0"), b"cannot be made"),
    ],
)
def test_what_cannot_be_done_is_refused(
    crucible: CommandLine, words: tuple[str, ...], code: bytes
) -> None:
    refused = crucible(*words)
    assert refused.returncode == 126
    assert code in refused.stderr
    assert leftovers(crucible.home) == []


@pytest.mark.parametrize(
    "verb", [("snapshot", "{}", "new"), ("fork", "{}")], ids=["snapshot", "fork"]
)
def test_only_a_running_sandbox_has_a_moment_to_save(
    crucible: CommandLine, verb: tuple[str, ...]
) -> None:
    crucible.ok("create", "created")
    crucible.ok("pause", "box")
    try:
        for name, state in (("created", b"is created"), ("box", b"is paused")):
            refused = crucible(*(word.format(name) for word in verb))
            assert (refused.returncode, state in refused.stderr) == (126, True), refused
    finally:
        crucible.ok("resume", "box")
        crucible.ok("rm", "created")
