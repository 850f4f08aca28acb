"""Which database is taken, and that what is wrong with an address is said without showing it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.errors import BadSetting
from crucible.store.address import database_url, parse, shown
from crucible.store.database import Database

NOTHING = {"CRUCIBLE_CONFIG": os.devnull}


def test_without_a_setting_it_is_a_file_in_the_state_directory(tmp_path: Path) -> None:
    home = tmp_path / "odd %41 ?x=1 #ü"
    url = database_url(home, NOTHING)
    assert parse(url).database == str(home / "crucible.db")
    database = Database(url)
    database.open()
    database.close()
    assert (home / "crucible.db").stat().st_size > 0


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_a_server_is_named_by_its_url(tmp_path: Path, scheme: str) -> None:
    url = database_url(tmp_path, {**NOTHING, "CRUCIBLE_DATABASE": f"{scheme}://me:pw@db:5433/runs"})
    parsed = parse(url)
    assert parsed.drivername == "postgresql+psycopg"
    assert shown(parsed) == "runs at db:5433"


def test_the_users_own_file_may_name_it(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[database]\nurl = 'postgresql://db/runs'\n")
    path.chmod(0o600)
    assert database_url(tmp_path, {"CRUCIBLE_CONFIG": str(path)}) == "postgresql://db/runs"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:hunter2@db/runs",
        "sqlite://",
        "sqlite:///hunter2.db",
        "sqlite:////tmp/a.db?hunter2=1",
        "hunter2",
        "postgresql://me:hunter2@db:port/runs",
        "postgresql://hunter2\n@db/runs",
        "postgresql://hunter2" + "x" * 5000,
    ],
)
def test_what_names_no_database_is_refused_and_not_shown(tmp_path: Path, url: str) -> None:
    with pytest.raises(BadSetting, match="CRUCIBLE_DATABASE") as refused:
        database_url(tmp_path, {**NOTHING, "CRUCIBLE_DATABASE": url})
    assert "hunter2" not in f"{refused.value!r} {refused.value.hint}"
    assert refused.value.__cause__ is None


@given(st.text(max_size=200))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    with contextlib.suppress(BadSetting):
        parse(text)
