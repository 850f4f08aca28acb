"""What an image may say of its own sandbox by labels: less, but not more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.sandbox.labels import PREFIX, judge, read_labels, told
from crucible.sandbox.profiles import NETWORK_MODES
from crucible.sandbox.spec import SandboxSpec

SPEC = SandboxSpec(network="full")


def labels(**values: str) -> list[tuple[str, str]]:
    return [(PREFIX + name.replace("_", "-"), value) for name, value in values.items()]


NARROWING: dict[str, tuple[str, str, Any]] = {
    "memory": ("256M", "memory_mib", 256),
    "disk": ("1G", "disk_mib", 1024),
    "pids": ("50", "processes", 50),
    "max_output": ("10M", "output_mib", 10),
    "max_connections": ("5", "connections", 5),
    "idle_timeout": ("10m", "idle_timeout_s", 600.0),
    "network": ("off", "network", "off"),
    "deny": ("*.example.org example.com:443", "deny", ("*.example.org", "example.com:443")),
    "read_only": ("true", "read_only", True),
    "drop_capabilities": ("true", "drop_capabilities", True),
}


@pytest.mark.parametrize("name", NARROWING)
def test_a_label_takes_things_away(name: str) -> None:
    text, target, value = NARROWING[name]
    judged = judge(SPEC, labels(**{name: text}), settled=())
    assert getattr(judged.spec, target) == value
    assert [wish.target for wish in judged.taken] == [target]
    assert not judged.asked
    assert not judged.unused


WIDENING: dict[str, tuple[str, str]] = {
    "memory": ("4G", "--memory 4096M"),
    "cpus": ("4", "--cpus 4"),
    "disk": ("100G", "--disk 102400M"),
    "max_connections": ("4000", "--max-connections 4000"),
    "network": ("full", "--network full"),
    "allow": ("api.example.org,*.example.com:8443", "--allow api.example.org --allow *.example.com:8443"),
    "publish": ("8080 9000", "--publish 8080 --publish 9000"),
    "read_only": ("false", "no --read-only"),
}  # fmt: skip


@pytest.mark.parametrize("name", WIDENING)
def test_what_gives_it_more_is_only_told(name: str) -> None:
    text, option = WIDENING[name]
    closed = SandboxSpec(network="off", read_only=True, drop_capabilities=True)
    judged = judge(closed, labels(**{name: text}), settled=())
    assert judged.spec == closed
    assert [wish.said for wish in judged.asked] == [option]
    (line,) = told("agent:1", judged)
    assert line.startswith(f"Image agent:1 asks for {option}; ")
    given = judge(closed, labels(**{name: text}), settled=(), accepts=True)
    assert given.spec != closed
    assert not given.asked


NEVER = {
    "profile": "permissive",
    "secret": "TOKEN:evil.example",
    "secrets": "TOKEN:evil.example",
    "mount": "/etc:/x",
    "mounts": "/etc:/x",
    "volume": "cache:/x",
    "pass_env": "*",
    "mount_home": "true",
    "user": "0",
    "backend": "namespace",
    "min_isolation": "namespace",
    "ttl": "1s",
    "image": "other",
    "allow": "10.0.0.0/8",
    "publish": "0.0.0.0:80:80",
    "cpus": "-1",
    "memory": "lots",
    "network": "everything",
    "read_only": "maybe",
    "": "x",
}


@pytest.mark.parametrize("name", NEVER)
@pytest.mark.parametrize("accepts", [False, True])
def test_what_would_open_the_host_or_means_nothing_is_never_given(name: str, accepts: bool) -> None:
    judged = judge(SPEC, labels(**{name: NEVER[name]}), settled=(), accepts=accepts)
    assert judged.spec == SPEC
    assert not judged.taken
    assert not judged.asked
    assert len(judged.unused) == 1


def test_a_private_name_cannot_be_asked_for() -> None:
    for rule in ("localhost!private", "set:registries", "169.254.169.254", "0.0.0.0/0", "[::1]:80"):
        judged = judge(SPEC, labels(allow=rule), settled=(), accepts=True)
        assert judged.spec == SPEC, rule


def test_what_somebody_has_set_goes_before_a_label() -> None:
    said = labels(memory="128M", network="off", pids="5")
    judged = judge(SPEC, said, settled=("memory_mib", "network"))
    assert (judged.spec.memory_mib, judged.spec.network) == (SPEC.memory_mib, "full")
    assert judged.spec.processes == 5
    judged = judge(SPEC, said, settled=("memory_mib", "network", "processes"), accepts=True)
    assert judged.spec == SPEC


def test_the_narrowest_profile_can_be_chosen() -> None:
    judged = judge(SPEC, labels(profile="restrictive"), settled=())
    spec = judged.spec
    assert (spec.network, spec.read_only, spec.drop_capabilities) == ("off", True, True)
    (line,) = told("agent:1", judged)
    assert line == "Labels of image agent:1: --network off --read-only --drop-capabilities"


def test_labels_of_others_are_not_looked_at() -> None:
    judged = judge(
        SPEC, [("org.example.memory", "128M"), ("dev.cruciblememory", "128M")], settled=()
    )
    assert judged.spec == SPEC
    assert not told("agent:1", judged)


def test_a_flood_of_labels_has_an_end() -> None:
    many = [(f"{PREFIX}{number}", "x" * 5000) for number in range(10_000)]
    wishes, unused = read_labels(many)
    assert not wishes
    assert len(unused) == 65
    assert judge(SPEC, labels(deny="a." * 600), settled=()).spec == SPEC
    assert judge(SPEC, labels(deny="a.example " * 99), settled=()).spec == SPEC


_NAMES = st.sampled_from([*NARROWING, *WIDENING, *NEVER]) | st.text(max_size=20)
_TEXTS = st.sampled_from(["off", "full", "true", "false", "restrictive", "1", "128M", "64G", "0"]) | (
    st.text(max_size=40)
)  # fmt: skip


@given(st.lists(st.tuples(_NAMES, _TEXTS), max_size=8), st.sampled_from(NETWORK_MODES))
def test_no_labels_widen_anything(pairs: list[tuple[str, str]], network: str) -> None:
    spec = SandboxSpec(network=network, processes=100, connections=64)
    said = [(PREFIX + name.replace("_", "-"), text) for name, text in pairs]
    after = judge(spec, said, settled=()).spec
    assert after.memory_mib <= spec.memory_mib
    assert (after.cpus, after.disk_mib <= spec.disk_mib) == (1, True)
    assert 0 < after.processes <= 100
    assert after.connections <= 64
    assert NETWORK_MODES.index(after.network) <= NETWORK_MODES.index(network)
    assert (after.allow, after.ports, after.secrets, after.mounts) == ((), (), (), ())
    assert (after.profile, after.image, after.backend) == (spec.profile, spec.image, spec.backend)
    assert after.min_isolation == spec.min_isolation
