"""Copies of the host's files in a sandbox, through the real command line: what goes in, and what comes back."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CommandLine

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def crucible(module_home: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(module_home)
    yield command_line
    for name in command_line.ok("list", "--quiet").split():
        command_line.ok("rm", "--force", name)


def inside(crucible: CommandLine, name: str, script: str) -> str:
    return crucible.ok("exec", name, "sh", "-c", script)


def facts(crucible: CommandLine, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(crucible.ok("inspect", "--json", name))
    return found


def plant(top: Path, **files: str) -> Path:
    top.mkdir()
    for name, text in files.items():
        (top / name).write_text(text)
    return top


def test_mounts_go_in_stay_or_are_refreshed_and_come_back(
    crucible: CommandLine, tmp_path: Path
) -> None:
    work = plant(tmp_path / "work", file="work")
    fixed = plant(tmp_path / "fixed", one="1", two="2")
    (fixed / "one").chmod(0o600)
    open_ = plant(tmp_path / "open", note="old\n")
    (open_ / ".env").write_text("SECRET=1")
    (tmp_path / "single.conf").write_text("single")
    words = ["--mount", f"{fixed}:/opt/fixed", "--mount", f"{open_}:/open:rw"]
    words += ["--mount", f"{tmp_path}/single.conf:/srv/app.conf"]
    made = crucible("create", "box", "--start", "--read-only", "--dir", work, *words)
    assert made.returncode == 0, made.stderr
    assert b"Left out what may be credentials: 1 (.env)" in made.stderr
    script = "cat /opt/fixed/one /opt/fixed/two /srv/app.conf /open/note; ls -A /open; stat -c %U /opt/fixed /open"
    assert inside(crucible, "box", script) == "12singleold\nnote\nroot\nuser\n"
    assert crucible("exec", "box", "touch", "/open/x").returncode == 1
    crucible.ok("rm", "--force", "box")

    crucible.ok("create", "box", "--start", "--dir", work, *words)
    assert crucible("exec", "box", "sh", "-c", "echo x > /opt/fixed/one").returncode != 0
    inside(crucible, "box", "echo new > /open/note; echo more > /open/more; echo x >> file")
    rows = json.loads(crucible.ok("diff", "--json", "box"))
    assert rows == [
        {"path": "file", "change": "modified"},
        {"path": "more", "change": "added", "mount": "/open"},
        {"path": "note", "change": "modified", "mount": "/open"},
    ]
    crucible.ok("fork", "box", "--name", "twin")
    assert json.loads(crucible.ok("diff", "--json", "twin-1")) == rows
    crucible.ok("rm", "--force", "twin-1")
    crucible.ok("snapshot", "box", "moment")
    crucible.ok("snapshot", "restore", "moment", "later")
    facts = json.loads(crucible.ok("inspect", "--json", "later"))
    assert facts["spec"]["mounts"] == []
    assert inside(crucible, "later", "cat /open/note /opt/fixed/two") == "new\n2"
    crucible.ok("rm", "--force", "later")
    shown = crucible.ok("apply", "--yes", "box")
    assert f"Mount /open from {open_}\n" in shown
    assert (open_ / "note").read_text() == "new\n"
    assert (open_ / "more").read_text() == "more\n"
    assert (work / "file").read_text() == "workx\n"
    assert (open_ / ".env").read_text() == "SECRET=1"
    assert json.loads(crucible.ok("diff", "--json", "box")) == []

    (fixed / "two").unlink()
    (fixed / "three").write_text("3")
    (open_ / "note").write_text("of the host\n")
    inside(crucible, "box", "echo kept > /open/note")
    crucible.ok("stop", "box")
    crucible.ok("start", "box")
    assert inside(crucible, "box", "ls /opt/fixed; cat /open/note") == "one\nthree\nkept\n"
    facts = json.loads(crucible.ok("inspect", "--json", "box"))
    assert facts["spec"]["mounts"][1] == f"{open_}:/open:rw"

    crucible.ok("stop", "box")
    for path in fixed.iterdir():
        path.unlink()
    fixed.rmdir()
    fixed.symlink_to(open_)
    refused = crucible("start", "box")
    assert refused.returncode == 126
    assert b"has become a symbolic link" in refused.stderr


def test_the_permissive_profile_gives_what_it_says_and_no_credentials(
    crucible: CommandLine, tmp_path: Path
) -> None:
    home = plant(tmp_path / "home", **{".vimrc": "set nu\n", ".netrc": "password x"})
    plant(home / ".ssh", id_rsa="private")
    project = plant(home / "project", **{"main.py": "1", ".env": "SECRET=1"})
    (project / "trap").symlink_to(home / ".ssh")
    usual = dict(crucible.environment)
    crucible.environment.update(HOME=str(home), STAGE="test", API_TOKEN="hidden")
    try:
        script = "ls -A; cat ~/.vimrc; ls -A ~; cat trap/id_rsa; echo $STAGE-$API_TOKEN"
        done = crucible("run", "--profile", "permissive", "sh", "-c", script, cwd=project)
        bare = crucible("run", "--profile", "permissive", "--no-mount-home", "--no-mount-cwd",
                        "--no-pass-env", "--pass-env", "API_TOKEN", "sh", "-c", script, cwd=project)  # fmt: skip
    finally:
        crucible.environment.clear()
        crucible.environment.update(usual)
    told = done.stderr.decode()
    assert done.stdout.startswith(b"main.py\ntrap\nset nu\n")
    assert done.stdout.endswith(b"project\ntest-\n")
    for secret in (b".ssh\n", b".netrc", b"private", b"hidden"):
        assert secret not in done.stdout
    assert f"The sandbox gets a copy of {project} as the workspace; a copy of {home}" in told
    assert "credentials: 1 (.env)" in told
    assert b"main.py" not in bare.stdout
    assert b"-hidden" in bare.stdout
    assert b"1 variables" in bare.stderr


def test_a_volume_goes_from_one_sandbox_to_the_next_and_has_one_writer(
    crucible: CommandLine,
) -> None:
    volume = ("--volume", "shared:/shared")
    script = "mkdir -p /shared/in && echo $1 >> /shared/in/log && cat /shared/in/log"
    assert crucible.ok("run", *volume, "sh", "-c", script, "sh", "one") == "one\n"
    assert crucible.ok("run", *volume, "sh", "-c", script, "sh", "two") == "one\ntwo\n"
    crucible.ok("create", "writer", "--start", *volume)
    assert inside(crucible, "writer", "cat /shared/in/log; echo three >> /shared/in/log") == (
        "one\ntwo\n"
    )
    refused = crucible("run", *volume, "true")
    assert refused.returncode == 126
    assert b"in use by the sandbox 'writer'" in refused.stderr
    reader = ("--volume", "shared:/shared:ro")
    assert crucible.ok("run", *reader, "cat", "/shared/in/log") == "one\ntwo\n"
    assert crucible("run", *reader, "touch", "/shared/x").returncode == 1
    assert crucible("volume", "remove", "shared").returncode == 126
    crucible.ok("stop", "writer")
    assert crucible.ok("run", *reader, "cat", "/shared/in/log") == "one\ntwo\nthree\n"
    told = json.loads(crucible.ok("volume", "inspect", "--json", "shared"))
    assert told["sandboxes"] == ["writer"]
    crucible.ok("volume", "remove", "shared")
    assert json.loads(crucible.ok("volume", "list", "--json")) == []


# Writes what it has only when it is told to end; the file `ready` says that it can be told.
LAST_WORDS = (
    "trap 'echo ended > /late/words; exit' TERM; touch /late/ready; while :; do sleep 0.1; done"
)
UNTIL_READY = "until [ -e /late/ready ]; do sleep 0.05; done"


def test_what_processes_write_when_they_are_told_to_end_is_kept(crucible: CommandLine) -> None:
    volume = ("--volume", "late:/late")
    crucible.ok("create", "writer-of-late", "--start", *volume)
    crucible.ok("exec", "--detach", "writer-of-late", "sh", "-c", LAST_WORDS)
    inside(crucible, "writer-of-late", UNTIL_READY)
    crucible.ok("stop", "--grace", "60s", "writer-of-late")
    read = "cat /late/words; rm -f /late/words /late/ready"
    assert crucible.ok("run", *volume, "sh", "-c", read) == "ended\n"
    # So it is with what the command of a `run` leaves behind.
    crucible.ok("run", *volume, "sh", "-c", f"({LAST_WORDS}) & {UNTIL_READY}")
    assert crucible.ok("run", *volume, "cat", "/late/words") == "ended\n"


def test_files_that_could_not_be_kept_are_there_at_the_next_start(crucible: CommandLine) -> None:
    volume = ("--volume", "fragile:/fragile")
    crucible.ok("create", "fallen", "--start", *volume)
    inside(crucible, "fallen", "echo own > /fragile/file; sync")
    os.kill(facts(crucible, "fallen")["pid"], signal.SIGKILL)
    while facts(crucible, "fallen")["state"] != "stopped":
        time.sleep(0.05)
    assert crucible.ok("run", "--volume", "fragile:/fragile:ro", "ls", "/fragile") == ""
    started = crucible("start", "fallen")
    assert started.returncode == 0, started.stderr
    assert b"The volume 'fragile' was not kept the last time" in started.stderr
    assert inside(crucible, "fallen", "cat /fragile/file") == "own\n"
    crucible.ok("stop", "fallen")
    assert crucible.ok("run", *volume, "cat", "/fragile/file") == "own\n"


def test_looking_at_settings_makes_no_volume_and_a_file_that_names_one_does(
    crucible: CommandLine, tmp_path: Path
) -> None:
    crucible.ok("config", "show", "--volume", "unmade:/unmade", "--cache", "pip")
    names = {volume["name"] for volume in json.loads(crucible.ok("volume", "list", "--json"))}
    assert not {"unmade", "cache-pip"} & names
    project = tmp_path / "crucible.toml"
    project.write_text('[mounts]\n"/filed" = { volume = "filed" }\n')
    crucible.ok("run", "--config", project, "touch", "/filed/x")
    assert crucible.ok("run", "--volume", "filed:/filed:ro", "ls", "/filed") == "x\n"
    refused = crucible("run", "--volume", "nosuch:/nosuch:ro", "true")
    assert refused.returncode == 126
    assert b"There is no volume 'nosuch'" in refused.stderr
