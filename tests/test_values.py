"""Classes of values behave as those of `dataclasses`, whose place they take where time matters."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from crucible import values


@values.dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """Documented."""

    name: str
    count: int = 1
    notes: Mapping[str, str] = values.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(self.count)

    @property
    def double(self) -> int:
        return 2 * self.count


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """Documented."""

    name: str
    count: int = 1
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)


@values.dataclass(slots=True, kw_only=True)
class Loose:
    count: int = 0


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_arguments_are_named_known_and_complete(kind: Any) -> None:
    assert kind(name="a").count == 1
    for wrong in ((), ("a",)):
        with pytest.raises(TypeError):
            kind(*wrong)
    with pytest.raises(TypeError, match="size"):
        kind(name="a", size=3)


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_nothing_can_be_changed_or_added(kind: Any) -> None:
    value = kind(name="a")
    for name in ("name", "other"):
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            setattr(value, name, "b")
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
        del value.name
    assert not hasattr(value, "__dict__")


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_what_is_the_same_is_equal(kind: Any) -> None:
    assert kind(name="a") == kind(name="a")
    assert kind(name="a") != kind(name="b")
    assert kind(name="a") != ("a", 1, {})
    assert hash(kind(name="a", notes=())) == hash(kind(name="a", notes=()))


def test_what_can_change_has_no_hash() -> None:
    value = Loose()
    value.count = 5
    assert value == Loose(count=5)
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)
    with pytest.raises(AttributeError):
        value.other = 1  # type: ignore[attr-defined]


def test_it_shows_itself_alike() -> None:
    assert repr(Ours(name="a")) == repr(Theirs(name="a")).replace("Theirs", "Ours")
    assert Ours.__doc__ == "Documented."
    assert Ours.__qualname__ == "Ours"


def test_a_default_is_made_for_each() -> None:
    assert Ours(name="a").notes is not Ours(name="a").notes


def test_checks_of_its_own_are_made() -> None:
    assert Ours(name="a", count=3).double == 6
    with pytest.raises(ValueError, match="-1"):
        Ours(name="a", count=-1)
    with pytest.raises(ValueError, match="-1"):
        values.replace(Ours(name="a"), count=-1)


def test_the_functions_for_dataclasses_take_it() -> None:
    value = Ours(name="a", notes={"b": "c"})
    assert dataclasses.is_dataclass(value)
    assert dataclasses.asdict(value) == values.asdict(value) == {
        "name": "a", "count": 1, "notes": {"b": "c"},
    }  # fmt: skip
    assert dataclasses.replace(value, count=2) == values.replace(value, count=2)
    assert [field.name for field in dataclasses.fields(Ours)] == ["name", "count", "notes"]
    assert dataclasses.fields(Ours)[1].default == 1


def test_it_can_be_copied_and_pickled() -> None:
    value = Ours(name="a", notes={"b": "c"})
    assert copy.deepcopy(value) == copy.copy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value


def test_other_kinds_are_refused() -> None:
    with pytest.raises(TypeError):
        values.dataclass(slots=False, kw_only=True)
