"""Which limit ended or hindered a command, and its value: what a caller is told."""

from __future__ import annotations

from typing import NamedTuple

from crucible.sandbox.session import Exit
from crucible.sandbox.spec import SandboxSpec


class Limit(NamedTuple):
    """`option` is what raises it."""

    name: str
    value: str
    option: str

    def __str__(self) -> str:
        return f"{self.name}: {self.value}"


def limit_met(exit: Exit, spec: SandboxSpec, timeout_s: float | None) -> Limit | None:
    """The one that matters most, if there was one."""
    if exit.timed_out and timeout_s is not None:
        return Limit("time", f"{timeout_s:g} s", "--timeout")
    if exit.too_much_output:
        return Limit("output", f"{spec.output_mib} MiB", "--max-output")
    if exit.out_of_memory:
        return Limit("memory", f"{spec.memory_mib} MiB", "--memory")
    if exit.too_many_processes and spec.processes:
        return Limit("processes", str(spec.processes), "--pids")
    return None
