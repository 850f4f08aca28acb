"""What Crucible has prepared on this machine: the agent, the kernel, the image."""

from __future__ import annotations

from pathlib import Path

from crucible.diagnosis.check import Check, fail, ok
from crucible.errors import CrucibleError

IMAGE = "base"


def check_agent(agent: Path) -> Check:
    if not agent.is_file():
        return fail("agent", f"{agent} does not exist", agent_fix())
    with agent.open("rb") as file:
        magic = file.read(4)
    if magic != b"\x7fELF":
        return fail("agent", f"{agent} is not a program", agent_fix())
    return ok("agent", f"built, {agent.stat().st_size / 1e6:.1f} MB")


def check_kernel(home: Path, *, deep: bool) -> Check:
    """`deep` reads every byte; else only sizes are compared."""
    from crucible.images.kernel import load_kernel, verify_kernel

    try:
        kernel = verify_kernel(home) if deep else load_kernel(home)
    except CrucibleError as error:
        return fail("kernel", error.message, error.hint)
    except OSError as error:
        return fail("kernel", f"It cannot be read: {error}", "Run `crucible setup`")
    return ok("kernel", f"Linux {kernel.version}")


def check_image(home: Path, *, deep: bool) -> Check:
    from crucible.images.catalog import load_image, verify_image

    try:
        image = verify_image(home, IMAGE) if deep else load_image(home, IMAGE)
    except CrucibleError as error:
        return fail("image", error.message, error.hint)
    except OSError as error:
        return fail("image", f"It cannot be read: {error}", "Run `crucible setup`")
    return ok("image", f"{IMAGE}, {image.size_bytes / 1e6:.0f} MB, digest {image.digest[:12]}")


def agent_fix() -> str:
    """In a checkout the agent is built there; a package that was installed must bring it."""
    if is_checkout():
        return "Run `make agent`"
    return "Install Crucible again: the package should have brought it"


def is_checkout() -> bool:
    root = Path(__file__).parents[3]
    return (root / "guest" / "agent").is_dir() and (root / "Makefile").is_file()
