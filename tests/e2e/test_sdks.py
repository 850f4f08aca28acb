"""The libraries of model providers as they are on PyPI, in a sandbox that has no key.

They find the plain endpoints by the variables that are set there, and the key gets to the provider all the same. One
program loads all of them: most of what they load they share, and it is a lot for a processor that is emulated.
"""

from __future__ import annotations

import compileall
import hashlib
import importlib.metadata
import itertools
import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import STATE, CommandLine
from tests.e2e.internet import internet
from tests.e2e.programs import Tree, libraries, make_image

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200)]

KEY = "sk-a-key-that-is-nowhere-in-the-machine"
HOSTS = {
    "api.anthropic.com": ["93.184.216.34"],
    "api.openai.com": ["93.184.216.35"],
    "api.groq.com": ["93.184.216.36"],
}
VARIABLES = {
    "ANTHROPIC_API_KEY": "api.anthropic.com",
    "OPENAI_API_KEY": "api.openai.com",
    "GROQ_API_KEY": "api.groq.com",
}
# An older release: of the newest, which tests of the gateway use, three thousand modules are loaded.
ANTHROPICS = STATE / "clients" / "anthropic"
ANTHROPIC = """
import anthropic
client = anthropic.Anthropic(max_retries=0)
asked = dict(model="m", max_tokens=9, messages=[{"role": "user", "content": "a word"}])
print(client.messages.create(**asked).content[0].text)
said = []
with client.messages.stream(**asked) as stream:
    for text in stream.text_stream:
        if not said:
            client.models.list()
        said.append(text)
print(said, client.api_key.startswith("crucible-secret-"))
"""
CHAT = """
client = {library}.{client}(max_retries=0)
asked = dict(model="m", messages=[{{"role": "user", "content": "a word"}}])
print(client.chat.completions.create(**asked).choices[0].message.content)
said = []
for event in client.chat.completions.create(stream=True, **asked):
    if not said:
        client.models.list()
    said.append(event.choices[0].delta.content)
print(said, client.api_key.startswith("crucible-secret-"))
"""
OPENAI = "import openai\n" + CHAT.format(library="openai", client="OpenAI")
GROQ = "import groq\n" + CHAT.format(library="groq", client="Groq")
PLENTY = 900_000_000
# In a sandbox with a budget, by a program that knows nothing of it.
CALL: dict[str, Any] = {
    "model": "m",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "a word"}],
}
SPENDER = f"""
import urllib.error, urllib.request
body = {json.dumps(CALL)!r}.encode()
for _ in range(3):
    asked = urllib.request.Request("http://anthropic.crucible.internal/v1/messages", body)
    try:
        with urllib.request.urlopen(asked) as answer:
            print(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            print(error.code, error.read().decode())
"""
LIBRARIES = {"groq": GROQ, "anthropic": ANTHROPIC, "openai": OPENAI}
# Goes on when somebody says so, who has forbidden a provider meanwhile. A thousand modules are loaded, and what is
# collected of them is none of the tests' business.
PROGRAM = f"""
import gc, traceback
gc.disable()
for text in {tuple(LIBRARIES.values())}:
    try:
        exec(text)
    except Exception:
        for _ in range(2):
            print(repr(traceback.format_exc()))
input()
try:
    groq.Groq(max_retries=0).models.list()
except groq.APIStatusError as error:
    print(error.status_code, error.response.text)
"""


@pytest.fixture(scope="module")
def box(module_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """The command line of somebody with keys, and a machine `box` that has none."""
    directory = tmp_path_factory.mktemp("internet")
    certificate, key = directory / "own.pem", directory / "key.pem"
    names = ",".join(f"DNS:{name}" for name in HOSTS)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tests",
         "-addext", f"subjectAltName={names}", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    server = Path(__file__).with_name("model_providers.py")
    make_image(
        module_home,
        "sdks:1",
        _python_with(directory / "anthropic", "groq", "openai"),
        {"PYTHONPATH": "/packages"},
    )
    crucible = CommandLine(module_home)
    crucible.environment |= dict.fromkeys(VARIABLES, KEY) | {"SSL_CERT_FILE": str(certificate)}
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    with (
        internet(directory, HOSTS) as made,
        made.serving(
            *("env", f"KEY_DIGEST={digest}", sys.executable),
            *(str(server), str(certificate), str(key)),
            ready=b"ready",
        ),
    ):
        crucible.argv = [*made.argv, *crucible.argv]
        bound = [
            word for name, host in VARIABLES.items() for word in ("--secret", f"{name}:{host}")
        ]
        crucible.ok(
            *("create", "box", "--image", "sdks:1", "-m", "1G", "--network", "allowlist"),
            *("--budget-tokens", str(PLENTY), *bound),
        )
        crucible.ok("start", "box")
        try:
            yield crucible
        finally:
            crucible("rm", "--force", "box")


ANSWERED = ["fetched", "['fet', 'ched'] True"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The program that has loaded all libraries, and what each of them made it say."""

    process: subprocess.Popen[bytes]
    said: dict[str, list[str]]


@pytest.fixture(scope="module")
def loaded(box: CommandLine) -> Iterator[Loaded]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with box.start("exec", "box", "python3", "-u", "-c", PROGRAM, **pipes) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, b"")
            said = {
                name: [line.decode().strip() for line in itertools.islice(lines, len(ANSWERED))]
                for name in LIBRARIES
            }
            yield Loaded(process=process, said=said)
        finally:
            process.kill()


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_gets_its_answers_as_they_come_and_has_no_key(
    loaded: Loaded, library: str
) -> None:
    assert loaded.said[library] == ANSWERED


def test_a_library_is_told_when_its_provider_was_forbidden_meanwhile(
    box: CommandLine, loaded: Loaded
) -> None:
    box.ok("network", "deny", "box", "api.groq.com")
    try:
        said, told = loaded.process.communicate(b"go on\n", timeout=500)
    finally:
        box.ok("network", "remove", "box", "api.groq.com")
    assert said.startswith(b"403 crucible: api.groq.com:443 was refused"), told
    assert b"network: denied api.groq.com:443" in told


def test_a_program_is_refused_at_the_budget_in_its_providers_words(box: CommandLine) -> None:
    """The provider says that each call came to two tokens; before, each may come to a token for every byte."""
    worst = len(json.dumps(CALL)) + 2048 + CALL["max_tokens"]
    before = _spent(box)
    box.ok("budget", "set", "sandbox:box", f"tokens={before + worst + 2}")
    try:
        done = box("exec", "box", "python3", "-c", SPENDER, timeout=500)
        first, second, third = done.stdout.decode().splitlines()
        assert (first, second) == ("200", "200"), done.stderr
        status, _, told = third.partition(" ")
        assert status == "402"
        assert json.loads(told)["error"]["type"] == "billing_error"
        assert b"does not allow" in done.stderr
        assert _spent(box) == before + 4
        assert f"{before + 4:,} tokens of {before + worst + 2:,} tokens" in box.ok("inspect", "box")
    finally:
        box.ok("budget", "set", "sandbox:box", f"tokens={PLENTY}")


def _spent(box: CommandLine) -> int:
    shown = json.loads(box.ok("budget", "show", "sandbox:box", "--json"))
    assert all(one["reserved"] == 0 for one in shown)
    return sum(int(one["spent"]) for one in shown)


def _python_with(anthropic: Path, *names: str) -> Tree:
    """This host's own Python, and these packages with all that they need in `/packages`."""
    tree = Tree()
    shutil.copytree(ANTHROPICS / "anthropic", anthropic)
    compileall.compile_dir(anthropic, quiet=2)
    tree.add(anthropic, "packages/anthropic")
    tree.add_program(Path(sys.executable).resolve(), "usr/bin/python3")
    standard = Path(sysconfig.get_path("stdlib"))
    unneeded = ("test", "tests", "idlelib", "lib2to3", "pydoc_data", "tkinter", "ensurepip")
    configuration = (
        f"config-{sys.version_info.major}.{sys.version_info.minor}-{sys.implementation._multiarch}"
    )
    tree.add(standard, without=(*unneeded, configuration, "site-packages", "dist-packages"))
    extensions = [*standard.glob("lib-dynload/*.so")]
    for distribution in _needed(names):
        for file in distribution.files or ():
            path = Path(str(file.locate()))
            # Programs of a package lie outside of it.
            if ".." not in file.parts and path.exists():
                tree.add(path, f"packages/{file}")
                extensions += [path] if path.suffix == ".so" else []
    for library in itertools.chain.from_iterable(map(libraries, extensions)):
        tree.add(library)
    return tree


def _needed(names: Iterable[str]) -> list[importlib.metadata.Distribution]:
    """These and what they require, as far as it is installed: extras are not."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            assert name not in names, f"{name} is not installed"
            continue
        needs = [text for text in found[name].requires or () if "extra ==" not in text]
        waiting += [match[0] for text in needs if (match := re.match(r"[A-Za-z0-9._-]+", text))]
    return list(found.values())
