"""devcontainer.json: JSON with comments, from anybody's project."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.errors import BadSetting
from crucible.project.devcontainer import (
    Build,
    DevContainer,
    find_devcontainer,
    plain_json,
    read_devcontainer,
)


def read(directory: Path, text: str) -> DevContainer:
    path = directory / "devcontainer.json"
    path.write_text(text)
    return read_devcontainer(path)


def test_every_key_that_means_something_is_read(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        // what an editor writes
        {
            "name": "a // name, and not a comment",
            "image": "debian:12", /* several
            lines */
            "containerEnv": { "A": "http://x/*y*/", "B": "", },
            "forwardPorts": [3000, "8080", "localhost:9000"],
            "postCreateCommand": "npm ci",
            "remoteUser": "node",
        }
        """,
    )
    assert found == DevContainer(
        path=str(tmp_path / "devcontainer.json"),
        image="debian:12",
        environment={"A": "http://x/*y*/", "B": ""},
        ports=(3000, 8080, 9000),
        after_create=("npm ci",),
        user="node",
    )


def test_a_build_is_read(tmp_path: Path) -> None:
    text = '{"build": {"dockerfile": "Dockerfile", "context": "..", "args": {"V": "1"}, "target": "dev"}}'
    assert read(tmp_path, text).build == Build(
        dockerfile="Dockerfile", context="..", target="dev", arguments={"V": "1"}
    )


def test_what_of_a_build_is_not_used_is_named(tmp_path: Path) -> None:
    build = """{"build": {"dockerfile": "Dockerfile", "options": ["--privileged"], "cacheFrom": "x",
                "args": {"V": "1", "TOKEN": "${localEnv:TOKEN}"}}}"""
    found = read(tmp_path, build)
    assert found.build == Build(dockerfile="Dockerfile", arguments={"V": "1"})
    computed = "build.args.TOKEN (it has variables of the editor in it)"
    assert found.ignored == ("build.options", "build.cacheFrom", computed)
    found = read(tmp_path, '{"build": {"dockerfile": "${localWorkspaceFolder}/Dockerfile"}}')
    assert found.build is None
    assert found.ignored == ("build (it has variables of the editor in it)",)


def test_a_build_is_read_as_older_files_write_it(tmp_path: Path) -> None:
    found = read(tmp_path, '{"dockerFile": "Dockerfile", "context": "..", "name": "x"}')
    assert found.build == Build(dockerfile="Dockerfile", context="..")
    assert found.ignored == ()


def test_a_command_may_be_words(tmp_path: Path) -> None:
    found = read(tmp_path, '{"postCreateCommand": ["npm", "run", "a b"]}')
    assert found.after_create == ("npm", "run", "a b")


def test_other_keys_are_named_as_ignored(tmp_path: Path) -> None:
    found = read(tmp_path, '{"name": "x", "features": {}, "runArgs": ["--privileged"]}')
    assert found.ignored == ("features", "runArgs")


def test_values_that_only_an_editor_can_fill_in_are_named_as_ignored(tmp_path: Path) -> None:
    found = read(tmp_path, '{"containerEnv": {"TOKEN": "${localEnv:TOKEN}"}, "image": "x"}')
    assert found.environment == {}
    assert found.ignored == ("containerEnv (it has variables of the editor in it)",)


@pytest.mark.parametrize(
    "text",
    [
        "[]", "3", "{", '{"image": 3}', '{"image": ""}', '{"image": "a\\u0000b"}', '{"forwardPorts": 3}',
        '{"forwardPorts": [0]}', '{"forwardPorts": [65536]}', '{"forwardPorts": [true]}',
        '{"forwardPorts": ["db:5432"]}', '{"containerEnv": ["A"]}', '{"containerEnv": {"A": 1}}',
        '{"build": {}}', '{"build": "Dockerfile"}', '{"postCreateCommand": {"a": "b"}}',
        '{"postCreateCommand": []}', "[" * 100_000,
    ],
)  # fmt: skip
def test_values_of_the_wrong_kind_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadSetting):
        read(tmp_path, text)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="larger than"):
        read(tmp_path, " " * (2 << 20))


def test_where_it_is_looked_for(tmp_path: Path) -> None:
    assert find_devcontainer(tmp_path) is None
    for name in (
        ".devcontainer/one/devcontainer.json",
        ".devcontainer.json",
        ".devcontainer/devcontainer.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
        assert find_devcontainer(tmp_path) == tmp_path / name


def test_of_several_in_folders_of_their_own_none_is_taken(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / ".devcontainer" / name).mkdir(parents=True)
        (tmp_path / ".devcontainer" / name / "devcontainer.json").write_text("{}")
    assert find_devcontainer(tmp_path) is None


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=_json)
def test_plain_json_stays_what_it_is(value: object) -> None:
    assert json.loads(plain_json(json.dumps(value, ensure_ascii=False))) == value


@given(text=st.text(alphabet='{}[]",:/*\\\n ab1', max_size=60))
def test_whatever_it_holds_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("dev") / "devcontainer.json"
    path.write_text(text)
    with contextlib.suppress(BadSetting):
        read_devcontainer(path)
