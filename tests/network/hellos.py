"""ClientHellos: real ones of Python's own TLS, and such as no honest client sends."""

from __future__ import annotations

import ssl


def real_hello(server_name: str | None, protocols: tuple[str, ...] = ()) -> bytes:
    """The first flight, in its record."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(list(protocols))
    arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(arriving, leaving, server_hostname=server_name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return leaving.read()
    raise AssertionError("a client cannot be done before the server has spoken")


def block(width: int, body: bytes) -> bytes:
    return len(body).to_bytes(width, "big") + body


def server_name(*names: bytes, kind: int = 0) -> bytes:
    entries = b"".join(bytes([kind]) + block(2, name) for name in names)
    return b"\0\0" + block(2, block(2, entries))


def made_body(*extensions: bytes) -> bytes:
    return (
        b"\x03\x03"
        + bytes(32)
        + block(1, b"")
        + block(2, b"\x13\x01")
        + block(1, b"\0")
        + block(2, b"".join(extensions))
    )


def message(body: bytes) -> bytes:
    return b"\x01" + block(3, body)


def record(payload: bytes, kind: int = 22) -> bytes:
    return bytes([kind]) + b"\x03\x01" + block(2, payload)


def made_hello(*extensions: bytes) -> bytes:
    return record(message(made_body(*extensions)))
