"""The description of the API: complete, and the one that is committed."""

from __future__ import annotations

import json
from pathlib import Path

from crucible.server.app import MODULES, openapi_document
from crucible.server.auth import (
    FOR_ANYBODY,
    MAY_ADMINISTER,
    MAY_ADMINISTER_USERS,
    MAY_READ,
    MAY_RUN,
    OWNER,
    SIGNED_IN,
)
from crucible.server.gate import is_signing

COMMITTED = Path(__file__).parent.parent.parent / "api" / "openapi.json"
ANYBODYS = {"/health", "/ready"}


def test_the_committed_document_is_the_programs() -> None:
    assert json.loads(COMMITTED.read_text()) == openapi_document(), "run `make docs`"


def test_it_is_openapi_3_1_and_every_operation_has_a_name_of_its_own() -> None:
    document = openapi_document()
    assert document["openapi"].startswith("3.1")
    names = [
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    ]
    assert len(names) == len(set(names))


def test_every_route_says_who_may_use_it() -> None:
    scopes = (MAY_READ, MAY_RUN, MAY_ADMINISTER, MAY_ADMINISTER_USERS)
    checks = {one.dependency for one in scopes}
    signing = {one.dependency for one in (FOR_ANYBODY, SIGNED_IN, OWNER)}
    routes = [route for module in MODULES for route in module.router.routes]
    assert len(routes) > 50
    for route in routes:
        found = {one.dependency for one in route.dependencies}
        wanted = signing if is_signing(route.path) else checks
        assert route.path in ANYBODYS or found & wanted, route.path
