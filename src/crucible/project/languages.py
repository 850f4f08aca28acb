"""The languages that are recognised, as data: commands, project files, and the image that serves them.

On the path of every `run`, so it is plain tuples. The first row that fits is taken.
"""

from __future__ import annotations

from typing import NamedTuple


class Language(NamedTuple):
    """`files` are names, or patterns such as `*.kt`."""

    name: str
    image: str
    commands: tuple[str, ...]
    files: tuple[str, ...]


LANGUAGES = (
    Language(
        "JavaScript/TypeScript",
        "node:22-alpine",
        ("node", "npm", "npx", "yarn", "pnpm", "bun"),
        ("package.json", "yarn.lock", "pnpm-lock.yaml"),
    ),
    Language(
        "Python",
        "python:3.12-alpine",
        ("python", "python3", "pip", "pip3", "poetry", "uv", "pytest"),
        ("pyproject.toml", "requirements.txt", "Pipfile"),
    ),
    Language("Rust", "rust:1.85-alpine", ("cargo", "rustc"), ("Cargo.toml",)),
    Language("Go", "golang:1.23-alpine", ("go", "gofmt"), ("go.mod",)),
    Language("Ruby", "ruby:3.3-alpine", ("ruby", "bundle", "rails"), ("Gemfile",)),
    Language(
        "Java",
        "eclipse-temurin:21-alpine",
        ("java", "mvn", "gradle"),
        ("pom.xml", "build.gradle"),
    ),
    Language("Kotlin", "eclipse-temurin:21-alpine", (), ("*.kt",)),
    Language("C#/.NET", "mcr.microsoft.com/dotnet/sdk:8.0", ("dotnet",), ("*.csproj", "*.sln")),
    Language(
        "C/C++",
        "gcc:14-bookworm",
        ("gcc", "g++", "make", "cmake"),
        ("Makefile", "CMakeLists.txt"),
    ),
    Language("PHP", "php:8.3-alpine", ("php", "composer"), ("composer.json",)),
    Language("Elixir", "elixir:1.16-alpine", ("elixir", "mix"), ("mix.exs",)),
    Language("Lua", "nickblah/lua:5.4-alpine", ("lua", "luajit"), ("*.lua",)),
    Language("HCL/Terraform", "hashicorp/terraform:1.10", ("terraform",), ("*.tf", "*.tfvars")),
    Language("Shell", "alpine:3.20", ("bash", "sh", "zsh"), ("*.sh",)),
)

# What the image `base` holds of these, by its recipe: it serves them where no registry can be reached.
SERVED_BY_BASE = frozenset({"Python", "Shell"})
