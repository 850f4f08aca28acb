"""Which variables of this host a sandbox may be given: those that are asked for, never by accident a credential."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from crucible.errors import BadSetting

ALL = "*"
LARGEST_BYTES = 32 << 10

# Names that are usual for credentials, as patterns without regard to case.
CREDENTIALS = (
    "*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*CREDENTIAL*", "*PRIVATE*", "*COOKIE*",
    "*_KEY", "*_KEY_*", "*APIKEY*", "*_PAT", "*_AUTH", "*_AUTH_*", "*_DSN", "*_PASS", "*_PW", "*SESSION*",
    "*_URL", "*_URI", "*PROXY", "*WEBHOOK*", "AWS_*", "AZURE_*", "ARM_*", "GOOGLE_*", "GCP_*", "GCLOUD_*",
    "CLOUDSDK_*", "DOCKER_*", "KUBE*", "NPM_CONFIG_*", "PIP_*", "UV_*", "TWINE_*", "CARGO_REGISTR*", "PGPASS*",
    "VAULT_*", "GH_*", "GITHUB_*", "GITLAB_*", "CI_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GROQ_*",
)  # fmt: skip

# What describes this host and is wrong inside.
OF_THE_HOST = (
    "PATH", "HOME", "SHELL", "SHLVL", "USER", "LOGNAME", "USERNAME", "HOSTNAME", "PWD", "OLDPWD", "_", "MAIL",
    "TMPDIR", "TEMP", "TMP", "IFS", "ENV", "BASH*", "LD_*", "DYLD_*", "PYTHON*", "VIRTUAL_ENV*", "CONDA*",
    "NODE_*", "GOPATH", "GOROOT", "JAVA_HOME", "PERL*", "RUBY*", "GEM_*", "XDG_*", "DISPLAY", "WAYLAND_*",
    "DBUS_*", "SSH_*", "GPG_*", "SUDO_*", "DESKTOP_*", "GNOME_*", "GDM*", "TERM_*", "TMUX*", "STY", "WINDOWID",
    "SYSTEMD_*", "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "LISTEN_*", "MANPATH", "INFOPATH",
    "SSL_CERT_*", "REQUESTS_CA_*", "CURL_CA_*", "CRUCIBLE_*",
)  # fmt: skip


class Passed(NamedTuple):
    """`kept` is how many of the host's variables stay at home where all were asked for."""

    variables: dict[str, str]
    kept: int


def pass_variables(wanted: Sequence[str], variables: Mapping[str, str]) -> Passed:
    """`*` stands for all but credentials and what belongs to the host; a name stands for itself, whatever it is."""
    passed: dict[str, str] = {}
    kept = 0
    if ALL in wanted:
        passed = {name: value for name, value in variables.items() if stays(name) is None}
        kept = len(variables) - len(passed)
    for name in wanted:
        if name == ALL:
            continue
        if name not in variables:
            raise BadSetting(
                f"The variable {name!r} is to be passed on, but it is not set here",
                hint=f"Set it, or give a value with --env {name}=VALUE",
            )
        passed[name] = variables[name]
    size = sum(len(name) + len(value) + 2 for name, value in passed.items())
    if size > LARGEST_BYTES:
        raise BadSetting(
            f"The variables to pass on have {size} bytes; at most {LARGEST_BYTES} fit",
            hint="Leave them out with --no-pass-env, and name those needed with --pass-env NAME",
        )
    return Passed(passed, kept)


def stays(name: str) -> str | None:
    """Why a variable is not passed on with all others; None if it is."""
    upper = name.upper()
    if any(fnmatchcase(upper, pattern) for pattern in CREDENTIALS):
        return "a credential by its name"
    if any(fnmatchcase(upper, pattern) for pattern in OF_THE_HOST):
        return "of this host"
    return None
