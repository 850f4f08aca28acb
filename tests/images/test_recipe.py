"""Recipes: ours is good, and a bad one is refused with the field's name."""

from __future__ import annotations

import pytest

from crucible.errors import BadSetting
from crucible.images.base import package_list
from crucible.images.recipe import parse_recipe, read_recipe

GOOD = """
name = "small"
user = "user"
uid = 1000
workdir = "/workspace"
packages = ["bash"]
exclude = ["/usr/share/man/*"]
[environment]
B = "2"
A = "1"
"""


def test_our_own_recipe_holds_what_is_promised() -> None:
    recipe = read_recipe()
    promised = {
        *("python3", "python3-pip", "python3-venv", "git", "curl", "ca-certificates"),
        *("procps", "less", "bash"),
    }
    assert promised <= set(recipe.packages)
    assert (recipe.name, recipe.user, recipe.uid) == ("base", "user", 1000)
    assert recipe.workdir == "/workspace"


def test_a_recipe_is_read_in_full() -> None:
    recipe = parse_recipe(GOOD, origin="small.toml")
    assert recipe.packages == ("bash",)
    assert recipe.keep == ()
    assert recipe.environment == (("A", "1"), ("B", "2"))


def test_another_text_has_another_digest() -> None:
    changed = GOOD.replace('"bash"', '"dash"')
    assert (
        parse_recipe(GOOD, origin="a").digest
        == parse_recipe(GOOD, origin="b").digest
        != parse_recipe(changed, origin="a").digest
    )


@pytest.mark.parametrize(
    "line, field",
    [
        ('name = "../x"', "name"),
        ('name = "a b"', "name"),
        ("name = 3", "name"),
        ('user = "x\'; rm -rf /"', "user"),
        ('user = ""', "user"),
        ("uid = 0", "uid"),
        ("uid = true", "uid"),
        ('uid = "1000"', "uid"),
        ('workdir = "relative"', "workdir"),
        ('workdir = "/a/../b"', "workdir"),
        ('workdir = "/a$(id)"', "workdir"),
        ('packages = "bash"', "packages"),
        ('packages = ["bash,dash"]', "packages"),
        ('packages = ["--option"]', "packages"),
        ('exclude = ["/a b"]', "exclude"),
        ("environment = 1", "environment"),
    ],
)
def test_a_bad_field_is_named(line: str, field: str) -> None:
    key = line.split(" ", 1)[0]
    others = [kept for kept in GOOD.splitlines() if not kept.startswith(f"{key} ")]
    if key == "environment":
        others = others[: others.index("[environment]")]
    text = "\n".join([line, *others])
    with pytest.raises(BadSetting, match=f"^{field} = .* in small.toml"):
        parse_recipe(text, origin="small.toml")


def test_an_unknown_field_is_a_mistake() -> None:
    with pytest.raises(BadSetting, match="colour"):
        parse_recipe(f'colour = "red"\n{GOOD}', origin="small.toml")


def test_a_text_that_is_no_toml_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"small\.toml is not readable"):
        parse_recipe("name = ", origin="small.toml")


def test_the_package_list_is_sorted_and_has_versions() -> None:
    status = (
        "Package: zlib\nStatus: install ok installed\nVersion: 1.2\nArchitecture: amd64\n"
        "Description: two lines\n and: a second\n\n"
        "Package: bash\nVersion: 5.2-1\nArchitecture: amd64\n\n"
    )
    assert package_list(status) == "bash 5.2-1 amd64\nzlib 1.2 amd64\n"


def test_an_empty_status_gives_an_empty_list() -> None:
    assert package_list("") == ""
