"""A sandbox elsewhere from its making to its end, through the official SDK over real HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.backends.e2b.elsewhere import access, key_of, managing, remote_names
from tests.server.scripted import Staged

from crucible.backends.e2b.process import WINDOW
from crucible.backends.e2b.promises import ID_NAME
from crucible.errors import (
    BackendUnusable,
    BootFailed,
    CommandNotFound,
    CrucibleError,
    GuestGone,
    IsolationUnmet,
    Unsupported,
)
from crucible.sandbox.isolation import Isolation
from crucible.sandbox.manager import Manager
from crucible.sandbox.session import Channel, Command
from crucible.sandbox.spec import SandboxSpec
from crucible.sandbox.takeover import take_all_over
from crucible.values import replace

SPEC = SandboxSpec(network="off")


def command(*argv: str, **given: Any) -> Command:
    return Command(argv=[word.encode() for word in argv], **given)


async def test_a_temporary_sandbox_is_made_used_and_gone(provider: Staged, tmp_path: Path) -> None:
    async with managing(tmp_path / "home", access(provider)) as manager:
        async with manager.open(SPEC) as held:
            assert len(remote_names(provider)) == 1
            done = await held.machine.run(command("echo", "hi", "there"))
            assert (done.output, done.errors, done.exit.status) == (b"hi there\n", b"", 0)
            assert (await held.machine.run(command("status", "127"))).exit.status == 127
            assert (await held.machine.run(command("cat"), input=b"\xff\0")).output == b"\xff\0"
            with pytest.raises(CommandNotFound):
                await held.machine.run(command("nosuch"))
            assert held.record.isolation == "hardware-vm (claimed)"
            assert held.record.placed == "remote_e2b: it was asked for"
        assert remote_names(provider) == []
        assert manager.records.sandboxes() == []


async def test_what_network_it_has_is_told_to_the_provider(
    provider: Staged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    create = provider.domain.manager.create

    async def without(name: str, spec: SandboxSpec, **given: Any) -> Any:
        asked.append(spec.network)
        return await create(name, replace(spec, network="off"), **given)

    monkeypatch.setattr(provider.domain.manager, "create", without)
    async with managing(tmp_path / "home", access(provider)) as manager:
        for network in ("off", "full"):
            async with manager.open(SandboxSpec(network=network)):
                pass
    assert asked == ["off", "full"]


async def test_a_named_sandbox_outlives_its_holder_and_is_found_again(
    provider: Staged, tmp_path: Path
) -> None:
    async with managing(tmp_path / "home", access(provider)) as first:
        await first.create("box", SPEC)
        await first.start("box")
        (remote,) = remote_names(provider)
        record = first.records.find("box")
        assert (record.pid, record.pid_detail) == (0, remote)
        await first.hands.let_all_go()
    async with managing(tmp_path / "home", access(provider)) as second:
        await take_all_over(second)
        held = second.running("box")
        assert (await held.machine.run(command("echo", "again"))).output == b"again\n"
        await second.remove("box", force=True)
    assert remote_names(provider) == []


async def test_a_stopped_sandbox_is_kept_by_the_provider_and_started_again(
    provider: Staged, tmp_path: Path
) -> None:
    async with managing(tmp_path / "home", access(provider)) as manager:
        await manager.create("box", SPEC)
        await manager.start("box")
        (remote,) = remote_names(provider)
        stopped = await manager.stop("box")
        assert stopped.state == "stopped"
        (there,) = provider.domain.manager.records.sandboxes()
        assert there.state == "paused"
        await manager.start("box")
        assert remote_names(provider) == [remote]
        await manager.stop("box")
        await manager.remove("box")
        assert remote_names(provider) == []


async def test_one_that_ended_elsewhere_is_told_when_it_is_taken_over(
    provider: Staged, tmp_path: Path
) -> None:
    async with managing(tmp_path / "home", access(provider)) as first:
        await first.create("box", SPEC)
        await first.start("box")
        await first.hands.let_all_go()
    (remote,) = remote_names(provider)
    await provider.domain.manager.remove(remote, force=True)
    async with managing(tmp_path / "home", access(provider)) as second:
        await take_all_over(second)
        assert second.records.find("box").state == "stopped"
        with pytest.raises(GuestGone):
            await second.start("box")


async def test_a_command_in_one_that_has_ended_is_an_error_of_the_sandbox(
    provider: Staged, tmp_path: Path
) -> None:
    async with managing(tmp_path / "home", access(provider)) as manager, manager.open(SPEC) as held:
        (remote,) = remote_names(provider)
        await provider.domain.manager.remove(remote, force=True)
        with pytest.raises(GuestGone):
            await held.machine.run(command("echo"))


async def test_nothing_is_left_when_making_is_cut_short(provider: Staged, tmp_path: Path) -> None:
    boot = provider.backend.boot
    asked = asyncio.Event()

    async def slow(plan: Any) -> Any:
        asked.set()
        await asyncio.sleep(0.2)
        return await boot(plan)

    provider.backend.boot = slow  # type: ignore[method-assign]
    async with managing(tmp_path / "home", access(provider)) as manager:
        opening = asyncio.create_task(_open(manager))
        await asked.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert manager.records.sandboxes() == []
    async with asyncio.timeout(60):
        while remote_names(provider):  # noqa: ASYNC110 - the provider is still about to make it
            await asyncio.sleep(0.02)


async def _open(manager: Manager) -> None:
    async with manager.open(SPEC):
        raise AssertionError("it was cut short")


async def test_what_a_dead_process_left_elsewhere_is_ended_by_the_next(
    provider: Staged, tmp_path: Path
) -> None:
    from crucible.sandbox.reconcile import bury_dead_temporaries

    home = tmp_path / "home"
    async with managing(home, access(provider)) as manager:
        opening = manager.open(SPEC)
        held = await opening.__aenter__()
        await held.machine.detach()
        # As it is after `kill -9`: the record names a holder that is no more.
        manager.records.update(held.record.id, holder_pid=1 << 22, holder_started="gone")
        assert len(remote_names(provider)) == 1
        buried = await asyncio.to_thread(_in_thread, home, access(provider), bury_dead_temporaries)
        assert buried == [held.record.name]
        assert remote_names(provider) == []
        await opening.__aexit__(None, None, None)


async def test_what_was_asked_for_and_never_written_down_is_found_by_its_mark(
    provider: Staged, tmp_path: Path
) -> None:
    from crucible.sandbox.reconcile import bury_dead_temporaries

    home = tmp_path / "home"
    async with managing(home, access(provider)) as manager:
        opening = manager.open(SPEC)
        held = await opening.__aenter__()
        await held.machine.detach()
        (held.record.directory / ID_NAME).write_text("")
        manager.records.update(
            held.record.id, holder_pid=1 << 22, holder_started="gone", pid=None, pid_detail=""
        )
        await asyncio.to_thread(_in_thread, home, access(provider), bury_dead_temporaries)
        assert remote_names(provider) == []
        await opening.__aexit__(None, None, None)


async def test_a_record_stays_while_its_sandbox_cannot_be_ended(
    provider: Staged, tmp_path: Path
) -> None:
    from crucible.sandbox.reconcile import bury_dead_temporaries

    home = tmp_path / "home"
    async with managing(home, access(provider)) as manager:
        opening = manager.open(SPEC)
        held = await opening.__aenter__()
        manager.records.update(held.record.id, holder_pid=1 << 22, holder_started="gone")
        for wrong in (access(provider, E2B_API_KEY=""), access(provider, E2B_API_KEY="e2b_00")):
            buried = await asyncio.to_thread(_in_thread, home, wrong, bury_dead_temporaries)
            assert buried == []
        assert [record.name for record in manager.records.sandboxes()] == [held.record.name]
        assert len(remote_names(provider)) == 1
        await opening.__aexit__(None, None, None)
        assert remote_names(provider) == []


async def test_one_that_could_not_be_ended_keeps_its_record_for_the_next(
    provider: Staged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crucible.sandbox.reconcile import bury_dead_temporaries

    home = tmp_path / "home"
    remove = provider.domain.manager.remove

    async def refuse(name: str, *, force: bool = False) -> None:
        raise BootFailed("the provider is unwell")

    async with managing(home, access(provider)) as manager:
        monkeypatch.setattr(provider.domain.manager, "remove", refuse)
        with pytest.raises(CrucibleError):
            async with manager.open(SPEC) as held:
                pass
        assert [record.name for record in manager.records.sandboxes()] == [held.record.name]
        monkeypatch.setattr(provider.domain.manager, "remove", remove)
        await asyncio.to_thread(_in_thread, home, access(provider), bury_dead_temporaries)
        assert manager.records.sandboxes() == []
    assert remote_names(provider) == []


def _in_thread(home: Path, environment: dict[str, str], work: Any) -> Any:
    from tests.backends.e2b.elsewhere import manager_of

    manager = manager_of(home, environment)
    try:
        return work(manager.records, manager.machines)
    finally:
        manager.records.close()


async def test_output_that_nobody_takes_does_not_pile_up(provider: Staged, tmp_path: Path) -> None:
    async with managing(tmp_path / "home", access(provider)) as manager, manager.open(SPEC) as held:
        process = await held.machine.start(command("flood"))
        first = await process.read(grants=False)
        assert first is not None
        taken = len(first.data)
        async with asyncio.timeout(60):
            while process._held < WINDOW:  # type: ignore[attr-defined]  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert process._held < WINDOW + (256 << 10)  # type: ignore[attr-defined]
        process.grant(Channel.OUTPUT, taken)
        while (chunk := await process.read(grants=False)) is not None:
            taken += len(chunk.data)
            process.grant(Channel.OUTPUT, len(chunk.data))
        assert taken == 64 * (64 << 10)
        await process.forget()


async def test_the_key_is_in_no_record_log_error_or_guest(
    provider: Staged, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = key_of(provider)
    home = tmp_path / "home"
    said = []
    async with managing(home, access(provider, E2B_API_KEY=key)) as manager:
        await manager.create("box", SPEC)
        await manager.start("box")
        held = manager.running("box")
        await held.machine.run(command("echo", "x"))
        begun = provider.process(remote_names(provider)[0]).command
        said += [repr(begun), repr(held), repr(held.machine)]
        said += [repr(vars(manager.machines.remote())), repr(manager.records.audit())]
        for wrong in (key + "00", key[:-2]):
            async with managing(tmp_path / "other", access(provider, E2B_API_KEY=wrong)) as other:
                with pytest.raises(CrucibleError) as refused:
                    await other.create("box", SPEC)
                said += [repr(refused.value.as_fields()), str(refused.value)]
                assert wrong not in "".join(said)
    written = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    captured = capsys.readouterr()
    everything = written + "".join([*said, captured.out, captured.err]).encode()
    assert key.encode() not in everything
    assert b"remote_e2b" in everything


@pytest.mark.parametrize(
    "settings, word",
    [
        ({"network": "allowlist", "allow": ("example.org",)}, "rules"),
        ({"deny": ("example.org",), "network": "full"}, "rules"),
        ({"secrets": ("TOKEN:example.org",)}, "secrets"),
        ({"mounts": ("cache:/data:volume",)}, "volumes"),
        ({"mounts": ("/srv:/data:ro",)}, "files"),
        ({"images": {"app": "shop:7"}}, "further images"),
        ({"ports": ("8080",)}, "ports"),
        ({"read_only": True}, "read-only"),
        ({"drop_capabilities": True}, "capabilities"),
        ({"processes": 4}, "processes"),
        ({"memory_mib": 2048}, "memory"),
        ({"cpus": 2}, "processors"),
        ({"disk_mib": 1024}, "disk"),
        ({"connections": 3}, "connections"),
    ],
)
async def test_what_it_cannot_keep_is_refused_by_name_and_nothing_is_made(
    provider: Staged, tmp_path: Path, settings: dict[str, Any], word: str
) -> None:
    async with managing(tmp_path / "home", access(provider)) as manager:
        with pytest.raises(Unsupported, match=word):
            await manager.create("box", SandboxSpec(**{"network": "off", **settings}))
        assert manager.records.sandboxes() == []
    assert remote_names(provider) == []


async def test_a_copy_of_a_directory_is_refused(provider: Staged, tmp_path: Path) -> None:
    async with managing(tmp_path / "home", access(provider)) as manager:
        with pytest.raises(Unsupported, match="directory"):
            await manager.create("box", SPEC, host_directory=str(tmp_path))


async def test_a_claim_is_not_enough_for_who_asks_for_the_strongest(
    provider: Staged, tmp_path: Path
) -> None:
    async with managing(tmp_path / "home", access(provider)) as manager:
        with pytest.raises(IsolationUnmet, match="claimed"):
            await manager.create("box", SandboxSpec(min_isolation=Isolation.HARDWARE_VM))


@pytest.mark.parametrize(
    "change",
    [{"E2B_API_KEY": ""}, {"E2B_API_KEY": "e2b_00"}, {"E2B_API_URL": "http://127.0.0.1:9"}],
)
async def test_a_provider_that_does_not_work_is_told_with_the_reason(
    provider: Staged, tmp_path: Path, change: dict[str, str]
) -> None:
    async with managing(tmp_path / "home", access(provider, **change)) as manager:
        with pytest.raises(BackendUnusable, match="remote_e2b") as refused:
            await manager.create("box", SPEC)
        assert refused.value.hint
