"""Any sequence of reserving, settling, releasing, dying and time going by, against a plain account of it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from crucible.accounts.amounts import Amount, Measure
from crucible.accounts.budgets import Budgets, Reservation
from crucible.accounts.periods import Period
from crucible.accounts.plans import Limit
from crucible.errors import BudgetSpent
from crucible.store.database import Database

DAY_S = 86_400.0
TOTAL, DAILY = 100, 40


class Spending(RuleBasedStateMachine):
    template: Path
    held: Bundle[Reservation] = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        shutil.copy(self.template, f"{self.directory.name}/x.db")
        self.now = 1_800_000_000.0
        self.database = Database(f"sqlite:///{self.directory.name}/x.db")
        self.budgets = Budgets(self.database, lambda: self.now)
        self.runner = asyncio.Runner()
        self.spent: dict[str, list[tuple[int, int]]] = {"user:a": [], "user:b": []}
        self.open: dict[str, tuple[tuple[str, ...], int, int]] = {}
        for scope in self.spent:
            for period, amount in ((Period.TOTAL, TOTAL), (Period.DAY, DAILY)):
                limit = Limit(measure=Measure.TOKENS, period=period, amount=amount)
                self.run(self.budgets.set_limit(scope, limit))

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    @property
    def day(self) -> int:
        return int(self.now // DAY_S)

    def used(self, scope: str, day: int | None = None) -> int:
        spent = sum(n for when, n in self.spent[scope] if day in (None, when))
        open_ = sum(
            n for scopes, when, n in self.open.values() if scope in scopes and day in (None, when)
        )
        return spent + open_

    @rule(
        target=held,
        scopes=st.sampled_from([("user:a",), ("user:b",), ("user:a", "user:b")]),
        tokens=st.integers(1, 50),
    )
    def reserve(self, scopes: tuple[str, ...], tokens: int) -> Any:
        fits = all(
            self.used(scope) + tokens <= TOTAL and self.used(scope, self.day) + tokens <= DAILY
            for scope in scopes
        )
        try:
            made: Reservation = self.run(self.budgets.reserve(scopes, Amount(tokens=tokens)))
        except BudgetSpent:
            assert not fits
            return multiple()
        assert fits
        self.open[made.id] = (scopes, self.day, tokens)
        return made

    @rule(one=consumes(held), share=st.floats(0, 1))
    def settle(self, one: Reservation, share: float) -> None:
        scopes, day, tokens = self.open.pop(one.id)
        actual = int(tokens * share)
        assert not self.run(one.settle(Amount(tokens=actual)))
        for scope in scopes:
            self.spent[scope].append((day, actual))

    @rule(hours=st.integers(1, 30))
    def go_on(self, hours: int) -> None:
        self.now += hours * 3600

    @rule()
    def sweep(self) -> None:
        """What it finds past its lease moves, and no sum changes."""
        self.run(self.budgets.settle_lost())

    @invariant()
    def never_overshot(self) -> None:
        for standing in self.run(self.budgets.remaining(self.spent)):
            day = self.day if standing.period is Period.DAY else None
            assert standing.spent + standing.reserved == self.used(standing.scope, day)
            assert standing.spent + standing.reserved <= standing.limit

    def teardown(self) -> None:
        self.runner.close()
        self.database.close()
        self.directory.cleanup()


@pytest.mark.usefixtures("sqlite_template")
def test_no_sequence_overshoots(sqlite_template: Path) -> None:
    Spending.template = sqlite_template
    run_state_machine_as_test(
        Spending, settings=settings(max_examples=12, stateful_step_count=20, deadline=None)
    )
