"""`python -m benchmarks`: measures, prints the table with a verdict for each target, and saves every sample."""

from __future__ import annotations

import argparse
import asyncio
import compileall
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import crucible
from benchmarks import (
    agent,
    chats,
    copies,
    crowd,
    guests,
    ledger,
    machine,
    memory,
    pulls,
    report,
    requests,
    starts,
    streams,
    warm,
)
from benchmarks.figures import Figure
from benchmarks.place import Place, open_place
from benchmarks.report import Report
from benchmarks.rounds import say_done
from crucible import assemble
from crucible.config import load_config
from crucible.errors import CrucibleError

RESULTS = Path(__file__).with_name("results")
FAMILIES = (
    "starts", "warm", "requests", "inside", "crowd", "copies", "streams", "pulls", "memory", "ledger", "agent",
    "chats",
)  # fmt: skip


def main(words: list[str] | None = None) -> int:
    options = _parser().parse_args(words)
    if options.saved:
        found = report.load(options.saved)
    else:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        try:
            found = _measure(options)
        except CrucibleError as error:
            print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
            return error.exit_status
        path = report.save(found, RESULTS)
        print(f"Every sample is in {path}", file=sys.stderr)
    sys.stdout.write(report.as_markdown(found) if options.markdown else report.as_text(found))
    return 0


def _measure(options: argparse.Namespace) -> Report:
    compileall.compile_dir(str(Path(crucible.__file__).parent), quiet=2)
    prepared = options.home or load_config().home
    with open_place(prepared.resolve()) as place, asyncio.Runner() as runner:
        runner.run(assemble.prepare_template(place.config, lambda stage, detail: None))
        facts = runner.run(machine.describe(place))
        figures: list[Figure] = []
        for family in options.only or FAMILIES:
            figures += _families(place, runner, is_quick=options.quick)[family]()
        facts["load at the end"] = " ".join(f"{load:.2f}" for load in os.getloadavg())
        say_done()
    return Report(
        taken_at=time.strftime("%Y-%m-%d %H:%M:%S"),
        options={"quick": options.quick, "only": list(options.only or FAMILIES)},
        machine=facts,
        figures=tuple(figures),
    )


def _families(
    place: Place, runner: asyncio.Runner, *, is_quick: bool
) -> dict[str, Callable[[], list[Figure]]]:
    return {
        "agent": lambda: agent.measure(rounds=2 if is_quick else 20),
        "chats": lambda: chats.measure(rounds=1 if is_quick else 10),
        "starts": lambda: starts.measure(place, runner, rounds=5 if is_quick else 50),
        "warm": lambda: warm.measure(
            place, rounds=5 if is_quick else 50, crowd=24 if is_quick else 500
        ),
        "requests": lambda: requests.measure(
            place,
            rounds=5 if is_quick else 50,
            streams=1 if is_quick else 5,
            alive=10 if is_quick else 100,
        ),
        "inside": lambda: guests.measure(place, runner, rounds=2 if is_quick else 20),
        "crowd": lambda: crowd.measure(
            place, count=10 if is_quick else 50, rounds=1 if is_quick else 5
        ),
        "copies": lambda: copies.measure(place, rounds=1 if is_quick else 5),
        "streams": lambda: streams.measure(place, rounds=1 if is_quick else 10),
        "pulls": lambda: pulls.measure(place, rounds=1 if is_quick else 5),
        "memory": lambda: memory.measure(place, runner, rounds=10 if is_quick else 200),
        "ledger": lambda: ledger.measure(place, runner, rounds=5 if is_quick else 50),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few samples: to see that it works")
    parser.add_argument(
        "--markdown", action="store_true", help="print Markdown, for SPECIFICATION.md"
    )
    parser.add_argument(
        "--home", type=Path, help="a state directory that is set up (default: the one in use)"
    )
    parser.add_argument(
        "--only", action="append", choices=FAMILIES, help="measure only this; may be given again"
    )
    parser.add_argument(
        "--from", dest="saved", type=Path, metavar="FILE", help="measure nothing: print a saved run"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
