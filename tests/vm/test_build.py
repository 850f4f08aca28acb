"""Images built on real machines: what a RUN step changed is its layer, and nothing of the host is near it."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import signal
import socket
import tarfile
import threading
from pathlib import Path

import pytest
from tests.conftest import CommandLine
from tests.images.registry import running_registry

from crucible.images.oci.model import PulledImage
from crucible.images.oci.reference import parse_reference
from crucible.images.oci.store import Store

pytestmark = pytest.mark.vm

TINY = """
FROM scratch AS tiny
COPY --chmod=755 busybox /bin/busybox
COPY lower /lower
RUN ["/bin/busybox", "--install", "-s", "/bin"]
"""
CHANGES = """
FROM tiny
ARG WORD=none
ENV KEPT=yes
WORKDIR /srv/app
RUN set -e; echo "word $WORD $KEPT $PWD $(id -u)"; \\
    rm /lower/gone; rm -r /lower/emptied; mkdir /lower/emptied; echo new > /lower/emptied/new; \\
    mv /lower/moved /lower/there; \\
    echo a > first; ln first second; ln -s first third; chmod 4711 first; chown 5:6 third -h; \\
    echo seen > /run/unseen; echo mine > /etc/hostname; echo kept > /etc/kept
"""


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("context")
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, directory / "busybox")
    for name in ("gone", "emptied/old", "moved/deep/inside"):
        path = directory / "lower" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return directory


@pytest.fixture(scope="module")
def command_line(module_home: Path) -> CommandLine:
    return CommandLine(module_home)


def build(command_line: CommandLine, context: Path, text: str, *more: str) -> tuple[int, str]:
    """Its status, and what it said."""
    file = context / "app.Dockerfile"
    file.write_text(text)
    words = ("image", "build", "-f", str(file), "-t", "app:1", "-m", "256M", *more, str(context))
    done = command_line(*words, timeout=600)
    return done.returncode, done.stderr.decode()


def stored(home: Path) -> PulledImage:
    store = Store(home)
    with store.opened():
        found = store.find(str(parse_reference("app:1")))
    assert found is not None
    return found


def members(image: PulledImage) -> dict[str, tarfile.TarInfo]:
    data = gzip.decompress(image.layers[-1].path.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: member for member in tar}


def test_a_step_becomes_a_layer_of_just_what_it_changed(
    command_line: CommandLine, module_home: Path, context: Path
) -> None:
    told = ("--build-arg", "WORD=told")
    status, said = build(command_line, context, TINY + CHANGES, *told, "--no-cache")
    assert status == 0, said
    assert "word told yes /srv/app 0" in said
    assert "4 steps were done, 0 came from the cache" in said
    found = members(stored(module_home))
    # Directories that are new may be marked as well: there is nothing below that it would hide.
    assert set(found) - {"etc", "lower", "srv", "tmp", "srv/.wh..wh..opq"} == {
        "etc/kept",
        "lower/.wh.gone",
        "lower/.wh.moved",
        "lower/emptied",
        "lower/emptied/.wh..wh..opq",
        "lower/emptied/new",
        "lower/there",
        "lower/there/.wh..wh..opq",
        "lower/there/deep",
        "lower/there/deep/inside",
        "srv/app",
        "srv/app/first",
        "srv/app/second",
        "srv/app/third",
    }
    assert (found["srv/app/second"].islnk(), found["srv/app/second"].linkname) == (
        True,
        "srv/app/first",
    )
    assert found["srv/app/first"].mode == 0o4711
    third = found["srv/app/third"]
    assert (third.linkname, third.uid, third.gid) == ("first", 5, 6)

    again = build(command_line, context, TINY + CHANGES, *told)
    assert "0 steps were done, 4 came from the cache" in again[1]
    other = TINY + CHANGES + 'ENTRYPOINT ["cat", "/lower/there/deep/inside", "first"]\n'
    last = build(command_line, context, other, *told)
    assert "0 steps were done, 4 came from the cache" in last[1]
    assert command_line.ok("run", "--memory", "256M", "--image", "app:1") == "moved/deep/insidea\n"
    names = command_line.ok("image", "list", "--quiet").split()
    assert "app:1" in names
    assert not [name for name in names if "internal" in name]


def test_what_was_built_can_be_pushed_and_pulled_back(
    command_line: CommandLine, module_home: Path, context: Path, tmp_path: Path
) -> None:
    status, said = build(command_line, context, TINY)
    assert status == 0, said
    digest = stored(module_home).digest
    with running_registry(tmp_path / "registry") as registry:
        target = f"{registry.host}/built:1"
        pushed = command_line.ok("image", "push", "app:1", target)
        assert pushed == f"{target}@{digest}\n"
        command_line.ok("image", "remove", "app:1")
        command_line.ok("image", "pull", target)
    assert (
        command_line.ok("run", "--memory", "256M", "--image", target, "cat", "/lower/gone")
        == "gone"
    )


def test_a_step_that_fails_ends_the_build_with_its_status(
    command_line: CommandLine, module_home: Path, context: Path
) -> None:
    assert build(command_line, context, TINY)[0] == 0
    before = stored(module_home).digest
    status, said = build(command_line, context, TINY + "RUN echo before; exit 7\n")
    assert status == 7
    assert "before" in said
    assert "The step `echo before; exit 7` failed with status 7 (build-step-failed)" in said
    assert stored(module_home).digest == before
    assert leftovers(module_home) == []


def test_an_interrupt_ends_the_build_and_leaves_nothing(
    command_line: CommandLine, module_home: Path, context: Path
) -> None:
    assert build(command_line, context, TINY)[0] == 0
    before = stored(module_home).digest
    file = context / "slow.Dockerfile"
    file.write_text(TINY + "RUN echo it has begun; sleep 10000\n")
    command = ("image", "build", "-f", str(file), "-t", "app:1", "-m", "256M", str(context))
    process = command_line.start(*command, stderr=-1, stdout=-1)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(b"it has begun"):
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode not in (0, None)
    assert stored(module_home).digest == before
    assert leftovers(module_home) == []


def test_a_step_has_nothing_of_the_host(
    command_line: CommandLine, context: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        met: list[object] = []
        server.settimeout(None)
        waiting = threading.Thread(target=lambda: met.append(server.accept()), daemon=True)
        waiting.start()
        status, said = build(
            command_line,
            context,
            f"{TINY}RUN cat {secret} {context}/app.Dockerfile && exit 1; "
            f"for host in 127.0.0.1 10.0.2.2 169.254.169.254; do "
            f"echo x | nc -w 2 $host {port}; done; ls / /home /root; env\n",
        )
    assert status == 0, said
    assert met == []
    assert "of the host" not in said
    assert not [name for name in os.environ if f"\n{name}=" in said and name not in OURS]


OURS = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "SHLVL", "TERM"}


def leftovers(home: Path) -> list[str]:
    return [path.name for part in ("sandboxes", "scratch") for path in (home / part).glob("*")]


@pytest.mark.parametrize("words", [("push", "base", "localhost:1/base:1"), ("export", "base", "x")])
def test_an_image_that_was_made_of_packages_is_not_sent_but_built_from(
    command_line: CommandLine, tmp_path: Path, words: tuple[str, ...]
) -> None:
    refused = command_line("image", *words, cwd=tmp_path)
    assert refused.returncode == 126
    assert b"was made of packages here and has no layers (image-unsupported)" in refused.stderr
    assert b"`FROM base`" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_base_that_is_not_here_is_named_with_those_that_are(
    command_line: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text("FROM far.example/x:1\n")
    refused = command_line("image", "build", tmp_path)
    assert b"`crucible image pull far.example/x:1`; here are: base" in refused.stderr
