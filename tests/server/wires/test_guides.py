"""The guides list what is served and what is refused, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

import pytest
from fastapi import FastAPI
from tests.conftest import ROOT

from crucible.server.domain import Domain
from crucible.server.wires.agentkernel import refused as agentkernel_refused
from crucible.server.wires.agentkernel import wire as agentkernel_wire
from crucible.server.wires.opensandbox import refused as opensandbox_refused
from crucible.server.wires.opensandbox import wire as opensandbox_wire
from crucible.server.wires.refusing import Refused

NOTHING = cast(Domain, None)
_ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


@pytest.mark.parametrize(
    "name, app, refused, besides",
    [
        (
            "agentkernel",
            agentkernel_wire.build_app(NOTHING),
            agentkernel_refused.REFUSED,
            {"GET /health"},
        ),
        (
            "opensandbox",
            opensandbox_wire.build_app(NOTHING),
            opensandbox_refused.REFUSED,
            set[str](),
        ),
    ],
)
def test_a_guide_lists_what_is_served_and_what_is_refused(
    name: str, app: FastAPI, refused: Sequence[Refused], besides: set[str]
) -> None:
    text = (ROOT / "docs" / "guides" / f"{name}.md").read_text(encoding="utf-8")
    _, served, refusals = re.split(r"^## What is (?:served|refused)$", text, flags=re.MULTILINE)
    assert set(_ROW.findall(served)) == served_by(app) | besides
    assert _ROW.findall(refusals) == [
        f"{one.methods[0]} {one.path}" if one.is_alone else one.path for one in refused
    ]


def served_by(app: FastAPI) -> set[str]:
    return {
        f"{method.upper()} {path}"
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    }
