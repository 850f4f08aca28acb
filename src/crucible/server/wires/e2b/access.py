"""Who may come in: the control plane by one of our tokens, what is inside a sandbox by that sandbox's own."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time

from starlette.requests import HTTPConnection

from crucible.errors import BadRequest, SandboxMissing, Unauthenticated
from crucible.sandbox.records import SandboxRecord
from crucible.server.auth import ANYBODY, Caller, caller_with, token_caller
from crucible.server.belonging import find_sandbox
from crucible.server.domain import Domain, domain_of
from crucible.server.tokens import Scope
from crucible.server.wires.e2b.facts import facts_of
from crucible.server.wires.e2b.names import ENVD_PORT, called_place

ID_HEADER = "e2b-sandbox-id"
# Which of them a client sends is by the port that it means.
TOKEN_HEADERS = ("x-access-token", "e2b-traffic-access-token")
LONGEST_USER = 64
HEX_PREFIX = "e2b_"


def authenticate(domain: Domain, connection: HTTPConnection) -> Caller:
    """A request for a sandbox that is not there may pass: it is told that, and nothing else."""
    name = named_sandbox(connection)
    if not name:
        if connection.query_params.get("signature"):
            return _insider(_signed_for(domain, connection))
        return _by_key(domain, connection)
    try:
        record = domain.manager.records.find(name)
    except SandboxMissing:
        return ANYBODY
    place = called_place(connection)
    is_guests_own = place is not None and place.is_guests_own
    if connection.scope["path"].endswith("/health") and not is_guests_own:
        return ANYBODY
    given = next(filter(None, map(connection.headers.get, TOKEN_HEADERS)), "")
    if given:
        if not hmac.compare_digest(given.encode(), facts_of(record).token.encode()):
            raise Unauthenticated("The access token is not this sandbox's")
        return _insider(record)
    if connection.query_params.get("signature"):
        return _insider(_signed_for(domain, connection, (record,)))
    return _by_key(domain, connection)


def authenticate_by_name(domain: Domain, connection: HTTPConnection, *, is_public: bool) -> Caller:
    """As by a header, but for two things that E2B's clients expect of names.

    Headers at a port of the guest's own are for the program there: but for the tokens of the sandbox they are not
    looked at. And where that `is_public`, ports of sandboxes that were not closed to the public need no token,
    except the one through which all of a sandbox is had.
    """
    place = called_place(connection)
    if place is None or place.is_control or place.port == ENVD_PORT:
        return authenticate(domain, connection)
    try:
        record = domain.manager.records.find(place.sandbox)
    except SandboxMissing:
        return ANYBODY
    has_token = any(map(connection.headers.get, TOKEN_HEADERS))
    if is_public and not has_token and not record.is_temporary and facts_of(record).is_public:
        return _insider(record)
    if place.is_guests_own and not has_token:
        raise Unauthenticated(
            "A port of a sandbox is reached with its token, in the header E2b-Traffic-Access-Token"
        )
    return authenticate(domain, connection)


def named_sandbox(connection: HTTPConnection) -> str:
    """By the name that was called, if it was one of ours; a header that says otherwise then says nothing."""
    place = called_place(connection)
    return connection.headers.get(ID_HEADER, "") if place is None else place.sandbox


def sandbox_of(connection: HTTPConnection) -> SandboxRecord:
    """The sandbox that a request is for: the one it names, or the one whose token signed it."""
    records = domain_of(connection).manager.records
    name = named_sandbox(connection)
    caller: Caller = connection.state.caller
    if name and not caller.user:
        # Nobody in particular, whom this opens nothing to.
        return records.find(name)
    if name:
        return find_sandbox(domain_of(connection), caller, name)
    for record in records.sandboxes():
        if record.id == caller.sandbox:
            return record
    raise BadRequest("The request names no sandbox: the header E2b-Sandbox-Id is missing")


def user_of(connection: HTTPConnection) -> str:
    """The user whose name stands where a web page's password would; "" for the sandbox's usual one."""
    given = connection.query_params.get("username", "")
    kind, _, rest = connection.headers.get("authorization", "").partition(" ")
    if kind.lower() == "basic":
        try:
            given = base64.b64decode(rest, validate=True).decode().partition(":")[0]
        except ValueError:
            raise BadRequest("The header Authorization is not well formed") from None
    if len(given) > LONGEST_USER:
        raise BadRequest("The name of the user is too long")
    return given


def _by_key(domain: Domain, connection: HTTPConnection) -> Caller:
    """Some clients send no key that is not `e2b_` and hexadecimal digits: those are our token's bytes."""
    given = connection.headers.get("x-api-key", "")
    if given.startswith(HEX_PREFIX):
        try:
            text = bytes.fromhex(given[len(HEX_PREFIX) :]).decode()
        except ValueError:
            raise Unauthenticated("The key is not a token in hexadecimal digits") from None
        return caller_with(domain, text)
    return token_caller(domain, connection)


def _insider(record: SandboxRecord) -> Caller:
    return Caller(id=f"e2b:{record.id}", scope=Scope.RUN, sandbox=record.id, user=record.owner)


def _signed_for(
    domain: Domain, connection: HTTPConnection, among: tuple[SandboxRecord, ...] = ()
) -> SandboxRecord:
    """A signed address does not say whose it is, so each sandbox's token is tried."""
    query = connection.query_params
    expiry = query.get("signature_expiration", "")
    if expiry and (not expiry.isdecimal() or len(expiry) > 12 or int(expiry) < time.time()):
        raise Unauthenticated("The signature has expired")
    operation = "write" if connection.scope.get("method") == "POST" else "read"
    words = [query.get("path", ""), operation, query.get("username", "")]
    found = None
    for record in among or domain.manager.records.sandboxes():
        if record.is_temporary:
            continue
        parts = [*words, facts_of(record).token, *([expiry] if expiry else [])]
        digest = hashlib.sha256(":".join(parts).encode(errors="surrogateescape")).digest()
        wanted = "v1_" + base64.b64encode(digest).decode().rstrip("=")
        if hmac.compare_digest(wanted.encode(), query["signature"].encode(errors="replace")):
            found = record
    if found is None:
        raise Unauthenticated("The signature is not valid")
    return found
