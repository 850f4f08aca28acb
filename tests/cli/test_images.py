"""`crucible image`, as a process of its own, against a real registry."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conftest import CommandLine
from tests.images.oci.hostile import Reply, Seen, honest, hostile
from tests.images.registry import RunningRegistry, make_image, running_registry, sha256
from tests.images.test_catalog import make_image as make_builtin

from crucible.cli.layer_bars import bar
from crucible.images.catalog import load_image
from crucible.sandbox.records import SandboxRecord, open_records
from crucible.sandbox.spec import SandboxSpec


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def crucible(tmp_path: Path) -> CommandLine:
    line = CommandLine(tmp_path / "home")
    line.environment["HOME"] = str(tmp_path)
    return line


def test_an_image_is_pulled_listed_and_inspected(
    registry: RunningRegistry, crucible: CommandLine
) -> None:
    made = make_image({"bin/app": b"elf"}, config={"Cmd": ["/bin/app"], "Env": ["A=b"]})
    name = registry.push("cli/app:1", made)
    assert crucible.ok("image", "pull", name) == f"{name}\n"
    assert crucible.ok("image", "list", "-q") == f"{name}\n"
    assert sha256(made.manifest)[7:19] in crucible.ok("image", "list")
    [line] = json.loads(crucible.ok("image", "list", "--json"))
    assert (line["name"], line["digest"], line["used_by"]) == (name, made.digest, [])
    assert line["root_bytes"] > 0
    shown = json.loads(crucible.ok("image", "inspect", name, "--json", "--verify"))
    assert shown["command"] == ["/bin/app"]
    assert shown["environment"] == {"A": "b"}
    assert shown["layers"] == [sha256(layer) for layer in made.layers]
    assert "Command" in crucible.ok("image", "inspect", made.digest[7:20])


def test_what_was_pulled_can_be_started_from(
    registry: RunningRegistry, crucible: CommandLine
) -> None:
    name = registry.push("cli/root:1", make_image({"bin/app": b"elf"}))
    crucible.ok("image", "pull", name)
    assert load_image(crucible.home, name).root.stat().st_size > 0


def test_offline_everything_that_was_pulled_still_works(
    tmp_path: Path, crucible: CommandLine
) -> None:
    with running_registry(tmp_path / "r") as short_lived:
        name = short_lived.push("app:1", make_image({"a": b"1"}))
        crucible.ok("image", "pull", name)
    again = crucible("image", "pull", name)
    assert (again.returncode, again.stdout.decode()) == (0, f"{name}\n")
    assert b"cannot be reached" in again.stderr
    assert crucible("image", "pull", "--policy", "missing", name).stderr == b""


def test_the_built_in_image_is_listed_inspected_and_removed(crucible: CommandLine) -> None:
    make_builtin(crucible.home, "base")
    assert crucible.ok("image", "list", "-q") == "base\n"
    shown = json.loads(crucible.ok("image", "inspect", "base", "--json"))
    assert (shown["name"], shown["user"]) == ("base", "user")
    crucible.ok("image", "remove", "base")
    assert crucible.ok("image", "list", "-q") == ""


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "further"])
def test_an_image_that_a_sandbox_uses_is_not_removed(
    registry: RunningRegistry, crucible: CommandLine, is_first: bool
) -> None:
    name = registry.push("cli/used:1", make_image({"u": b"1"}))
    spec = SandboxSpec(image=name) if is_first else SandboxSpec(images={"app": name})
    crucible.ok("image", "pull", name)
    records = open_records(crucible.home)
    records.add(
        SandboxRecord(
            id="1",
            name="box",
            state="stopped",
            spec=spec,
            directory=crucible.home / "sandboxes" / "1",
            created_at=1.0,
        )
    )
    records.close()
    refused = crucible("image", "remove", name)
    assert refused.returncode == 126
    assert b"in use by box" in refused.stderr
    assert crucible.ok("image", "prune", "--all") == ""
    assert json.loads(crucible.ok("image", "list", "--json"))[0]["used_by"] == ["box"]


def test_removing_frees_the_blobs_and_the_root(
    registry: RunningRegistry, crucible: CommandLine
) -> None:
    name = registry.push("cli/gone:1", make_image({"g": b"1"}))
    crucible.ok("image", "pull", name)
    crucible.ok("image", "remove", name)
    oci = crucible.home / "images" / "oci"
    assert not [path for path in (oci / "blobs").rglob("*") if path.is_file()]
    assert not list((oci / "roots").iterdir())
    missing = crucible("image", "remove", name)
    assert missing.returncode == 126
    assert b"image-missing" in missing.stderr


def test_prune_tells_what_it_removed(registry: RunningRegistry, crucible: CommandLine) -> None:
    name = registry.push("cli/pruned:1", make_image({"p": b"1"}))
    crucible.ok("image", "pull", name)
    assert crucible.ok("image", "prune") == ""
    assert crucible.ok("image", "prune", "--all") == f"{name}\n"


def test_an_image_goes_out_and_comes_back_by_file_and_registry(
    registry: RunningRegistry, crucible: CommandLine, tmp_path: Path
) -> None:
    made = make_image({"e": b"1"})
    name = registry.push("cli/export:1", made)
    crucible.ok("image", "pull", name)
    crucible.ok("image", "export", name, tmp_path / "out.tar", "--format", "docker-archive")
    with tarfile.open(tmp_path / "out.tar") as tar:
        assert "manifest.json" in tar.getnames()
    taken = crucible.ok(
        "image", "pull", f"docker-archive:{tmp_path / 'out.tar'}", "--name", "mine:2"
    )
    assert taken == "mine:2\n"
    target = f"{registry.host}/cli/pushed:9"
    assert crucible.ok("image", "push", "mine:2", target) == f"{target}@{made.digest}\n"
    crucible.ok("image", "pull", target)


def test_several_images_are_pulled_and_one_failure_is_told(
    registry: RunningRegistry, crucible: CommandLine
) -> None:
    name = registry.push("cli/one:1", make_image({"1": b"1"}))
    done = crucible("image", "pull", f"{registry.host}/cli/nothing:1", name)
    assert done.returncode == 126
    assert done.stdout.decode() == f"{name}\n"
    assert b"(image-not-found)" in done.stderr


@pytest.mark.parametrize(
    "words, code",
    [
        (["pull", "Not A Name"], "bad-reference"),
        (["pull", "oci:/nowhere"], "path-refused"),
        (["pull", "--name", "x", "a", "b"], "bad-usage"),
        (["pull", "--name", "x", "127.0.0.1:9/a"], "bad-reference"),
        (["pull", "--policy", "never", "nothing:1"], "image-not-found"),
        (["inspect", "nothing:1"], "image-missing"),
        (["export", "nothing:1", "/tmp/x"], "image-missing"),
        (["push", "nothing:1"], "image-missing"),
        (["pull"], "bad-usage"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    crucible: CommandLine, words: list[str], code: str
) -> None:
    done = crucible("image", *words)
    assert done.returncode == 126
    assert f"({code})" in done.stderr.decode()
    assert b"nobody foresaw" not in done.stderr


def test_what_an_image_says_of_itself_cannot_write_to_the_terminal(
    registry: RunningRegistry, crucible: CommandLine
) -> None:
    made = make_image({"a": b"1"}, config={"Labels": {"x": "\x1b]0;owned\x07"}, "User": "a\nb"})
    name = registry.push("cli/escape:1", made)
    crucible.ok("image", "pull", name)
    shown = crucible.ok("image", "inspect", name)
    assert "\x1b" not in shown
    assert "\\x1b]0;owned\\x07" in shown


def test_bars_are_drawn_on_a_terminal_and_wiped_in_the_end(crucible: CommandLine) -> None:
    made = make_image({"big": os.urandom(100_000)})
    layer = made.layers[0]

    def script(request: Seen) -> Reply:
        """The layer breaks off, so that the pull is still busy when a second has passed."""
        reply = honest(made)(request)
        if sha256(layer) in request.path and len(server.asked(sha256(layer))) <= 3:
            return Reply(
                status=reply.status,
                headers=reply.headers,
                body=reply.body[:20_000],
                length=len(reply.body),
            )
        return reply

    with hostile(script) as server:
        primary, secondary = pty.openpty()
        crucible.environment["TERM"] = "xterm"
        process = crucible.start("image", "pull", f"{server.host}/x:1", stderr=secondary, stdout=-3)
        os.close(secondary)
        seen = b""
        with suppress(OSError):  # what reading a terminal ends with when its other side is closed
            while chunk := os.read(primary, 65536):
                seen += chunk
        os.close(primary)
        assert process.wait(60) == 0
    assert sha256(layer)[7:19].encode() + b" [" in seen
    assert seen.endswith(b"\x1b[J")


def test_an_interrupt_ends_a_pull_and_keeps_what_came(crucible: CommandLine) -> None:
    made = make_image({"big": os.urandom(100_000)})
    digest = sha256(made.layers[0])

    def script(request: Seen) -> Reply:
        """Half of the layer, and then silence; the second time all that is asked for."""
        reply = honest(made)(request)
        if digest not in request.path or len(server.asked(digest)) > 1:
            return reply
        return Reply(body=reply.body[:50_000], length=len(reply.body), stalls=True)

    with hostile(script) as server:
        name = f"{server.host}/x:1"
        process = crucible.start("image", "pull", name, stderr=subprocess.DEVNULL)
        part = crucible.home / "images/oci/blobs/sha256" / f"{digest[7:]}.part"
        while not (part.exists() and part.stat().st_size):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        crucible.ok("image", "pull", name)
        asked = server.asked(digest)[1].headers["Range"]
        assert 0 < int(asked.removeprefix("bytes=").removesuffix("-")) <= 50_000


def test_a_bar_is_as_long_as_its_share() -> None:
    assert bar("sha256:" + "ab" * 32, 512, 1024) == (
        "abababababab [############............]  50%  512 B of 1.0 KiB"
    )
    assert "100%" in bar("sha256:" + "0" * 64, 0, 0)
    assert "100%" in bar("sha256:" + "0" * 64, 5, 3)
