"""A provider of identities, as real as it needs to be: HTTP on this machine, keys of its own, PKCE checked.

`lies` makes it hostile: each is a name of something that it then does wrong.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

CLIENT = "crucible"
SECRET = "provider-secret"


class Provider:
    def __init__(self) -> None:
        self.issuer = ""
        self.lies: dict[str, Any] = {}
        self.subject = "subject-1"
        self.name = "Grace Hopper"
        self.key = ECKey.generate_key("P-256", {"kid": "one"})
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, dict[str, Any] | str]:
        """A text is where the browser is sent on to."""
        self.asked.append(path)
        match path:
            case "/.well-known/openid-configuration":
                return 200, self._described()
            case "/keys":
                return 200, {"keys": [self.key.as_dict(private=False)]}
            case "/authorize":
                return 302, self._authorized(query)
            case "/token":
                return self._token(query)
        return 404, {}

    def _described(self) -> dict[str, Any]:
        return {
            "issuer": self.lies.get("issuer", self.issuer),
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": self.lies.get("token_endpoint", f"{self.issuer}/token"),
            "jwks_uri": f"{self.issuer}/keys",
        }

    def _authorized(self, query: dict[str, str]) -> str:
        if "error" in self.lies:
            return f"{query['redirect_uri']}?{urlencode({'error': 'access_denied', 'state': query['state']})}"
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        told = {"code": code, "state": query["state"], "iss": self.lies.get("iss", self.issuer)}
        return f"{query['redirect_uri']}?{urlencode(told)}"

    def _token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        login = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if (
            asked is None
            or asked["code_challenge"] != challenge
            or asked["code_challenge_method"] != "S256"
            or asked["redirect_uri"] != form["redirect_uri"]
            or form["authorization"] != f"Basic {login}"
        ):
            return 400, {"error": "invalid_grant"}
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": self._signed(asked)}

    def _signed(self, asked: dict[str, str]) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": self.subject,
            "aud": asked["client_id"],
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            "preferred_username": self.name,
            **self.lies.get("claims", {}),
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": "ES256", "kid": "one"}
        if self.lies.get("alg") == "none":
            parts = [json.dumps({"alg": "none"}).encode(), json.dumps(claims).encode(), b""]
            return ".".join(base64.urlsafe_b64encode(one).decode().rstrip("=") for one in parts)
        if self.lies.get("alg") == "HS256":
            public = OctKey.import_key(self.key.as_pem(private=False))
            return jwt.encode({"alg": "HS256", "kid": "one"}, claims, public)
        if self.lies.get("key") == "another":
            another = ECKey.generate_key("P-256", {"kid": "one"})
            return jwt.encode(header, claims, another)
        text = jwt.encode(header, claims, self.key)
        if self.lies.get("payload") == "changed":
            head, _, tail = text.split(".")
            body = base64.urlsafe_b64encode(json.dumps({**claims, "sub": "root"}).encode())
            return f"{head}.{body.decode().rstrip('=')}.{tail}"
        return text


@contextmanager
def provider() -> Iterator[Provider]:
    found = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self._send(*found.answer(parts.path, _flat(parts.query)))

        def do_POST(self) -> None:
            form = _flat(self.rfile.read(int(self.headers["content-length"])).decode())
            form["authorization"] = self.headers.get("authorization", "")
            self._send(*found.answer(self.path, form))

        def _send(self, status: int, told: dict[str, Any] | str) -> None:
            data = b"" if isinstance(told, str) else json.dumps(told).encode()
            data += b" " * found.lies.get("padding", 0)
            self.send_response(status)
            if isinstance(told, str):
                self.send_header("Location", told)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _flat(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}
