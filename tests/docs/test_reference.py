"""The reference pages say what the program says."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from docs.reference.generate import error_classes, meaning_of, pages
from tests.docs.pages import ROOT

from crucible import user_file
from crucible.config import Config, load_config
from crucible.images.oci.settings import load_settings
from crucible.project.file import read_file
from crucible.project.languages import LANGUAGES
from crucible.project.schema import KEYS
from crucible.sandbox.profiles import PROFILES

SETTINGS = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", list(pages()), ids=lambda path: path.name)
def test_the_generated_pages_have_not_drifted(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == pages()[path], (
        f"{path.name} has drifted: run `python docs/reference/generate.py`"
    )


def test_every_error_code_on_the_page_exists_once() -> None:
    text = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)
    assert sorted(listed) == sorted(kind.code for kind in error_classes())


def test_every_error_says_what_it_means() -> None:
    for kind in error_classes():
        assert len(meaning_of(kind)) > 10, kind.code


def test_codes_are_stable_words() -> None:
    for kind in error_classes():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.code), kind


def test_every_variable_the_program_reads_is_listed_and_no_other() -> None:
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]
    read = set()
    for path in sources:
        read |= set(re.findall(r"CRUCIBLE_[A-Z0-9_]+", path.read_text(encoding="utf-8")))
    listed = set(re.findall(r"^\| `(CRUCIBLE_[A-Z0-9_]+)`", SETTINGS, re.MULTILINE))
    assert listed == read


def test_the_defaults_that_are_listed_are_in_force() -> None:
    config = load_config({"HOME": "/home/someone"})
    assert config.home == Path("/home/someone/.local/share/crucible")
    assert f"| `CRUCIBLE_TEMPLATE_LIMIT_MIB` | `{config.template_limit_mib}` |" in SETTINGS
    assert f"| `CRUCIBLE_OWNER_IDLE_S` | `{config.owner_idle_s:g}` |" in SETTINGS
    assert "| `CRUCIBLE_PULL` | `missing` |" in SETTINGS
    assert config.pulls_images
    assert f"| `CRUCIBLE_DRAIN_S` | `{config.drain_s:g}` |" in SETTINGS
    assert f"| `CRUCIBLE_POOL_MIN` | `{config.pool_min}` |" in SETTINGS
    assert f"| `CRUCIBLE_POOL_MAX` | `{config.pool_max}` |" in SETTINGS
    assert f"| `CRUCIBLE_RUNS_MAX` | `{config.runs_max}` |" in SETTINGS
    assert f"| `CRUCIBLE_QUEUE_MAX` | `{config.queue_max}` |" in SETTINGS
    assert f"| `CRUCIBLE_QUEUE_S` | `{config.queue_s:g}` |" in SETTINGS
    assert (config.provider, config.falls_back, config.transport) == ("auto", False, "local")
    assert config.backend_cli == ()
    assert "| `SANDBOX_PROVIDER` | unset |" in SETTINGS
    assert "| `LOCAL_MICROVM_TRANSPORT` | `local` |" in SETTINGS
    assert config.ssh is None
    assert len(fields(Config)) == 15


def test_every_key_of_a_config_file_is_listed_and_no_other() -> None:
    listed = set(re.findall(r"^\| `\[(\w+)\]` \| `(\w+)` \|", SETTINGS, re.MULTILINE))
    of_the_user = {(section, name) for section, keys in user_file.KEYS.items() for name in keys}
    assert listed == {(key.section, key.name) for key in KEYS} | of_the_user


def test_the_example_of_the_users_own_file_is_taken(tmp_path: Path) -> None:
    example, _ = re.findall(r"```toml\n(.*?)```", SETTINGS, re.DOTALL)
    path = tmp_path / "config.toml"
    path.write_text(example)
    path.chmod(0o600)
    settings = load_settings({"CRUCIBLE_CONFIG": str(path)})
    assert settings.mirrors
    assert settings.insecure
    assert settings.limit_bytes == 40960 << 20


def test_the_example_of_a_config_file_is_taken(tmp_path: Path) -> None:
    _, example = re.findall(r"```toml\n(.*?)```", SETTINGS, re.DOTALL)
    path = tmp_path / "crucible.toml"
    path.write_text(example)
    found = {target: given.value for target, given in read_file(str(path)).items()}
    assert found["name"] == "box"
    assert found["image"] == "base"
    assert found["memory_mib"] == 1024
    assert found["allow"] == ["example.org", "*.example.net:8443"]


def test_the_languages_that_are_listed_are_those_that_are_recognised() -> None:
    for language in LANGUAGES:
        commands = " ".join(f"`{command}`" for command in language.commands) or "-"
        files = " ".join(f"`{file}`" for file in language.files)
        assert f"| {language.name} | {commands} | {files} | `{language.image}` |" in SETTINGS


def test_the_profiles_that_are_listed_are_those_in_force() -> None:
    for profile in PROFILES.values():
        cells = re.search(rf"^\| `{profile.name}`[^|]*\|(.*)\|$", SETTINGS, re.MULTILINE)
        assert cells is not None
        network, *flags, capabilities = (cell.strip() for cell in cells[1].split("|"))
        assert network == {"full": "every public address", "off": "none"}[profile.network]
        assert [flag == "yes" for flag in flags] == [
            profile.mounts_directory,
            profile.mounts_home,
            profile.passes_environment,
            profile.is_read_only,
        ]
        assert (capabilities == "none") is profile.drops_capabilities
