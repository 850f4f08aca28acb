"""What a project's directory asks for, through the real command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.conftest import CommandLine


def test_detect_tells_the_image_and_why(crucible: CommandLine, tmp_path: Path) -> None:
    del crucible.environment["CRUCIBLE_IMAGE"]
    (tmp_path / "go.mod").touch()
    done = crucible("detect", "--dir", tmp_path)
    assert done.stdout == b"golang:1.23-alpine\n"
    assert b"-> files " in done.stderr
    assert crucible.ok("detect", "--dir", tmp_path, "npm", "test") == "node:22-alpine\n"
    (tmp_path / "crucible.toml").write_text("[sandbox]\nimage = 'mine:1'\n")
    assert crucible.ok("detect", "npm", "test", cwd=tmp_path) == "mine:1\n"


def test_detect_as_json(crucible: CommandLine, tmp_path: Path) -> None:
    told = json.loads(crucible.ok("detect", "--json", "--dir", tmp_path))
    assert (told["image"], told["step"]) == ("base", "named")
    assert [step["step"] for step in told["steps"]] == [
        "named", "command", "files", "Procfile", "default",
    ]  # fmt: skip


def test_config_show_tells_where_each_value_came_from(
    crucible: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "crucible.toml").write_text("[resources]\nvcpus = 2\n")
    told = json.loads(
        crucible.ok("config", "show", "--json", "--profile", "restrictive", cwd=tmp_path)
    )
    assert told["cpus"]["value"] == 2
    assert told["cpus"]["origin"].endswith("crucible.toml [resources] vcpus")
    assert told["network"] == {"value": "off", "origin": "profile restrictive"}
    assert told["profile"] == {"value": "restrictive", "origin": "--profile"}
    assert told["image"] == {"value": "base", "origin": "$CRUCIBLE_IMAGE"}
    assert told["memory_mib"] == {"value": 512, "origin": "default"}


def test_a_found_file_that_would_open_the_host_is_refused(
    crucible: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "crucible.toml").write_text("[security]\nprofile = 'permissive'\n")
    done = crucible("run", "true", cwd=tmp_path)
    assert done.returncode == 126
    assert b"--config" in done.stderr


@pytest.mark.vm
def test_the_restrictive_profile_holds_from_run_to_restart(
    crucible: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("copied")
    script = "cat file; touch other; grep CapBnd /proc/self/status; touch /tmp/x && echo scratch"
    done = crucible(
        "run", "--profile", "restrictive", "--user", "root", "--dir", tmp_path, "sh", "-c", script
    )
    assert done.stdout == b"copiedCapBnd:\t0000000000000000\nscratch\n"
    assert b"Read-only file system" in done.stderr
    crucible.ok("create", "closed", "--profile", "restrictive", "--dir", tmp_path, "--start")
    try:
        for is_last in (False, True):
            done = crucible("exec", "closed", "sh", "-c", "cat file; touch other")
            assert done.stdout == b"copied"
            assert b"Read-only file system" in done.stderr
            if not is_last:
                crucible.ok("stop", "closed")
                crucible.ok("start", "closed")
        crucible.ok("fork", "closed", "--name", "twin")
        done = crucible("exec", "twin-1", "sh", "-c", "touch other; hostname")
        assert b"Read-only file system" in done.stderr
        assert done.stdout == b"twin-1\n"
        facts = json.loads(crucible.ok("inspect", "--json", "twin-1"))
        assert facts["spec"]["profile"] == "restrictive"
    finally:
        crucible("rm", "--force", "closed", "twin-1")


@pytest.mark.vm
def test_a_devcontainer_shapes_a_sandbox_and_its_first_command_runs_once(
    crucible: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("copied")
    first = "cat file; echo; printf '\\033[2J\\n'; date +%N >> when; exit 3"
    (tmp_path / ".devcontainer.json").write_text(
        json.dumps(
            {
                "image": "base",
                "containerEnv": {"STAGE": "dev"},
                "forwardPorts": [8080],
                "postCreateCommand": first,
                "features": {"a": {}},
            }
        )
    )
    del crucible.environment["CRUCIBLE_IMAGE"]
    made = crucible("create", "dev", "--start", "--dir", tmp_path)
    try:
        assert made.returncode == 0, made.stderr
        assert made.stdout == b"dev\n"
        told = made.stderr.decode()
        assert "not used: features" in told
        assert "copied\n" in told
        assert "\\x1b[2J" in told
        assert "\x1b" not in told
        assert "ended with status 3" in told
        assert crucible.ok("exec", "dev", "sh", "-c", "echo $STAGE; wc -l < when") == "dev\n1\n"
        facts = json.loads(crucible.ok("inspect", "--json", "dev"))
        assert facts["spec"]["ports"] == ["127.0.0.1:0:8080"]
        crucible.ok("stop", "dev")
        crucible.ok("start", "dev")
        assert crucible.ok("exec", "dev", "sh", "-c", "wc -l < when") == "1\n"
    finally:
        crucible.ok("rm", "--force", "dev")


@pytest.mark.vm
@pytest.mark.timeout(2400)
def test_the_image_that_a_devcontainer_wants_is_built_once_and_again_when_something_changed(
    crucible: CommandLine, tmp_path: Path
) -> None:
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, tmp_path / "busybox")
    (tmp_path / ".env").write_text("TOKEN=very private")
    (tmp_path / "word").write_text("first")
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer" / "Dockerfile").write_text(
        """
FROM scratch
ARG GREETING=none
COPY --chmod=755 busybox /bin/busybox
COPY . /src
RUN ["/bin/busybox", "sh", "-c", "/bin/busybox --install -s /bin; ls -a /src; echo $GREETING > /greeting"]
CMD ["/bin/cat", "/greeting", "/src/word"]
"""
    )
    build = {"dockerfile": "Dockerfile", "context": "..", "args": {"GREETING": "hello", "ODD": "1"}}
    (tmp_path / ".devcontainer" / "devcontainer.json").write_text(json.dumps({"build": build}))
    del crucible.environment["CRUCIBLE_IMAGE"]
    small = ("--memory", "256M", "--no-network")

    first = crucible("run", *small, cwd=tmp_path, timeout=600)
    assert (first.returncode, first.stdout) == (0, b"hello\nfirst"), first.stderr
    told = first.stderr.decode()
    assert "building the image from" in told
    assert "network: off" in told
    assert "--no-devcontainer" in told
    assert "not used: ODD" in told
    assert "Left out what may be credentials: 1 (.env)" in told

    again = crucible("run", *small, "ls", "-a", "/src", cwd=tmp_path, timeout=600)
    assert again.returncode == 0, again.stderr
    assert b"building" not in again.stderr
    assert b"devcontainer.json build)" in again.stderr
    assert ".env" not in again.stdout.decode().split()

    (tmp_path / "word").write_text("second")
    made = crucible("create", "dev", *small, "--start", "--dir", str(tmp_path), timeout=600)
    try:
        assert made.returncode == 0, made.stderr
        assert b"building the image from" in made.stderr
        assert crucible.ok("exec", "dev", "cat", "/src/word") == "second"
    finally:
        crucible("rm", "--force", "dev")

    file = tmp_path / ".devcontainer" / "Dockerfile"
    whole = file.read_text()
    file.write_text(whole.replace("CMD", 'RUN ["/bin/busybox", "sh", "-c", "exit 7"]\nCMD'))
    failed = crucible("run", *small, cwd=tmp_path, timeout=600)
    assert failed.returncode == 125
    assert b"failed with status 7 (image-not-built)" in failed.stderr
    file.write_text(whole)

    detected = crucible("detect", "--json", cwd=tmp_path)
    chosen = json.loads(detected.stdout)
    assert chosen["step"] == "named"
    assert chosen["image"].startswith("localhost/devcontainer-")
    shown = json.loads(crucible.ok("config", "show", "--json", cwd=tmp_path))
    assert shown["build"]["value"]["args"] == build["args"]
    # Of the usual size: another would have to be booted first.
    aside = crucible("run", "--no-devcontainer", "--image", "base", "true", cwd=tmp_path)
    assert aside.returncode == 0
    assert b"devcontainer" not in aside.stderr
