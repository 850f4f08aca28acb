"""Looks at everything Crucible needs, in the order in which it needs it. Every finding is tried, not guessed."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from crucible.config import Config
from crucible.diagnosis import host, machines, stock
from crucible.diagnosis.check import Check, fail, has_failed, ok
from crucible.errors import CrucibleError
from crucible.images.report import Report, silent

_OPEN_DEADLINE_S = 120.0


def diagnose(
    config: Config,
    *,
    deep: bool = True,
    report: Report = silent,
    kvm_device: Path = machines.KVM_DEVICE,
) -> list[Check]:
    """`deep` also reads every byte of kernel and image, and boots machines: that takes some seconds.

    Where a worker is to run the sandboxes, what this host lacks to do so itself does not matter.
    """
    if config.transport == "ssh":
        checks = [host.check_python(), host.check_home(config.home)]
        checks.append(stock.check_image(config.home, deep=deep))
        return [*checks, asyncio.run(_check_worker(config))]
    checks = [host.check_python(), *host.check_programs(), host.check_home(config.home)]
    checks += _check_namespaces()
    checks.append(host.check_limits())
    checks += _check_stock(config, deep=deep)
    if sys.platform == "linux":
        checks.append(_check_kvm(kvm_device))
    if deep and not has_failed(checks):
        checks += asyncio.run(_check_machines(config, report))
    if deep:
        checks += asyncio.run(_check_providers(config))
    return checks


async def _check_worker(config: Config) -> Check:
    """Spoken to, but believed: what its isolation is worth can be seen on the worker alone."""
    from crucible import assemble

    backend = assemble.worker(config)
    name = f"worker {backend.worker.label}"
    try:
        claims = await backend.claims()
    except CrucibleError as error:
        return fail(name, error.message, error.hint)
    finally:
        await backend.settled()
    if claims.missing:
        return fail(name, claims.missing, f"On the worker: {claims.fix}")
    return ok(
        name,
        f"answers with Crucible {claims.version} and {claims.backend}; isolation as it says itself: {claims.isolation}",
    )


def works(checks: Sequence[Check]) -> bool:
    """Whether sandboxes can be run here, as far as was looked."""
    return not has_failed(checks)


def _check_namespaces() -> list[Check]:
    from crucible.backends.qemu.jail import PROBE_UID

    checks = [host.check_namespaces()]
    if os.geteuid() == 0:
        checks.append(host.check_namespaces(PROBE_UID))
    return checks


def _check_kvm(device: Path) -> Check:
    from crucible.backends.qemu.host import has_hardware_virtualization

    return machines.check_kvm_device(device, has_hardware=has_hardware_virtualization())


def _check_stock(config: Config, *, deep: bool) -> list[Check]:
    from crucible.assemble import agent_path

    return [
        stock.check_agent(agent_path()),
        stock.check_kernel(config.home, deep=deep),
        stock.check_image(config.home, deep=deep),
    ]


async def _check_machines(config: Config, report: Report) -> list[Check]:
    from crucible import assemble

    trials = []
    for backend in assemble.backends(config, report):
        if _can_be_tried(backend.name):
            report("doctor", f"booting a machine with {backend.name}")
            trials.append(await machines.try_backend(backend))
            _remember(config, trials[-1])
    checks = machines.check_backends(trials)
    checks.append(machines.check_isolation(trials))
    working = next((trial for trial in trials if trial.why is None), None)
    if working is not None:
        checks += await _check_sandbox(config, working.backend, report)
    return checks


async def _check_providers(config: Config) -> list[Check]:
    """Where sandboxes go, and why not elsewhere. A provider that nobody wants is not asked."""
    from crucible import assemble
    from crucible.diagnosis.providers import check_choice, check_remote

    own = assemble.machines(config)
    return [await check_remote(own), await check_choice(own)]


def _can_be_tried(backend: str) -> bool:
    """Emulation always; hardware if its device opens, which has been told already where it does not."""
    from crucible.backends.qemu.command import Accelerator
    from crucible.backends.qemu.host import unusable_device

    accelerator = Accelerator(backend.removeprefix("qemu-"))
    return accelerator is Accelerator.TCG or unusable_device(accelerator) is None


def _remember(config: Config, trial: machines.Trial) -> None:
    """So that `auto` goes by what was found now, and not by what was true before it was mended."""
    from crucible.backends.qemu.command import Accelerator
    from crucible.backends.qemu.host import Verdict, remember

    accelerator = Accelerator(trial.backend.removeprefix("qemu-"))
    remember(config.home / "cache", Verdict(accelerator=accelerator, why=trial.why))


async def _check_sandbox(config: Config, backend: str, report: Report) -> list[Check]:
    """Opens a sandbox the way a user does, and looks at what holds it."""
    from crucible import assemble
    from crucible.sandbox.spec import SandboxSpec

    manager = assemble.manager(config, report)
    began = time.perf_counter()
    try:
        async with (
            asyncio.timeout(_OPEN_DEADLINE_S),
            manager.open(SandboxSpec(backend=backend)) as held,
        ):
            seconds = time.perf_counter() - began
            return [
                ok("sandbox", f"a sandbox answered {seconds * 1000:.0f} ms after it was asked for"),
                machines.check_jail(held.machine.handle.pid),
            ]
    except TimeoutError:
        return [fail("sandbox", f"None answered within {_OPEN_DEADLINE_S:g} s")]
    except CrucibleError as error:
        return [fail("sandbox", error.message, error.hint)]
    finally:
        manager.records.close()
