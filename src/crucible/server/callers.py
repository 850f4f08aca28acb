"""A caller, as everything behind the gate knows it."""

from __future__ import annotations

from crucible.server.tokens import LOCAL as LOCAL
from crucible.server.tokens import Scope
from crucible.values import dataclass

# How callers are known by what they came with.
TOKEN = "token:"  # noqa: S105 - the kind, not one of them
OWNER = "uid:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """`id` is what the audit and the idempotency keys know the caller by; `sandbox` the id of the only one it has.

    `user` is whose sessions, runs, memory and sandboxes the caller sees: without accounts, whoever started the program.
    `session` is that of the browser, "" for who came by other means.
    """

    id: str
    scope: Scope
    sandbox: str = ""
    user: str = LOCAL
    session: str = ""

    @property
    def token(self) -> str:
        """The id of the token that it came with, "" for who came by other means."""
        return self.id.removeprefix(TOKEN) if self.id.startswith(TOKEN) else ""

    @property
    def is_insider(self) -> bool:
        """Known by what opens one sandbox of a user, who may be let in no more."""
        return not self.session and not self.token and self.user not in ("", LOCAL)

    @property
    def can_end(self) -> bool:
        """Whether what it came by may be worth nothing before it goes."""
        return bool(self.session or self.token or self.is_insider)

    @property
    def sees_all(self) -> bool:
        """The machine's own user sees every sandbox on it."""
        return self.user == LOCAL

    def sees(self, owner: str) -> bool:
        return self.sees_all or self.user == owner

    @property
    def only(self) -> str | None:
        """Whose lines alone the caller reads; None for those of all."""
        return None if self.sees_all else self.user
