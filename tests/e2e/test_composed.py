"""An agent's image and the business code's in one sandbox, through the real command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import CommandLine
from tests.vm.composition import make_app

from crucible.sandbox.image_use import image_users

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def crucible(module_home: Path) -> CommandLine:
    """One home for all: the machine that they start from is made once."""
    return CommandLine(module_home)


@pytest.fixture(scope="module")
def app(module_home: Path) -> str:
    return make_app(module_home)


def test_a_run_uses_both_images(crucible: CommandLine, app: str) -> None:
    both = ("run", "--with", f"app={app}")
    assert crucible.ok(*both, "nsexec", "app", "cat", "code") == "of the app\n"
    assert crucible.ok(*both, "--in", "app", "--entrypoint", "", "pwd") == "/srv/app\n"
    assert crucible.ok(*both, "--in", "app") == "started by itself\n"
    assert crucible.ok(*both, "--in", "app", "--", "differently") == "started differently\n"
    own = crucible.ok(*both, "--in", "app", "--user", "0", "--workdir", "/", "--env", "MORE=1",
                      "--entrypoint", "", "--", "sh", "-c", "id -u; pwd; echo $MORE $MODE")  # fmt: skip
    assert own == "0\n/\n1 production\n"


def test_names_that_lead_nowhere_are_told(crucible: CommandLine, app: str) -> None:
    done = crucible("run", "--with", f"app={app}", "--in", "nosuch", "true")
    assert (done.returncode, done.stdout) == (126, b"")
    assert b"'nosuch'" in done.stderr
    assert b"It has app" in done.stderr
    done = crucible("run", "--in", "app", "true")
    assert done.returncode == 126
    assert b"--with NAME=IMAGE" in done.stderr
    for words in (["--with", "app"], ["--with", "App=x"], ["--with", "a=x", "--with", "a=y"]):
        assert crucible("run", *words, "true").returncode == 126
    assert crucible("run", "--with", "a=nosuch:9", "true").returncode == 126


def test_a_project_names_its_images(crucible: CommandLine, app: str, tmp_path: Path) -> None:
    (tmp_path / "crucible.toml").write_text(f"[sandbox]\nimages = {{ app = '{app}' }}\n")
    assert crucible.ok("run", "nsexec", "app", "id", "-un", cwd=tmp_path) == "app\n"
    told = json.loads(crucible.ok("config", "show", "--json", cwd=tmp_path))
    assert told["images"]["value"] == {"app": app}
    assert told["images"]["origin"].endswith("crucible.toml [sandbox] images")


def test_a_named_sandbox_keeps_both_and_shares_its_workspace(
    crucible: CommandLine, app: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("of the host\n")
    try:
        _use_for_long(crucible, app, tmp_path)
    finally:
        crucible("rm", "--force", "box", "twin-1", "again")


def _use_for_long(crucible: CommandLine, app: str, directory: Path) -> None:
    crucible.ok("create", "box", "--with", f"app={app}", "--dir", directory, "--start")
    inside = ("exec", "--in", "app")
    script = "cat /workspace/file; echo more >> /workspace/file; echo kept > /srv/app/kept"
    assert crucible.ok(*inside, "-u", "0", "box", "sh", "-c", script) == "of the host\n"
    assert "+more" in crucible.ok("diff", "box")
    assert crucible.ok("exec", "box", "cat", "file") == "of the host\nmore\n"
    crucible.ok("snapshot", "create", "box", "moment")
    crucible.ok("fork", "box", "--name", "twin")
    crucible.ok("stop", "box")
    crucible.ok("start", "box")
    crucible.ok("snapshot", "restore", "moment", "again")
    for name in ("box", "twin-1", "again"):
        assert crucible.ok(*inside, name, "cat", "kept") == "kept\n"
        assert crucible.ok("exec", name, "nsexec", "app", "cat", "kept") == "kept\n"
    facts = json.loads(crucible.ok("inspect", "--json", "box"))
    assert facts["spec"]["images"] == {"app": app}
    users = image_users(crucible.home)
    assert set(users["docker.io/library/app:1"]) == {"box", "twin-1", "again", "moment"}
    crucible.ok("rm", "--force", "box", "twin-1", "again")
    crucible.ok("snapshot", "remove", "moment")
    assert image_users(crucible.home) == {}
