"""The certificate that callers over TCP are shown, from two files that are read again when they change."""

from __future__ import annotations

import os
import ssl
import stat
import sys
import time
from pathlib import Path

from crucible.errors import TlsUnusable
from crucible.values import dataclass

MOST_FILE_BYTES = 1 << 20
_LOOK_AGAIN_S = 1.0
_FOR_OTHERS = 0o077


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    certificate: Path
    key: Path


class Certificate:
    """What a listener needs. A pair of files that is no good any more is told in the log; the last good one stays."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises TlsUnusable."""
        self._files = files
        self._seen = _state_of(files)
        self._newest = _loaded(files)
        self._next_look = 0.0
        self.context = self._newest
        self.context.sni_callback = self._answer_hello

    def _answer_hello(
        self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        """Before each handshake. The listener keeps the first context; a newer one is put in its place here."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_AGAIN_S
            self._look_again()
        if self._newest is not context:
            connection.context = self._newest

    def _look_again(self) -> None:
        seen = _state_of(self._files)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._newest = _loaded(self._files)
        except TlsUnusable as error:
            sys.stderr.write(f"{error.message}; the one before is still shown\n")


def _loaded(files: TlsFiles) -> ssl.SSLContext:
    for path in (files.certificate, files.key):
        _check(path, is_secret=path == files.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        # Without the function OpenSSL asks a person for the password of a key that has one, and waits.
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except (OSError, ValueError) as error:
        raise TlsUnusable(
            str(files.certificate), f"with the key {files.key} it is no pair: {_reason(error)}"
        ) from None
    return context


def _no_password() -> str:
    raise ValueError("the key has a password")


def _check(path: Path, *, is_secret: bool) -> None:
    try:
        found = path.stat()
        with path.open("rb"):
            pass
    except OSError as error:
        raise TlsUnusable(str(path), error.strerror or "it cannot be read") from None
    if not stat.S_ISREG(found.st_mode):
        raise TlsUnusable(str(path), "it is not a file")
    if found.st_size > MOST_FILE_BYTES:
        raise TlsUnusable(str(path), f"it is larger than {MOST_FILE_BYTES >> 20} MiB")
    if not is_secret:
        return
    if found.st_uid not in (0, os.geteuid()):
        raise TlsUnusable(str(path), "the key is another user's")
    if found.st_mode & _FOR_OTHERS:
        raise TlsUnusable(str(path), "others than its owner have access to the key", "chmod 600")


def _state_of(files: TlsFiles) -> tuple[tuple[int, ...], ...]:
    return tuple(_one_state(path) for path in (files.certificate, files.key))


def _one_state(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error) or "it cannot be read"
