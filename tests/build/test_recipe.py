"""Recipes: the same instructions that a Dockerfile gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.build.dockerfile import MAX_BYTES
from crucible.build.instructions import (
    Cmd,
    Copy,
    Entrypoint,
    Env,
    Expose,
    From,
    Label,
    Run,
    User,
    Workdir,
)
from crucible.build.recipe import parse_recipe
from crucible.build.words import expand
from crucible.errors import BuildFileInvalid

WHOLE = b"""
base = "debian:12"
workdir = "/app"
user = "1000"
entrypoint = ["python3"]
cmd = ["-m", "app"]
expose = [8080, "53/udp"]
commands = ["make all"]

[packages]
apt = ["curl", "libc6=2.36-9"]
pip = ["requests>=2,<3"]

[env]
PRICE = "5 $ and 'more'"

[files]
"/app/" = "src"

[labels]
"org.example.team" = "a b"
"""


def test_a_recipe_gives_the_instructions_of_a_dockerfile() -> None:
    found = parse_recipe(WHOLE).instructions
    kinds = [type(each) for each in found]
    assert kinds == [From, Env, Run, Run, Workdir, Copy, Run, User, Label, Entrypoint, Cmd, Expose]
    runs = [each for each in found if isinstance(each, Run)]
    assert "apt-get install -y --no-install-recommends curl libc6=2.36-9 &&" in runs[0].argv[-1]
    assert runs[0].text == "apt install curl libc6=2.36-9"
    assert runs[1].argv[-1].endswith("pip install --no-cache-dir 'requests>=2,<3'")
    assert runs[2].argv == ("/bin/sh", "-c", "make all")
    assert {run.user for run in runs} == {"0"}
    assert found[-1] == Expose(line=0, ports=("8080", "53/udp"))


def test_texts_of_a_recipe_mean_just_themselves() -> None:
    env = next(each for each in parse_recipe(WHOLE).instructions if isinstance(each, Env))
    [(name, value)] = env.pairs
    assert name == "PRICE"
    assert expand(value, {"and": "wrong"}, "\\") == "5 $ and 'more'"


@pytest.mark.parametrize(
    "text, why, hint",
    [
        ('bas = "x"', "there is no key bas", "Did you mean `base`?"),
        ('base = "x"\n[packages]\nyum = ["a"]', "there is no key packages.yum", "npm"),
        ('user = "x"', "base is missing", ""),
        ("base = 1", "base cannot hold 1", ""),
        ('base = ""', "base cannot hold", ""),
        ('base = "x"\ncommands = "y"', "commands is not a list", ""),
        ('base = "x"\nfiles = ["y"]', "files is not a table", ""),
        ('base = "x"\n[packages]\napt = ["a; rm -rf /"]', "is no name of a package", ""),
        ('base = "x"\n[packages]\npip = ["--index-url=x"]', "is no name of a package", ""),
        ('base = "x"\n[packages]\napt = ["$(x)"]', "is no name of a package", ""),
        ('base = "x"\n[env]\n"A=B" = "c"', "is no name of a variable", ""),
        ('base = "x"\nexpose = [1.5]', "expose cannot hold 1.5", ""),
        ("base = ", "it is not readable", ""),
    ],
)
def test_what_means_nothing_is_refused_by_name(text: str, why: str, hint: str) -> None:
    with pytest.raises(BuildFileInvalid) as refusal:
        parse_recipe(text.encode(), origin="app.toml")
    assert refusal.value.message.startswith("In app.toml: ")
    assert why in refusal.value.message
    assert hint in refusal.value.hint


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(BuildFileInvalid, match="more than"):
        parse_recipe(b"#" * (MAX_BYTES + 1))


@given(st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode)))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        parse_recipe(b'base = "x"\n' + data)
    except BuildFileInvalid:
        return
