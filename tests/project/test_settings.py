"""Which of several places wins, and that a file that was merely found cannot open the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crucible.errors import BadSetting
from crucible.project.settings import Settings, choose_image, gather


def settle(directory: Path, named: str | None = None, **options: Any) -> Settings:
    return gather(options, directory=str(directory), named_file=named, variables={})


def test_an_option_goes_before_a_variable_and_that_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "crucible.toml"
    path.write_text("[sandbox]\nimage = 'of-the-file'\n[resources]\nvcpus = 3\n")
    variables = {"CRUCIBLE_IMAGE": "of-the-variable"}
    found = gather({}, directory=str(tmp_path), named_file=None, variables=variables)
    assert found["image"] == ("of-the-variable", "$CRUCIBLE_IMAGE")
    assert found["cpus"] == (3, f"{path} [resources] vcpus")
    found = gather({"image": "x"}, directory=str(tmp_path), named_file=None, variables=variables)
    assert found["image"] == ("x", "--image")


def test_a_file_that_is_named_is_read_instead_of_the_one_that_lies_there(tmp_path: Path) -> None:
    (tmp_path / "crucible.toml").write_text("[resources]\nvcpus = 3\n")
    (tmp_path / "other.toml").write_text("[resources]\nmemory_mb = 2048\n")
    found = settle(tmp_path, str(tmp_path / "other.toml"))
    assert "cpus" not in found
    assert found["memory_mib"].value == 2048


def test_variables_of_the_file_and_the_command_line_are_joined(tmp_path: Path) -> None:
    (tmp_path / "crucible.toml").write_text("[sandbox]\nenv = { A = '1', B = '2' }\n")
    found = settle(tmp_path, environment={"B": "3"})
    assert found["environment"].value == {"A": "1", "B": "3"}


@pytest.mark.parametrize(
    "profile, network, is_read_only",
    [("permissive", "full", False), ("moderate", "full", False), ("restrictive", "off", True)],
)
def test_the_profile_fills_what_nobody_sets(
    tmp_path: Path, profile: str, network: str, is_read_only: bool
) -> None:
    found = settle(tmp_path, profile=profile)
    assert found["network"] == (network, f"profile {profile}")
    assert found["read_only"].value is is_read_only
    assert found["drop_capabilities"].value is is_read_only


def test_the_profile_is_moderate_unless_told(tmp_path: Path) -> None:
    assert settle(tmp_path)["profile"] == ("moderate", "default")


def test_every_field_of_a_profile_can_be_set_apart(tmp_path: Path) -> None:
    (tmp_path / "crucible.toml").write_text("[security]\nread_only = false\n")
    found = settle(tmp_path, profile="restrictive", network="allowlist", drop_capabilities=False)
    assert found["network"].value == "allowlist"
    assert found["read_only"].value is False
    assert found["drop_capabilities"].value is False


def test_a_file_that_was_found_cannot_give_away_the_host(tmp_path: Path) -> None:
    path = tmp_path / "crucible.toml"
    path.write_text("[security]\nprofile = 'permissive'\n")
    with pytest.raises(BadSetting) as refused:
        settle(tmp_path)
    assert f"--config {path}" in refused.value.hint
    assert settle(tmp_path, str(path))["profile"].value == "permissive"


def test_a_file_that_was_found_cannot_send_secrets_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "crucible.toml"
    path.write_text("[secrets]\nTOKEN = 'evil.example.org'\n")
    with pytest.raises(BadSetting, match="asks for secrets"):
        settle(tmp_path)
    assert settle(tmp_path, str(path))["secrets"].value == ["TOKEN:evil.example.org"]


@pytest.mark.parametrize(
    "text, given",
    [
        ("[security]\nmount_home = true\n", "your home"),
        ("[security]\npass_env = true\n", "variables"),
        ("[security]\npass_env = ['LANG']\n", "variables"),
        ("[mounts]\n'/data' = '../beside'\n", "/beside"),
        ("[mounts]\n'/data' = 'link'\n", "/beside"),
        ("[mounts]\n'/data' = { source = '.env' }\n", "/.env"),
        ("[mounts]\n'/data' = '~'\n", "give the sandbox"),
        ("[mounts]\n'/data' = { volume = 'shared' }\n", "shared"),
    ],
)
def test_a_file_that_was_found_cannot_name_things_of_the_host(
    tmp_path: Path, text: str, given: str
) -> None:
    project, beside = tmp_path / "project", tmp_path / "beside"
    project.mkdir()
    beside.mkdir()
    (project / "link").symlink_to(beside)
    (project / ".env").touch()
    path = project / "crucible.toml"
    path.write_text(text)
    with pytest.raises(BadSetting, match="wants to give the sandbox") as refused:
        settle(project)
    assert given in refused.value.message
    assert f"--config {path}" in refused.value.hint
    settle(project, str(path))


def test_a_file_that_was_found_can_mount_what_lies_in_its_project(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "crucible.toml").write_text(
        "[security]\nmount_cwd = true\nmount_home = false\npass_env = []\n"
        "[mounts]\n'/data' = 'data'\n"
    )
    found = settle(tmp_path)
    assert found["mounts"].value == [f"{tmp_path}/data:/data:ro"]
    assert found["mount_cwd"].value is True


def test_mounts_of_the_file_and_the_command_line_are_joined(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "crucible.toml").write_text("[mounts]\n'/a' = 'data'\n'/b' = 'data'\n")
    found = settle(tmp_path, mounts=["/other:/b:rw", "/other:/c:ro"])
    assert found["mounts"].value == [f"{tmp_path}/data:/a:ro", "/other:/b:rw", "/other:/c:ro"]


def test_named_variables_are_added_to_those_of_the_profile(tmp_path: Path) -> None:
    assert settle(tmp_path)["pass_env"] == ([], "profile moderate")
    assert settle(tmp_path, pass_more=["A"])["pass_env"] == (["A"], "--pass-env")
    assert settle(tmp_path, profile="permissive")["pass_env"] == (["*"], "profile permissive")
    found = settle(tmp_path, profile="permissive", pass_more=["A"])
    assert found["pass_env"].value == ["*", "A"]
    found = settle(tmp_path, profile="permissive", pass_env=[], pass_more=["A"])
    assert found["pass_env"].value == ["A"]


@pytest.mark.parametrize("field", ["mount_cwd", "mount_home"])
def test_what_permissive_copies_can_be_left_out(tmp_path: Path, field: str) -> None:
    assert settle(tmp_path, profile="permissive")[field].value is True
    options = {"profile": "permissive", field: False}
    found = gather(options, directory=str(tmp_path), named_file=None, variables={})
    assert found[field].value is False
    assert settle(tmp_path)[field].value is False


def test_a_file_that_was_found_can_take_away(tmp_path: Path) -> None:
    (tmp_path / "crucible.toml").write_text("[security]\nprofile = 'restrictive'\n")
    assert settle(tmp_path)["network"].value == "off"


def test_what_is_named_is_no_guess(tmp_path: Path) -> None:
    (tmp_path / "crucible.toml").write_text("[sandbox]\nbase_image = 'mine'\n")
    assert choose_image(settle(tmp_path), ["node", "x"], str(tmp_path)).value == "mine"


def test_an_image_that_nobody_names_is_guessed_with_its_reason(tmp_path: Path) -> None:
    found = choose_image(settle(tmp_path), ["node", "x"], str(tmp_path))
    assert found == ("node:22-alpine", "`node` is a command of JavaScript/TypeScript")
