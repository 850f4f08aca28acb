"""crucible.toml: what it sets, and that nothing in it is ignored silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from crucible.cli.config_file import ConfigFile, read_config_file
from crucible.cli.grammar import parse
from crucible.cli.main import find_command
from crucible.cli.specs import spec_fields
from crucible.errors import BadSetting, PathRefused


def read(directory: Path, text: str) -> ConfigFile:
    path = directory / "crucible.toml"
    path.write_text(text)
    return read_config_file(str(path))


def test_every_key_is_taken(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        [sandbox]
        name = "box"
        image = "base"
        [resources]
        vcpus = 2
        memory_mb = 1024
        disk_mb = 4096
        [security]
        network = false
        """,
    )
    assert found.name == "box"
    assert found.spec == {
        "image": "base",
        "cpus": 2,
        "memory_mib": 1024,
        "disk_mib": 4096,
        "allow_network": False,
    }


def test_the_older_name_of_the_image_is_taken(tmp_path: Path) -> None:
    assert read(tmp_path, '[sandbox]\nbase_image = "base"').spec == {"image": "base"}


@pytest.mark.parametrize(
    "text, said, hint",
    [
        ("[sandbx]\n", "'sandbx'", "Did you mean `sandbox`?"),
        ("[resources]\nmemory = 1\n", "'memory' in [resources]", "Did you mean `memory_mb`?"),
        ("[resources]\nvcpus = '2'\n", "'vcpus' in [resources]", "a whole number"),
        ("[resources]\nvcpus = true\n", "'vcpus' in [resources]", "a whole number"),
        ("[security]\nnetwork = 'no'\n", "'network' in [security]", "true or false"),
        ("[sandbox]\nimage = 'a'\nbase_image = 'b'\n", "says twice", ""),
        ("sandbox = 3\n", "'sandbox'", ""),
        ("not toml", "is not TOML", ""),
    ],
)
def test_what_means_nothing_is_refused(tmp_path: Path, text: str, said: str, hint: str) -> None:
    with pytest.raises(BadSetting) as caught:
        read(tmp_path, text)
    assert said in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a = '\x00'"])
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "crucible.toml").write_bytes(content)
    with pytest.raises(BadSetting):
        read_config_file(str(tmp_path / "crucible.toml"))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PathRefused):
        read_config_file(str(tmp_path / "nosuch.toml"))


def test_options_go_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        '[resources]\nmemory_mb = 1024\nvcpus = 2\n[sandbox]\nname = "box"\n'
    )
    words = ["--config", str(tmp_path / "c.toml"), "--memory", "2G", "true"]
    fields, name = spec_fields(parse(find_command("run"), words))
    assert (fields["memory_mib"], fields["cpus"], name) == (2048, 2, "box")
