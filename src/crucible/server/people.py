"""Users behind the doors: loaded when the first of them comes, since that takes a while. They need no engine."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from crucible.errors import Unauthenticated, UserMissing
from crucible.server.access import Mode
from crucible.server.callers import LOCAL, Caller
from crucible.server.tokens import Scope
from crucible.store.lazy import LazyDatabase

if TYPE_CHECKING:
    from crucible.accounts.logins import Account, Logins
    from crucible.accounts.passwords import Passwords
    from crucible.accounts.web_sessions import WebSession, WebSessions
    from crucible.store.database import Database

KNOWN_BY = "user:"


class OpenPeople:
    """What there is once the database is loaded."""

    def __init__(self, database: Database) -> None:
        from crucible.accounts.logins import Logins
        from crucible.accounts.passwords import Passwords
        from crucible.accounts.web_sessions import WebSessions

        self._database = database
        self.passwords: Passwords = Passwords()
        self.logins: Logins = Logins(database, self.passwords)
        self.sessions: WebSessions = WebSessions(database)

    async def forget_settings(self, user: str) -> None:
        """With keys of models that only this user had."""
        from crucible.conversations.settings import forget_user

        await self._database.run(lambda connection: forget_user(connection, user))
        await self._database.scrub()

    def close(self) -> None:
        """The database is closed by who opened it."""
        self.passwords.close()


class People:
    def __init__(self, database: LazyDatabase) -> None:
        self._database = database
        self._opening = asyncio.Lock()
        self._open: OpenPeople | None = None

    async def get(self) -> OpenPeople:
        async with self._opening:
            if self._open is None:
                self._open = await asyncio.to_thread(lambda: OpenPeople(self._database.now()))
            return self._open

    async def caller(self, mode: Mode, cookie: str) -> Caller | None:
        """Whose browser this is; None if nobody is signed in with it, or not in this mode."""
        people = await self.get()
        session = await people.sessions.find(cookie)
        return None if session is None else await _caller(people, mode, session)

    async def check_session(self, id: str) -> None:
        """Raises Unauthenticated."""
        if not await (await self.get()).sessions.is_good(id):
            raise Unauthenticated("The browser that the ticket was made for is signed out")

    async def check_user(self, id: str) -> None:
        """Raises Unauthenticated."""
        if id not in await (await self.get()).logins.enabled({id}):
            raise Unauthenticated("Whoever this was given to is let in no more")

    async def still_good(self, callers: Collection[Caller]) -> set[Caller]:
        """Those whose browsers are signed in, whose users are let in, and who may do what they came with."""
        people = await self.get()
        signed_in = await people.sessions.users_of({one.session for one in callers if one.session})
        accounts = await people.logins.enabled({one.user for one in callers})
        scopes = {id: scope_of(account) for id, account in accounts.items()}
        scopes[LOCAL] = Scope.ADMIN
        return {
            one
            for one in callers
            if (not one.session or signed_in.get(one.session) == one.user)
            and one.user in scopes
            and scopes[one.user].includes(one.scope)
        }

    async def close(self) -> None:
        async with self._opening:
            if self._open is not None:
                await asyncio.to_thread(self._open.close)
                self._open = None


def scope_of(account: Account) -> Scope:
    from crucible.accounts.logins import Role

    return Scope.ADMIN if account.role is Role.ADMIN else Scope.RUN


async def _caller(people: OpenPeople, mode: Mode, session: WebSession) -> Caller | None:
    if session.user == LOCAL:
        if mode is not Mode.LOCAL:
            return None
        return Caller(id=f"{KNOWN_BY}{LOCAL}", scope=Scope.ADMIN, session=session.id)
    if mode is not Mode.ACCOUNTS:
        return None
    try:
        account = await people.logins.find(session.user)
    except UserMissing:
        return None
    if account.is_disabled:
        return None
    return Caller(
        id=f"{KNOWN_BY}{account.id}",
        scope=scope_of(account),
        user=account.id,
        session=session.id,
    )
