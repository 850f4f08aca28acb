"""Running the host's programs: what is said when one fails or is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from crucible.errors import BuildFailed, PrerequisiteMissing
from crucible.images.commands import follow, output_of


def test_the_output_is_returned(tmp_path: Path) -> None:
    assert output_of(["pwd"], cwd=tmp_path) == f"{tmp_path}\n"


def test_a_build_sees_little_of_the_callers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    seen = output_of(["env"]).splitlines()
    assert "https_proxy=http://proxy.example:3128" in seen
    assert "LC_ALL=C.UTF-8" in seen
    assert not any("hunter2" in line for line in seen)


def test_a_failure_shows_the_end_of_what_was_said() -> None:
    with pytest.raises(BuildFailed, match="status 3") as caught:
        output_of(["sh", "-c", "seq 100; echo the reason >&2; exit 3"])
    assert "the reason" in caught.value.message
    assert "\n  50\n" not in caught.value.message


def test_a_missing_program_names_the_package() -> None:
    with pytest.raises(PrerequisiteMissing, match="no-such-program") as caught:
        output_of(["no-such-program"])
    assert "apt-get install" in caught.value.hint


def test_lines_are_handed_over_as_they_come() -> None:
    lines: list[str] = []
    follow(["sh", "-c", "echo one >&2; echo two >&2"], on_line=lines.append)
    assert lines == ["one", "two"]


def test_a_failing_long_program_shows_its_last_lines() -> None:
    with pytest.raises(BuildFailed, match="last words"):
        follow(["sh", "-c", "echo last words >&2; exit 1"], on_line=lambda line: None)


def test_bytes_that_are_no_text_do_no_harm() -> None:
    lines: list[str] = []
    follow(["sh", "-c", r"printf '\377\n' >&2"], on_line=lines.append)
    assert lines == ["�"]


def test_a_program_is_stopped_when_its_reader_fails() -> None:
    def stop(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(["sh", "-c", "echo go >&2; exec sleep 1000"], on_line=stop)
