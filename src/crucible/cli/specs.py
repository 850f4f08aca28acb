"""The options that several commands share, and what those that shape a sandbox ask for."""

from __future__ import annotations

from crucible.cli.grammar import Arguments, BadUsage, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from crucible.project.settings import Setting

OPTIONS = (
    Option("image", "image to start from (default: base)", metavar="IMAGE"),
    Option(
        "with",
        "put a further image beside it, with files and processes of its own; may be given again",
        metavar="NAME=IMAGE",
        is_repeatable=True,
    ),
    Option("memory", "memory, like 512M or 2G (default: 512M)", short="m", metavar="SIZE"),
    Option("cpus", "processors (default: 1)", metavar="N"),
    Option("disk", "size of the disk, like 20G (default: 8G)", metavar="SIZE"),
    Option(
        "env",
        "set a variable for its commands; may be given again",
        short="e",
        metavar="K=V",
        is_repeatable=True,
    ),
    Option("workdir", "directory in the sandbox to begin in", short="w", metavar="PATH"),
    Option("user", "user in the sandbox to be", short="u", metavar="USER"),
    Option("dir", "copy this directory of the host to the working directory", metavar="PATH"),
    Option(
        "mount",
        "copy a file or directory to another place in it, writable with :rw; may be given again",
        metavar="SOURCE:TARGET[:rw]",
        is_repeatable=True,
    ),
    Option(
        "volume",
        "share a named volume with other sandboxes, one writer at a time; may be given again",
        metavar="NAME:TARGET[:ro]",
        is_repeatable=True,
    ),
    Option(
        "cache",
        "keep a package manager's cache in a volume: pip, npm, cargo or go; may be given again",
        metavar="NAME",
        is_repeatable=True,
    ),
    Option("mount-cwd", "copy the current directory in, as --dir . does"),
    Option("no-mount-cwd", "do not, whatever the profile"),
    Option("mount-home", "copy your home in, without credentials and caches"),
    Option("no-mount-home", "do not, whatever the profile"),
    Option(
        "pass-env",
        "pass a variable of ours on, or '*' for all but credentials; may be given again",
        metavar="NAME",
        is_repeatable=True,
    ),
    Option("no-pass-env", "pass none on but those that are named"),
    Option("include-credentials", "also copy files that may be credentials, like .env and keys"),
    Option(
        "profile",
        "how much it is trusted (default: moderate)",
        metavar="NAME",
        choices=("permissive", "moderate", "restrictive"),
    ),
    Option(
        "network",
        "what it can reach (default: as the profile says)",
        metavar="MODE",
        choices=("off", "allowlist", "full"),
    ),
    Option("no-network", "reach no network: the same as --network off"),
    Option(
        "allow",
        "let it reach a host: example.org, *.example.org, host:port; may be given again",
        metavar="RULE",
        is_repeatable=True,
    ),
    Option(
        "deny",
        "never let it reach a host, whatever else is allowed",
        metavar="RULE",
        is_repeatable=True,
    ),
    Option(
        "secret",
        "let it use a secret that it never sees: NAME[=VALUE]:HOST[:HEADER]; the value is that of"
        " our own variable NAME unless given; may be given again",
        metavar="SECRET",
        is_repeatable=True,
    ),
    Option(
        "publish",
        "reach a port of it from here, on loopback unless an address is given; may be given again",
        short="p",
        metavar="[[ADDRESS:]HERE:]THERE",
        is_repeatable=True,
    ),
    Option("pids", "processes that a command may have (default: no limit)", metavar="N"),
    Option(
        "max-output",
        "end a command that writes more, like 100M (default: no limit)",
        metavar="SIZE",
    ),
    Option("max-connections", "connections to the network at once (default: 256)", metavar="N"),
    Option(
        "budget-tokens",
        "tokens that its programs may spend on calls of models (default: no limit)",
        metavar="N",
    ),
    Option(
        "budget-usd", "the same in USD, by the models' prices (default: no limit)", metavar="USD"
    ),
    Option("idle-timeout", "stop it when nothing was done in it for so long", metavar="TIME"),
    Option("ttl", "remove it when it is so old, running or not", metavar="TIME"),
    Option("read-only", "let it write nothing but scratch files in memory"),
    Option("drop-capabilities", "take the powers of root away inside"),
    Option("accept-labels", "give it what the labels of its image ask for; it is told"),
    Option(
        "backend",
        "what boots the machine (default: auto, the strongest that works)",
        metavar="NAME",
    ),
    Option(
        "provider",
        "where it runs: auto, local_microvm or remote_e2b (default: as SANDBOX_PROVIDER says)",
        metavar="NAME",
        choices=("auto", "local_microvm", "remote_e2b"),
    ),
    Option("no-fallback", "never run it elsewhere, whatever the settings"),
    Option(
        "min-isolation",
        "refuse anything weaker: hardware-vm, software-vm, userspace-kernel, wasm or namespace"
        " (default: software-vm)",
        metavar="LABEL",
    ),
    Option("config", "take settings from a crucible.toml; options go before it", metavar="FILE"),
    Option("no-devcontainer", "leave the project's devcontainer.json aside"),
)

IN_OPTION = Option(
    "in", "run it in a further image of the sandbox, by the name it was given", metavar="NAME"
)

TERMINAL_OPTIONS = (
    Option("tty", "give the command a terminal; ours is passed through to it", short="t"),
    Option("interactive", "pass standard input on (it always is; for habit, as in -it)", short="i"),
    Option("no-input", "keep standard input for ourselves, as in `while read` loops", short="n"),
)


class Asked:
    """`spec` is as the service takes it, checked; `name` is the one that a file gives, if it does.

    `fallback` is the image that serves where a guessed one cannot be had. `source` is the directory that becomes the
    workspace; `told` is what a person should know before it starts. `build` is of what the image is to be built.
    `settled` are the fields that somebody has set; of the others the image's labels may say something.
    """

    __slots__ = (
        "accepts_labels",
        "build",
        "fallback",
        "image",
        "image_is_guessed",
        "name",
        "secrets",
        "settled",
        "source",
        "spec",
        "told",
    )

    def __init__(
        self,
        spec: dict[str, Any],
        *,
        name: str | None,
        image: Setting,
        secrets: list[dict[str, str]],
        source: str | None,
        told: list[str],
    ) -> None:
        self.secrets = secrets
        self.spec = spec
        self.name = name
        self.image = image
        self.image_is_guessed = False
        self.fallback: str | None = None
        self.build: dict[str, Any] | None = None
        self.source = source
        self.told = told
        self.settled: list[str] = []
        self.accepts_labels = False

    def request(self) -> dict[str, Any]:
        """What every request for a new sandbox has."""
        return {
            "spec": self.spec,
            "fallback_image": self.fallback,
            "secrets": self.secrets,
            "settled": self.settled,
            "accept_labels": self.accepts_labels,
        }


def asked(arguments: Arguments, command: list[str]) -> Asked:
    """What the options, variables, the project's files and the profile come to."""
    from crucible.project.settings import choose_image, fallback_of, gather
    from crucible.sandbox.spec import SandboxSpec

    source = host_directory(arguments)
    directory = source or "."
    settings = gather(options(arguments), directory=directory, named_file=arguments.value("config"))
    image = choose_image(settings, command, directory)
    fields = {target: setting.value for target, setting in settings.items()}
    fields["image"] = image.value
    name = fields.pop("name", None)
    fields.pop("agent", None)
    build = fields.pop("build", None)
    secrets = _secrets(fields)
    source, told = _take_of_host(fields, source)
    if ignored := fields.pop("ignored", None):
        told.append(f"{settings['ignored'].origin}: not used: {', '.join(ignored)}")
    if source is None:
        # It is meant for the project's files.
        fields.pop("after_create", None)
    if "ports" in fields:
        from crucible.sandbox.doors.ports import parse_port

        fields["ports"] = [str(parse_port(text)) for text in fields["ports"]]
    spec = SandboxSpec(**fields)
    checked = {**fields, "memory_mib": spec.memory_mib}
    found = Asked(checked, name=name, image=image, secrets=secrets, source=source, told=told)
    found.build = build
    found.settled = settled_by(settings)
    found.accepts_labels = arguments.flag("accept-labels")
    if "image" not in settings:
        found.image_is_guessed = True
        found.fallback = fallback_of(image.value)
    return found


def settled_by(settings: dict[str, Setting]) -> list[str]:
    """The fields that somebody has set. What a profile sets counts as set by whoever chose the profile."""
    is_chosen = settings["profile"].origin != "default"
    return [
        target
        for target, setting in settings.items()
        if setting.origin != "default" and (is_chosen or not setting.origin.startswith("profile "))
    ]


def _secrets(fields: dict[str, Any]) -> list[dict[str, str]]:
    """The values go beside the specification, in which only the names and their hosts stay."""
    if not fields.get("secrets"):
        return []
    import os

    from crucible.sandbox.doors.secrets import as_request, bindings, parse_given

    given = as_request(fields["secrets"], os.environ)
    fields["secrets"] = list(bindings(parse_given(given)))
    return given


def _take_of_host(fields: dict[str, Any], source: str | None) -> tuple[str | None, list[str]]:
    """What of this host the sandbox gets, beyond what was named with --dir; and that it is never silent."""
    copies_directory = fields.pop("mount_cwd") and source is None
    copies_home = fields.pop("mount_home")
    variables = fields.pop("pass_env")
    if not (copies_directory or copies_home or variables):
        return source, []
    from crucible.project.giving import give

    return give(
        fields,
        source,
        copies_directory=copies_directory,
        copies_home=copies_home,
        variables=variables,
    )


def options(arguments: Arguments) -> dict[str, Any]:
    """What the command line sets, by the field of the specification."""
    from crucible.sandbox.isolation import parse_isolation
    from crucible.sandbox.spec import parse_duration_s, parse_environment, parse_size_mib

    names = ("image", "backend", "provider", "workdir", "user", "profile", "network")
    fields: dict[str, Any] = {
        name: text for name in names if (text := arguments.value(name)) is not None
    }
    if pairs := arguments.values("with"):
        fields["images"] = _images(pairs)
    if text := arguments.value("memory"):
        fields["memory_mib"] = parse_size_mib(text)
    if text := arguments.value("disk"):
        fields["disk_mib"] = parse_size_mib(text)
    if text := arguments.value("cpus"):
        fields["cpus"] = whole_number(text, "--cpus")
    if text := arguments.value("min-isolation"):
        fields["min_isolation"] = parse_isolation(text)
    if arguments.flag("no-fallback"):
        fields["fallback"] = "never"
    if arguments.flag("no-network"):
        fields["network"] = "off"
    for name, target in (("pids", "processes"), ("max-connections", "connections")):
        if text := arguments.value(name):
            fields[target] = whole_number(text, f"--{name}")
    if text := arguments.value("budget-tokens"):
        fields["budget_tokens"] = whole_number(text, "--budget-tokens")
    if text := arguments.value("budget-usd"):
        fields["budget_usd"] = _usd(text)
    if text := arguments.value("max-output"):
        fields["output_mib"] = parse_size_mib(text)
    for name, target in (("idle-timeout", "idle_timeout_s"), ("ttl", "ttl_s")):
        if text := arguments.value(name):
            fields[target] = parse_duration_s(text) or 0.0
    if texts := arguments.values("secret"):
        fields["secrets"] = texts
    if texts := arguments.values("publish"):
        fields["ports"] = texts
    if texts := arguments.values("mount"):
        from crucible.sandbox.mounts import parse_mount, resolved

        fields["mounts"] = [str(resolved(parse_mount(text))) for text in texts]
    volumes, caches = arguments.values("volume"), arguments.values("cache")
    if volumes or caches:
        from crucible.project.caches import add_volumes

        add_volumes(fields, volumes, caches)
    if arguments.flag("no-devcontainer"):
        fields["no_devcontainer"] = True
    if arguments.flag("include-credentials"):
        fields["include_credentials"] = True
    if arguments.flag("no-pass-env"):
        fields["pass_env"] = []
    if texts := arguments.values("pass-env"):
        fields["pass_more"] = texts
    for name in ("mount-cwd", "mount-home"):
        for word, value in ((name, True), (f"no-{name}", False)):
            if arguments.flag(word):
                fields[name.replace("-", "_")] = value
    for name in ("allow", "deny"):
        if rules := arguments.values(name):
            fields[name] = rules
    if fields.get("network") == "off" and "allow" in fields:
        raise BadUsage(
            "--allow lets a sandbox reach a host, and it was to reach no network",
            hint="Leave out --no-network and --network off, or --allow",
        )
    for name, target in (("read-only", "read_only"), ("drop-capabilities", "drop_capabilities")):
        if arguments.flag(name):
            fields[target] = True
    if pairs := arguments.values("env"):
        fields["environment"] = {**fields.get("environment", {}), **parse_environment(pairs)}
    return fields


def _images(pairs: list[str]) -> dict[str, str]:
    """Further images by name."""
    from crucible.errors import BadSetting

    images: dict[str, str] = {}
    for pair in pairs:
        name, _, image = pair.partition("=")
        if not name or not image or name in images:
            raise BadSetting(
                f"{pair!r} does not name one further image", hint="Write --with app=IMAGE"
            )
        images[name] = image
    return images


def settle_image(asked: Asked) -> None:
    """Tells which image was taken and why, where nobody named it, and what of this host goes along.

    Then the image is built, if it is one that has to be.
    """
    from crucible.cli import render

    image = asked.image
    for line in asked.told:
        render.tell(render.visible(line))
    if not image.origin.startswith(("--", "$")) and image.value != "base":
        render.tell(f"image: {image.value} ({image.origin})")
    if asked.build is not None:
        from crucible.cli.building import make_for_project

        make_for_project(asked)


def whole_number(text: str, name: str) -> int:
    from crucible.errors import BadSetting

    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise BadSetting(f"{text!r} is no value for {name}", hint="Give a whole number")
    return int(text)


def _usd(text: str) -> float:
    from crucible.errors import BadSetting

    whole, _, part = text.partition(".")
    if not (text.isascii() and (whole + part).isdecimal() and len(text) <= 12):
        raise BadSetting(f"{text!r} is no value for --budget-usd", hint="Give USD, like 2.50")
    return float(text)


def host_directory(arguments: Arguments) -> str | None:
    """The directory to copy in, absolute; that it is one is checked before anything is started."""
    import os

    from crucible.errors import PathRefused

    path = arguments.value("dir")
    if path is None:
        return None
    if not os.path.isdir(path):  # noqa: PTH112 - pathlib would decide what the empty path means
        raise PathRefused(f"{path!r} is not a directory", hint="Give --dir an existing directory")
    return os.path.realpath(path)
