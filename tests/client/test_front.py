"""What is handed to the daemon's front: every word and variable as it was, and nothing that is no request."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.client import front, place
from crucible.config import load_config
from crucible.errors import BadSetting

texts = st.binary(max_size=50).map(lambda raw: raw.replace(b"\0", b""))


@given(st.lists(texts, max_size=20))
def test_words_arrive_as_they_were(words: list[bytes]) -> None:
    request = front._request([os.fsdecode(word) for word in words], "/package")
    package, umask, variables, found = front.request_fields(request)
    assert (package, [os.fsencode(word) for word in found]) == ("/package", words)
    assert variables == dict(os.environb)
    assert umask == os.umask(umask)


@given(st.binary(max_size=200))
def test_what_is_no_request_is_a_value_error_and_nothing_else(payload: bytes) -> None:
    try:
        _, umask, _, _ = front.request_fields(payload)
    except ValueError:
        return
    assert 0 <= umask <= 0o777


def test_without_a_daemon_the_work_is_ours(tmp_path: Path) -> None:
    assert front.hand_over(["run"], str(tmp_path), "/package") is None
    (tmp_path / front.SOCKET_NAME).write_text("no socket")
    assert front.hand_over(["run"], str(tmp_path), "/package") is None
    assert front.hand_over(["run"], str(tmp_path / ("long" * 50)), "/package") is None


@pytest.mark.parametrize(
    "values",
    [
        {"CRUCIBLE_HOME": "/a", "XDG_DATA_HOME": "/b", "HOME": "/c"},
        {"XDG_DATA_HOME": "/b", "HOME": "/c"},
        {"HOME": "/c"},
        {"CRUCIBLE_HOME": "", "HOME": "/c"},
    ],
)
def test_the_state_directory_is_where_the_settings_say(values: dict[str, str]) -> None:
    assert Path(place.home_directory(values)) == load_config(values).home


def test_without_any_home_there_is_none() -> None:
    assert place.home_directory({}) == ""
    with pytest.raises(BadSetting):
        load_config({})
