"""The package alone: built, put where nothing else of ours is, and used."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

from tests.conftest import ROOT

_USED = """
import sys
sys.path[:0] = sys.argv[1:]
from crucible_client import AsyncSandbox, Client, Sandbox, errors
try:
    import crucible
except ModuleNotFoundError:
    pass
else:
    sys.exit("something of ours is here")
try:
    Sandbox.list(client=Client("http://127.0.0.1:1"))
except errors.ServerUnreachable as error:
    print(error.code, error.hint)
"""


def test_the_wheel_works_where_nothing_else_of_ours_is(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "sdk" / "python", source, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")],
        cwd=source, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    assert (tmp_path / "site" / "crucible_client" / "py.typed").exists()
    metadata = next((tmp_path / "site").glob("*.dist-info/METADATA")).read_text()
    needs = [line for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    assert needs == ["Requires-Dist: httpx<1,>=0.27"]
    # Without `site` the paths of an editable install are not followed.
    others = sysconfig.get_paths()["purelib"]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _USED, str(tmp_path / "site"), others],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.startswith("server-unreachable Start one with `crucible serve`"), done.stderr
