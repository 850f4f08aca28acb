"""Package repositories of the tests' own, as files for any web server: of apt, pip and npm."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import tarfile
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


def make_npm_registry(site: Path, address: str) -> None:
    """A document for each package, which says where its archive lies; `wee` has a program of that name."""
    about = {"name": "wee", "version": "1.0.0", "bin": {"wee": "wee.js"}}
    files = {
        "package/package.json": json.dumps(about),
        "package/wee.js": "#!/usr/bin/env node\nconsole.log('by npm')\n",
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content.encode()))
    data = packed.getvalue()
    (site / "wee-1.0.0.tgz").write_bytes(data)
    integrity = base64.b64encode(hashlib.sha512(data).digest()).decode()
    dist = {"tarball": f"{address}/wee-1.0.0.tgz", "integrity": f"sha512-{integrity}"}
    document = {
        "name": "wee",
        "dist-tags": {"latest": "1.0.0"},
        "versions": {"1.0.0": {**about, "dist": dist}},
    }
    (site / "wee").write_text(json.dumps(document))
