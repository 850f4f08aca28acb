"""The ladder of fixtures: a prepared home, a home of one's own, a manager, a sandbox, the command line.

Ask for the lowest rung. A home of a test's own is made of hard links to one that is prepared once per
checkout, and is searched for leftovers when the test is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import hypothesis
import pytest
from tests.loading import (
    HALVES,
    pytest_pycollect_makemodule,  # noqa: F401 - pytest finds it here
    pytest_runtest_protocol,  # noqa: F401 - as above
)

from crucible import assemble, images
from crucible.config import Config
from crucible.images.lock import held
from crucible.sandbox import processes
from crucible.sandbox.holding import release_user
from crucible.sandbox.records import open_records
from crucible.sandbox.spec import SandboxSpec

ROOT = Path(__file__).parent.parent
STATE = ROOT / ".state"
NOBODY = 65534
PREPARED = STATE / "home"
PREPARED_SMALL = STATE / "home-small"
# For tests that save and copy a machine at every step of something.
SMALL = SandboxSpec(memory_mib=128)
SHARED_PARTS = ("kernels", "images", "initramfs", "blanks", "cache", "templates")

# Whoever started the tests in the background may have had these ignored, and children inherit that;
# the programs under test are about what they do when a signal comes.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

# Speed is for `make bench`: a machine that is busy with other things fails no property.
hypothesis.settings.register_profile(
    "crucible", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("crucible")

T = TypeVar("T")


class Run(Protocol):
    """Runs something asynchronous to its end."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


@pytest.fixture(scope="session")
def prepared_images() -> Path:
    """A home with kernel and base image, made once per checkout."""
    STATE.mkdir(exist_ok=True)
    with held(STATE / "prepare.lock", stage="tests"):
        images.prepare(PREPARED, _say)
    return PREPARED


@pytest.fixture(scope="session")
def prepared_home(prepared_images: Path) -> Path:
    """The same with the default template, too; never altered by a test."""
    with held(STATE / "prepare.lock", stage="tests"):
        asyncio.run(assemble.prepare_template(Config(home=prepared_images), _say))
    return prepared_images


@pytest.fixture(scope="session")
def prepared_small(prepared_home: Path) -> Path:
    """The same with the template of a small machine, too: its memory is saved and copied in half the time."""
    made_of = STATE / "home-small.of"
    with held(STATE / "prepare.lock", stage="tests"):
        now = " ".join(sorted(path.name for path in (prepared_home / "templates").iterdir()))
        if not made_of.exists() or made_of.read_text() != now:
            shutil.rmtree(PREPARED_SMALL, ignore_errors=True)
            _link_parts(prepared_home, PREPARED_SMALL)
            asyncio.run(_make_template(Config(home=PREPARED_SMALL), SMALL))
            made_of.write_text(now)
    return PREPARED_SMALL


async def _make_template(config: Config, spec: SandboxSpec) -> None:
    async with assemble.manager(config, _say).open(spec):
        pass


def _link_parts(prepared: Path, directory: Path) -> None:
    for part in SHARED_PARTS:
        if (prepared / part).exists():
            shutil.copytree(prepared / part, directory / part, copy_function=os.link, symlinks=True)


@contextmanager
def own_home(prepared: Path) -> Iterator[Path]:
    """A state directory of one's own. Whatever is left running or lying about in the end is an error."""
    (STATE / "tmp").mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="home-", dir=STATE / "tmp"))
    _link_parts(prepared, directory)
    known = set(_machine_words())
    try:
        yield directory
        end_owner(directory)
        leftovers = _left_running(directory, known)
        remaining = _remaining(directory)
    finally:
        end_owner(directory)
        _kill_machines(directory)
        shutil.rmtree(directory, ignore_errors=True)
    assert not leftovers, f"machines were left running: {leftovers}"
    assert not remaining, f"files were left: {remaining}"


@pytest.fixture
def home(prepared_home: Path) -> Iterator[Path]:
    with own_home(prepared_home) as directory:
        yield directory


@pytest.fixture(scope="module")
def module_home(prepared_home: Path) -> Iterator[Path]:
    """One home for all tests of a module, for machines that they share."""
    with own_home(prepared_home) as directory:
        yield directory


@pytest.fixture(scope="module")
def small_home(prepared_small: Path) -> Iterator[Path]:
    """The same for machines of the kind `SMALL`."""
    with own_home(prepared_small) as directory:
        yield directory


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """One event loop for all tests of a module: what they share lives in it."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is asynchronous runs in the loop of its module."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = inspect.signature(pyfuncitem.obj).parameters
    run = cast(Run, pyfuncitem.funcargs["run"])
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in arguments}))
    return True


@pytest.fixture
def config(home: Path) -> Config:
    return Config(home=home, owner_idle_s=5.0)


@pytest.fixture
def public_directory() -> Iterator[Path]:
    """A directory that every user of the host can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def unprivileged() -> Iterator[None]:
    """As someone whom permissions bind, even if the tests are run by root."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


class CommandLine:
    """The real `crucible`, as a process of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        kept = {key: value for key, value in os.environ.items() if not key.startswith("CRUCIBLE_")}
        # Nothing is guessed unless a test asks for it: a guess could reach for a registry.
        own = {"CRUCIBLE_HOME": str(home), "CRUCIBLE_OWNER_IDLE_S": "5", "CRUCIBLE_IMAGE": "base",
               "CRUCIBLE_PULL": "never", "CRUCIBLE_CONFIG": os.devnull}  # fmt: skip
        self.environment = {**kept, **own}
        self.argv = [sys.executable, "-m", "crucible.cli"]

    def __call__(
        self, *words: str | Path, input: bytes = b"", cwd: Path | None = None, timeout: float = 400
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self.argv, *map(str, words)],
            input=input,
            capture_output=True,
            env=self.environment,
            cwd=cwd,
            timeout=timeout,
        )

    def ok(self, *words: str | Path, input: bytes = b"", cwd: Path | None = None) -> str:
        """Its output, when it succeeded."""
        done = self(*words, input=input, cwd=cwd)
        assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout.decode()

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self.argv, *words], env=self.environment, **options)


@pytest.fixture
def crucible(home: Path) -> CommandLine:
    return CommandLine(home)


def owner_pid(home: Path) -> int | None:
    """The owner process of a home, if there is one."""
    try:
        pid = int((home / "owner.lock").read_text() or 0)
    except (OSError, ValueError):
        return None
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    return pid if f"CRUCIBLE_HOME={home}".encode() in environment.split(b"\0") else None


def end_owner(home: Path) -> None:
    """Lets every sandbox of the home go, and the owner too."""
    pid = owner_pid(home)
    if pid is not None:
        end_process(pid, signal.SIGTERM)


def kill_owner(home: Path) -> None:
    """The one that there is, or that a client is just starting. Nothing of it is left when this returns."""
    while (pid := owner_pid(home)) is None:
        time.sleep(0.01)
    end_process(pid)


def end_process(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Returns when it is gone: until then its sockets, locks and memory may go in any order."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, number)
        waiter = select.poll()
        waiter.register(pidfd, select.POLLIN)
        assert waiter.poll(240_000), f"process {pid} does not end"
    finally:
        os.close(pidfd)


def _say(stage: str, detail: str) -> None:
    print(f"{stage}: {detail}", file=sys.stderr)


def _left_running(home: Path, known: set[str]) -> list[str]:
    """Machines that stay. One whose holder was killed is on its way out, as fast as the host lets it."""
    deadline = time.monotonic() + 30
    while True:
        words = [word for word in _machine_words() if word not in known and _is_of(word, home)]
        if not words or time.monotonic() > deadline:
            return words
        time.sleep(0.05)


def _machine_words() -> list[str]:
    words = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                argv = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            words += [word.decode() for word in argv if word.startswith(b"crucible-")]
    return words


def _is_of(word: str, home: Path) -> bool:
    sandbox_id = word.removeprefix("crucible-")
    return (home / "sandboxes" / sandbox_id).exists() or sandbox_id in {
        record.id for record in open_records(home).sandboxes()
    }


def _remaining(home: Path) -> list[str]:
    """Directories of sandboxes without a record, and scratch that nobody will come back for."""
    records = open_records(home)
    known = {record.id for record in records.sandboxes()}
    strays = [path.name for path in (home / "sandboxes").glob("*") if path.name not in known]
    strays += [record.name for record in records.sandboxes() if record.is_temporary]
    records.close()
    return strays + [path.name for path in (home / "scratch").glob("*")]


def _kill_machines(home: Path) -> None:
    records = open_records(home)
    for record in records.sandboxes():
        for backend in assemble.backends(Config(home=home)):
            if backend.name == record.backend:
                backend.bury(record.directory, record.id, None)
        if record.pid is not None:
            processes.kill_and_wait(record.pid, record.pid_started)
        release_user(record)
    records.close()


# Whole files, which one worker runs: begun last, they would keep one core waiting for the other.
_LONGEST = frozenset(
    (
        "test_recipes",
        "test_crashes",
        "test_sdks",
        "test_images_of_clients",
        "test_e2b_clients",
        "test_base",
        "test_prepared",
        "test_schema",
        "test_questions",
        "test_people",
        "test_chatting",
        "test_own_things",
    )
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        sizes = {path: path.stat().st_size for path in {item.path for item in items}}
        # What is short comes last, so that all workers end at about the same time.
        items.sort(key=lambda item: (item.path.stem not in _LONGEST, -sizes[item.path]))
    for path in {item.path for item in items if item.get_closest_marker("vm")}:
        if _MARK not in path.read_text(encoding="utf-8"):
            raise pytest.UsageError(f"{path} has to say `{_MARK}` itself, or it is never run")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What a test has found beyond that it passed, and recorded as the property `found`."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "found":
                terminalreporter.line(f"{report.nodeid}: {value}")


_MARK = "pytest.mark.vm"
_ALL_BOOT = re.compile(r"^pytestmark = .*\bpytest\.mark\.vm\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of whose tests none can be meant by `-m vm` or `-m "not vm"` is not even loaded: that takes seconds."""
    if collection_path.suffix != ".py" or (wanted := config.option.markexpr) not in HALVES:
        return None
    text = collection_path.read_text(encoding="utf-8")
    is_unwanted = _MARK not in text if wanted == "vm" else _ALL_BOOT.search(text)
    return True if is_unwanted else None
