"""What the environment and the user's own file set, and that nonsense is refused with the place it came from."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.config import PROVIDERS, Config, load_config
from crucible.errors import BadSetting

HOME = {"CRUCIBLE_HOME": "/tmp/nowhere"}


def config(**variables: str) -> Config:
    return load_config({**HOME, **variables})


def of_file(directory: Path, text: str, **variables: str) -> Config:
    path = directory / "config.toml"
    path.write_text(text)
    path.chmod(0o600)
    return config(CRUCIBLE_CONFIG=str(path), **variables)


def test_without_settings_nothing_leaves_this_machine() -> None:
    found = config(E2B_API_KEY="e2b_0123")
    assert (found.provider, found.falls_back) == ("auto", False)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_each_provider_can_be_named(provider: str) -> None:
    assert config(SANDBOX_PROVIDER=provider).provider == provider


@pytest.mark.parametrize(
    "provider, fallback, falls_back",
    [
        ("auto", "", True),
        ("auto", "true", True),
        ("auto", "false", False),
        ("auto", "0", False),
        ("local_microvm", "", False),
        ("local_microvm", "TRUE", True),
        ("remote_e2b", "", False),
        ("", "true", True),
    ],
)
def test_the_remote_serves_instead_only_for_who_asked_for_it(
    provider: str, fallback: str, falls_back: bool
) -> None:
    found = config(SANDBOX_PROVIDER=provider, LOCAL_MICROVM_FALLBACK_TO_REMOTE=fallback)
    assert found.falls_back is falls_back


@pytest.mark.parametrize(
    "name, value",
    [
        ("SANDBOX_PROVIDER", "Auto"),
        ("SANDBOX_PROVIDER", "local"),
        ("SANDBOX_PROVIDER", "x" * 9000),
        ("LOCAL_MICROVM_FALLBACK_TO_REMOTE", "maybe"),
        ("LOCAL_MICROVM_TRANSPORT", "telnet"),
        ("LOCAL_MICROVM_BACKEND_CLI", "ssh 'worker"),
        ("LOCAL_MICROVM_BACKEND_CLI", "''"),
        ("LOCAL_MICROVM_BACKEND_CLI", "ssh\nworker"),
        ("LOCAL_MICROVM_BACKEND_CLI", "x" * 9000),
    ],
)
def test_what_means_nothing_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(BadSetting) as refused:
        config(**{name: value})
    assert name in refused.value.message
    assert len(refused.value.message) < 250


def test_the_provider_command_is_taken_as_words() -> None:
    found = config(LOCAL_MICROVM_BACKEND_CLI="limactl shell 'my worker' -- microvmctl")
    assert found.backend_cli == ("limactl", "shell", "my worker", "--", "microvmctl")
    assert found.transport == "local"


def test_ssh_needs_a_command_that_reaches_the_worker() -> None:
    with pytest.raises(BadSetting, match="LOCAL_MICROVM_BACKEND_CLI"):
        config(LOCAL_MICROVM_TRANSPORT="ssh")
    found = config(LOCAL_MICROVM_TRANSPORT="ssh", LOCAL_MICROVM_BACKEND_CLI="ssh box microvmctl")
    assert found.transport == "ssh"


def test_the_users_own_file_sets_the_same(tmp_path: Path) -> None:
    found = of_file(
        tmp_path,
        "[provider]\nmode = 'auto'\nfallback_to_remote = false\ntransport = 'ssh'\n"
        "backend_cli = 'ssh box microvmctl'\n",
    )
    assert (found.provider, found.falls_back, found.transport) == ("auto", False, "ssh")
    assert found.backend_cli == ("ssh", "box", "microvmctl")


def test_a_variable_goes_before_the_file(tmp_path: Path) -> None:
    text = "[provider]\nmode = 'remote_e2b'\n"
    assert of_file(tmp_path, text).provider == "remote_e2b"
    assert of_file(tmp_path, text, SANDBOX_PROVIDER="auto").provider == "auto"


@pytest.mark.parametrize(
    "text",
    [
        "[provider]\nmode = 'cloud'\n",
        "[provider]\nmode = 3\n",
        "[provider]\nfallback_to_remote = 'no'\n",
        "[provider]\nkey = 'e2b_0123'\n",
        "[provider\n",
    ],
)
def test_a_file_that_means_nothing_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadSetting):
        of_file(tmp_path, text)


def test_a_file_about_other_things_is_not_parsed_for_this(tmp_path: Path) -> None:
    assert of_file(tmp_path, "[registries\n").provider == "auto"


@given(st.text(max_size=200))
def test_any_text_for_a_command_is_words_or_refused(text: str) -> None:
    try:
        found = config(LOCAL_MICROVM_BACKEND_CLI=text)
    except BadSetting:
        return
    assert found.backend_cli == () or found.backend_cli[0]
