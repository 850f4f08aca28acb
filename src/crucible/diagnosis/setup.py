"""Prepares this machine, step by step. What is there is kept, so it can be run again at any time."""

from __future__ import annotations

import asyncio
import time

from crucible import system
from crucible.config import Config
from crucible.diagnosis import stock
from crucible.errors import AgentMissing, CrucibleError, PrerequisiteMissing
from crucible.images.report import Report

# Only building needs these; a machine that has its image runs without them.
_FOR_BUILDING = frozenset({"mmdebstrap", "squashfs-tools", "uidmap", "ca-certificates"})


def run_setup(config: Config, report: Report) -> None:
    """Raises PrerequisiteMissing, with the command that mends it, before anything is begun."""
    began = time.monotonic()
    check_packages(config)
    report("packages", "everything needed is installed")
    check_agent()
    report("agent", "built")
    _prepare_stock(config, report)
    _prepare_template(config, report)
    report("setup", f"ready after {time.monotonic() - began:.1f} s")


def check_packages(config: Config) -> None:
    missing = system.missing()
    if missing and _has_stock(config):
        missing = tuple(need for need in missing if need.package not in _FOR_BUILDING)
    if not missing:
        return
    packages = tuple(need.package for need in missing)
    listed = ", ".join(f"{need.package} ({need.why})" for need in missing)
    if system.has_apt():
        hint = f"Run `{system.install_command(packages)}`, then `crucible setup` again"
    else:
        hint = "Install them with your package manager, then run `crucible setup` again"
    raise PrerequisiteMissing(f"The host lacks: {listed}", hint=hint)


def check_agent() -> None:
    from crucible.assemble import agent_path

    path = agent_path()
    if path.is_file():
        return
    error = AgentMissing(str(path))
    error.hint = stock.agent_fix()
    raise error


def _has_stock(config: Config) -> bool:
    from crucible.images.catalog import load_image
    from crucible.images.kernel import load_kernel

    try:
        load_kernel(config.home)
        load_image(config.home, stock.IMAGE)
    except CrucibleError:
        return False
    return True


def _prepare_stock(config: Config, report: Report) -> None:
    from crucible.images import prepare

    kernel, image = prepare(config.home, report)
    report("kernel", f"Linux {kernel.version}")
    report(image.name, f"{image.size_bytes / 1e6:.0f} MB, digest {image.digest[:12]}")


def _prepare_template(config: Config, report: Report) -> None:
    from crucible import assemble

    began = time.monotonic()
    asyncio.run(assemble.prepare_template(config, report))
    report("template", f"a sandbox was opened and closed in {time.monotonic() - began:.1f} s")
