"""How many machines should wait follows what was asked for, within its bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crucible.sandbox.pool.demand import FORGET_S, MOST_SHAPES, WINDOW_S, Demand
from crucible.sandbox.pool.shape import Shape


def shape(number: int = 0) -> Shape:
    return Shape("qemu-tcg", "base", f"sha256:{number}", 512, 1, 8192)


def test_the_first_shape_waits_before_anybody_asks() -> None:
    demand = Demand(minimum=2, maximum=8)
    assert demand.wanted(0.0) == {}
    demand.expect(shape(), 0.0)
    assert demand.wanted(0.1) == {shape(): 2}
    assert demand.wanted(FORGET_S * 10) == {shape(): 2}


def test_more_wait_while_more_are_asked_for_and_fewer_afterwards() -> None:
    demand = Demand(minimum=1, maximum=5)
    for number in range(3):
        demand.asked(shape(), float(number))
    assert demand.wanted(3.0) == {shape(): 4}
    for number in range(30):
        demand.asked(shape(), 4.0 + number / 100)
    assert demand.wanted(5.0) == {shape(): 5}
    assert demand.wanted(5.0 + WINDOW_S) == {shape(): 1}


def test_a_shape_that_nobody_wants_any_more_gives_way() -> None:
    demand = Demand(minimum=2, maximum=3)
    demand.asked(shape(1), 0.0)
    demand.asked(shape(2), 20.0)
    assert demand.wanted(40.0) == {shape(2): 2, shape(1): 1}
    assert demand.wanted(20.0 + FORGET_S) == {shape(2): 2, shape(1): 0}
    demand.forget(shape(2))
    assert demand.wanted(40.0) == {shape(1): 2}


@given(
    st.lists(st.tuples(st.integers(0, 2 * MOST_SHAPES), st.floats(0, 1e6)), max_size=200),
    st.integers(0, 5),
    st.integers(0, 20),
)
def test_never_more_than_the_maximum_whatever_is_asked_for(
    asked: list[tuple[int, float]], minimum: int, maximum: int
) -> None:
    demand = Demand(minimum=minimum, maximum=maximum)
    for number, now in asked:
        demand.asked(shape(number), now)
    wanted = demand.wanted(max((now for _, now in asked), default=0.0))
    assert sum(wanted.values()) <= maximum
    assert len(wanted) <= MOST_SHAPES
    assert all(count >= 0 for count in wanted.values())
