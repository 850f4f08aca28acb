"""Shell commands that speak to other machines."""

from __future__ import annotations

from collections.abc import Iterator

from crucible.agent.risk.names import words_of
from crucible.agent.risk.places import host_of, is_local_host, is_metadata_host
from crucible.agent.risk.shell.commands import Command
from crucible.agent.risk.shell.flow import FETCHERS

_PROBES = words_of(
    "dig nslookup host ping ping6 traceroute whois mtr nmap telnet ftp tftp lftp arp-scan"
)
_LOGINS = words_of("ssh sftp mosh autossh sshpass ssh-copy-id")
_SOCKETS = words_of("nc ncat netcat socat nc.openbsd nc.traditional")
_UPLOADS = (
    "-T",
    "--upload-file",
    "-F",
    "--form",
    "--data-binary",
    "--post-file",
    "-d",
    "--data",
    "--body-file",
)
# Name: verbs that reach a registry.
_INSTALLERS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("pip", "pip3", "pipx"), frozenset({"install", "download", "wheel"})),
    **dict.fromkeys(
        ("apt", "apt-get", "aptitude"), words_of("install update upgrade dist-upgrade")
    ),
    **dict.fromkeys(("dnf", "yum", "zypper"), frozenset({"install", "update", "upgrade"})),
    **dict.fromkeys(("conda", "mamba"), frozenset({"install", "create", "update"})),
    **dict.fromkeys(("npm", "pnpm"), words_of("install i ci add update publish exec create init")),
    "yarn": frozenset({"install", "add", "upgrade", "publish", "dlx"}),
    "bun": frozenset({"install", "add", "update", "x"}),
    "apk": frozenset({"add", "update", "upgrade"}),
    "brew": frozenset({"install", "update", "upgrade"}),
    "gem": frozenset({"install", "update", "push"}),
    "cargo": frozenset({"install", "fetch", "update", "publish", "add"}),
    "go": frozenset({"get", "install"}),
    "bundle": frozenset({"install", "update"}),
    "composer": frozenset({"install", "require", "update"}),
    "uv": frozenset({"sync", "add", "pip", "publish"}),
    "poetry": frozenset({"install", "add", "update", "publish"}),
    "docker": frozenset({"pull", "push", "login"}),
    "podman": frozenset({"pull", "push", "login"}),
    "twine": frozenset({"upload"}),
    "snap": frozenset({"install"}),
}
_OF_GIT = words_of("push pull fetch clone ls-remote")
_GIT_VALUES = words_of(
    "-C -c --git-dir --work-tree --namespace --exec-path --config-env --attr-source --super-prefix"
)
_FORCE = ("--force", "-f", "--force-with-lease", "--delete", "-d", "--mirror", "--prune")


def judge_reach(command: Command) -> Iterator[str]:
    name, texts = command.name, command.texts
    verb = next((text for text in texts if not text.startswith("-")), "")
    if name in FETCHERS:
        yield from _fetching(command)
    elif name in _SOCKETS:
        yield from _socket(command)
    elif name in _LOGINS or (name in ("scp", "rsync") and any(_is_remote(text) for text in texts)):
        if not any(text in ("-V", "--version", "--help") for text in texts):
            yield "network-login"
    elif name in _PROBES:
        if any(not text.startswith("-") and not is_local_host(text) for text in texts):
            yield "network-call"
    elif name == "openssl" and verb == "s_client":
        hosts = [text for text in texts if ":" in text]
        if not hosts or not all(is_local_host(host_of(text)) for text in hosts):
            yield "raw-socket"
    elif name == "git" or name.startswith("git-"):
        yield from _of_git(command)
    elif name.startswith(("python", "pypy")) and texts[:2] == ["-m", "pip"]:
        yield from judge_reach(command.with_words(command.words[2:]))
    elif (name == "npx" and texts and "--no-install" not in texts and "--version" not in texts) or (
        verb in _INSTALLERS.get(name, frozenset()) and "--offline" not in texts
    ):
        yield "package-install"


def is_connection(command: Command) -> bool:
    return command.name in FETCHERS or command.name in _SOCKETS or command.name in _LOGINS


def git_verb(texts: list[str]) -> tuple[str, list[str]]:
    """What git is asked to do, behind its own options, and the words after that."""
    rest = list(texts)
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in _GIT_VALUES else 1]
    return (rest[0], rest[1:]) if rest else ("", [])


def _fetching(command: Command) -> Iterator[str]:
    texts = command.texts
    targets = [text for text in texts if _is_target(text)]
    if any(is_metadata_host(host_of(text)) for text in targets):
        yield "cloud-metadata"
    urls = [text for text in targets if "://" in text] or targets
    if not urls or all(is_local_host(host_of(text)) for text in urls):
        return
    is_upload = any(text in _UPLOADS for text in texts) and any("@" in text for text in texts)
    yield "network-upload" if is_upload or "-T" in texts else "network-call"


def _is_target(text: str) -> bool:
    if text.startswith("-") or not text:
        return False
    return "://" in text or "." in text or ":" in text or text == "localhost" or "\ue0ff" in text


def _socket(command: Command) -> Iterator[str]:
    texts = command.texts
    if not texts or texts[0] in ("-h", "--help", "--version"):
        return
    hosts = [text for text in texts if "." in text and not text.startswith(("-", "/"))]
    if not hosts or not all(is_local_host(host_of(text)) for text in hosts):
        yield "raw-socket"
    is_handing = any(
        text in ("-e", "-c", "--exec", "--sh-exec", "-ne", "-le") or "EXEC:" in text.upper()
        for text in texts
    )
    if is_handing:
        yield "reverse-shell"


def _of_git(command: Command) -> Iterator[str]:
    verb, rest = git_verb(command.texts)
    if _discards(verb, rest):
        yield "discard-work"
    if verb == "remote" and rest[:1] == ["update"]:
        verb = "fetch"
    if verb == "submodule" and "update" in rest:
        verb = "fetch"
    if verb not in _OF_GIT:
        return
    remote = next((text for text in rest if not text.startswith("-")), "")
    if remote.startswith(("./", "../", "/", "file://")):
        return
    yield "repository-sync"
    if verb == "push" and any(
        text in _FORCE or text.startswith(("+", ":", "--force-with-lease")) for text in rest
    ):
        yield "history-rewrite"


def _discards(verb: str, rest: list[str]) -> bool:
    """Work that no commit holds, or commits that no branch holds any more."""
    flags = {text for text in rest if text.startswith("-")}
    match verb:
        case "reset":
            return "--hard" in flags
        case "clean":
            return "--force" in flags or any("f" in flag for flag in flags if flag[:2] != "--")
        case "checkout" | "switch":
            return bool(flags & {"-f", "--force", "--discard-changes"}) or rest[-1:] == ["."]
        case "restore":
            return rest[-1:] == ["."] and "--staged" not in flags
        case "stash":
            return rest[:1] in (["drop"], ["clear"])
        case "reflog":
            return rest[:1] in (["expire"], ["delete"])
        case "branch":
            return "-D" in flags
    return verb in ("filter-branch", "filter-repo")


def _is_remote(text: str) -> bool:
    head = text.partition("/")[0]
    return (":" in head and not text.startswith("-")) or text.startswith("rsync://")
