"""Figures as a table for a terminal, as Markdown for SPECIFICATION.md, and as JSON with every sample."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import (
    AtMost,
    AtMostTimes,
    FasterThan,
    Figure,
    MovesAtLeast,
    TailAtMost,
    Target,
    judge,
    summarize,
)

FORMAT = 1
_HEADINGS = ("what", "n", "p50", "p95", "p99", "max", "", "wanted", "found", "verdict")
_TARGETS: dict[str, type[Target]] = {
    kind.__name__: kind for kind in (AtMost, AtMostTimes, FasterThan, MovesAtLeast, TailAtMost)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run: when, where, how, and what came out."""

    taken_at: str
    options: Mapping[str, Any]
    machine: Mapping[str, str]
    figures: tuple[Figure, ...]


def as_text(report: Report) -> str:
    rows = _rows(report.figures)
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    lines = [f"{name:<18} {value}" for name, value in _facts(report)]
    lines.append("")
    for row in (_HEADINGS, *rows):
        cells = [
            _aligned(cell, width, place)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, "", _conclusion(report.figures)]) + "\n"


def as_markdown(report: Report) -> str:
    lines = [f"- {name}: {value}" for name, value in _facts(report)]
    lines += ["", f"| {' | '.join(_HEADINGS)} |"]
    lines.append("|---|" + "--:|" * 5 + "---|" * 4)
    for row in _rows(report.figures):
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return "\n".join([*lines, "", _conclusion(report.figures)]) + "\n"


def save(report: Report, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{report.taken_at.replace(':', '').replace(' ', '-')}.json"
    judgements = _judgements(report.figures)
    figures = [
        {
            **asdict(figure),
            "targets": [_target_as_json(target) for target in figure.targets],
            "judgements": judgements[figure.key],
        }
        for figure in report.figures
    ]
    content = {
        "format": FORMAT,
        "taken_at": report.taken_at,
        "options": dict(report.options),
        "machine": dict(report.machine),
        "figures": figures,
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def load(path: Path) -> Report:
    """A report that was saved; what follows from its samples is worked out anew."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("format") != FORMAT:
        raise ValueError(f"{path} was saved in another format")
    figures = tuple(
        Figure(
            key=item["key"],
            name=item["name"],
            unit=item["unit"],
            samples=tuple(item["samples"]),
            targets=tuple(_target_from_json(target) for target in item["targets"]),
            why_missing=item["why_missing"],
        )
        for item in content["figures"]
    )
    return Report(
        taken_at=content["taken_at"],
        options=content["options"],
        machine=content["machine"],
        figures=figures,
    )


def has_missed(report: Report) -> bool:
    by_key = {figure.key: figure for figure in report.figures}
    return any(
        judgement.verdict == "missed"
        for figure in report.figures
        for judgement in judge(figure, by_key)
    )


def _rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    by_key = {figure.key: figure for figure in figures}
    rows: list[tuple[str, ...]] = []
    for figure in figures:
        measured = _cells(figure)
        judgements = judge(figure, by_key)
        verdicts: list[tuple[str, str, str]] = [
            (one.wanted, one.found, one.verdict) for one in judgements
        ] or [("", "", "")]
        rows.append((_label(figure), *measured, *verdicts[0]))
        rows += [("", *("" for _ in measured), *verdict) for verdict in verdicts[1:]]
    return rows


def _label(figure: Figure) -> str:
    if figure.samples:
        return figure.name
    return f"{figure.name}; not measured: {figure.why_missing or 'there is no sample'}"


def _cells(figure: Figure) -> tuple[str, ...]:
    if not figure.samples:
        return ("0", "-", "-", "-", "-", "")
    found = summarize(figure.samples)
    unit = "" if figure.unit == "count" else figure.unit
    values = (found.p50, found.p95, found.p99, found.max)
    return (str(found.count), *(_number(value) for value in values), unit)


def _number(value: float) -> str:
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _aligned(cell: str, width: int, place: int) -> str:
    return cell.rjust(width) if 1 <= place <= 5 else cell.ljust(width)


def _facts(report: Report) -> list[tuple[str, str]]:
    return [("taken", report.taken_at), *report.machine.items()]


def _judgements(figures: Sequence[Figure]) -> dict[str, list[dict[str, str]]]:
    by_key = {figure.key: figure for figure in figures}
    return {figure.key: [asdict(one) for one in judge(figure, by_key)] for figure in figures}


def _conclusion(figures: Sequence[Figure]) -> str:
    verdicts = [one["verdict"] for found in _judgements(figures).values() for one in found]
    counts = [
        f"{verdicts.count(verdict)} {verdict}" for verdict in ("met", "missed", "not measured")
    ]
    return f"Targets: {', '.join(counts)}. The verdict is by the median."


def _target_as_json(target: Target) -> dict[str, Any]:
    return {"kind": type(target).__name__, **asdict(target)}


def _target_from_json(values: Mapping[str, Any]) -> Target:
    fields = dict(values)
    return _TARGETS[fields.pop("kind")](**fields)
