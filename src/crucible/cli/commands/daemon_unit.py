"""The daemon as a unit of systemd, for one user or for the whole machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from crucible.errors import Refused

UNIT_NAME = "crucible.service"
SYSTEM_DIRECTORY = Path("/etc/systemd/system")

_TEMPLATE = """\
[Unit]
Description=Crucible: holds sandboxes and keeps machines warm
Documentation=man:systemd.service(5)

[Service]
Type=exec
ExecStart={command}
Environment={home}
# Named sandboxes live on when the daemon leaves, and the next one takes them over.
KillMode=process
TimeoutStopSec=60
Restart=on-failure
RestartSec=2
# Each machine gets a limits group below this one.
Delegate=yes
TasksMax=infinity

[Install]
WantedBy={target}
"""


def unit_text(command: Sequence[str], home: str, *, is_system: bool) -> str:
    return _TEMPLATE.format(
        command=" ".join(_quoted(word, is_command=True) for word in command),
        home=_quoted(f"CRUCIBLE_HOME={home}", is_command=False),
        target="multi-user.target" if is_system else "default.target",
    )


def install(text: str, *, is_system: bool) -> Path:
    """Writes the unit where systemd looks for it. Whether it is started is for its user to say."""
    directory = SYSTEM_DIRECTORY if is_system else _user_directory()
    path = directory / UNIT_NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise Refused(
            f"{path} cannot be written: {error.strerror}",
            hint="Run it as root, or leave --system away" if is_system else "Check its permissions",
        ) from None
    return path


def commands(*, is_system: bool) -> tuple[str, ...]:
    """What makes systemd start it now and at every boot."""
    user = "" if is_system else "--user "
    first = f"systemctl {user}daemon-reload"
    return first, f"systemctl {user}enable --now crucible"


def _user_directory() -> Path:
    given = os.environ.get("XDG_CONFIG_HOME")
    return (Path(given) if given else Path.home() / ".config") / "systemd" / "user"


def _quoted(word: str, *, is_command: bool) -> str:
    """As systemd reads it: specifiers and variables mean nothing, and everything is one word."""
    if not word.isprintable():
        raise Refused(f"{word!r} cannot be written into a unit", hint="Choose another directory")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped.replace("$", "$$") if is_command else escaped}"'
