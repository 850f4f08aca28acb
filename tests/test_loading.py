"""That workers share the files of a half out, and that nothing of a file is lost by it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import ROOT

CONFTEST = "from tests.loading import pytest_pycollect_makemodule, pytest_runtest_protocol\n"
SETTINGS = "[pytest]\nmarkers =\n    vm: boots\n    timeout: how long\n"
LOADED = """
import pathlib, pytest
with pathlib.Path(__file__).with_suffix(".loaded").open("a") as log:
    log.write("once ")
"""
FILES = {
    "test_mixed.py": """
@pytest.mark.parametrize("number", range(3))
def test_number(number):
    assert number < 2
@pytest.mark.vm
def test_machine():
    raise AssertionError("not of this half")
""",
    "first/test_broken.py": "raise RuntimeError('cannot be loaded')",
    "first/test_nothing.py": "",
    "second/test_fixtures.py": """
@pytest.fixture(scope="module")
def shared():
    yield []
    pathlib.Path(__file__).with_suffix(".ended").touch()
def test_one(shared):
    shared.append(1)
def test_two(shared):
    assert shared == [1]
""",
    "second/test_other.py": "def test_it(): pass",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tree")
    (made / "conftest.py").write_text(CONFTEST)
    (made / "pytest.ini").write_text(SETTINGS)
    for name, text in FILES.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(LOADED + text)
    return made


@pytest.fixture(scope="module")
def told(tree: Path) -> subprocess.CompletedProcess[str]:
    alone = ("no:cacheprovider", "no:schemathesis", "no:hypothesispytest", "no:timeout")
    words = [word for plugin in alone for word in ("-p", plugin)]
    words += [
        "-o",
        f"pythonpath={ROOT}",
        "-o",
        "console_output_style=times",
        "--import-mode=importlib",
    ]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-m", "not vm", "-n", "2", "--dist", "loadfile"],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )


def test_every_test_is_told_of_and_what_cannot_be_loaded_fails_the_run(
    told: subprocess.CompletedProcess[str],
) -> None:
    assert told.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 5 passed, 1 error" in told.stdout
    assert "FAILED test_mixed.py::test_number[2]" in told.stdout
    assert "ERROR first/test_broken.py" in told.stdout


def test_a_file_is_loaded_by_one_worker_alone(
    tree: Path, told: subprocess.CompletedProcess[str]
) -> None:
    loaded = {str(path.relative_to(tree)): path.read_text() for path in tree.rglob("*.loaded")}
    assert loaded == {name.replace(".py", ".loaded"): "once " for name in FILES}, told.stdout


def test_what_a_file_shares_ends_with_it(
    tree: Path, told: subprocess.CompletedProcess[str]
) -> None:
    assert (tree / "second" / "test_fixtures.ended").exists(), told.stdout
