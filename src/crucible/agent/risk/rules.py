"""Every rule there is: a stable name, its category, how grave it is, and why it is told.

What makes a rule fire is in the tables of `programs/` and `shell/`; the reference page is made of this table.
"""

from __future__ import annotations

from dataclasses import dataclass

from crucible.agent.risk.report import Category, Severity


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    category: Category
    severity: Severity
    why: str


_LOW, _MEDIUM, _HIGH, _CRITICAL = Severity.LOW, Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL
_NETWORK, _FILES, _PROCESS = Category.NETWORK, Category.FILESYSTEM, Category.PROCESS
_HIDING, _SECRETS = Category.OBFUSCATION, Category.CREDENTIALS
_HARM, _UNPARSED = Category.DESTRUCTIVE, Category.UNPARSED

_TABLE = (
    Rule("network-call", _NETWORK, _MEDIUM, "It speaks to another machine."),
    Rule("network-upload", _NETWORK, _HIGH, "It sends files or input to another machine."),
    Rule(
        "network-login", _NETWORK, _MEDIUM, "It works on another machine, or copies to or from it."
    ),
    Rule("package-install", _NETWORK, _LOW, "It installs packages from a registry."),
    Rule("repository-sync", _NETWORK, _MEDIUM, "It exchanges commits with a remote repository."),
    Rule(
        "raw-socket",
        _NETWORK,
        _HIGH,
        "It opens a connection beneath any protocol that could be read.",
    ),
    Rule(
        "exfiltration",
        _NETWORK,
        _CRITICAL,
        "What was read from a file of credentials is sent to another machine.",
    ),
    Rule("outside-read", _FILES, _LOW, "It reads outside the workspace."),
    Rule("outside-list", _FILES, _LOW, "It lists files outside the workspace."),
    Rule("outside-write", _FILES, _HIGH, "It writes outside the workspace."),
    Rule(
        "startup-write",
        _FILES,
        _HIGH,
        "It changes a file that is run at login, at boot or by a clock.",
    ),
    Rule("outside-link", _FILES, _MEDIUM, "It makes a link that leads out of the workspace."),
    Rule("privilege", _PROCESS, _HIGH, "It asks for the rights of another user."),
    Rule("set-id-bit", _PROCESS, _HIGH, "It makes a program that runs with its owner's rights."),
    Rule(
        "capabilities", _PROCESS, _HIGH, "It changes users, groups or capabilities of the system."
    ),
    Rule(
        "namespace", _PROCESS, _HIGH, "It enters or makes namespaces, mounts, or changes the root."
    ),
    Rule("kernel", _PROCESS, _CRITICAL, "It changes the kernel: modules or settings."),
    Rule("firewall", _PROCESS, _HIGH, "It changes the rules of the network."),
    Rule(
        "service-change",
        _PROCESS,
        _HIGH,
        "It changes what the system runs: services or timed jobs.",
    ),
    Rule("preload", _PROCESS, _HIGH, "It puts a library into programs that are run."),
    Rule(
        "native-call",
        _PROCESS,
        _HIGH,
        "It calls machine code or the interpreter's insides directly.",
    ),
    Rule("other-process", _PROCESS, _MEDIUM, "It looks into or changes another process."),
    Rule("kill-all", _PROCESS, _HIGH, "It ends processes that are not its own."),
    Rule("fork-loop", _PROCESS, _HIGH, "It starts processes without end."),
    Rule(
        "interactive-shell",
        _PROCESS,
        _MEDIUM,
        "It starts a shell that takes commands from elsewhere.",
    ),
    Rule("reverse-shell", _PROCESS, _CRITICAL, "It hands a shell to a connection."),
    Rule(
        "shell-built",
        _PROCESS,
        _MEDIUM,
        "It runs a shell command that is not known before it runs.",
    ),
    Rule(
        "privileged-container",
        _PROCESS,
        _HIGH,
        "It runs a container with the host's rights or files.",
    ),
    Rule("dynamic-code", _HIDING, _MEDIUM, "It runs code that is not known before it runs."),
    Rule("built-code", _HIDING, _HIGH, "It runs code that was put together of pieces."),
    Rule("decoded-code", _HIDING, _HIGH, "It runs code that was encoded."),
    Rule("fetched-code", _HIDING, _CRITICAL, "It runs code that comes from the network."),
    Rule("piped-code", _HIDING, _MEDIUM, "It runs what another command prints."),
    Rule(
        "hidden-name",
        _HIDING,
        _HIGH,
        "It reaches a name by a text that was put together or decoded.",
    ),
    Rule("hidden-import", _HIDING, _MEDIUM, "It loads a module in a way that hides which."),
    Rule(
        "unknown-member",
        _HIDING,
        _MEDIUM,
        "It picks a member of a powerful module by a name that is not known.",
    ),
    Rule(
        "object-escape",
        _HIDING,
        _HIGH,
        "It climbs from an ordinary object to the interpreter's insides.",
    ),
    Rule(
        "unsafe-load",
        _HIDING,
        _HIGH,
        "It loads objects that can run code from data that was encoded or fetched.",
    ),
    Rule("unknown-command", _HIDING, _MEDIUM, "Which command it runs is not known before it runs."),
    Rule(
        "split-word",
        _HIDING,
        _MEDIUM,
        "A word is continued on the next line, which hides it from readers.",
    ),
    Rule("credential-file", _SECRETS, _HIGH, "It touches a file that holds credentials."),
    Rule(
        "credential-variable", _SECRETS, _MEDIUM, "It reads a variable that is named like a secret."
    ),
    Rule(
        "environment-dump",
        _SECRETS,
        _MEDIUM,
        "It shows or sends all variables, secrets among them.",
    ),
    Rule("credential-store", _SECRETS, _HIGH, "It asks a store of passwords."),
    Rule(
        "cloud-metadata",
        _SECRETS,
        _CRITICAL,
        "It asks the cloud's metadata service, which hands out credentials.",
    ),
    Rule("delete-outside", _HARM, _CRITICAL, "It deletes files outside the workspace."),
    Rule(
        "delete-unknown",
        _HARM,
        _MEDIUM,
        "It deletes a tree whose place is not known before it runs.",
    ),
    Rule("delete-workspace", _HARM, _HIGH, "It deletes the whole workspace."),
    Rule("disk-write", _HARM, _CRITICAL, "It writes to a disk beneath its files."),
    Rule("erase-traces", _HARM, _HIGH, "It removes logs or history."),
    Rule("power-off", _HARM, _HIGH, "It stops the machine."),
    Rule(
        "mode-change-outside",
        _HARM,
        _HIGH,
        "It changes owner or rights of whole trees outside the workspace.",
    ),
    Rule("fork-bomb", _HARM, _CRITICAL, "It starts processes until nothing is left."),
    Rule("history-rewrite", _HARM, _HIGH, "It overwrites or removes what a remote repository has."),
    Rule("discard-work", _HARM, _MEDIUM, "It throws away work that no commit or branch holds."),
    Rule("unparsed", _UNPARSED, _HIGH, "Some of it does not parse, and was not inspected."),
    Rule("too-large", _UNPARSED, _HIGH, "It is larger than what is inspected."),
    Rule("too-deep", _UNPARSED, _HIGH, "It is nested deeper than what is inspected."),
    Rule(
        "other-language", _UNPARSED, _MEDIUM, "It is a program in a language that is not inspected."
    ),
)

RULES = {rule.name: rule for rule in _TABLE}
