"""A run, its entries and the verdict on them, as people read them."""

from __future__ import annotations

from crucible.cli import render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.ledger.chain import Entry
    from crucible.ledger.reading import RunSummary
    from crucible.ledger.verifying import Verdict

RUN_HEADINGS = ("RUN", "BEGUN", "ENTRIES", "TOKENS", "USD", "MODELS")
ENTRY_HEADINGS = ("NO", "KIND", "BEGUN", "TOOK", "TOKENS", "USD", "MODEL", "EXIT", "WHAT")


def run_row(summary: RunSummary) -> tuple[str, ...]:
    return (
        summary.id,
        render.moment(summary.opened_us / 1e6),
        str(summary.count),
        _tokens(summary),
        _usd(summary.cost_micros),
        render.visible(" ".join(summary.models)) or "-",
    )


def run_facts(summary: RunSummary) -> list[tuple[str, str]]:
    own = [
        (render.visible(key), render.visible(str(value))) for key, value in summary.facts.items()
    ]
    return [
        ("Run", summary.id),
        ("Begun", render.moment(summary.opened_us / 1e6)),
        ("User", render.visible(summary.user) or "-"),
        ("Entries", str(summary.count)),
        ("Tokens", f"{_tokens(summary)} ({summary.tokens_cached} cached)"),
        ("Cost", f"{_usd(summary.cost_micros)} USD"),
        *own,
    ]


def entry_row(entry: Entry) -> tuple[str, ...]:
    what = entry.facts.get("tool") or entry.facts.get("name") or entry.sandbox
    if failed := entry.facts.get("code"):
        what = f"{what}: {failed}"
    return (
        str(entry.number),
        render.visible(entry.kind),
        render.moment(entry.started_us / 1e6),
        render.duration(entry.duration_us / 1e6),
        _tokens(entry) if entry.tokens_in or entry.tokens_out else "-",
        "?" if entry.cost_micros is None else _usd(entry.cost_micros) if entry.cost_micros else "-",
        render.visible(entry.model) or "-",
        "-" if entry.exit_status is None else str(entry.exit_status),
        render.visible(str(what or "-")[:60]),
    )


def tell_verdict(verdict: Verdict) -> None:
    """The verdict is data; what to know beside it is talk."""
    if verdict.is_whole:
        render.say(f"{verdict.run}: {verdict.count} entries, as they were signed")
    for found in verdict.findings:
        where = "the record" if found.entry is None else f"entry {found.entry}"
        render.say(render.visible(f"{verdict.run}: {where}: {found.problem}: {found.detail}"))
    counted = {
        "as recorded": verdict.kept,
        "erased": verdict.erased,
        "not in this file": verdict.absent,
    }
    told = [f"{count} {what}" for what, count in counted.items() if count]
    if told:
        render.tell(f"Contents: {', '.join(told)}")
    if verdict.head_behind:
        render.tell(f"The head kept apart does not have the last {verdict.head_behind} yet")
    if verdict.unfinished:
        render.tell(f"{verdict.unfinished} contents are still there: erase them again")


def _tokens(counted: RunSummary | Entry) -> str:
    return f"{counted.tokens_in}/{counted.tokens_out}"


def _usd(micros: int) -> str:
    return f"{micros / 1e6:.4f}"
