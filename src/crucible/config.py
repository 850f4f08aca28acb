"""Where Crucible keeps its state and what the environment sets: read once, then frozen."""

from __future__ import annotations

import os
from pathlib import Path

from crucible.client.place import home_directory
from crucible.errors import BadSetting
from crucible.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """`home` is the one state directory; everything Crucible writes lies beneath it."""

    home: Path
    template_limit_mib: int = 8192
    owner_idle_s: float = 30.0
    drain_s: float = 10.0
    pool_min: int = 2
    pool_max: int = 8
    runs_max: int = 128
    queue_max: int = 256
    queue_s: float = 60.0
    pulls_images: bool = True


def load_config(environment: dict[str, str] | None = None) -> Config:
    values = dict(os.environ) if environment is None else environment
    return Config(
        home=_home(values),
        template_limit_mib=_number(values, "CRUCIBLE_TEMPLATE_LIMIT_MIB", 8192),
        owner_idle_s=float(_number(values, "CRUCIBLE_OWNER_IDLE_S", 30)),
        drain_s=float(_number(values, "CRUCIBLE_DRAIN_S", 10)),
        pool_min=_number(values, "CRUCIBLE_POOL_MIN", 2),
        pool_max=_number(values, "CRUCIBLE_POOL_MAX", 8),
        runs_max=_number(values, "CRUCIBLE_RUNS_MAX", 128),
        queue_max=_number(values, "CRUCIBLE_QUEUE_MAX", 256),
        queue_s=float(_number(values, "CRUCIBLE_QUEUE_S", 60)),
        pulls_images=_pulls_images(values),
    )


def _home(values: dict[str, str]) -> Path:
    found = home_directory(values)
    if not found:
        raise BadSetting("Neither CRUCIBLE_HOME nor HOME is set", hint="Set CRUCIBLE_HOME")
    return Path(found).absolute()


def _pulls_images(values: dict[str, str]) -> bool:
    text = values.get("CRUCIBLE_PULL") or "missing"
    if text not in ("missing", "never"):
        raise BadSetting(f"CRUCIBLE_PULL is {text!r}", hint="It must be missing or never")
    return text == "missing"


def _number(values: dict[str, str], name: str, default: int) -> int:
    text = values.get(name)
    if not text:
        return default
    if not text.isdecimal():
        raise BadSetting(f"{name} is {text!r}", hint="It must be a whole number")
    return int(text)
