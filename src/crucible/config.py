"""Where Crucible keeps its state and what the environment sets: read once, then frozen."""

from __future__ import annotations

import os
from pathlib import Path

from crucible.errors import BadSetting
from crucible.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """`home` is the one state directory; everything Crucible writes lies beneath it."""

    home: Path
    template_limit_mib: int = 8192
    owner_idle_s: float = 30.0
    drain_s: float = 10.0
    pulls_images: bool = True


def load_config(environment: dict[str, str] | None = None) -> Config:
    values = dict(os.environ) if environment is None else environment
    return Config(
        home=_home(values),
        template_limit_mib=_number(values, "CRUCIBLE_TEMPLATE_LIMIT_MIB", 8192),
        owner_idle_s=float(_number(values, "CRUCIBLE_OWNER_IDLE_S", 30)),
        drain_s=float(_number(values, "CRUCIBLE_DRAIN_S", 10)),
        pulls_images=_pulls_images(values),
    )


def _home(values: dict[str, str]) -> Path:
    if explicit := values.get("CRUCIBLE_HOME"):
        return Path(explicit).absolute()
    if data := values.get("XDG_DATA_HOME"):
        return Path(data).absolute() / "crucible"
    home = values.get("HOME")
    if not home:
        raise BadSetting("Neither CRUCIBLE_HOME nor HOME is set", hint="Set CRUCIBLE_HOME")
    return Path(home) / ".local" / "share" / "crucible"


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
