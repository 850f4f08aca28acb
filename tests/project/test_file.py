"""crucible.toml: what it sets, and that nothing in it is ignored silently."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.errors import BadSetting, CrucibleError, PathRefused
from crucible.project.file import read_file
from crucible.project.schema import KEYS, SECTIONS, json_schema


def read(directory: Path, text: str) -> dict[str, Any]:
    path = directory / "crucible.toml"
    path.write_text(text)
    return {target: given.value for target, given in read_file(str(path)).items()}


def test_every_key_is_taken(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        [sandbox]
        name = "box"
        image = "base"
        user = "root"
        workdir = "/srv"
        env = { A = "1" }
        images = { app = "shop:7" }
        [agent]
        preferred = "claude"
        [resources]
        vcpus = 2
        memory_mb = 1024
        disk_mb = 4096
        processes = 50
        output_mb = 10
        connections = 8
        idle_timeout = "10m"
        ttl = "2h"
        [security]
        profile = "restrictive"
        read_only = false
        drop_capabilities = false
        min_isolation = "software-vm"
        mount_cwd = true
        mount_home = false
        pass_env = ["LANG"]
        [network]
        mode = "allowlist"
        allow = ["example.org"]
        deny = ["*.example.org"]
        [ports]
        publish = ["9000:80"]
        [provider]
        mode = "local_microvm"
        fallback_to_remote = false
        """,
    )
    assert found == {
        "name": "box", "image": "base", "user": "root", "workdir": "/srv", "environment": {"A": "1"},
        "images": {"app": "shop:7"}, "agent": "claude", "cpus": 2, "memory_mib": 1024, "disk_mib": 4096,
        "processes": 50, "output_mib": 10, "connections": 8, "idle_timeout_s": 600.0, "ttl_s": 7200.0,
        "profile": "restrictive", "read_only": False, "drop_capabilities": False,
        "min_isolation": "software-vm", "network": "allowlist", "allow": ["example.org"],
        "deny": ["*.example.org"], "ports": ["9000:80"],
        "mount_cwd": True, "mount_home": False, "pass_env": ["LANG"],
        "provider": "local_microvm", "fallback": "never",
    }  # fmt: skip
    assert set(found) == {key.target for key in KEYS}


def test_the_older_name_of_the_image_is_taken(tmp_path: Path) -> None:
    assert read(tmp_path, '[sandbox]\nbase_image = "base"') == {"image": "base"}


def test_the_network_is_turned_off_by_a_flag_and_left_to_the_profile_by_the_other(
    tmp_path: Path,
) -> None:
    assert read(tmp_path, "[security]\nnetwork = false") == {"network": "off"}
    assert read(tmp_path, "[security]\nnetwork = true") == {}


@pytest.mark.parametrize(
    "text, said, hint",
    [
        ("[sandbx]\n", "'sandbx'", "Did you mean `sandbox`?"),
        ("[resources]\nmemory = 1\n", "'memory' in [resources]", "Did you mean `memory_mb`?"),
        ("[resources]\nvcpus = '2'\n", "'vcpus' in [resources]", "a whole number"),
        ("[resources]\nvcpus = true\n", "'vcpus' in [resources]", "a whole number"),
        ("[resources]\nttl = 'soon'\n", "'soon'", "10m"),
        ("[security]\nnetwork = 'no'\n", "'network' in [security]", "true or false"),
        ("[security]\nprofile = 'lax'\n", "'lax'", "permissive, moderate, restrictive"),
        ("[network]\nmode = 'on'\n", "'on'", "off, allowlist, full"),
        ("[network]\nallow = 'a'\n", "'allow' in [network]", "a list of texts"),
        ("[network]\nallow = [1]\n", "'allow' in [network]", "a list of texts"),
        ("[sandbox]\nenv = { A = 1 }\n", "'env' in [sandbox]", "a table of texts"),
        ("[sandbox]\nimage = 'a'\nbase_image = 'b'\n", "twice", ""),
        ("[security]\nnetwork = false\n[network]\nmode = 'full'\n", "twice", ""),
        ("sandbox = 3\n", "'sandbox'", ""),
        ("[secrets]\nA = 1\n", "'A' in [secrets]", "the host it is for"),
        ("[sandbox\n", "is not TOML", ""),
        ("[security]\npass_env = 'LANG'\n", "'pass_env'", "a list of names"),
        ("[mounts]\n'/data' = 3\n", "'/data' in [mounts]", "writable = true"),
        ("[mounts]\n'/data' = { source = '.', writeable = true }\n", "'writeable'", "`writable`"),
        ("[mounts]\n'/data' = { source = '.', writable = 1 }\n", "'/data'", "writable = true"),
        ("[mounts]\n'data' = '.'\n", "'data' is not an absolute path", ""),
        ("[mounts]\n'/etc' = '.'\n", "/etc of the sandbox", ""),
        ("[mounts]\n'/data' = './nosuch'\n", "neither a file nor a directory", ""),
        ("[mounts]\n'/a' = '.'\n'/a/b' = '.'\n", "within each other", ""),
    ],
)
def test_what_means_nothing_is_refused(tmp_path: Path, text: str, said: str, hint: str) -> None:
    with pytest.raises(BadSetting) as refused:
        read(tmp_path, text)
    assert said in refused.value.message
    assert hint in refused.value.hint


def test_mounts_are_found_from_where_the_file_lies(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    found = read(
        tmp_path,
        "[mounts]\n'/data' = './link'\n'/more' = { source = 'data', writable = true }\n",
    )
    assert found == {"mounts": [f"{tmp_path}/data:/data:ro", f"{tmp_path}/data:/more:rw"]}


@pytest.mark.parametrize("flag, passed", [("true", ["*"]), ("false", [])])
def test_all_variables_or_none_can_be_asked_for(
    tmp_path: Path, flag: str, passed: list[str]
) -> None:
    assert read(tmp_path, f"[security]\npass_env = {flag}\n") == {"pass_env": passed}


def test_what_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "crucible.toml").write_bytes(b"[sandbox]\nname = '\xff'\n")
    with pytest.raises(BadSetting, match="is not TOML"):
        read_file(str(tmp_path / "crucible.toml"))


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "crucible.toml").write_bytes(b"#" * (2 << 20))
    with pytest.raises(BadSetting, match="larger than"):
        read_file(str(tmp_path / "crucible.toml"))


@pytest.mark.parametrize("name", ["nosuch.toml", ".", "a\0b"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PathRefused, match="cannot be read"):
        read_file(f"{tmp_path}/{name}")


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(
    section=st.sampled_from(SECTIONS) | st.text(max_size=10),
    key=st.sampled_from([key.name for key in KEYS]) | st.text(max_size=10),
    value=_values,
)
def test_whatever_it_holds_it_is_taken_or_refused(
    tmp_path_factory: pytest.TempPathFactory, section: str, key: str, value: object
) -> None:
    path = tmp_path_factory.mktemp("toml") / "crucible.toml"
    text = f"[{json.dumps(section)}]\n{json.dumps(key)} = {json.dumps(value)}\n"
    path.write_text(text, encoding="utf-8", errors="replace")
    with contextlib.suppress(CrucibleError):
        read_file(str(path))


def test_the_schema_knows_every_key_and_no_other() -> None:
    schema = json_schema()
    assert schema["properties"].pop("secrets")["additionalProperties"] == {"type": "string"}
    listed = {
        (section, name)
        for section, described in schema["properties"].items()
        for name in described["properties"]
    }
    assert listed == {(key.section, key.name) for key in KEYS}
    assert schema["additionalProperties"] is False
