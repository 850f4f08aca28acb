"""Package repositories of the tests' own, as files for any web server: of apt and of pip."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path


def make_apt_repository(repository: Path, work: Path) -> None:
    """A flat one: `tool` needs `word`, would like `never`, and notes how it was told to ask questions."""
    repository.mkdir(parents=True)
    note = '#!/bin/sh\nset -e\necho "$DEBIAN_FRONTEND" > /var/lib/tool-asked\n'
    _add_package(
        repository,
        work / "tool",
        {"Package": "tool", "Depends": "word (>= 2)", "Recommends": "never"},
        files={"usr/bin/tool": "#!/bin/sh\ncat /usr/share/word\n"},
        after=note,
    )
    _add_package(
        repository, work / "word", {"Package": "word"}, files={"usr/share/word": "by apt\n"}
    )
    _add_package(repository, work / "never", {"Package": "never"}, files={"never": "unwanted\n"})
    index = subprocess.check_output(
        ["dpkg-scanpackages", "--multiversion", "."], cwd=repository, stderr=subprocess.DEVNULL
    )
    (repository / "Packages").write_bytes(index)


def _add_package(
    repository: Path,
    tree: Path,
    fields: Mapping[str, str],
    *,
    files: Mapping[str, str],
    after: str = "",
) -> None:
    more = {
        "Version": "2.0",
        "Architecture": "all",
        "Maintainer": "Tests <tests@example.com>",
        "Description": "for tests",
    }
    control = "".join(f"{name}: {value}\n" for name, value in {**fields, **more}.items())
    for name, content in {"DEBIAN/control": control, "DEBIAN/postinst": after, **files}.items():
        if content:
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            path.chmod(0o755 if content.startswith("#!") else 0o644)
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", tree, repository],
        check=True, capture_output=True,
    )  # fmt: skip


def make_pip_index(site: Path) -> None:
    """Two versions of `tiny`, whose program says which one it is."""
    project = site / "simple" / "tiny"
    project.mkdir(parents=True)
    for version in ("1.0", "2.0"):
        info = f"tiny-{version}.dist-info"
        files = {
            "tiny.py": f"def main():\n    print('by pip {version}')\n",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": "[console_scripts]\ntiny = tiny:main\n",
        }
        files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
        with zipfile.ZipFile(project / f"tiny-{version}-py3-none-any.whl", "w") as wheel:
            for name, content in files.items():
                wheel.writestr(name, content)
