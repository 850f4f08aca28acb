"""The tables and the saved file, from figures that are given; and that cases take turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.__main__ import main
from benchmarks.figures import AtMost, AtMostTimes, Figure
from benchmarks.report import Report, as_markdown, as_text, has_missed, load, save
from benchmarks.rounds import Case, Readings, interleave

RUN = Report(
    taken_at="2026-01-02 03:04:05",
    options={"quick": True},
    machine={"processors": "2", "isolation": "software-vm"},
    figures=(
        Figure(key="base", name="python3 -c pass", samples=(10.0, 12.0)),
        Figure(
            key="help",
            name="crucible --help",
            samples=(20.0, 50.0),
            targets=(AtMostTimes(factor=3, other="base"),),
        ),
        Figure(key="podman", name="podman run", why_missing="podman is not installed"),
        Figure(
            key="idle", name="idle | each", unit="MB", samples=(30.5,), targets=(AtMost(limit=25),)
        ),
    ),
)


def test_the_table_shows_figures_and_verdicts() -> None:
    text = as_text(RUN)
    (line,) = [line for line in text.splitlines() if line.startswith("crucible --help")]
    assert line.split()[2:7] == ["2", "20", "50", "50", "50"]
    assert line.endswith("at most 3 x `python3 -c pass`  2.00 x   met")
    assert "Targets: 1 met, 1 missed, 0 not measured" in text


def test_what_is_missing_says_why_and_has_no_number() -> None:
    (line,) = [line for line in as_text(RUN).splitlines() if line.startswith("podman")]
    assert line.split(":")[1].split() == ["podman", "is", "not", "installed", "0", *"----"]


def test_markdown_has_as_many_cells_in_every_row() -> None:
    lines = [line for line in as_markdown(RUN).splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(RUN.figures)
    assert {line.replace("\\|", "").count("|") for line in lines} == {11}


def test_the_machine_is_told_in_both() -> None:
    assert "isolation          software-vm" in as_text(RUN)
    assert "- isolation: software-vm" in as_markdown(RUN)


def test_a_saved_run_has_every_sample_and_comes_back_whole(tmp_path: Path) -> None:
    path = save(RUN, tmp_path / "results")
    saved = json.loads(path.read_text())
    assert saved["figures"][1]["samples"] == [20.0, 50.0]
    assert saved["figures"][1]["judgements"][0]["verdict"] == "met"
    assert load(path) == RUN


def test_a_saved_run_can_be_printed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(RUN, tmp_path)
    assert main(["--from", str(path), "--markdown"]) == 0
    assert capsys.readouterr().out == as_markdown(RUN)


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text('{"format": 99}')
    with pytest.raises(ValueError, match="another format"):
        load(path)


def test_a_missed_target_is_told_to_programs_too() -> None:
    assert has_missed(RUN)
    assert not has_missed(Report(taken_at="", options={}, machine={}, figures=RUN.figures[:3]))


def test_cases_take_turns_and_the_first_round_does_not_count() -> None:
    order: list[str] = []

    def case(key: str, every: int = 1) -> Case:
        def once() -> Readings:
            order.append(key)
            return {key: float(len(order))}

        return Case(measure=once, every=every)

    samples = interleave("", [case("a"), case("b"), case("rare", every=2)], 3)
    assert "".join(word[0] for word in order) == "abr" + "ba" + "rab" + "ab"
    assert {key: len(found) for key, found in samples.items()} == {"a": 3, "b": 3, "rare": 1}
