"""A run to look at: a few steps of every sort, with contents, without, and with empty ones."""

from __future__ import annotations

from pathlib import Path

from crucible.ledger.chain import Entry
from crucible.ledger.ledger import Ledger, Recorded
from crucible.ledger.live import verify_run
from crucible.ledger.steps import Kind, Step
from crucible.ledger.verifying import Verdict

RUN = "run-1"


def step(number: int = 0, kind: Kind = Kind.TOOL_CALL) -> Step:
    return Step(
        kind=kind,
        started_us=1_700_000_000_000_000 + number,
        duration_us=1500,
        tokens_in=10 * number,
        tokens_out=number,
        tokens_cached=1,
        cost_micros=None if number == 2 else 7,
        model="small" if kind is Kind.MODEL_CALL else "",
        sandbox="box",
        image="sha256:00",
        isolation="software-vm",
        exit_status=-number if number else None,
        facts={"tool": "bash", "deep": [1, True, None, {"text": "é\n\0"}]},
    )


def steps(count: int = 4) -> list[Recorded]:
    return [
        Recorded(
            step=step(number, Kind.MODEL_CALL if number % 2 else Kind.TOOL_CALL),
            input=f"input {number}".encode() if number != 1 else None,
            output=b"" if number == 2 else f"output {number}".encode(),
        )
        for number in range(count)
    ]


async def recorded(ledger: Ledger, run: str = RUN, count: int = 4) -> list[Entry]:
    await ledger.open_run(run, {"agent": "coder"}, user="ann")
    return await ledger.append_all(run, steps(count))


def verdict(ledger: Ledger, run: str = RUN) -> Verdict:
    return verify_run(
        run,
        database=ledger.database,
        heads=ledger.heads,
        contents=ledger.contents,
        key=ledger.key.public,
    )


def problems(found: Verdict) -> list[tuple[str, int | None]]:
    return [(str(item.problem), item.entry) for item in found.findings]


def head_file(home: Path, run: str = RUN) -> Path:
    return home / "ledger" / "heads" / f"{run}.json"
