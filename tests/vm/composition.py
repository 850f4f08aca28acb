"""Images that the tests of composed sandboxes put together."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.images.layers.packing import Item
from tests.images.layers.test_making import pull

from crucible.images.layers.making import make_root
from crucible.images.oci.model import ImageConfig
from crucible.sandbox.holding import Held
from crucible.sandbox.session import Command, Completed

APPLETS = (
    *(
        "sh",
        "cat",
        "chmod",
        "cp",
        "echo",
        "env",
        "false",
        "id",
        "kill",
        "ls",
        "mkdir",
        "mount",
        "ps",
    ),
    *("grep", "pwd", "rm", "sed", "sleep", "stat", "touch", "umount", "wc", "hostname", "true"),
)


def busybox() -> bytes:
    found = shutil.which("busybox")
    assert found is not None
    return Path(found).read_bytes()


def make_app(home: Path, name: str = "app:1", **config: object) -> str:
    """Business code: a user, a directory and variables of its own, and no /workspace."""
    settings: dict[str, object] = {
        "user": "app",
        "workdir": "/srv/app",
        "environment": (("MODE", "production"), ("PATH", "/bin"), ("LANG", "of-the-app")),
        "entrypoint": ("echo", "started"),
        "command": ("by", "itself"),
        **config,
    }
    items = [
        Item("bin/busybox", data=busybox(), mode=0o755),
        *(Item(f"bin/{applet}", kind="symlink", target="busybox") for applet in APPLETS),
        Item("etc/passwd", data=b"root:x:0:0::/root:/bin/sh\napp:x:900:901::/home/app:/bin/sh\n"),
        Item("etc/group", data=b"root:x:0:\napp:x:901:\n"),
        Item("srv/app/code", data=b"of the app\n"),
    ]
    image = pull(home, f"docker.io/library/{name}", items, config=ImageConfig(**settings))  # type: ignore[arg-type]
    make_root(image, home)
    return name


def make_bare(home: Path) -> str:
    """One static program and nothing else."""
    item = Item("busybox-tool", data=busybox(), mode=0o755)
    make_root(pull(home, "docker.io/library/bare:1", [item], config=ImageConfig()), home)
    return "bare:1"


def make_mischief(home: Path) -> str:
    """Every place that is shared or shown leads somewhere else."""
    items = [
        Item("bin/busybox", data=busybox(), mode=0o755),
        *(Item(f"bin/{applet}", kind="symlink", target="busybox") for applet in APPLETS),
        Item("workspace", kind="symlink", target="../../../sysroot/etc"),
        Item("usr", kind="symlink", target="/../../disk"),
        Item("etc", kind="symlink", target="/image/etc"),
        Item("run", kind="symlink", target="/proc"),
        Item("tmp", data=b"not a directory"),
    ]
    image = pull(
        home, "docker.io/library/mischief:1", items, config=ImageConfig(workdir="/../../names")
    )
    make_root(image, home)
    return "mischief:1"


async def within(
    held: Held, image: str, *argv: str, user: str = "", timeout_s: float = 60, input: bytes = b""
) -> Completed:
    """A command in an image of a sandbox, as its first user unless another is named."""
    variables = {b"PATH": b"/usr/local/bin:/usr/bin:/bin:/sbin:/usr/sbin"}
    command = Command(
        argv=[word.encode() for word in argv],
        image=image,
        user=user,
        environment=variables,
        timeout_s=timeout_s,
    )
    return await held.machine.run(command, input=input)


async def script(held: Held, image: str, text: str, *, user: str = "") -> Completed:
    return await within(held, image, "sh", "-c", text, user=user)
