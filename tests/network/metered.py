"""A world with a budget: the real gateway and the real accounts, between programs and a provider that is played."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.network.authority import server_context
from tests.network.model_server import ModelServer
from tests.network.world import World, a_door, a_world

from crucible.accounts.amounts import Measure
from crucible.accounts.budgets import Budgets
from crucible.accounts.periods import Period
from crucible.accounts.plans import Limit
from crucible.accounts.prices import Prices
from crucible.accounts.spending import Sums
from crucible.accounts.users import Users
from crucible.network.authority import Authority
from crucible.network.policy import Policy
from crucible.network.providers import providers
from crucible.network.secrets import Secrets, parse_secret
from crucible.sandbox.metering import Accounts, BudgetMeter
from crucible.sandbox.spec import SandboxSpec
from crucible.store.database import Database

SCOPE = "sandbox:box"
KEY = "sk-value-of-the-key"
ADDRESS = "93.184.216.34"
AUTHORITY = Authority.make("box")


@dataclass
class Metered:
    world: World
    server: ModelServer
    budgets: Budgets
    secrets: Secrets
    users: Users

    @property
    def count(self) -> int:
        return len(self.server.calls)

    async def spent(self) -> Sums:
        """Once nothing is under way any more."""
        await until(lambda: not self.world.gateway.open_connections)
        return await self.budgets.spent(SCOPE)

    async def tokens(self) -> int:
        return (await self.spent()).spent.tokens


@asynccontextmanager
async def metered(
    template: Path,
    directory: Path,
    *,
    tokens: int = 0,
    usd: int = 0,
    prices: str = "",
    mode: str = "allowlist",
    bound: bool = True,
    of: SandboxSpec | None = None,
) -> AsyncIterator[Metered]:
    shutil.copy(template, directory / "crucible.db")
    database = Database(f"sqlite:///{directory / 'crucible.db'}")
    budgets = Budgets(database)
    for measure, amount in ((Measure.TOKENS, tokens), (Measure.USD, usd)):
        if amount:
            limit = Limit(measure=measure, period=Period.TOTAL, amount=amount)
            await budgets.set_limit(SCOPE, limit)
    hosts = [provider.host for provider in providers()]
    environment = {f"KEY_{number}": KEY for number in range(len(hosts))}
    secrets = Secrets(
        parse_secret(f"KEY_{number}:{host}", environment)
        for number, host in enumerate(hosts if bound else ())
    )
    accounts = Accounts(database, Prices.of_setting(prices))
    meter = accounts.meter("box", of) if of else BudgetMeter(budgets, accounts.prices, [SCOPE])
    policy = Policy.parse(mode, hosts)
    try:
        async with a_world(policy, secrets=secrets, authority=AUTHORITY, meter=meter) as world:
            world.hosts |= {host: [ADDRESS] for host in hosts}
            server = ModelServer()
            places = ((ADDRESS, 443), (ADDRESS, 80))
            await world.serve(
                server.serve, *places, tls=server_context(*hosts, protocols=("h2", "http/1.1"))
            )
            yield Metered(world, server, budgets, secrets, Users(database))
    finally:
        database.close()


@asynccontextmanager
async def endpoint(found: Metered, provider: str) -> AsyncIterator[str]:
    """The provider's plain endpoint, as a port here. Say its name in `Host`."""
    async with a_door(found.world, f"{provider}.crucible.internal", 80) as port:
        yield f"http://127.0.0.1:{port}"


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not is_so():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)
