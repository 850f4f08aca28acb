"""TLS as the host is set up for it: its authorities, and those that are kept for single registries."""

from __future__ import annotations

import ssl
from pathlib import Path

from crucible.errors import BadSetting


class Trust:
    """Hands out one TLS context per host, made when it is first asked for."""

    def __init__(self, directories: tuple[Path, ...]) -> None:
        self._directories = directories
        self._contexts: dict[str, ssl.SSLContext] = {}

    def context(self, host: str) -> ssl.SSLContext:
        """`host` as a registry is written, with its port where that is not 443.

        The host's own settings count (SSL_CERT_FILE, SSL_CERT_DIR, the system's store); `*.crt` in a registry's
        directory are further authorities, `NAME.cert` with `NAME.key` what we show for ourselves.
        """
        if host not in self._contexts:
            self._contexts[host] = self._make(host)
        return self._contexts[host]

    def _make(self, host: str) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        for directory in self._directories:
            place = directory / host
            if place.is_dir():
                _load(context, place)
        return context


def _load(context: ssl.SSLContext, place: Path) -> None:
    for path in sorted(place.iterdir()):
        try:
            if path.suffix == ".crt":
                context.load_verify_locations(path)
            elif path.suffix == ".cert":
                context.load_cert_chain(path, path.with_suffix(".key"))
        except (OSError, ssl.SSLError) as error:
            raise BadSetting(
                f"{path} cannot be used as a certificate: {error.strerror or error}"
            ) from None
