"""A devcontainer.json shapes a sandbox, after everything that the user says himself."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.errors import BadSetting, CrucibleError
from crucible.images.oci.reference import parse_reference
from crucible.project.settings import Settings, gather
from crucible.sandbox.doors.ports import LOOPBACK, parse_port
from crucible.sandbox.spec import parse_spec


def plant(directory: Path, content: object) -> str:
    path = directory / ".devcontainer" / "devcontainer.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def settle(directory: Path, variables: dict[str, str] | None = None, **options: Any) -> Settings:
    return gather(options, directory=str(directory), named_file=None, variables=variables or {})


WHOLE = {
    "image": "of-the-container",
    "containerEnv": {"A": "1", "B": "2"},
    "remoteUser": "dev",
    "forwardPorts": [8080, "localhost:9000"],
    "postCreateCommand": "make",
    "features": {},
    "mounts": ["source=/,target=/host,type=bind"],
    "runArgs": ["--privileged"],
}


def test_every_key_that_means_something_becomes_a_setting(tmp_path: Path) -> None:
    path = plant(tmp_path, WHOLE)
    found = settle(tmp_path)
    values = {name: setting.value for name, setting in found.items() if setting.origin == path}
    assert values == {
        "image": "of-the-container",
        "environment": {"A": "1", "B": "2"},
        "user": "dev",
        "ports": ["0:8080", "0:9000"],
        "after_create": ["make"],
        "ignored": ["features", "mounts", "runArgs"],
    }


def test_ports_are_reached_from_loopback_alone(tmp_path: Path) -> None:
    plant(tmp_path, WHOLE)
    ports = [parse_port(text) for text in settle(tmp_path)["ports"].value]
    assert {(port.address, port.host) for port in ports} == {(LOOPBACK, 0)}


def test_option_variable_and_file_go_before_it(tmp_path: Path) -> None:
    plant(tmp_path, WHOLE)
    assert settle(tmp_path, image="x")["image"] == ("x", "--image")
    assert settle(tmp_path, {"CRUCIBLE_IMAGE": "y"})["image"] == ("y", "$CRUCIBLE_IMAGE")
    (tmp_path / "crucible.toml").write_text("[sandbox]\nuser = 'me'\nenv = { B = '3', C = '4' }\n")
    found = settle(tmp_path, environment={"C": "5"})
    assert found["user"].value == "me"
    assert found["image"].value == "of-the-container"
    assert found["environment"].value == {"A": "1", "B": "3", "C": "5"}


def test_it_is_left_aside_where_crucible_toml_names_an_image_or_the_user_says_so(
    tmp_path: Path,
) -> None:
    plant(tmp_path, WHOLE)
    assert "ports" not in settle(tmp_path, no_devcontainer=True)
    (tmp_path / "crucible.toml").write_text("[sandbox]\nimage = 'mine'\n")
    found = settle(tmp_path)
    assert found["image"].value == "mine"
    assert "user" not in found


def test_a_build_becomes_an_image_of_the_projects_own_unless_another_is_named(
    tmp_path: Path,
) -> None:
    build = {"dockerfile": "Dockerfile", "context": "..", "args": {"V": "1"}, "target": "dev"}
    path = plant(tmp_path, {"build": build, "remoteUser": "dev"})
    found = settle(tmp_path)
    assert found["build"].value == {
        "dockerfile": str(tmp_path / ".devcontainer" / "Dockerfile"),
        "context": str(tmp_path),
        "args": {"V": "1"},
        "target": "dev",
    }
    image = found["image"]
    assert image.origin == f"{path} build"
    assert str(parse_reference(image.value)).startswith("localhost/devcontainer-")
    named = settle(tmp_path, image="x")
    assert named["user"].value == "dev"
    assert "build" not in named


def test_two_projects_of_the_same_name_have_images_of_their_own(tmp_path: Path) -> None:
    names = set()
    for above in ("one", "two"):
        project = tmp_path / above / "Äpp &c"
        project.mkdir(parents=True)
        plant(project, {"build": {"dockerfile": "Dockerfile"}})
        names.add(str(parse_reference(settle(project)["image"].value)))
    assert len(names) == 2


@pytest.mark.parametrize("key", ["dockerfile", "context"])
@pytest.mark.parametrize("path", ["../..", "/", "../../other", "../link", "../link/below"])
def test_a_build_cannot_leave_the_project(tmp_path: Path, key: str, path: str) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    for directory in (project, other / "below"):
        directory.mkdir(parents=True)
    (project / "link").symlink_to(other)
    plant(project, {"build": {"dockerfile": "Dockerfile", key: path}})
    with pytest.raises(BadSetting, match=f"build.{key} .* leads out of the project"):
        settle(project)
    assert settle(project, image="x")["image"].value == "x"


def test_a_build_from_a_linked_folder_cannot_leave_the_project(tmp_path: Path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    (project / ".devcontainer").symlink_to(other)
    plant(project, {"build": {"dockerfile": "Dockerfile"}})
    with pytest.raises(BadSetting, match="leads out of the project"):
        settle(project)


@pytest.mark.parametrize("path", ["../.ssh", "../.aws", "../.ssh/more"])
def test_no_directory_of_credentials_is_a_context(tmp_path: Path, path: str) -> None:
    (tmp_path / ".ssh" / "more").mkdir(parents=True)
    plant(tmp_path, {"build": {"dockerfile": "Dockerfile", "context": path}})
    with pytest.raises(BadSetting, match="may be a credential"):
        settle(tmp_path)


def test_a_project_cannot_open_the_host_by_it(tmp_path: Path) -> None:
    """What would give a container things of the host is not among what is read."""
    plant(
        tmp_path,
        {
            **WHOLE,
            "workspaceMount": "source=/root,target=/w,type=bind",
            "initializeCommand": "touch /tmp/owned",
            "remoteEnv": {"TOKEN": "${localEnv:TOKEN}"},
            "containerEnv": {"TOKEN": "${localEnv:TOKEN}", "HOME": "x"},
            "appPort": "0.0.0.0:80:80",
            "privileged": True,
            "capAdd": ["ALL"],
        },
    )
    found = settle(tmp_path, {"TOKEN": "secret"})
    assert "environment" not in found
    assert found["pass_env"].value == []
    assert found["mount_home"].value is False
    assert "mounts" not in found
    assert found["network"].origin == "profile moderate"
    assert "secret" not in repr(found)
    ignored = " ".join(found["ignored"].value)
    for key in ("initializeCommand", "workspaceMount", "privileged", "capAdd", "containerEnv"):
        assert key in ignored


def test_a_link_to_something_else_tells_nothing_of_it(tmp_path: Path) -> None:
    secret = tmp_path / "id_rsa"
    secret.write_text("very private")
    (tmp_path / ".devcontainer.json").symlink_to(secret)
    with pytest.raises(BadSetting) as refused:
        settle(tmp_path)
    assert "private" not in str(refused.value) + refused.value.hint


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".devcontainer.json")
    assert "image" not in settle(tmp_path)


@given(
    content=st.dictionaries(
        st.sampled_from(["image", "build", "containerEnv", "remoteUser", "forwardPorts"])
        | st.just("postCreateCommand")
        | st.text(max_size=8),
        st.none() | st.integers() | st.text(max_size=12) | st.lists(st.text(max_size=5), max_size=3)
        | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
        max_size=5,
    )
)  # fmt: skip
def test_whatever_it_holds_is_taken_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, object]
) -> None:
    directory = tmp_path_factory.mktemp("project")
    plant(directory, content)
    with contextlib.suppress(CrucibleError):
        found = settle(directory)
        words = found["after_create"].value if "after_create" in found else []
        parse_spec({"after_create": words})
