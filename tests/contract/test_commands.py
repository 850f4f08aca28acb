"""What a command in a sandbox gets and gives, whatever boots the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

import pytest

from crucible.errors import CommandNotExecutable, CommandNotFound, GuestRefused
from crucible.sandbox.backend import Machine
from crucible.sandbox.session import Channel, Command, Completed, Process

pytestmark = pytest.mark.vm

EVERY_BYTE = bytes(range(256))


async def shell(machine: Machine, script: str, **given: object) -> Completed:
    return await machine.run(_command("/bin/sh", "-c", script, **given))


@contextlib.asynccontextmanager
async def started(machine: Machine, script: str, **given: object) -> AsyncIterator[Process]:
    process = await machine.start(_command("/bin/sh", "-c", script, **given))
    try:
        yield process
    finally:
        await process.forget()


async def read_until(process: Process, wanted: bytes) -> bytes:
    """What comes on both channels until the wanted bytes are among it."""
    seen = b""
    async with asyncio.timeout(60):
        while wanted not in seen:
            chunk = await process.read()
            assert chunk is not None, f"it ended after {seen!r}"
            seen += chunk.data
    return seen


async def until_there(machine: Machine, words: str) -> None:
    """Until a program of just these words runs: a fork is its parent's copy until then."""
    begun = f"until pgrep -x -f '{words}' >/dev/null; do sleep 0.05; done"
    assert (await shell(machine, begun, timeout_s=120)).exit.status == 0


async def until_gone(machine: Machine, words: str) -> None:
    """Until no program of these words runs: one that was killed takes a moment to go."""
    gone = f"while pgrep -x -f '{words}' >/dev/null; do sleep 0.05; done"
    assert (await shell(machine, gone, timeout_s=120)).exit.status == 0


def _command(*argv: str | bytes, **given: object) -> Command:
    words = [word.encode() if isinstance(word, str) else word for word in argv]
    return Command(argv=words, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [0, 1, 7, 124, 126, 127, 130, 255])
async def test_the_exit_status_is_the_commands_own(machine: Machine, status: int) -> None:
    done = await shell(machine, f"exit {status}")
    assert (done.exit.status, done.exit.signal, done.exit.timed_out) == (status, None, False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, 64])
async def test_death_by_a_signal_is_told_as_the_shell_does(machine: Machine, number: int) -> None:
    done = await shell(machine, f"kill -{int(number)} $$")
    assert (done.exit.status, done.exit.signal) == (128 + number, number)


async def test_a_signal_sent_from_here_reaches_the_command(machine: Machine) -> None:
    async with started(machine, "trap 'echo got; exit 9' INT; echo up; sleep 60 & wait") as process:
        await read_until(process, b"up\n")
        await process.signal(signal.SIGINT)
        assert b"got\n" in await read_until(process, b"got\n")
        await process.discard()
        assert (await process.wait()).status == 9


async def test_a_signal_reaches_the_children_of_the_command(machine: Machine) -> None:
    async with started(machine, "sh -c 'echo up; exec sleep 600'; exit 3") as process:
        await read_until(process, b"up\n")
        await process.signal(signal.SIGKILL)
        await process.discard()
        assert (await process.wait()).signal == signal.SIGKILL
    await until_gone(machine, "sleep 600")


async def test_output_and_errors_stay_apart(machine: Machine) -> None:
    done = await shell(machine, "echo out; echo err >&2; echo out")
    assert (done.output, done.errors) == (b"out\nout\n", b"err\n")


async def test_every_byte_comes_back_as_it_went_in(machine: Machine) -> None:
    data = EVERY_BYTE * 1000
    done = await machine.run(_command("cat"), input=data)
    assert done.output == data


async def test_output_without_a_last_newline_is_whole(machine: Machine) -> None:
    assert (await shell(machine, "printf 'no end'")).output == b"no end"


async def test_a_command_without_input_reads_the_end_at_once(machine: Machine) -> None:
    done = await machine.run(_command("wc", "-c"))
    assert done.output.strip() == b"0"


async def test_input_ends_when_we_close_it_and_not_before(machine: Machine) -> None:
    async with started(machine, "cat; echo closed", wants_input=True) as process:
        await process.write(b"first\n")
        assert await read_until(process, b"first\n") == b"first\n"
        await process.write(b"second\n")
        await process.close_input()
        assert await read_until(process, b"closed\n") == b"second\nclosed\n"


async def test_input_that_nobody_reads_does_not_hold_the_command_up(machine: Machine) -> None:
    done = await machine.run(_command("true"), input=bytes(3 << 20))
    assert done.exit.status == 0


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([b"", b"", b"last"], id="empty"),
        pytest.param([b"a b", b"c\nd", b"'\"$(x)`y`\\"], id="shell"),
        pytest.param([bytes(range(1, 256))], id="not-utf-8"),
        pytest.param([b"-n", b"--", b"--help"], id="dashes"),
        pytest.param([b"x" * 40_000], id="long"),
        pytest.param([b"%d" % number for number in range(3000)], id="many"),
    ],
)
async def test_arguments_arrive_as_they_are(machine: Machine, words: list[bytes]) -> None:
    done = await machine.run(_command("sh", "-c", "cat /proc/$$/cmdline", "me", *words))
    assert done.output.split(b"\0")[4:-1] == words


async def test_the_environment_is_the_one_given(machine: Machine) -> None:
    environment = {b"EMPTY": b"", b"TWO WORDS": b"a=b", b"BYTES": bytes(range(128, 256))}
    done = await machine.run(_command("/usr/bin/env", "-0", environment=environment))
    got = dict(item.split(b"=", 1) for item in done.output.split(b"\0")[:-1])
    assert {key: got.get(key) for key in environment} == environment


async def test_only_the_promised_variables_are_added_to_the_environment(machine: Machine) -> None:
    done = await machine.run(_command("/usr/bin/env", "-0", environment={b"MINE": b"1"}))
    names = {item.split(b"=", 1)[0] for item in done.output.split(b"\0")[:-1]}
    assert names == {b"MINE", b"PATH", b"HOME", b"USER", b"LOGNAME", b"SHELL"}


async def test_a_variable_given_twice_over_the_defaults_wins(machine: Machine) -> None:
    done = await shell(machine, "echo $HOME", environment={b"HOME": b"/nowhere"})
    assert done.output == b"/nowhere\n"


@pytest.mark.parametrize(
    "user, ids",
    [
        ("", b"0 0"),
        ("root", b"0 0"),
        ("nobody", b"65534 65534"),
        ("1234", b"1234"),
        ("77:88", b"77 88"),
    ],
)
async def test_the_command_runs_as_the_user_asked_for(
    machine: Machine, user: str, ids: bytes
) -> None:
    done = await shell(machine, "echo $(id -u) $(id -g)", user=user)
    assert done.output.startswith(ids)


async def test_a_user_other_than_root_has_no_groups_and_powers_of_root(machine: Machine) -> None:
    done = await shell(
        machine, "id -G; grep -E '^Cap(Eff|Prm|Amb)' /proc/self/status", user="nobody"
    )
    groups, *capabilities = done.output.decode().splitlines()
    assert groups == "65534"
    assert [int(line.split()[1], 16) for line in capabilities] == [0, 0, 0]


@pytest.mark.parametrize("user", ["nosuch", "-1", "99999999999", "root:nosuch", "a b"])
async def test_a_user_that_does_not_exist_is_refused(machine: Machine, user: str) -> None:
    with pytest.raises(GuestRefused) as refused:
        await shell(machine, "true", user=user)
    assert refused.value.guest_code == "no-such-user"


async def test_the_command_begins_in_its_directory(machine: Machine) -> None:
    await machine.files.mkdir(b"/tmp/a \xff b")
    done = await shell(machine, "pwd", workdir=b"/tmp/a \xff b")
    assert done.output == b"/tmp/a \xff b\n"


@pytest.mark.parametrize("workdir", [b"/nosuch", b"/etc/passwd", b"relative"])
async def test_a_directory_that_cannot_be_is_refused(machine: Machine, workdir: bytes) -> None:
    with pytest.raises(GuestRefused) as refused:
        await shell(machine, "true", workdir=workdir)
    assert refused.value.guest_code in ("no-such-workdir", "bad-request")


@pytest.mark.parametrize("program", ["nosuch", "/no/such/program", "", "./nosuch"])
async def test_a_program_that_does_not_exist_is_not_found(machine: Machine, program: str) -> None:
    with pytest.raises(CommandNotFound) as missing:
        await machine.run(_command(program))
    assert missing.value.exit_status == 127


@pytest.mark.parametrize("program", ["/etc/passwd", "/tmp"])
async def test_what_is_no_program_is_not_executable(machine: Machine, program: str) -> None:
    with pytest.raises(CommandNotExecutable) as refused:
        await machine.run(_command(program))
    assert refused.value.exit_status == 126


async def test_a_script_without_an_interpreter_line_is_run_by_the_shell(machine: Machine) -> None:
    await machine.files.write(b"/tmp/script", b"echo $1; exit 6\n", mode=0o755)
    done = await machine.run(_command("/tmp/script", "word"))
    assert (done.output, done.exit.status) == (b"word\n", 6)


async def test_a_program_the_user_may_not_execute_is_not_executable(machine: Machine) -> None:
    await machine.files.write(b"/tmp/private", b"#!/bin/sh\n", mode=0o700)
    with pytest.raises(CommandNotExecutable):
        await machine.run(_command("/tmp/private", user="nobody"))


async def test_a_command_that_runs_too_long_is_ended_and_told_so(machine: Machine) -> None:
    # Long enough for a shell to begin on a host that has much else to do.
    done = await shell(machine, "echo before; exec sleep 600", timeout_s=4.0)
    assert (done.exit.status, done.exit.timed_out, done.output) == (124, True, b"before\n")


async def test_a_timeout_takes_what_ignores_it_and_what_was_left_behind(machine: Machine) -> None:
    script = "trap '' TERM; (trap '' TERM; exec setsid sleep 611) & sleep 611; sleep 611"
    done = await shell(machine, script, timeout_s=0.3)
    assert done.exit.timed_out
    await until_gone(machine, "sleep 611")


async def test_what_runs_in_the_background_outlives_its_command(machine: Machine) -> None:
    started = await shell(machine, "nohup sleep 622 >/dev/null 2>&1 & echo $!")
    # It is there at once; its program may come a little later.
    assert (await shell(machine, f"kill -0 {int(started.output)}")).exit.status == 0
    await until_there(machine, "sleep 622")
    await shell(machine, "pkill -x -f 'sleep 622'")


async def test_a_background_process_that_holds_the_pipes_does_not_hold_the_result(
    machine: Machine,
) -> None:
    done = await shell(machine, "echo said; sleep 633 & exit 4")
    assert (done.exit.status, done.output) == (4, b"said\n")
    await until_there(machine, "sleep 633")
    await shell(machine, "pkill -x -f 'sleep 633'")


async def test_forgetting_a_command_ends_it(machine: Machine) -> None:
    async with started(machine, "echo up; exec sleep 644") as process:
        await read_until(process, b"up\n")
    await until_gone(machine, "sleep 644")


async def test_a_terminal_has_the_size_asked_for(machine: Machine) -> None:
    done = await shell(machine, "stty size", has_terminal=True, rows=33, columns=77)
    assert done.output == b"33 77\r\n"


async def test_a_terminal_is_told_of_a_new_size(machine: Machine) -> None:
    script = "trap 'stty size; exit' WINCH; echo up; while :; do sleep 0.05; done"
    async with started(machine, script, has_terminal=True, wants_input=True) as process:
        await read_until(process, b"up\r\n")
        await process.resize(51, 133)
        assert b"51 133\r\n" in await read_until(process, b"133\r\n")


async def test_an_interrupt_typed_at_a_terminal_ends_the_command(machine: Machine) -> None:
    async with started(
        machine, "echo up; sleep 655", has_terminal=True, wants_input=True
    ) as process:
        await read_until(process, b"up\r\n")
        # A shell loses an interrupt that comes between its fork and the start of the program.
        await until_there(machine, "sleep 655")
        await process.write(b"\x03")
        await process.discard()
        assert (await process.wait()).signal == signal.SIGINT


async def test_with_a_terminal_everything_comes_on_one_channel(machine: Machine) -> None:
    done = await shell(
        machine, "test -t 0 && test -t 1 && test -t 2 && echo e >&2", has_terminal=True
    )
    assert (done.output, done.errors) == (b"e\r\n", b"")


async def test_a_command_knows_no_more_open_files_than_its_three(machine: Machine) -> None:
    done = await shell(machine, "ls /proc/self/fd")
    assert done.output.split() == [b"0", b"1", b"2", b"3"]  # 3 is the directory that ls reads


async def test_limits_of_one_command_hold_for_it(machine: Machine) -> None:
    done = await shell(machine, "ulimit -n; ulimit -f; ulimit -c", limits={1: 77, 2: 512 * 9, 3: 0})
    assert done.output.split() == [b"77", b"9", b"0"]


async def test_a_limit_on_processes_is_the_commands_alone(machine: Machine) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; wait"
    fenced = await shell(machine, script, limits={4: 4})
    free = await shell(machine, script)
    assert fenced.exit.status != 0 or fenced.errors
    assert (free.exit.status, free.errors) == (0, b"")


async def test_a_command_beyond_its_memory_is_killed_and_told_so(machine: Machine) -> None:
    hog = "import sys; x = bytearray(200 << 20); print(len(x))"
    done = await machine.run(_command("python3", "-c", hog, limits={5: 64 << 20}))
    assert (done.exit.out_of_memory, done.exit.signal, done.output) == (True, signal.SIGKILL, b"")


async def test_the_figures_of_a_command_are_plausible(machine: Machine) -> None:
    script = "x = bytearray(30 << 20); [hash(i) for i in range(300000)]"
    exit = (await machine.run(_command("python3", "-c", script))).exit
    assert 30 << 20 < exit.peak_bytes < 400 << 20
    assert 0 < exit.cpu_s < 60
    assert exit.wall_s > 0


async def test_only_the_wanted_amount_of_output_is_kept(machine: Machine) -> None:
    done = await machine.run(_command("seq", "100000"), max_output=10)
    assert (done.output, done.exit.status) == (b"1\n2\n3\n4\n5\n", 0)


async def test_the_commands_that_run_are_listed_until_they_are_forgotten(machine: Machine) -> None:
    async with started(machine, "echo up; exec sleep 666") as process:
        await read_until(process, b"up\n")
        infos = {info.stream: info for info in await machine.list_execs()}
        assert (infos[process.stream].pid, infos[process.stream].is_done) == (process.pid, False)
    assert process.stream not in {info.stream for info in await machine.list_execs()}


async def test_the_result_stays_until_it_is_collected(machine: Machine) -> None:
    async with started(machine, "exit 5") as process:
        await process.discard()
        assert (await process.wait()).status == 5
        infos = {info.stream: info for info in await machine.list_execs()}
        assert infos[process.stream].is_done


async def test_output_chunks_carry_their_offsets_without_gaps(machine: Machine) -> None:
    async with started(machine, "seq 60000; seq 60000 >&2") as process:
        ends = {Channel.OUTPUT: 0, Channel.ERRORS: 0}
        while (chunk := await process.read()) is not None:
            assert chunk.offset == ends[chunk.channel]
            ends[chunk.channel] += len(chunk.data)
    assert ends[Channel.OUTPUT] == ends[Channel.ERRORS] == 348_894
