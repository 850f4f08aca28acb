"""Images of every kind as the root of a sandbox: the agent needs nothing from them, and their configuration applies."""

from __future__ import annotations

import hashlib
import io
import shutil
import struct
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CommandLine, Run, end_owner
from tests.images.layers.packing import Item, layer_of, tar_of
from tests.images.layers.test_making import pull
from tests.vm.conftest import Open, shell

from crucible.errors import GuestRefused
from crucible.images import catalog, pulled
from crucible.images.layers.making import make_root
from crucible.images.oci.model import Compression, ImageConfig, PulledImage
from crucible.sandbox.holding import Held
from crucible.sandbox.session import Command
from crucible.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.vm

SMALL = 256
MAY_CHOWN = struct.pack("<IIIII", 0x02000001, 1 << 0, 0, 0, 0).decode("latin-1")
APPLETS = ("sh", "cat", "chown", "echo", "env", "id", "ls", "pwd", "sha256sum", "stat", "wc")


@pytest.fixture(scope="module")
def busybox() -> bytes:
    found = shutil.which("busybox")
    assert found is not None
    return Path(found).read_bytes()


@pytest.fixture(scope="module")
def command_line(module_home: Path) -> Iterator[CommandLine]:
    yield CommandLine(module_home)
    end_owner(module_home)


@pytest.fixture(scope="module")
def bare(module_home: Path, busybox: bytes) -> str:
    """One static program and nothing else: no shell, no libc, not one directory."""
    config = ImageConfig(
        entrypoint=("/busybox-app",),
        command=("echo", "from the image"),
        environment=(("GREETING", "hello"), ("KEPT", "yes")),
        workdir="/srv/made",
    )
    image = pull(module_home, "docker.io/library/bare:1", [Item("busybox-app", data=busybox, mode=0o755)],
                 config=config)  # fmt: skip
    make_root(image, module_home)
    return "bare:1"


@pytest.fixture(scope="module")
def small(module_home: Path, busybox: bytes) -> str:
    """A distribution in miniature, with everything in /etc that an image can get wrong."""
    lower = [
        Item("bin/busybox", data=busybox, mode=0o755),
        *(Item(f"bin/{name}", kind="symlink", target="busybox") for name in APPLETS),
        Item("etc/passwd", data=b"root:x:0:0::/root:/bin/sh\napp:x:900:901::/home/app:/bin/sh\n"),
        Item("etc/group", data=b"root:x:0:\napp:x:901:\nextra:x:902:app\nother:x:903:\n"),
        Item("etc/gone", data=b"below"),
        Item("run/service/", kind="directory", mode=0o750, uid=900, gid=901),
        Item("var/run", kind="symlink", target="/run"),
        Item("lib", kind="symlink", target="usr/lib"),
        Item("root/", kind="directory", mode=0o700),
    ]
    upper = [
        Item(
            "bin/busybox-may",
            data=busybox,
            mode=0o755,
            attributes={"security.capability": MAY_CHOWN},
        ),
        Item("bin/busybox-not", data=busybox, mode=0o755),
        Item("etc/resolv.conf", kind="symlink", target="../run/nowhere/resolv.conf"),
        Item("etc/hosts", kind="fifo"),
        Item("etc/hostname", kind="symlink", target="/etc/passwd"),
        Item("etc/machine-id", kind="directory"),
        Item("etc/.wh.gone"),
        Item("lib/through", data=b"landed\n"),
        Item("tmp", kind="symlink", target="/nowhere"),
        Item("proc", data=b"not a directory"),
        Item("dev/null", kind="device"),
    ]
    image = pull(module_home, "docker.io/library/small:1", lower, upper,
                 config=ImageConfig(user="app", command=("id", "-u")))  # fmt: skip
    make_root(image, module_home)
    return "small:1"


@pytest.fixture(scope="module")
def debian_tar(module_home: Path) -> bytes:
    """The base image's files as a layer, written by a program that is not ours."""
    root = catalog.load_image(module_home, "base").root
    return subprocess.run(["sqfs2tar", root], check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def debian(module_home: Path, debian_tar: bytes) -> str:
    blobs = module_home / "images" / "oci" / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    many = [Item(f"many/{number:05}", data=b"%d" % number) for number in range(4000)]
    layers = (
        layer_of(blobs, debian_tar, Compression.ZSTD),
        layer_of(blobs, tar_of(many), Compression.GZIP),
    )
    reference, digest = "docker.io/library/debian:12", layers[1].digest
    pulled.tags_of(module_home).set(reference, digest, digest)
    make_root(
        PulledImage(
            reference=reference,
            digest=digest,
            config_digest=digest,
            config=ImageConfig(entrypoint=("/bin/false",), workdir="/opt/not/there"),
            layers=layers,
        ),
        module_home,
    )
    return "debian:12"


def test_an_image_of_one_program_runs_its_own_command(command_line: CommandLine, bare: str) -> None:
    assert command_line.ok("run", "--image", bare, "-m", "256M") == "from the image\n"


def test_words_replace_the_images_command_and_keep_its_entrypoint(
    command_line: CommandLine, bare: str
) -> None:
    words = ("run", "--image", bare, "-m", "256M")
    assert command_line.ok(*words, "echo", "mine") == "mine\n"
    assert command_line.ok(*words, "--entrypoint", "/busybox-app", "echo", "given") == "given\n"
    assert command_line.ok(*words, "--entrypoint", "", "/busybox-app", "echo", "none") == "none\n"
    # Without words an entrypoint of one's own leaves nothing of the image's command.
    done = command_line(*words, "--entrypoint", "/busybox-app")
    assert b"from the image" not in done.stdout


def test_the_images_environment_is_below_ones_own(command_line: CommandLine, bare: str) -> None:
    lines = command_line.ok("run", "--image", bare, "-m", "256M", "-e", "GREETING=bye", "env")
    variables = dict(line.split("=", 1) for line in lines.splitlines())
    assert (variables["GREETING"], variables["KEPT"]) == ("bye", "yes")
    assert variables["PATH"].startswith("/usr/local/sbin:")


def test_a_missing_working_directory_is_made(command_line: CommandLine, bare: str) -> None:
    words = ("run", "--image", bare, "-m", "256M")
    assert command_line.ok(*words, "pwd") == "/srv/made\n"
    assert command_line.ok(*words, "-w", "/x/y", "pwd") == "/x/y\n"
    assert command_line.ok(*words, "--profile", "restrictive", "pwd") == "/srv/made\n"


def test_without_accounts_numbers_work_and_names_do_not(
    command_line: CommandLine, bare: str
) -> None:
    words = ("run", "--image", bare, "-m", "256M")
    assert command_line.ok(*words, "id") == "uid=0 gid=0 groups=0\n"
    assert command_line.ok(*words, "-u", "1234", "id") == "uid=1234 gid=0 groups=0\n"
    assert command_line.ok(*words, "-u", "1234:77", "id") == "uid=1234 gid=77 groups=77\n"
    done = command_line(*words, "-u", "nobody", "id")
    assert done.returncode == 125
    assert b"nobody" in done.stderr


def test_an_image_of_one_program_gets_what_a_machine_has(
    command_line: CommandLine, bare: str
) -> None:
    words = ("run", "--image", bare, "-m", "256M", "--name", "host-1")
    assert "host-1" in command_line.ok(*words, "cat", "/etc/hosts")
    listed = command_line.ok(*words, "ls", "-d", "/tmp", "/proc/1", "/dev/null", "/sys/class")
    assert listed.split() == ["/dev/null", "/proc/1", "/sys/class", "/tmp"]


def test_exec_does_not_use_the_entrypoint(command_line: CommandLine, bare: str) -> None:
    command_line.ok("create", "kept", "--image", bare, "-m", "256M")
    command_line.ok("start", "kept")
    try:
        assert command_line.ok("exec", "kept", "/busybox-app", "pwd") == "/srv/made\n"
        done = command_line("exec", "kept", "echo", "x")
        assert done.returncode == 127
        assert (
            command_line("exec", "-w", "/not/there", "kept", "/busybox-app", "pwd").returncode
            == 125
        )
    finally:
        command_line.ok("rm", "--force", "kept")


def test_a_copied_directory_does_not_land_on_the_root(
    command_line: CommandLine, small: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine\n")
    words = ("run", "--image", small, "-m", "256M", "--dir", tmp_path)
    script = "pwd; cat file; stat -c %U:%G file"
    assert command_line.ok(*words, "sh", "-c", script) == "/workspace\nmine\napp:app\n"


def test_an_image_without_a_command_says_so_before_a_machine_starts(
    command_line: CommandLine, module_home: Path
) -> None:
    make_root(
        pull(module_home, "docker.io/library/nothing:1", [Item("x")], config=ImageConfig()),
        module_home,
    )
    done = command_line("run", "--image", "nothing:1")
    assert done.returncode == 126
    assert b"has no command of its own" in done.stderr
    assert not list((module_home / "templates").glob("*.making"))


@pytest.fixture(scope="module")
def miniature(open_sandbox: Open, small: str) -> Held:
    return open_sandbox(SandboxSpec(image=small, memory_mib=SMALL))


async def test_what_layers_say_is_what_is_there(miniature: Held) -> None:
    done = await shell(miniature, "cat /usr/lib/through; ls /etc/gone; stat -c %a /root")
    assert done.output == b"landed\n700\n"
    assert b"/etc/gone" in done.errors


async def test_what_an_image_has_in_the_wrong_place_is_put_right(miniature: Held) -> None:
    done = await shell(
        miniature,
        "stat -c %F:%a /tmp; ls -d /proc/1; stat -c %F /etc/hosts /etc/hostname /etc/machine-id"
        " /etc/resolv.conf; cat /etc/hostname; id app; ls -ld /dev/null",
    )
    lines = done.output.decode().splitlines()
    assert lines[0] == "directory:1777"
    assert lines[1] == "/proc/1"
    assert lines[2:6] == ["regular file"] * 4
    assert lines[6].startswith("run-")
    assert "uid=900(app)" in lines[7]
    assert lines[8].startswith("crw-rw-rw-")


async def test_directories_for_services_stay_in_run(miniature: Held) -> None:
    done = await shell(miniature, "stat -c %a:%U:%G /var/run/service && echo x > /run/new")
    assert (done.output, done.errors) == (b"750:app:app\n", b"")


@pytest.mark.parametrize(
    "user, said",
    [
        ("app", "uid=900(app) gid=901(app) groups=901(app),902(extra)"),
        ("900", "uid=900(app) gid=901(app) groups=901(app),902(extra)"),
        ("app:other", "uid=900(app) gid=903(other) groups=903(other)"),
        ("900:903", "uid=900(app) gid=903(other) groups=903(other)"),
        ("app:77", "uid=900(app) gid=77 groups=77"),
        ("4242", "uid=4242 gid=0(root) groups=0(root)"),
        ("4242:other", "uid=4242 gid=903(other) groups=903(other)"),
        ("", "uid=0(root) gid=0(root) groups=0(root)"),
    ],
)
async def test_a_user_is_found_as_engines_find_it(miniature: Held, user: str, said: str) -> None:
    done = await shell(miniature, "id", user=user)
    assert done.output.decode().strip() == said


@pytest.mark.parametrize("user", ["nobody", "app:nobody", "app:", "4242:", "app:other:x"])
async def test_a_user_that_is_not_there_is_refused(miniature: Held, user: str) -> None:
    with pytest.raises(GuestRefused):
        await miniature.machine.run(Command(argv=[b"/bin/sh"], user=user))


async def test_capabilities_of_a_file_work(miniature: Held) -> None:
    """The one with the attribute may give files away though its user is not root; the same bytes without may not."""
    script = "echo x > /tmp/{0}; {0} chown 5:5 /tmp/{0}; stat -c %u /tmp/{0}"
    done = await shell(miniature, script.format("busybox-may"), user="app")
    assert (done.output, done.errors) == (b"5\n", b"")
    done = await shell(miniature, script.format("busybox-not"), user="app")
    assert done.output == b"900\n"


def test_the_images_user_runs_its_command(command_line: CommandLine, small: str) -> None:
    assert command_line.ok("run", "--image", small, "-m", "256M") == "900\n"


def test_a_whole_distribution_reads_back_byte_by_byte(
    open_sandbox: Open, debian: str, debian_tar: bytes, run: Run
) -> None:
    held = open_sandbox(SandboxSpec(image=debian, memory_mib=512))
    digests = {}
    with tarfile.open(fileobj=io.BytesIO(debian_tar)) as tar:
        for member in tar:
            if member.isreg() and member.name.startswith("usr/lib/python3"):
                content = tar.extractfile(member)
                assert content is not None
                digests[member.name] = hashlib.sha256(content.read()).hexdigest()
    listing = "".join(f"{digest}  /{name}\n" for name, digest in digests.items())
    assert len(digests) > 500
    run(held.machine.files.write(b"/tmp/listing", listing.encode()))
    done = run(shell(held, "sha256sum --quiet -c /tmp/listing && echo same", timeout_s=250))
    assert (done.output, done.errors) == (b"same\n", b"")
    program = (
        "import os; names = os.listdir('/many'); print(len(names));"
        "print(all(open(f'/many/{n:05}').read() == str(n) for n in range(4000)));"
        "print(os.path.exists('/many/04000'), os.path.exists('/many/'))"
    )
    done = run(held.machine.run(Command(argv=[b"python3", b"-c", program.encode()], timeout_s=120)))
    assert (done.output, done.errors) == (b"4000\nTrue\nFalse True\n", b"")
