"""Every setting of a sandbox with where it came from: option, variable, file, devcontainer.json, profile or default.

The first of these that says something wins. Nothing is looked up that is not asked for: this is on the path of `run`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from crucible.errors import BadSetting
from crucible.sandbox.profiles import DEFAULT_PROFILE, find_profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.project.devcontainer import DevContainer

FILE_NAME = "crucible.toml"
VARIABLES = {
    "CRUCIBLE_IMAGE": "image",
    "CRUCIBLE_PROFILE": "profile",
    "SANDBOX_PROVIDER": "provider",
    "LOCAL_MICROVM_FALLBACK_TO_REMOTE": "fallback",
}


class Setting(NamedTuple):
    value: Any
    origin: str


Settings = dict[str, Setting]


def gather(
    options: Mapping[str, Any],
    *,
    directory: str,
    named_file: str | None,
    variables: Mapping[str, str] | None = None,
) -> Settings:
    """All that is set, without the image that would be guessed and without defaults."""
    settings = _from_file(directory, named_file)
    given = dict(options)
    container = None
    if not given.pop("no_devcontainer", False) and "image" not in settings:
        container = _add_container(settings, directory)
    for variable, target in VARIABLES.items():
        if text := (os.environ if variables is None else variables).get(variable):
            settings[target] = Setting(_of_variable(variable, target, text), f"${variable}")
    for target, value in given.items():
        if target in ("environment", "images") and target in settings:
            value = {**settings[target].value, **value}
        if target == "mounts" and target in settings:
            value = _joined_mounts(settings[target].value, value)
        settings[target] = Setting(value, _option_name(target))
    if container is not None and "image" not in settings:
        _add_build(settings, container, directory)
    return _with_profile(settings, _more_variables(settings))


def _of_variable(variable: str, target: str, text: str) -> str:
    if target != "fallback":
        return text
    from crucible.config import parse_flag

    return "remote" if parse_flag(text, variable) else "never"


def choose_image(settings: Settings, command: Sequence[str], directory: str) -> Setting:
    """The image that is named, else the one that is guessed with its reason."""
    if (named := settings.get("image")) is not None:
        return named
    from crucible.project.detection import detect

    found = detect(command, directory)
    return Setting(found.image, found.why)


def fallback_of(image: str) -> str | None:
    """The image that is always here, if it serves what this guessed one would."""
    from crucible.project.languages import LANGUAGES, SERVED_BY_BASE

    served = (language.image for language in LANGUAGES if language.name in SERVED_BY_BASE)
    return "base" if image in served else None


def _from_file(directory: str, named_file: str | None) -> Settings:
    path = named_file
    if path is None:
        path = os.path.join(directory, FILE_NAME)  # noqa: PTH118 - pathlib is not loaded on this path
        if not os.path.lexists(path):
            return {}
    from crucible.project.file import read_file

    settings = {
        target: Setting(given.value, f"{path} {given.key}")
        for target, given in read_file(path).items()
    }
    if named_file is None:
        _refuse_widening(path, settings)
    return settings


def _add_container(settings: Settings, directory: str) -> DevContainer | None:
    """What the project's devcontainer.json says, where its crucible.toml says nothing."""
    names = (".devcontainer", ".devcontainer.json")
    if not any(os.path.lexists(os.path.join(directory, name)) for name in names):  # noqa: PTH118
        return None
    from crucible.project.container import container_settings

    found = container_settings(directory)
    if found is None:
        return None
    container, fields = found
    for target, value in fields.items():
        if target == "environment" and target in settings:
            joined = {**value, **settings[target].value}
            settings[target] = Setting(joined, f"{settings[target].origin}, {container.path}")
        else:
            settings.setdefault(target, Setting(value, container.path))
    return container


def _add_build(settings: Settings, container: DevContainer, directory: str) -> None:
    """The image that its devcontainer.json wants built, where nothing names one."""
    from crucible.project.container import build_settings

    found = build_settings(container, directory)
    if found is not None:
        origin = f"{container.path} build"
        settings["image"] = Setting(found[0], origin)
        settings["build"] = Setting(found[1], origin)


def _joined_mounts(of_file: Sequence[str], of_options: Sequence[str]) -> list[str]:
    """An option goes before a mount of the file at the same target."""
    from crucible.sandbox.mounts import parse_mount

    return list({parse_mount(text).target: text for text in (*of_file, *of_options)}.values())


def _refuse_widening(path: str, settings: Settings) -> None:
    """A file that was merely found may come with somebody else's project: it cannot open the host."""
    hint = f"If you trust it, name it: --config {path}"
    if "secrets" in settings:
        raise BadSetting(f"{path} asks for secrets of this host", hint=hint)
    for power, given in (("mount_home", "your home"), ("pass_env", "variables of this host")):
        if power in settings and settings[power].value:
            raise BadSetting(f"{path} wants to give the sandbox {given}", hint=hint)
    if "mounts" in settings:
        _refuse_outside(path, settings["mounts"].value, hint)
    for target, kept in (("provider", "local_microvm"), ("fallback", "never")):
        if target in settings and settings[target].value != kept:
            raise BadSetting(f"{path} wants to run the sandbox elsewhere", hint=hint)
    profile = settings.get("profile")
    if profile is None:
        return
    wanted, usual = find_profile(profile.value), find_profile(DEFAULT_PROFILE)
    for power in ("mounts_directory", "mounts_home", "passes_environment"):
        if getattr(wanted, power) and not getattr(usual, power):
            raise BadSetting(
                f"{path} asks for the profile {wanted.name!r}, which gives the sandbox things of this host",
                hint=f"{hint}; or choose with --profile",
            )


def _refuse_outside(path: str, mounts: Sequence[str], hint: str) -> None:
    """Of the project's own directory, and no credential of it: those a stranger's file cannot name."""
    from pathlib import Path

    from crucible.sandbox.mounts import is_within, parse_mount
    from crucible.sandbox.workspace.credentials import is_named_credential

    directory = os.path.realpath(os.path.dirname(path) or ".")  # noqa: PTH120
    for mount in map(parse_mount, mounts):
        if not is_within(mount.source, directory) or is_named_credential(Path(mount.source)):
            raise BadSetting(f"{path} wants to give the sandbox {mount.source}", hint=hint)


def _more_variables(settings: Settings) -> list[str]:
    """Names that an option adds to what file and profile pass on; they are no setting of their own."""
    added = settings.pop("pass_more", None)
    return [] if added is None else list(added.value)


def _with_profile(settings: Settings, more_variables: list[str]) -> Settings:
    chosen = settings.setdefault("profile", Setting(DEFAULT_PROFILE, "default"))
    profile = find_profile(chosen.value)
    origin = f"profile {profile.name}"
    for target, value in (
        ("network", profile.network),
        ("read_only", profile.is_read_only),
        ("drop_capabilities", profile.drops_capabilities),
        ("mount_cwd", profile.mounts_directory),
        ("mount_home", profile.mounts_home),
        ("pass_env", ["*"] if profile.passes_environment else []),
    ):
        settings.setdefault(target, Setting(value, origin))
    if more_variables:
        passed = [*settings["pass_env"].value, *more_variables]
        settings["pass_env"] = Setting(passed, "--pass-env")
    return settings


def _option_name(target: str) -> str:
    words = {
        "memory_mib": "memory", "disk_mib": "disk", "environment": "env",
        "processes": "pids", "output_mib": "max-output", "connections": "max-connections",
        "idle_timeout_s": "idle-timeout", "ttl_s": "ttl", "ports": "publish",
        "min_isolation": "min-isolation", "images": "with",
    }  # fmt: skip
    return "--" + words.get(target, target.replace("_", "-"))
