"""Labels of isolation are a closed, ordered set."""

from __future__ import annotations

import itertools

import pytest

from crucible.errors import BadSetting
from crucible.sandbox.isolation import Isolation, parse_isolation

STRONGEST_FIRST = ["hardware-vm", "software-vm", "userspace-kernel", "wasm", "namespace"]


def test_labels_are_ordered_from_the_strongest() -> None:
    assert [str(label) for label in Isolation] == STRONGEST_FIRST


@pytest.mark.parametrize("strong, weak", list(itertools.combinations(STRONGEST_FIRST, 2)))
def test_a_stronger_one_satisfies_a_weaker_wish_and_never_the_other_way(
    strong: str, weak: str
) -> None:
    assert Isolation(strong).satisfies(Isolation(weak))
    assert not Isolation(weak).satisfies(Isolation(strong))


@pytest.mark.parametrize("label", STRONGEST_FIRST)
def test_every_label_satisfies_and_names_itself(label: str) -> None:
    assert parse_isolation(label).satisfies(Isolation(label))


@pytest.mark.parametrize("text", ["", "vm", "Hardware-VM", "hardware_vm", " hardware-vm", "none"])
def test_what_is_no_label_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(BadSetting) as refused:
        parse_isolation(text)
    assert all(label in refused.value.hint for label in STRONGEST_FIRST)
