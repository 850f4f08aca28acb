"""What an engine is made of: one of each, handed over by `assemble`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from crucible.agent.hooks.chain import Hooks
from crucible.agent.keeping.base import SessionStore
from crucible.agent.lanes import LaneLimits
from crucible.agent.plain import AllowAll, MemoryRecorder, NoChronicle, NoMemory, NoPurse
from crucible.agent.replaying.record import RecordedRuns
from crucible.agent.seams import (
    Chronicler,
    Judge,
    NamedModels,
    Purse,
    Recorder,
    Remembers,
    Toolbox,
    Workplaces,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """`runs` is what was recorded, None where nothing is kept; `closing` is called last, when the engine has closed."""

    store: SessionStore
    models: NamedModels
    workplaces: Workplaces
    toolbox: Toolbox
    judge: Judge = field(default_factory=AllowAll)
    recorder: Recorder = field(default_factory=MemoryRecorder)
    purse: Purse = field(default_factory=NoPurse)
    memory: Remembers = field(default_factory=NoMemory)
    chronicler: Chronicler = field(default_factory=NoChronicle)
    hooks: Hooks = field(default_factory=Hooks)
    lane_limits: LaneLimits = field(default_factory=LaneLimits)
    runs: RecordedRuns | None = None
    closing: tuple[Callable[[], Awaitable[None]], ...] = ()
