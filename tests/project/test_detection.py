"""The image that is guessed, and the reason that is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.project.detection import detect, from_command, from_files, reasoning
from crucible.project.languages import LANGUAGES, SERVED_BY_BASE
from crucible.project.procfile import read_procfile

# The whole table that users were promised, written out: what the code holds is compared with it.
PROMISED = """
node npm npx yarn pnpm bun | package.json yarn.lock pnpm-lock.yaml | node:22-alpine
python python3 pip poetry uv | pyproject.toml requirements.txt Pipfile | python:3.12-alpine
cargo rustc | Cargo.toml | rust:1.85-alpine
go gofmt | go.mod | golang:1.23-alpine
ruby bundle rails | Gemfile | ruby:3.3-alpine
java mvn gradle | pom.xml build.gradle | eclipse-temurin:21-alpine
 | Main.kt | eclipse-temurin:21-alpine
dotnet | App.csproj App.sln | mcr.microsoft.com/dotnet/sdk:8.0
gcc g++ make cmake | Makefile CMakeLists.txt | gcc:14-bookworm
php composer | composer.json | php:8.3-alpine
elixir mix | mix.exs | elixir:1.16-alpine
lua luajit | main.lua | nickblah/lua:5.4-alpine
terraform | main.tf vars.tfvars | hashicorp/terraform:1.10
bash sh zsh | run.sh | alpine:3.20
"""
ROWS = [
    (commands.split(), files.split(), image.strip())
    for commands, files, image in (line.split("|") for line in PROMISED.strip("\n").splitlines())
]
BY_COMMAND = [(command, image) for commands, _, image in ROWS for command in commands]
BY_FILE = [(file, image) for _, files, image in ROWS for file in files]


def test_there_are_fourteen_languages() -> None:
    assert len(LANGUAGES) == len(ROWS) == 14
    assert {language.name for language in LANGUAGES} >= SERVED_BY_BASE


@pytest.mark.parametrize("command, image", BY_COMMAND)
def test_the_command_names_the_image(tmp_path: Path, command: str, image: str) -> None:
    found = detect([command, "--version"], str(tmp_path))
    assert (found.image, found.step) == (image, "command")
    assert f"`{command}`" in found.why


@pytest.mark.parametrize("file, image", BY_FILE)
def test_a_file_of_the_project_names_the_image(tmp_path: Path, file: str, image: str) -> None:
    (tmp_path / file).touch()
    found = detect(["./start"], str(tmp_path))
    assert (found.image, found.step) == (image, "files")
    assert f"`{file}`" in found.why


@pytest.mark.parametrize(
    "words, image",
    [
        (["/usr/local/bin/python3.12", "x.py"], "python:3.12-alpine"),
        (["env", "A=1", "node", "x.js"], "node:22-alpine"),
        (["A=1", "cargo", "test"], "rust:1.85-alpine"),
        (["sh", "-c", "CI=1 npm test"], "node:22-alpine"),
        (["bash", "-lc", "./run"], "alpine:3.20"),
        (["g++-12", "x.cc"], "gcc:14-bookworm"),
        (["lua5.4"], "nickblah/lua:5.4-alpine"),
        (["./python"], "python:3.12-alpine"),
        (["pythonic"], ""),
        (["env"], ""),
        ([""], ""),
        ([], ""),
    ],
)
def test_how_a_command_is_read(words: list[str], image: str) -> None:
    assert from_command(words).image == image


def test_the_command_goes_before_the_files_and_these_before_the_procfile(tmp_path: Path) -> None:
    (tmp_path / "Procfile").write_text("web: bundle exec rails server -p $PORT\n")
    assert detect(["./x"], str(tmp_path)).image == "ruby:3.3-alpine"
    (tmp_path / "go.mod").touch()
    assert detect(["./x"], str(tmp_path)).image == "golang:1.23-alpine"
    assert detect(["php", "x"], str(tmp_path)).image == "php:8.3-alpine"


def test_of_two_languages_the_one_listed_first_is_taken(tmp_path: Path) -> None:
    for name in ("Makefile", "Cargo.toml", "deploy.sh"):
        (tmp_path / name).touch()
    assert detect([], str(tmp_path)).image == "rust:1.85-alpine"


def test_without_any_sign_it_is_the_base_image(tmp_path: Path) -> None:
    found = detect(["true"], str(tmp_path))
    assert (found.step, found.image) == ("default", "base")


def test_every_step_is_told(tmp_path: Path) -> None:
    assert [finding.step for finding in reasoning([], str(tmp_path))] == [
        "command", "files", "Procfile", "default",
    ]  # fmt: skip


def test_a_directory_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert "cannot be read" in from_files(str(tmp_path / "nosuch")).why


def test_the_web_process_goes_first(tmp_path: Path) -> None:
    path = tmp_path / "Procfile"
    path.write_text("# a comment\nworker: python manage.py runworker\nweb: node server.js\n\nbad\n")
    assert [process.name for process in read_procfile(str(path))] == ["web", "worker"]
    assert detect(["./x"], str(tmp_path)).image == "node:22-alpine"


def test_a_procfile_with_assignments_and_open_quotes(tmp_path: Path) -> None:
    (tmp_path / "Procfile").write_text(
        "web: PORT=3 gunicorn 'x\nworker: RAILS_ENV=x bundle exec y\n"
    )
    assert detect(["./x"], str(tmp_path)).image == "ruby:3.3-alpine"


@given(content=st.binary(max_size=500))
def test_whatever_a_procfile_holds_there_is_an_answer(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    directory = tmp_path_factory.mktemp("procfile")
    (directory / "Procfile").write_bytes(content)
    assert detect([], str(directory)).image


@given(words=st.lists(st.text(max_size=20), max_size=4))
def test_whatever_the_command_is_there_is_an_answer(words: list[str]) -> None:
    assert detect(words, "/nonexistent").image
