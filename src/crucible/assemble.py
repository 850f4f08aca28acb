"""The only module that knows every concrete class; it imports them where they are needed."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

_PR_SET_THP_DISABLE = 41
_FRONT_COMMAND = (sys.executable, "-P", "-m", "crucible.cli.front")

if TYPE_CHECKING:
    from crucible.agent.engine import Engine
    from crucible.agent.parts import Parts
    from crucible.backends.e2b.backend import E2BBackend
    from crucible.backends.qemu.backend import QemuBackend
    from crucible.backends.worker.backend import WorkerBackend
    from crucible.books import Books
    from crucible.config import Config
    from crucible.images.catalog import Image
    from crucible.images.report import Report
    from crucible.memory.memory import Memory
    from crucible.sandbox.gathering import Fetch
    from crucible.sandbox.machines import Machines
    from crucible.sandbox.manager import Manager
    from crucible.sandbox.metering import Accounts
    from crucible.sandbox.owner import Doors, DoorsLater
    from crucible.sandbox.service.dispatch import Service
    from crucible.store.lazy import LazyDatabase


def backends(config: Config, report: Report | None = None) -> list[QemuBackend]:
    """All of this host, strongest first. Whether one works is for its `probe` to say."""
    from crucible.backends.qemu.backend import QemuBackend
    from crucible.backends.qemu.command import Accelerator
    from crucible.images.report import silent

    return [
        QemuBackend(
            home=config.home,
            agent=agent_path(),
            accelerator=accelerator,
            template_limit_mib=config.template_limit_mib,
            report=report or silent,
        )
        for accelerator in (Accelerator.KVM, Accelerator.HVF, Accelerator.TCG)
    ]


def machines(config: Config, report: Report | None = None) -> Machines:
    """Where sandboxes can run: here or on a worker instead, and elsewhere if that is wanted."""
    from crucible.sandbox.machines import Machines

    own = [worker(config, report)] if config.transport == "ssh" else backends(config, report)
    return Machines(
        own,
        remote=_remote,
        provider=config.provider,
        falls_back=config.falls_back,
    )


def _remote() -> E2BBackend:
    # Loaded here because hardly any sandbox runs elsewhere.
    from crucible.backends.e2b.backend import E2BBackend

    return E2BBackend(dict(os.environ))


def worker(config: Config, report: Report | None = None) -> WorkerBackend:
    """The machines of another host, as the settings say how it is reached."""
    from crucible.backends.worker.address import SshHost, by_command, by_ssh
    from crucible.backends.worker.backend import WorkerBackend
    from crucible.images.report import silent

    if config.ssh is None:
        found = by_command(config.backend_cli, config.home)
    else:
        ssh = config.ssh
        host = SshHost(
            host=ssh.host, user=ssh.user, port=ssh.port, identity=ssh.identity,
            known_hosts=ssh.known_hosts,
        )  # fmt: skip
        found = by_ssh(host, config.home)
    return WorkerBackend(worker=found, home=config.home, report=report or silent)


def manager(config: Config, report: Report | None = None) -> Manager:
    from crucible.images.report import silent
    from crucible.sandbox.manager import Manager
    from crucible.sandbox.records import open_records
    from crucible.store.lazy import lazy_database

    database = lazy_database(config.home)
    return Manager(
        config=config,
        records=open_records(config.home),
        machines=machines(config, report),
        report=report or silent,
        fetch=_fetcher(config, report or silent) if config.pulls_images else None,
        accounts=cache(partial(accounts, database)),
        database=database,
    )


def accounts(database: LazyDatabase) -> Accounts:
    """The budgets and prices of this user. Loading them takes a while: hardly any sandbox needs them."""
    from crucible.sandbox.metering import Accounts

    return Accounts.of(database.now(), dict(os.environ))


def _fetcher(config: Config, report: Report) -> Fetch:
    def fetch(name: str, is_guess: bool, is_stopped: Callable[[], bool]) -> Image:
        # Loaded here because nearly every sandbox starts from an image that is there.
        from crucible.images import on_demand
        from crucible.sandbox.image_use import images_in_use

        return on_demand.fetch(
            config.home,
            name,
            is_guess=is_guess,
            is_stopped=is_stopped,
            in_use=lambda: images_in_use(config.home),
            report=report,
        )

    return fetch


@contextlib.asynccontextmanager
async def memory(config: Config, *, by_meaning: bool) -> AsyncIterator[Memory]:
    """For a program of its own. `by_meaning` is whether the model that embeds may be started."""
    from crucible.agent.forgetting import Keeper
    from crucible.books import session_store
    from crucible.conversations.conversations import Conversations
    from crucible.ledger.ledger import Ledger
    from crucible.memory.embedding import MiniLM
    from crucible.memory.memory import Memory
    from crucible.memory.recording import LedgerRecorder
    from crucible.memory.rules import RuleExtractor
    from crucible.store.lazy import own_database

    database = own_database(config.home)
    ledger = Ledger(config.home, database)
    recorder = LedgerRecorder(ledger)
    embedder = MiniLM(config.home) if by_meaning else None
    try:
        yield Memory(
            database,
            extractor=RuleExtractor(),
            embedder=embedder,
            recorder=recorder,
            eraser=recorder,
            keeper=Keeper(
                lambda: session_store(config.home, database),
                ledger,
                Conversations(database, uploads=config.home / "uploads"),
            ),
        )
    finally:
        if embedder is not None:
            await embedder.close()
        ledger.close()
        database.close()


async def engine(service: Service, books: Books | None = None) -> Engine:
    """The agent's engine over the sandboxes of this program, with what was kept taken up. Close it in the end.

    Without `books` it opens its own, and closes them when it closes.
    """
    import asyncio

    from crucible.agent.engine import Engine

    made = Engine(await asyncio.to_thread(_engine_parts, service, books))
    await made.start()
    return made


def may_have_left_work(config: Config) -> bool:
    """Whether an engine before may have left turns under way, or what is to be purged: somebody has to take it up."""
    from crucible.agent.keeping.looking import may_have_open_turns
    from crucible.conversations.looking import may_have_leftovers
    from crucible.store.names import SESSIONS_VARIABLE, VARIABLE
    from crucible.user_file import gather

    given = gather(os.environ, only="database")
    texts = {name: one.text for name in (SESSIONS_VARIABLE, VARIABLE) if (one := given.get(name))}
    database = texts.get(VARIABLE, "")
    is_open = may_have_open_turns(
        config.home, store=texts.get(SESSIONS_VARIABLE, ""), database=database
    )
    return is_open or may_have_leftovers(config.home, database)


def _engine_parts(service: Service, books: Books | None = None) -> Parts:
    from crucible.accounts.logins import is_trusted
    from crucible.accounts.prices import Prices
    from crucible.agent.hooks.chain import Hooks
    from crucible.agent.hooks.declared import declared_hooks
    from crucible.agent.judging import PolicyJudge
    from crucible.agent.models.settings import load_settings
    from crucible.agent.models.users import UserModels
    from crucible.agent.parts import Parts
    from crucible.agent.paying import BudgetPurse
    from crucible.agent.places.opening import SandboxRoom
    from crucible.agent.places.wishes import SandboxPlaces
    from crucible.agent.recording import LedgerRecorder
    from crucible.agent.remembering import SessionMemory
    from crucible.agent.skills.programs import Programs
    from crucible.agent.skills.shelf import Shelf
    from crucible.agent.toolbox import SessionTools
    from crucible.books import open_books, session_store
    from crucible.conversations.conversations import Conversations
    from crucible.conversations.limits import load_limits
    from crucible.mcp.own import OwnServers
    from crucible.mcp.settings import load_mcp_settings
    from crucible.mcp.toolset import McpTools
    from crucible.store.lazy import own_database

    home, environment = service.manager.config.home, dict(os.environ)
    is_own = books is None
    books = books or open_books(home, own_database(home))
    database = books.database
    models = UserModels(load_settings(environment), books.settings.keys)
    own = OwnServers(books.settings, partial(is_trusted, books.database))
    servers = McpTools(load_mcp_settings(environment), environment, own)

    async def close() -> None:
        await models.close()
        if is_own:
            import asyncio

            await books.close()
            await asyncio.to_thread(database.close)

    return Parts(
        store=session_store(home, database),
        models=models,
        workplaces=SandboxPlaces(
            SandboxRoom(
                manager=service.manager, executions=service.executions, snapshots=service.snapshots
            ),
            environment,
        ),
        toolbox=SessionTools(Shelf(home), Programs(home), servers),
        judge=PolicyJudge(),
        recorder=LedgerRecorder(books.ledger),
        purse=BudgetPurse(books.budgets, Prices.of_environment(environment)),
        memory=SessionMemory(books.memory),
        runs=books.ledger,
        chronicler=Conversations(
            database, uploads=home / "uploads", limits=load_limits(environment)
        ),
        hooks=Hooks(declared_hooks(environment), environment=environment),
        closing=(close,),
    )


def agent_path() -> Path:
    """The guest agent for this machine's architecture, as the package's build left it."""
    machine = os.uname().machine
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    return Path(__file__).with_name("_guest") / f"agent-{architecture}"


def embedded_connection(config: Config) -> tuple[socket.socket, Callable[[], None]]:
    """A service for one connection inside this process: our end of it, and how to wait for its end."""
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=_serve_embedded, args=(config, theirs), name="service")
    thread.start()
    return ours, thread.join


async def prepare_template(config: Config, report: Report) -> None:
    """Makes the template of the default size, so that the first sandbox starts as fast as the next."""
    from crucible.sandbox.spec import SandboxSpec

    async with manager(config, report).open(SandboxSpec()):
        pass


def remove_templates_of_gone_images(config: Config) -> int:
    """After images were removed: what was saved to start from them goes too. Tells the bytes freed.

    The images are looked at before the records. A start writes its record, and then looks for its image once more.
    """
    from crucible.backends.qemu.templates import remove_of_gone_images
    from crucible.errors import ImageDamaged
    from crucible.images.catalog import list_images
    from crucible.sandbox.image_use import digests_in_use

    try:
        here = {image.digest for image in list_images(config.home)}
    except ImageDamaged:
        return 0
    kept = frozenset(here) | digests_in_use(config.home)
    return remove_of_gone_images(config.home / "templates", kept)


def run_owner(
    config: Config,
    doors: Callable[[Service], Doors] | None = None,
    *,
    stays: bool = False,
    doors_later: DoorsLater | None = None,
) -> bool:
    """Serves as this user's owner until there is nothing to hold; False, at once, if there is one.

    One that `stays`, or has `doors` to serve, is the daemon: it takes over from who was started on demand, and leaves
    when it is told to. Without `doors`, those of `doors_later` are opened when they are first asked for.
    """
    import asyncio

    from crucible.sandbox.front import Front
    from crucible.sandbox.owner import Owner
    from crucible.sandbox.service.progress import to_client
    from crucible.sandbox.succession import hold_daemon_lock, hold_lock

    is_daemon = stays or doors is not None
    if (hold_daemon_lock if is_daemon else hold_lock)(config.home) is None:
        return False
    _refuse_huge_pages()

    async def serve() -> None:
        own = manager(config, to_client)
        if is_daemon:
            _give_pool(own)
        owner = Owner(
            own,
            idle_s=None if is_daemon else config.owner_idle_s,
            drain_s=config.drain_s,
            doors=doors,
            doors_later=doors_later,
            front=Front(config.home, _FRONT_COMMAND) if is_daemon else None,
        )
        try:
            await owner.serve()
        finally:
            await own.database.close()

    asyncio.run(serve())
    return True


def _give_pool(own: Manager) -> None:
    from crucible.errors import BadSetting
    from crucible.sandbox.pool.figures import StageFigures
    from crucible.sandbox.pool.pool import Pool, PoolLimits
    from crucible.sandbox.pool.turnstile import QueueLimits, Turnstile

    config = own.config
    if config.pool_min > config.pool_max:
        raise BadSetting(
            f"CRUCIBLE_POOL_MIN is {config.pool_min}, more than CRUCIBLE_POOL_MAX ({config.pool_max})"
        )
    if not config.runs_max:
        raise BadSetting("CRUCIBLE_RUNS_MAX is 0", hint="Let at least one run at a time")
    own.opening.figures = StageFigures()
    own.opening.turnstile = Turnstile(
        QueueLimits(running=config.runs_max, waiting=config.queue_max, wait_s=config.queue_s)
    )
    # A worker keeps machines warm itself, with a daemon of its own.
    if config.pool_max and config.transport == "local":
        own.opening.pool = Pool(
            limits=PoolLimits(minimum=config.pool_min, maximum=config.pool_max),
            records=own.records,
            machines=own.machines,
            new_records=own.new_records,
            remains=own.remains,
        )


def _refuse_huge_pages() -> None:
    """For us and the machines we start: QEMU asks for them, and an idle machine wastes most of each."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)


def _serve_embedded(config: Config, sock: socket.socket) -> None:
    asyncio = _asyncio_without_ssl()

    from crucible.errors import CrucibleError
    from crucible.sandbox.reconcile import bury_dead_temporaries
    from crucible.sandbox.service.dispatch import Service, refuse
    from crucible.sandbox.service.progress import to_client

    async def serve() -> None:
        try:
            own = manager(config, to_client)
            bury_dead_temporaries(own.records, own.machines)
        except CrucibleError as error:
            await refuse(sock, error)
            return
        await Service(own).serve(sock)
        await own.database.close()
        own.records.close()

    # Whatever becomes of us: a client must not wait for a service that is gone.
    with sock:
        asyncio.run(serve())


def _asyncio_without_ssl() -> ModuleType:
    """asyncio loads ssl if it can, a tenth of what a short run takes; a command on this host needs none."""
    hidden = "ssl" not in sys.modules and "E2B_API_KEY" not in os.environ
    if hidden:
        sys.modules["ssl"] = None  # type: ignore[assignment]
    import asyncio

    if hidden:
        del sys.modules["ssl"]
    return asyncio
