"""What callers of the HTTP doors do and may not do."""

from __future__ import annotations

from crucible.errors.base import EXIT_REFUSED, CrucibleError, Refused


class DoorError(CrucibleError):
    """What a caller over HTTP did, or may not do. Never raised by a sandbox."""

    code = "door"
    exit_status = EXIT_REFUSED


class BadRequest(DoorError):
    """A request whose fields are missing, unknown or of the wrong kind."""

    code = "bad-request"


class MalformedBody(DoorError):
    """A body that is not the JSON it says it is."""

    code = "malformed-body"


class MalformedRequest(DoorError):
    """Bytes in which no request can be found."""

    code = "malformed-request"


class RouteMissing(DoorError):
    code = "route-missing"

    def __init__(self) -> None:
        super().__init__(
            "There is nothing at this address", hint="GET /api/v1/openapi.json lists what there is"
        )


class MethodRefused(DoorError):
    code = "method-refused"

    def __init__(self) -> None:
        super().__init__(
            "This address does not take this method",
            hint="GET /api/v1/openapi.json lists what there is",
        )


class Unauthenticated(DoorError):
    """A request over TCP without a token that is good, and without the cookie of a browser that is signed in."""

    code = "unauthenticated"

    def __init__(self, why: str = "The request carries no token") -> None:
        super().__init__(
            why, hint="Make a token with `crucible token create`, and send it as a bearer token"
        )


class CredentialEnded(Unauthenticated):
    """What a caller came by ended while they were being answered: signed out, disabled, revoked, or too old."""

    code = "credential-ended"

    def __init__(self) -> None:
        super().__init__(
            "The session or the token of this request has ended. What it asked for may have been done"
        )
        self.hint = "Sign in again, or use another token"


class Forbidden(DoorError):
    """The caller is known and may not do this."""

    code = "forbidden"


class TooManyRequests(DoorError):
    code = "too-many-requests"

    def __init__(self, most: int) -> None:
        super().__init__(f"More than {most} requests a second", hint="Try again in a moment")


class TooManyAttempts(DoorError):
    """Somebody tries to sign in again and again, or guesses."""

    code = "too-many-attempts"

    def __init__(self, seconds: float) -> None:
        self.retry_after_s = max(1, round(seconds))
        super().__init__(
            "There were too many attempts to sign in", hint=f"Wait {self.retry_after_s} s"
        )


class RequestForged(DoorError):
    """A request that carries a browser's cookie, and nothing that shows that one of our own pages sent it."""

    code = "request-forged"

    def __init__(self, why: str) -> None:
        super().__init__(
            why, hint="Send the `csrf` of GET /api/v1/auth in the header X-Crucible-CSRF"
        )


class RequestTooLarge(DoorError):
    code = "request-too-large"

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"The request's body is larger than {most_bytes} bytes")


class RequestTooSlow(DoorError):
    code = "request-too-slow"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Nothing of the request's body came for {seconds:g} s")


class OutcomeUnknown(Refused):
    code = "outcome-unknown"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"A request with the idempotency key {key[:80]!r} was begun, and how it ended is not known any more",
            hint="Look whether what it asked for is there; send what is missing with another key",
        )


class KeyReused(DoorError):
    code = "idempotency-key-reused"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"The idempotency key {key!r} was used for another request",
            hint="Use a new key for every new request",
        )


class TokenMissing(DoorError):
    code = "token-missing"

    def __init__(self, token: str) -> None:
        super().__init__(
            f"There is no token {token!r}", hint="List them with `crucible token list`"
        )


class BrowserMissing(DoorError):
    code = "browser-missing"

    def __init__(self, id: str) -> None:
        super().__init__(f"You are not signed in with a browser {id!r}")


class ClientLeft(DoorError):
    """Whoever asked went away before there was an answer."""

    code = "client-left"

    def __init__(self) -> None:
        super().__init__("Whoever asked has gone")


class DoorTaken(DoorError):
    """The address that the server was to listen on cannot be had."""

    code = "door-taken"

    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(
            f"The server cannot listen on {host}:{port}: {why}",
            hint="Choose another with `crucible serve --host` and `--port`",
        )


class TlsUnusable(DoorError):
    """The certificate that the server was to show, or its key, is not there or is no good."""

    code = "tls-unusable"

    def __init__(self, path: str, why: str, command: str = "") -> None:
        super().__init__(
            f"{path} cannot be used for TLS: {why}",
            hint=f"{command} {path}"
            if command
            else "Give a certificate and its key, both as PEM: --tls-cert and --tls-key",
        )


class ServerMissing(DoorError):
    """Nobody serves HTTP for this state directory."""

    code = "server-missing"

    def __init__(self) -> None:
        super().__init__(
            "No server runs for this state directory", hint="Start one with `crucible serve`"
        )


class DoorOpen(DoorError):
    """Somebody serves these sandboxes already."""

    code = "door-open"

    def __init__(self) -> None:
        super().__init__(
            "Another server holds these sandboxes",
            hint="End it first, or use another state directory with CRUCIBLE_HOME",
        )


class DeadlineOver(Refused):
    """A caller gave what it runs a time, and that is over."""

    code = "deadline-over"

    def __init__(self) -> None:
        super().__init__("The command did not end within its timeout")
