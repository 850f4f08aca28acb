"""What a user sets and is told of it. A key goes in and never comes out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from crucible.server.models.agent import BudgetWanted, PolicyWanted
from crucible.server.models.base import Asked, Told

LONGEST_KEY = 4096
ProviderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
SkillName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
Host = Annotated[str, Field(min_length=1, max_length=253)]
Hosts = Annotated[list[Host], Field(max_length=256)]
ModelText = Annotated[str, Field(max_length=256)]
Mode = Literal["auto", "local", "remote"]
Theme = Literal["system", "light", "dark"]


class ProviderChanges(Asked):
    """`local` is a machine of this host; `strict`: rather none than one elsewhere."""

    mode: Mode | None = None
    strict: bool | None = None


class ModelChanges(Asked):
    """As `provider:name`; an empty text is as the machine has it."""

    agent: ModelText | None = None
    chat: ModelText | None = None
    memory: ModelText | None = None


class EgressChanges(Asked):
    network: Literal["none", "full"] | None = None
    hosts: Hosts | None = None


class AppearanceChanges(Asked):
    theme: Theme


class SettingsChanges(Asked):
    """What is not named stays as it is. `skills` turns each that it names on or off."""

    provider: ProviderChanges | None = None
    models: ModelChanges | None = None
    budget: BudgetWanted | None = None
    egress: EgressChanges | None = None
    policy: PolicyWanted | None = None
    skills: Annotated[dict[SkillName, bool], Field(max_length=1000)] | None = None
    memory: bool | None = None
    appearance: AppearanceChanges | None = None


class KeyGiven(Asked):
    key: Annotated[SecretStr, Field(min_length=1, max_length=LONGEST_KEY)]


class ProviderTold(Told):
    mode: Mode
    strict: bool


class ModelsTold(Told):
    """Empty is what the user has not chosen; `used` is what a new session gets."""

    agent: str
    chat: str
    memory: str
    used: dict[str, str]


class ModelProviderTold(Told):
    name: str
    has_key: bool
    key_from: Literal["settings", "environment", "none"]
    needs_key: bool
    base_url: str = Field(description="Where requests go; told to an administrator")


class EgressTold(Told):
    network: Literal["none", "full"]
    hosts: list[str]


class RulesTold(Told):
    allow: list[str]
    ask: list[str]
    deny: list[str]


class SessionBudgetTold(Told):
    """What each new session may spend; null is without a limit."""

    tokens: int | None
    usd: float | None
    sandbox_s: float | None
    iterations: int | None
    calls: int | None


class SpentTold(Told):
    tokens: int
    usd: float
    sandbox_seconds: int
    iterations: int
    calls: int


class SkillTold(Told):
    name: str
    description: str
    on: bool
    origin: str


class AppearanceTold(Told):
    theme: Theme


class SettingsTold(Told):
    provider: ProviderTold
    models: ModelsTold
    model_providers: list[ModelProviderTold]
    budget: SessionBudgetTold
    plan: str
    spent: SpentTold
    egress: EgressTold
    policy: RulesTold
    skills: list[SkillTold]
    memory: bool
    appearance: AppearanceTold
