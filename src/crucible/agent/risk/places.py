"""Where a path of the guest leads, and whether a host is this machine. By text alone: links are not followed."""

from __future__ import annotations

import posixpath
from enum import StrEnum
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

# Stands in a text for a part that is not known before the program runs. Of the private use area: no code has it.
HOLE = "\ue0ff"
# Stands in a shell program for a character that is not ASCII.
FOREIGN = "\x1a"
WORKSPACE = "/workspace"
HOME = "/root"

_INSIDE = (WORKSPACE, "/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - places of the guest
_HARMLESS = (
    *("/usr", "/bin", "/lib", "/lib64", "/sbin", "/opt", "/etc/os-release", "/etc/debian_version"),
    *("/etc/hostname", "/etc/timezone", "/etc/localtime", "/etc/ssl/certs", "/etc/mime.types"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/loadavg", "/proc/version", "/proc/uptime"),
    *(
        "/proc/self/status",
        "/proc/self/fd",
        "/proc/stat",
        "/sys/class",
        "/sys/devices",
        "/sys/fs/cgroup",
    ),
)
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout", "stderr", "fd")
_CREDENTIALS = (
    *(
        "/etc/shadow*",
        "/etc/gshadow*",
        "/etc/sudoers*",
        "/etc/ssh/ssh_host_*_key",
        "/etc/ssl/private*",
    ),
    *("/etc/krb5.keytab", "/proc/*/environ", "/proc/*/mem", "/run/secrets*", "/var/run/secrets*"),
    *(
        "*/.ssh",
        "*/.ssh/*",
        "*/.aws",
        "*/.aws/*",
        "*/.gnupg",
        "*/.gnupg/*",
        "*/.netrc",
        "*/.git-credentials",
    ),
    *(
        "*/.docker/config.json",
        "*/.kube",
        "*/.kube/*",
        "*/.azure",
        "*/.azure/*",
        "*/.config/gcloud*",
    ),
    *(
        "*/.config/gh",
        "*/.config/gh/*",
        "*/.pypirc",
        "*/.npmrc",
        "*/.pgpass",
        "*/.my.cnf",
        "*/.vault-token",
    ),
    *(
        "*/.password-store*",
        "*/.config/google-chrome/*",
        "*/.mozilla/*",
        "*/.terraform.d/credentials*",
    ),
    *(
        "*/id_rsa",
        "*/id_ed25519",
        "*/id_ecdsa",
        "*/id_dsa",
        "*/.cargo/credentials*",
        "*/.gem/credentials",
    ),
)
_STARTUP = (
    *(
        "/etc/cron*",
        "/var/spool/cron*",
        "/etc/systemd/*",
        "/etc/init.d/*",
        "/etc/rc.local",
        "/etc/profile*",
    ),
    *(
        "/etc/ld.so.preload",
        "/etc/bash.bashrc",
        "/etc/environment",
        "/lib/systemd/*",
        "/usr/lib/systemd/*",
    ),
    *(
        "*/.bashrc",
        "*/.bash_profile",
        "*/.profile",
        "*/.zshrc",
        "*/.zshenv",
        "*/.bash_login",
        "*/.xinitrc",
    ),
    *("*/.config/autostart/*", "*/.config/systemd/*", "*/.git/hooks/*"),
)
_TRACES = ("*/.bash_history", "*/.zsh_history", "*/.python_history", "/var/log*")
_LOCAL_HOSTS = ("localhost", "::1", "0.0.0.0", "::", "host.local", "ip6-localhost")  # noqa: S104
_METADATA_HOSTS = (
    "169.254.169.254",
    "metadata.google.internal",
    "100.100.100.200",
    "fd00:ec2::254",
)


class Place(StrEnum):
    INSIDE = "inside"
    HARMLESS = "harmless"
    UNKNOWN = "unknown"
    CREDENTIALS = "credentials"
    DISK = "disk"
    STARTUP = "startup"
    TRACES = "traces"
    OUTSIDE = "outside"


def place_of(path: str, *, directory: str = WORKSPACE) -> Place:
    """`path` may have holes; a known beginning that leads outside, or a known end that names a key, is enough."""
    full = normalize(path, directory=directory)
    if _matches(full, _CREDENTIALS):
        return Place.CREDENTIALS
    if path.startswith(HOLE):
        return Place.UNKNOWN
    if full.startswith("/dev/"):
        return _device(full)
    if _matches(full, _TRACES):
        return Place.TRACES
    if is_beneath(full, _INSIDE):
        return Place.INSIDE
    if _matches(full, _STARTUP):
        return Place.STARTUP
    if HOLE in full and is_beneath(full.partition(HOLE)[0].rstrip("/") or "/", _INSIDE):
        return Place.INSIDE
    return Place.HARMLESS if is_beneath(full, _HARMLESS) else Place.OUTSIDE


def normalize(path: str, *, directory: str = WORKSPACE) -> str:
    """Absolute, without `.` and `..`; a leading `~` is the home directory of the guest."""
    if path == "~" or path.startswith("~/"):
        path = HOME + path[1:]
    # POSIX keeps two leading slashes apart; no guest does.
    return "/" + posixpath.normpath(posixpath.join("/", directory, path)).lstrip("/")


def is_beneath(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(root + "/") for root in roots)


def is_local_host(host: str) -> bool:
    host = host.strip("[]").lower()
    return host in _LOCAL_HOSTS or host.startswith("127.") or host.endswith(".localhost")


def is_metadata_host(host: str) -> bool:
    return host.strip("[]").lower() in _METADATA_HOSTS


def host_of(target: str) -> str:
    """The host of a URL, or of `host:port/path` as command lines have it; empty when it cannot be told."""
    try:
        parts = urlsplit(target if "://" in target else f"//{target}")
        host = parts.hostname or ""
    except ValueError:
        return ""
    return "" if HOLE in host else host


def _device(full: str) -> Place:
    name = full.removeprefix("/dev/").partition("/")[0]
    if full.startswith(("/dev/tcp/", "/dev/udp/")):
        return Place.HARMLESS
    return Place.HARMLESS if name in _DEVICES or name == "shm" else Place.DISK


def _matches(full: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(full, pattern) for pattern in patterns)
