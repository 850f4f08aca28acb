"""Why a machine ended, as it is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.backends.qemu import ending

PANIC = b"[  5.1] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0b\r\n[  5.2] CPU: 0\r\n"


def test_a_panic_is_told_in_the_kernels_own_words() -> None:
    found = ending.from_shutdown("guest-reset", b"early\n" + PANIC)
    assert found.is_panic
    assert found.why == "the guest kernel panicked: Attempted to kill init! exitcode=0x0b"


def test_a_machine_that_is_found_dead_of_a_panic_is_told_the_same_way() -> None:
    found = ending.from_state("shutdown", PANIC)
    assert found is not None
    assert found.is_panic


def test_a_panic_for_lack_of_memory_says_both() -> None:
    found = ending.from_shutdown("guest-reset", b"Out of memory: Killed process 1 (init)\n" + PANIC)
    assert found.why.endswith("(after it had run out of memory)")


@pytest.mark.parametrize("reason", ["guest-shutdown", "host-qmp-quit", "host-signal", "new"])
def test_what_is_no_reset_is_no_panic_whatever_the_console_says(reason: str) -> None:
    assert not ending.from_shutdown(reason, PANIC).is_panic


@pytest.mark.parametrize("status", ["running", "paused", "inmigrate", ""])
def test_a_machine_that_has_not_ended_is_not_said_to_have(status: str) -> None:
    assert ending.from_state(status, PANIC) is None


@given(console=st.binary(max_size=400))
def test_no_console_breaks_the_sentence(console: bytes) -> None:
    why = ending.from_shutdown("guest-reset", b"Kernel panic - not syncing: " + console).why
    assert why.isprintable()
    assert len(why) < 400
