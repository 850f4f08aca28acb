"""Shell commands that change the system itself: rights, processes, services, the kernel, its power."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from crucible.agent.risk.names import is_secret_name, words_of
from crucible.agent.risk.shell.commands import Command
from crucible.agent.risk.shell.wrappers import SHELLS

# Commands that are told whatever their arguments are.
_ALWAYS = {
    **dict.fromkeys(("sudo", "doas", "su", "pkexec", "runuser"), "privilege"),
    **dict.fromkeys(
        ("nsenter", "unshare", "chroot", "pivot_root", "mount", "umount", "losetup"), "namespace"
    ),
    **dict.fromkeys(("insmod", "rmmod", "modprobe", "kexec", "bpftool"), "kernel"),
    **dict.fromkeys(
        ("iptables", "ip6tables", "nft", "ufw", "firewall-cmd", "ebtables"), "firewall"
    ),
    **dict.fromkeys(
        ("useradd", "usermod", "userdel", "groupadd", "adduser", "chpasswd"), "capabilities"
    ),
    **dict.fromkeys(("passwd", "visudo", "setcap", "gpasswd", "deluser"), "capabilities"),
    **dict.fromkeys(("at", "batch", "update-rc.d", "chkconfig", "systemd-run"), "service-change"),
    **dict.fromkeys(("shutdown", "reboot", "halt", "poweroff", "telinit"), "power-off"),
    **dict.fromkeys(
        ("wipefs", "fdisk", "sfdisk", "sgdisk", "parted", "mkswap", "blkdiscard"), "disk-write"
    ),
    **dict.fromkeys(("security", "secret-tool", "pass", "kwallet-query"), "credential-store"),
    **dict.fromkeys(("gcore", "ptrace", "reptyr"), "other-process"),
}
_HELP = frozenset({"--help", "--version", "-V"})
_SERVICE_VERBS = words_of("start stop restart enable disable mask reload daemon-reload kill edit")
_HOST_FLAGS = ("--privileged", "--pid=host", "--net=host", "--network=host", "--cap-add=ALL")


def judge_system(command: Command) -> Iterator[str]:
    name, texts = command.name, command.texts
    if any(text in _HELP for text in texts):
        return
    rule = _ALWAYS.get(name)
    if rule is not None and not (name in ("mount", "passwd") and not texts):
        yield rule
    if name.startswith("mkfs"):
        yield "disk-write"
    yield from _processes(command)
    yield from _services(command)
    yield from _secrets(command)
    if name in ("docker", "podman") and _hands_over_host(texts):
        yield "privileged-container"
    if name in SHELLS and ("-i" in texts or _reads_from_elsewhere(command)):
        yield "interactive-shell"
    if name == "history" and "-c" in texts:
        yield "erase-traces"


def _processes(command: Command) -> Iterator[str]:
    name, texts = command.name, command.texts
    if name == "kill":
        numbers = texts[1:] if texts and texts[0].startswith("-") and len(texts) > 1 else texts
        if any(text in ("-1", "1", "0") for text in numbers if text != "-0"):
            yield "kill-all"
    elif name == "killall5":
        yield "kill-all"
    elif name in ("gdb", "strace", "ltrace") and "-p" in texts:
        yield "other-process"
    elif name == "sysctl" and any("=" in text or text == "-w" for text in texts):
        yield "kernel"


def _services(command: Command) -> Iterator[str]:
    name, texts = command.name, command.texts
    if name in ("systemctl", "service", "rc-service") and any(
        text in _SERVICE_VERBS for text in texts
    ):
        yield "service-change"
    elif name == "systemctl" and any(text in ("poweroff", "reboot", "halt") for text in texts):
        yield "power-off"
    elif name == "crontab" and "-l" not in texts:
        yield "service-change"
    elif name == "init" and texts[:1] in (["0"], ["6"]):
        yield "power-off"


def _secrets(command: Command) -> Iterator[str]:
    name, texts = command.name, command.texts
    is_bare = not [text for text in texts if text not in ("-0", "--null")]
    if (name in ("env", "printenv", "set") and is_bare) or (name == "export" and texts == ["-p"]):
        yield "environment-dump"
    elif name == "printenv" and any(is_secret_name(text) for text in texts):
        yield "credential-variable"
    elif name in ("gcloud", "aws", "az", "gh") and any(
        "token" in text or text == "get-caller-identity" for text in texts
    ):
        yield "credential-store"


def _hands_over_host(texts: list[str]) -> bool:
    if any(text in _HOST_FLAGS for text in texts):
        return True
    mounts = [value for option, value in pairwise(texts) if option in ("-v", "--volume", "--mount")]
    return any(value.startswith("/:") or "docker.sock" in value for value in mounts)


def _reads_from_elsewhere(command: Command) -> bool:
    """A shell without a program whose input is a connection."""
    return any(redirect.target.text.startswith("/dev/tcp/") for redirect in command.redirects)
