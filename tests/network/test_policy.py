"""What the rules mean, and that no spelling of a host gets around them."""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.errors import BadSetting
from crucible.network.addresses import Kind, kind_of, parse_address
from crucible.network.names import normal_name
from crucible.network.policy import Mode, Policy
from crucible.network.rules import parse_rule

PUBLIC = "93.184.216.34"


def allowlist(*rules: str, deny: tuple[str, ...] = ()) -> Policy:
    return Policy.parse("allowlist", rules, deny)


def test_a_policy_that_says_nothing_allows_nothing() -> None:
    decision = Policy().decide("example.com", "", 443)
    assert not decision.allowed
    assert decision.hint == "example.com"


def test_an_exact_name_is_that_name_on_the_ports_of_the_web() -> None:
    policy = allowlist("example.com")
    assert policy.decide("example.com", PUBLIC, 443).allowed
    assert policy.decide("example.com", PUBLIC, 80).allowed
    assert not policy.decide("example.com", PUBLIC, 22).allowed
    assert not policy.decide("www.example.com", PUBLIC, 443).allowed
    assert not policy.decide("example.com.evil.org", PUBLIC, 443).allowed
    assert not policy.decide("notexample.com", PUBLIC, 443).allowed


def test_a_suffix_is_everything_below_and_not_itself() -> None:
    policy = allowlist("*.example.com")
    assert policy.decide("a.example.com", PUBLIC, 443).allowed
    assert policy.decide("a.b.example.com", PUBLIC, 443).allowed
    assert not policy.decide("example.com", PUBLIC, 443).allowed
    assert not policy.decide("badexample.com", PUBLIC, 443).allowed


@pytest.mark.parametrize(
    "port,allowed", [(22, True), (8000, True), (8010, True), (8011, False), (443, False)]
)
def test_ports_that_are_named_are_the_only_ones(port: int, allowed: bool) -> None:
    policy = allowlist("example.com:22,8000-8010")
    assert policy.decide("example.com", PUBLIC, port).allowed is allowed


def test_a_star_is_every_port() -> None:
    assert allowlist("example.com:*").decide("example.com", PUBLIC, 31337).allowed


def test_a_denying_rule_wins_on_every_port() -> None:
    policy = allowlist("*.example.com:*", deny=("bad.example.com",))
    assert policy.decide("good.example.com", PUBLIC, 22).allowed
    refusal = policy.decide("bad.example.com", PUBLIC, 22)
    assert not refusal.allowed
    assert refusal.rule == "bad.example.com"
    assert (
        not Policy.parse("full", (), ("bad.example.com",)).decide("bad.example.com", "", 1).allowed
    )


def test_a_denied_network_is_denied_behind_every_name_and_disguise() -> None:
    policy = Policy.parse("full", ("[::ffff:0:0]/96:*", "[64:ff9b::]/96:*"), ("93.184.216.0/24",))
    assert not policy.decide("example.com", PUBLIC, 443).allowed
    assert not policy.decide("", PUBLIC, 443).allowed
    assert not policy.decide("", f"::ffff:{PUBLIC}", 443).allowed
    assert not policy.decide("", f"64:ff9b::{PUBLIC}", 443).allowed
    assert policy.decide("", "::ffff:93.184.217.1", 443).allowed


def test_a_denied_set_is_denied_on_every_port() -> None:
    policy = Policy.parse("full", (), ("@git",))
    assert not policy.decide("github.com", "", 9418).allowed


def test_full_reaches_every_public_host_on_every_port() -> None:
    policy = Policy.parse("full")
    assert policy.decide("example.com", PUBLIC, 25).allowed
    assert policy.decide("", PUBLIC, 6667).allowed
    assert policy.decide("", "2606:2800:220:1::1", 6667).allowed


NEIGHBOURS = [
    "127.0.0.1",
    "127.8.8.8",
    "10.1.2.3",
    "172.31.0.1",
    "192.168.1.1",
    "169.254.1.1",
    "100.64.0.1",
    "::1",
    "fe80::1",
    "fd12::1",
]
SPECIAL = [
    "169.254.169.254",
    "fd00:ec2::254",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "198.18.0.1",
    "192.0.2.1",
    "::",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:93.184.216.34",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::7f00:1",
    "2002:7f00:1::",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "4000::1",
]


@pytest.mark.parametrize("address", [*NEIGHBOURS, *SPECIAL])
@pytest.mark.parametrize(
    "policy", [Policy.parse("full"), allowlist("inside.example", "0.0.0.0/0:*", "[::]/0:*")]
)
def test_what_is_not_public_needs_naming(policy: Policy, address: str) -> None:
    assert not policy.decide("inside.example", address, 443).allowed
    assert not policy.decide("", address, 443).allowed
    by_itself = policy.allowing(address)
    assert by_itself.decide("", address, 443).allowed
    assert by_itself.decide("inside.example", address, 443).allowed
    assert not by_itself.decide("inside.example", "10.99.99.99", 443).allowed


@pytest.mark.parametrize("address", NEIGHBOURS)
def test_a_name_may_be_let_into_the_neighbourhood(address: str) -> None:
    refusal = Policy.parse("full").decide("db.corp.example", address, 5432)
    assert refusal.hint == "db.corp.example:5432+private"
    policy = Policy.parse("full").allowing(refusal.hint)
    assert policy.decide("db.corp.example", address, 5432).allowed
    assert not policy.decide("db.corp.example", address, 22).allowed
    assert not policy.decide("other.corp.example", address, 5432).allowed


@pytest.mark.parametrize("address", SPECIAL)
def test_the_neighbourhood_does_not_hold_what_nobody_means_by_it(address: str) -> None:
    policy = allowlist("db.corp.example+private", "169.254.0.0/16", "[fd00::]/8")
    assert not policy.decide("db.corp.example", address, 443).allowed


@pytest.mark.parametrize(
    "name", ["localhost", "intranet", "metadata.google.internal", "printer.local", "metadata"]
)
def test_names_of_private_networks_are_not_public(name: str) -> None:
    assert not Policy.parse("full").decide(name, "", 80).allowed
    assert allowlist(name).decide(name, "", 80).allowed


@pytest.mark.parametrize("written", ["EXAMPLE.com", "example.com.", "Example.Com."])
def test_a_name_has_one_spelling(written: str) -> None:
    assert allowlist("example.com").decide(written, "", 443).allowed
    assert allowlist(written).decide("example.com", "", 443).allowed


def test_a_name_in_other_letters_is_its_punycode() -> None:
    assert allowlist("bücher.example").allow[0].text == "xn--bcher-kva.example"
    assert allowlist("bücher.example").decide("xn--bcher-kva.example", "", 443).allowed
    assert not allowlist("example.com").decide("ехample.com", "", 443).allowed


@pytest.mark.parametrize(
    "name",
    [
        "127.1", "2130706433", "0x7f000001", "0x7f.1", "1.2.3.4", "017700000001", "example.1",
        "", ".", "..", "a..b", ".a", "-a.example", "a-.example", "a b", "a\x00b", "a/b", "a@b", "a:80",
        "a" * 64 + ".example", ".".join(["a" * 60] * 5), "[::1]", "::1", "a%2eb", "straße.example", "a\n.example",
        "\u202eevil",
    ],
)  # fmt: skip
def test_hostile_names_are_no_names(name: str) -> None:
    for policy in (Policy.parse("full"), allowlist("*.example:*")):
        decision = policy.decide(name, "", 443)
        assert not decision.allowed
        assert decision.reason.isprintable()


@pytest.mark.parametrize(
    "text,suggestion",
    [
        ("https://github.com/foo", "github.com"),
        ("github.com/foo", "github.com"),
        ("*", "full"),
        ("*github.com", "*.github.com"),
        ("10.0.0.1/8", "10.0.0.0/8"),
        ("example.com:", "example.com"),
        ("example.com:99999", "65535"),
        ("example.com:http", "65535"),
        ("example.com+privat", "private"),
        ("@git+private", "@git"),
        ("[::1:443", "[2001:db8::1]:443"),
        ("10.0.0.0/33", "32"),
        ("", "github.com"),
        ("a b", "github.com"),
    ],
)
def test_a_rule_that_means_nothing_is_refused_with_a_better_one(text: str, suggestion: str) -> None:
    with pytest.raises(BadSetting) as caught:
        parse_rule(text)
    assert suggestion in caught.value.hint


def test_unknown_modes_and_sets_get_a_suggestion() -> None:
    with pytest.raises(BadSetting) as caught:
        Policy.parse("ful")
    assert "`full`" in caught.value.hint
    with pytest.raises(BadSetting) as caught:
        allowlist("@registry")
    assert "@registries" in caught.value.hint


@pytest.mark.parametrize(
    "text,canonical",
    [
        ("GitHub.com.", "github.com"),
        ("[2001:DB8::1]:443", "[2001:db8::1]:443"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::]/32:22", "[2001:db8::]/32:22"),
        ("10.0.0.0/8:443,22", "10.0.0.0/8:22,443"),
        ("a.example:*+unchecked+private", "a.example:*+private+unchecked"),
        ("@Git", "@git"),
    ],
)
def test_a_rule_is_written_in_one_way(text: str, canonical: str) -> None:
    assert parse_rule(text).text == canonical
    assert parse_rule(canonical).text == canonical


def test_sets_hold_rules_and_are_named_in_decisions() -> None:
    policy = allowlist("@git", "@models")
    assert policy.decide("github.com", PUBLIC, 22).rule == "@git"
    assert policy.decide("api.anthropic.com", PUBLIC, 443).rule == "@models"
    assert not policy.decide("api.anthropic.com", PUBLIC, 22).allowed
    assert not allowlist("@git:443").decide("github.com", PUBLIC, 22).allowed


def test_registries_are_what_they_were_found_to_be() -> None:
    policy = allowlist("@registries")
    assert policy.needs_registries
    assert not policy.decide("mirror.corp.example", "", 8443).allowed
    found = replace(policy, registries=(parse_rule("mirror.corp.example:8443+private"),))
    assert found.decide("mirror.corp.example", "10.0.0.9", 8443).allowed
    assert found.as_json() == policy.as_json()


def test_a_policy_survives_json() -> None:
    policy = Policy.parse("full", ["Example.com:22", "@git"], ["10.0.0.0/8"])
    fields = json.loads(json.dumps(policy.as_json()))
    assert Policy.parse(fields["mode"], fields["allow"], fields["deny"]) == policy


def test_allowing_something_turns_an_allowlist_on() -> None:
    assert Policy().allowing("example.com").mode is Mode.ALLOWLIST


labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
names = st.lists(labels, min_size=2, max_size=4).map(".".join).filter(lambda n: normal_name(n) == n)


@given(names, st.integers(1, 65535))
def test_the_hint_of_a_refusal_allows_exactly_it(name: str, port: int) -> None:
    refusal = Policy(mode=Mode.ALLOWLIST).decide(name, "", port)
    policy = Policy(mode=Mode.ALLOWLIST).allowing(refusal.hint)
    assert policy.decide(name, PUBLIC, port).allowed
    assert not policy.decide("x" + name, PUBLIC, port).allowed
    assert not policy.decide("x." + name, PUBLIC, port).allowed


@given(st.ip_addresses(), st.integers(1, 65535))
def test_an_address_is_allowed_by_its_hint_and_never_without_one_unless_public(
    address: IPv4Address | IPv6Address, port: int
) -> None:
    full = Policy.parse("full").decide("", str(address), port)
    assert full.allowed is (kind_of(address) is Kind.PUBLIC)
    if not full.allowed and parse_address(str(address)) is not None:
        assert Policy.parse("allowlist", [full.hint]).decide("", str(address), port).allowed


@given(st.ip_addresses())
def test_what_python_calls_private_is_never_public_here(address: IPv4Address | IPv6Address) -> None:
    if address.is_private or address.is_multicast or address.is_loopback or address.is_link_local:
        assert kind_of(address) is not Kind.PUBLIC


@given(st.integers(0, 2**32 - 1), st.sampled_from(["::ffff:0:0", "64:ff9b::", "::"]))
def test_an_address_in_other_clothes_is_never_public(bits: int, prefix: str) -> None:
    assert kind_of(IPv6Address(int(ip_address(prefix)) | bits)) is not Kind.PUBLIC


@given(st.text(max_size=80))
def test_any_text_is_a_rule_or_refused(text: str) -> None:
    try:
        rule = parse_rule(text)
    except BadSetting:
        return
    assert parse_rule(rule.text) == rule


@given(st.text(max_size=300), st.text(max_size=60), st.integers(-5, 70000))
def test_no_text_breaks_a_decision(name: str, address: str, port: int) -> None:
    for policy in (Policy.parse("full"), allowlist("*.example", "10.0.0.0/8")):
        decision = policy.decide(name, address, port)
        assert decision.reason.isascii()
        if decision.allowed and name:
            assert normal_name(name) is not None


@given(st.text(max_size=300))
def test_a_normal_name_is_normal(text: str) -> None:
    name = normal_name(text)
    if name is not None:
        assert normal_name(name) == name
        assert name.isascii()
        assert name == name.lower()
        assert not name.endswith(".")
