"""Who is signed in, how to sign in, and who there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from crucible.server.access import Mode
from crucible.server.models.base import Asked, Told

if TYPE_CHECKING:
    from crucible.accounts.logins import Account
    from crucible.accounts.web_sessions import WebSession

RoleName = Literal["admin", "user"]
# Longer ones are refused before anything is computed of them.
GivenName = Annotated[str, Field(min_length=1, max_length=64)]
GivenPassword = Annotated[str, Field(min_length=1, max_length=1024)]
GivenCode = Annotated[str, Field(max_length=100)]
PlanName = Annotated[str, Field(max_length=64)]


class SignIn(Asked):
    name: GivenName
    password: GivenPassword


class SignUp(SignIn):
    code: GivenCode = Field(
        default="", description="Of the printed link: the first account needs it where `needs_code`"
    )


class LinkCode(Asked):
    code: GivenCode


class NewPassword(Asked):
    old: GivenPassword
    new: GivenPassword


class Nothing(Asked):
    """An empty object."""


class UserTold(Told):
    """`plan` is empty for one who has none."""

    id: str
    name: str
    role: RoleName
    plan: str


class Provider(Told):
    """Where else people sign in: send the browser to `/api/v1/auth/oidc/{id}/begin`."""

    id: str
    label: str


class AuthTold(Told):
    """How people come in here, and who the caller is."""

    mode: Mode
    signed_in: bool
    user: UserTold | None
    signup: bool = Field(description="Whether somebody new can sign up now")
    needs_code: bool = Field(
        description="Whether that takes the code of the link that the server prints"
    )
    oidc: list[Provider]
    csrf: str | None = Field(
        description="What browsers send as X-Crucible-CSRF with all that is not GET or HEAD"
    )


class LinkTold(Told):
    """For one browser, once, within `lifetime_s` seconds."""

    url: str
    lifetime_s: float


class BrowserTold(Told):
    """A browser in which the user is signed in; `is_this` for the one that asks."""

    id: str
    created_at: float
    seen_at: float
    expires_at: float
    browser: str
    address: str
    is_this: bool

    @classmethod
    def of(cls, session: WebSession, this: str) -> BrowserTold:
        names = ("id", "created_at", "seen_at", "expires_at", "browser", "address")
        fields = {name: getattr(session, name) for name in names}
        return cls(**fields, is_this=session.id == this)


class BrowserList(Told):
    items: list[BrowserTold]


class NewUser(Asked):
    """Without a password one is made, and told once."""

    name: GivenName
    password: GivenPassword | None = None
    role: RoleName = "user"
    plan: PlanName = ""


class UserChanges(Asked):
    """What is left out stays as it is."""

    role: RoleName | None = None
    plan: PlanName | None = None
    disabled: bool | None = None


class UserFacts(UserTold):
    disabled: bool
    has_password: bool
    created_at: float

    @classmethod
    def of(cls, account: Account) -> UserFacts:
        return cls(
            id=account.id,
            name=account.name,
            role=account.role.value,
            plan=account.plan,
            disabled=account.is_disabled,
            has_password=account.has_password,
            created_at=account.created_at,
        )


class UserList(Told):
    items: list[UserFacts]
    plans: list[str] = Field(description="Those that a user may be given, the smallest first")


class MadeUser(UserFacts):
    password: str | None = Field(description="Where one was made: told this once")


class MadePassword(Told):
    password: str = Field(description="Told this once; only a hash of it is kept")
