"""Logins: found where Docker and podman keep them, and never shown."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.errors import CredentialsUnreadable
from crucible.images.oci.challenges import parse_challenges
from crucible.images.oci.credential_program import ask_program
from crucible.images.oci.credentials import Credentials, find_credentials
from crucible.sandbox import processes


def packed(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    return {"HOME": str(tmp_path / "home"), "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}


def write(path: Path, document: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def docker(environment: dict[str, str], document: object) -> None:
    write(Path(environment["HOME"]) / ".docker" / "config.json", document)


def program(environment: dict[str, str], name: str, script: str) -> None:
    path = Path(environment["PATH"].split(":")[0]) / f"docker-credential-{name}"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_without_any_file_there_is_no_login(environment: dict[str, str]) -> None:
    assert find_credentials("example.com", environment=environment) is None
    assert find_credentials("example.com", environment={}) is None


@pytest.mark.parametrize(
    "key",
    [
        "example.com:5000",
        "https://example.com:5000",
        "https://example.com:5000/v2/",
        "Example.com:5000/v1/",
    ],
)
def test_dockers_file_is_read(environment: dict[str, str], key: str) -> None:
    docker(environment, {"auths": {key: {"auth": packed("me", "a:b")}}})
    found = find_credentials("example.com:5000", environment=environment)
    assert found == Credentials(username="me", password="a:b")
    assert find_credentials("example.com", environment=environment) is None


@pytest.mark.parametrize(
    "key", ["https://index.docker.io/v1/", "docker.io", "registry-1.docker.io"]
)
def test_docker_hub_has_several_names(environment: dict[str, str], key: str) -> None:
    docker(environment, {"auths": {key: {"auth": packed("me", "x")}}})
    assert find_credentials("docker.io", "library/python", environment=environment) is not None


def test_the_places_are_looked_at_in_order(environment: dict[str, str], tmp_path: Path) -> None:
    def login(user: str) -> object:
        return {"auths": {"r.example": {"auth": packed(user, "x")}}}

    def user() -> str:
        found = find_credentials("r.example", environment=environment)
        return found.username if found else ""

    write(Path(environment["HOME"]) / ".config" / "containers" / "auth.json", login("podman"))
    assert user() == "podman"
    environment["XDG_RUNTIME_DIR"] = str(tmp_path / "run")
    write(tmp_path / "run" / "containers" / "auth.json", login("runtime"))
    assert user() == "runtime"
    docker(environment, login("docker"))
    assert user() == "docker"
    environment["DOCKER_CONFIG"] = str(tmp_path / "elsewhere")
    write(tmp_path / "elsewhere" / "config.json", login("elsewhere"))
    assert user() == "elsewhere"
    environment["REGISTRY_AUTH_FILE"] = str(tmp_path / "explicit.json")
    write(tmp_path / "explicit.json", login("explicit"))
    assert user() == "explicit"


def test_a_login_for_part_of_a_registry_goes_before_the_whole(environment: dict[str, str]) -> None:
    entries = {
        "r.example": {"auth": packed("whole", "1")},
        "r.example/team": {"auth": packed("team", "2")},
    }
    docker(environment, {"auths": entries})

    def user(repository: str) -> str:
        found = find_credentials("r.example", repository, environment=environment)
        return found.username if found else ""

    assert [user("team/app"), user("teams/app"), user("")] == ["team", "whole", "whole"]


def test_tokens_are_known_as_such(environment: dict[str, str]) -> None:
    entries = {
        "a.example": {"auth": packed("me", ""), "identitytoken": "identity"},
        "b.example": {"registrytoken": "registry"},
        "c.example": {"auth": packed("<token>", "identity")},
        "d.example": {},
    }
    docker(environment, {"auths": entries})
    found = {name: find_credentials(name, environment=environment) for name in entries}
    assert (found["a.example"] or Credentials()).identity_token == "identity"
    assert (found["b.example"] or Credentials()).registry_token == "registry"
    assert found["c.example"] == Credentials(identity_token="identity")
    assert found["d.example"] is None


def test_a_program_is_asked_with_the_registry_on_its_input(environment: dict[str, str]) -> None:
    docker(environment, {"credHelpers": {"r.example": "test"}, "credsStore": "missing"})
    program(
        environment,
        "test",
        'read key; test "$1" = get || exit 9\n'
        'printf \'{"ServerURL":"%s","Username":"me","Secret":"for %s"}\' "$key" "$key"',
    )
    found = find_credentials("r.example", environment=environment)
    assert found == Credentials(username="me", password="for r.example")


def test_docker_hub_is_asked_for_by_its_old_address(environment: dict[str, str]) -> None:
    docker(environment, {"credsStore": "test"})
    program(environment, "test", 'read key; printf \'{"Username":"<token>","Secret":"%s"}\' "$key"')
    found = find_credentials("docker.io", environment=environment)
    assert found == Credentials(identity_token="https://index.docker.io/v1/")


def test_a_program_that_has_nothing_leaves_it_to_the_file(environment: dict[str, str]) -> None:
    auths = {"r.example": {"auth": packed("me", "x")}}
    docker(environment, {"credsStore": "test", "auths": auths})
    program(environment, "test", "echo 'credentials not found in native keychain'; exit 1")
    assert find_credentials("r.example", environment=environment) is not None


@pytest.mark.parametrize(
    "script",
    [
        "exit 3",
        "echo secret-in-output; exit 1",
        "echo no json with secret-in-output",
        'echo \'{"Username": 5, "Secret": "secret-in-output"}\'',
        "yes secret-in-output",
        "kill -9 $$",
    ],
)
def test_a_program_that_fails_is_named_and_its_words_are_not(
    environment: dict[str, str], script: str
) -> None:
    docker(environment, {"credsStore": "test"})
    program(environment, "test", script)
    with pytest.raises(CredentialsUnreadable, match="docker-credential-test") as caught:
        find_credentials("r.example", environment=environment)
    assert "secret-in-output" not in f"{caught.value}{caught.value.hint}"


def until_over(pid: int) -> None:
    """What was killed may take a moment to die, and whose child it is now need not have looked after it."""
    deadline = time.monotonic() + 120
    while processes.start_mark(pid) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_program_that_hangs_is_killed_with_its_children(
    environment: dict[str, str], tmp_path: Path
) -> None:
    program(environment, "slow", f"sleep 1000 & echo $! > {tmp_path}/child; wait")
    with pytest.raises(CredentialsUnreadable, match="did not answer"):
        ask_program("slow", "r.example", environment, deadline_s=2.0)
    child = tmp_path / "child"
    if child.exists() and child.read_text().strip():
        until_over(int(child.read_text()))


@pytest.mark.parametrize("name", ["../../bin/sh", "a b", "", "-x", "a/b", "x" * 100])
def test_a_program_is_never_a_path(environment: dict[str, str], name: str) -> None:
    with pytest.raises(CredentialsUnreadable):
        ask_program(name, "r.example", environment)


def test_a_program_that_is_not_installed_is_said_so(environment: dict[str, str]) -> None:
    docker(environment, {"credsStore": "nowhere"})
    with pytest.raises(CredentialsUnreadable, match="not installed"):
        find_credentials("r.example", environment=environment)


@pytest.mark.parametrize("text", ["", "no json", "[]", '"x"', "[" * 100_000])
def test_a_file_that_is_no_such_file_is_named(environment: dict[str, str], text: str) -> None:
    path = Path(environment["HOME"]) / ".docker" / "config.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(CredentialsUnreadable, match=r"config\.json"):
        find_credentials("r.example", environment=environment)


def test_a_damaged_login_is_named_without_its_bytes(environment: dict[str, str]) -> None:
    docker(environment, {"auths": {"r.example": {"auth": "secret-but-not-base64!"}}})
    with pytest.raises(CredentialsUnreadable, match=r"r\.example") as caught:
        find_credentials("r.example", environment=environment)
    assert "secret" not in str(caught.value)


def test_secrets_are_in_no_repr() -> None:
    found = Credentials(
        username="me", password="hush", identity_token="hush", registry_token="hush"
    )
    assert "hush" not in repr(found) + str(found)


@given(
    document=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=10),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["auths", "credHelpers", "credsStore", "r.example", "auth", "username"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, document: object
) -> None:
    home = tmp_path_factory.mktemp("fuzz")
    environment = {"HOME": str(home), "PATH": os.devnull}
    docker(environment, document)
    try:
        find_credentials("r.example", "a/b", environment=environment)
    except CredentialsUnreadable:
        return


def test_a_challenge_is_read() -> None:
    [bearer] = parse_challenges(
        ['Bearer realm="https://auth.example/token",service="a, b",scope="repository:x/y:pull"']
    )
    assert bearer.scheme == "bearer"
    assert bearer.parameters == {
        "realm": "https://auth.example/token",
        "service": "a, b",
        "scope": "repository:x/y:pull",
    }


def test_several_challenges_are_told_apart() -> None:
    headers = ['Negotiate, Basic realm="a \\"b\\"", Bearer realm=c', "Digest qop=auth"]
    found = parse_challenges(headers)
    assert [challenge.scheme for challenge in found] == ["negotiate", "basic", "bearer", "digest"]
    assert found[1].parameters == {"realm": 'a "b"'}


@given(text=st.text(max_size=200) | st.from_regex(r'[A-Za-z ,="\\]{0,60}', fullmatch=True))
def test_any_challenge_is_read_as_far_as_it_makes_sense(text: str) -> None:
    for challenge in parse_challenges([text, text]):
        assert challenge.scheme == challenge.scheme.lower()
