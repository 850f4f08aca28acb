"""An agent's image and the business code's in one sandbox, through the real command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import CommandLine, Run
from tests.vm.composition import make_app

from crucible import assemble
from crucible.config import Config
from crucible.sandbox.image_use import image_users
from crucible.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def crucible(module_home: Path) -> CommandLine:
    """One home for all: the machine that they start from is made once."""
    return CommandLine(module_home)


@pytest.fixture(scope="module")
def app(module_home: Path, run: Run) -> str:
    """With the machine that sandboxes of both start from, so that no command has to wait for it."""
    name = make_app(module_home)

    async def prepare() -> None:
        manager = assemble.manager(Config(home=module_home))
        async with manager.open(SandboxSpec(images={"app": name})):
            pass

    run(prepare())
    return name


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


def test_labels_narrow_a_sandbox_and_ask_for_more(
    crucible: CommandLine, module_home: Path, tmp_path: Path
) -> None:
    labels = (
        ("dev.crucible.pids", "40"),
        ("dev.crucible.deny", "*.example.org"),
        ("dev.crucible.idle-timeout", "1h"),
        ("dev.crucible.cpus", "2"),
        ("dev.crucible.allow", "10.0.0.0/8"),
        ("dev.crucible.secret", "TOKEN:evil.example"),
    )
    image = make_app(module_home, "labelled:1", labels=labels, user="0")
    # A file and an option go before a label.
    (tmp_path / "crucible.toml").write_text("[resources]\nidle_timeout = '2h'\n")
    words = ("--image", image, "--deny", "example.com")
    done = crucible("create", "narrow", *words, cwd=tmp_path)
    try:
        assert done.returncode == 0, done
        spec = json.loads(crucible.ok("inspect", "--json", "narrow"))["spec"]
        assert (spec["processes"], spec["idle_timeout_s"], spec["cpus"]) == (40, 7200.0, 1)
        assert (spec["deny"], spec["allow"], spec["secrets"]) == (["example.com"], [], [])
        assert b"Labels of image labelled:1: --pids 40\n" in done.stderr
        assert b"labelled:1 asks for --cpus 2; " in done.stderr
        assert b"dev.crucible.secret: no such setting" in done.stderr
        shown = crucible("config", "show", "--json", *words, cwd=tmp_path)
        told = json.loads(shown.stdout)
        assert told["processes"] == {
            "value": 40,
            "origin": f"label dev.crucible.pids of {image}",
        }
        assert told["idle_timeout_s"]["origin"].endswith("idle_timeout")
        assert told["cpus"] == {"value": 1, "origin": "default"}
        assert b"asks for --cpus 2" in shown.stderr
        taken = ("run", "--image", image, "--accept-labels", "--entrypoint", "", "--")
        assert crucible.ok(*taken, "grep", "-c", "^processor", "/proc/cpuinfo") == "2\n"
    finally:
        crucible("rm", "--force", "narrow")
