"""What the labels of an image say about the sandbox that it wants to be run in.

An image is a stranger's. Its labels can take things away from its sandbox; what gives it more is told, and given
only to who says so. What would open the host (secrets, mounts, variables, a wider profile) no label can even ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from crucible.errors import BadSetting, CrucibleError
from crucible.sandbox.profiles import NETWORK_MODES, find_profile
from crucible.sandbox.spec import (
    LARGEST_CPUS,
    MOST_CONNECTIONS,
    MOST_PROCESSES,
    SandboxSpec,
    memory_tier,
    parse_duration_s,
    parse_size_mib,
)
from crucible.values import replace

PREFIX = "dev.crucible."
_MOST_LABELS = 64
_LONGEST = 1000
_MOST_RULES = 50
_NARROWING_PROFILE = "restrictive"


class Wish(NamedTuple):
    """One label as it is meant: `target` is the field of the specification, `said` the option that gives the same."""

    label: str
    target: str
    value: Any
    said: str


class Judged(NamedTuple):
    """`taken` is in the specification now, `asked` is not; `unused` are labels that mean nothing, with why."""

    spec: SandboxSpec
    taken: tuple[Wish, ...]
    asked: tuple[Wish, ...]
    unused: tuple[str, ...]


def is_labelled(labels: Iterable[tuple[str, str]]) -> bool:
    return any(name.startswith(PREFIX) for name, _ in labels)


def judge(
    spec: SandboxSpec,
    labels: Iterable[tuple[str, str]],
    *,
    settled: Collection[str],
    accepts: bool = False,
) -> Judged:
    """`settled` are the fields that somebody has set, which labels leave alone; with `accepts` all is given."""
    wishes, unused = read_labels(labels)
    taken, asked = [], []
    for wish in wishes:
        if wish.target in settled:
            continue
        if not (accepts or _narrows(spec, wish)):
            asked.append(wish)
            continue
        try:
            changed = replace(spec, **{wish.target: _added(spec, wish)})
        except CrucibleError as error:
            unused.append(f"{wish.label}: {error.message}")
            continue
        if changed != spec:
            taken.append(wish)
        spec = changed
    return Judged(spec, tuple(taken), tuple(asked), tuple(unused))


def told(image: str, judged: Judged) -> list[str]:
    """What a person should know before the sandbox starts."""
    lines = []
    if judged.taken:
        lines.append(f"Labels of image {image}: {_said(judged.taken)}")
    if judged.asked:
        lines.append(
            f"Image {image} asks for {_said(judged.asked)}; give it with these options, or all with --accept-labels"
        )
    lines += [f"Image {image}: its label {text} is not used" for text in judged.unused]
    return lines


def _said(wishes: Iterable[Wish]) -> str:
    return " ".join(wish.said for wish in wishes)


def read_labels(labels: Iterable[tuple[str, str]]) -> tuple[list[Wish], list[str]]:
    """What the labels with our prefix mean, and those that mean nothing."""
    wishes: list[Wish] = []
    unused: list[str] = []
    ours = [(name, value) for name, value in labels if name.startswith(PREFIX)]
    for name, value in ours[:_MOST_LABELS]:
        label = name[:100]
        kind = _KINDS.get(name.removeprefix(PREFIX))
        if kind is None:
            unused.append(f"{label}: no such setting, or none that an image may have")
            continue
        try:
            if len(value) > _LONGEST:
                raise BadSetting(f"it has {len(value)} characters")
            wishes += kind(label, value.strip())
        except CrucibleError as error:
            unused.append(f"{label}: {error.message}")
    if len(ours) > _MOST_LABELS:
        unused.append(f"{len(ours) - _MOST_LABELS} further labels")
    return wishes, unused


def _narrows(spec: SandboxSpec, wish: Wish) -> bool:
    """Whether the sandbox has less by it than it would have."""
    now: Any = getattr(spec, wish.target)
    match wish.target:
        case "memory_mib" | "cpus" | "disk_mib" | "connections":
            return bool(wish.value <= now)
        case "processes" | "output_mib" | "idle_timeout_s":
            return bool(wish.value and (not now or wish.value <= now))
        case "network":
            return NETWORK_MODES.index(wish.value) <= NETWORK_MODES.index(now)
        case "read_only" | "drop_capabilities":
            return bool(wish.value or not now)
        case "deny":
            return True
    return False


def _added(spec: SandboxSpec, wish: Wish) -> Any:
    if wish.target in ("allow", "deny", "ports"):
        return tuple(dict.fromkeys((*getattr(spec, wish.target), *wish.value)))
    return wish.value


def _size(option: str, target: str) -> Kind:
    def read(label: str, text: str) -> list[Wish]:
        value = parse_size_mib(text)
        if target == "memory_mib":
            value = memory_tier(value)
        return [Wish(label, target, value, f"--{option} {value}M")]

    return read


def _count(option: str, target: str, most: int) -> Kind:
    def read(label: str, text: str) -> list[Wish]:
        if (
            not (text.isascii() and text.isdecimal() and len(text) <= 9)
            or not 1 <= int(text) <= most
        ):
            raise BadSetting(f"{text[:40]!r} is no number from 1 to {most}")
        return [Wish(label, target, int(text), f"--{option} {int(text)}")]

    return read


def _time(option: str, target: str) -> Kind:
    def read(label: str, text: str) -> list[Wish]:
        seconds = parse_duration_s(text)
        if seconds is None:
            raise BadSetting(f"{text!r} is no limit")
        return [Wish(label, target, seconds, f"--{option} {seconds:g}s")]

    return read


def _flag(option: str, target: str) -> Kind:
    def read(label: str, text: str) -> list[Wish]:
        if text not in ("true", "false"):
            raise BadSetting(f"{text[:40]!r} is neither true nor false")
        value = text == "true"
        return [Wish(label, target, value, f"--{option}" if value else f"no --{option}")]

    return read


def _rules(option: str, target: str) -> Kind:
    """Names alone, as they are: which addresses and sets there are is for this host to say."""

    def read(label: str, text: str) -> list[Wish]:
        from crucible.network.rules import parse_rule

        items = _items(text)
        for item in items:
            rule = parse_rule(item)
            if not (rule.name or rule.suffix) or rule.reaches_private or rule.is_unchecked:
                raise BadSetting(f"an image cannot name {item[:80]!r}")
        return [Wish(label, target, items, " ".join(f"--{option} {item}" for item in items))]

    return read


def _ports(label: str, text: str) -> list[Wish]:
    """The guest's ports alone: what they are here is for this host to say."""
    items = _items(text)
    for item in items:
        if not (item.isascii() and item.isdecimal() and len(item) <= 5 and 1 <= int(item) <= 65535):
            raise BadSetting(f"{item[:40]!r} is no port")
    said = " ".join(f"--publish {item}" for item in items)
    return [Wish(label, "ports", tuple(f"127.0.0.1:0:{item}" for item in items), said)]


def _network(label: str, text: str) -> list[Wish]:
    if text not in NETWORK_MODES:
        raise BadSetting(f"the network cannot be {text[:40]!r}")
    return [Wish(label, "network", text, f"--network {text}")]


def _profile(label: str, text: str) -> list[Wish]:
    """The narrowest one alone; the others give a sandbox things."""
    if text != _NARROWING_PROFILE:
        raise BadSetting(f"an image cannot choose the profile {text[:40]!r}")
    profile = find_profile(text)
    return [
        Wish(label, "network", profile.network, f"--network {profile.network}"),
        Wish(label, "read_only", profile.is_read_only, "--read-only"),
        Wish(label, "drop_capabilities", profile.drops_capabilities, "--drop-capabilities"),
    ]


def _items(text: str) -> tuple[str, ...]:
    items = tuple(text.replace(",", " ").split())
    if not 1 <= len(items) <= _MOST_RULES:
        raise BadSetting(f"{len(items)} values where 1 to {_MOST_RULES} can be")
    return items


Kind = Callable[[str, str], list[Wish]]

_KINDS: dict[str, Kind] = {
    "memory": _size("memory", "memory_mib"),
    "cpus": _count("cpus", "cpus", LARGEST_CPUS),
    "disk": _size("disk", "disk_mib"),
    "pids": _count("pids", "processes", MOST_PROCESSES),
    "max-output": _size("max-output", "output_mib"),
    "max-connections": _count("max-connections", "connections", MOST_CONNECTIONS),
    "idle-timeout": _time("idle-timeout", "idle_timeout_s"),
    "profile": _profile,
    "network": _network,
    "allow": _rules("allow", "allow"),
    "deny": _rules("deny", "deny"),
    "publish": _ports,
    "read-only": _flag("read-only", "read_only"),
    "drop-capabilities": _flag("drop-capabilities", "drop_capabilities"),
}
