"""An authority for one sandbox and its forks: it vouches for the gateway where that speaks for a host with a secret.

Nobody else trusts it. Certificates are made as they are needed and live in memory.
"""

from __future__ import annotations

import datetime
import os
import ssl
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, KeyUsage, Name

LIFETIME: Final = datetime.timedelta(days=365)
LEAF_LIFETIME: Final = datetime.timedelta(days=7)
# Clocks of restored machines may be behind for a moment.
GRACE: Final = datetime.timedelta(days=1)
MOST_KEPT: Final = 256


_BUNDLE_VARIABLES: Final = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
)


def trust_variables(bundle: str) -> dict[str, str]:
    """What makes the common runtimes trust a file of certificates: the machine's own, and ours behind them."""
    return dict.fromkeys(_BUNDLE_VARIABLES, bundle)


class Authority:
    def __init__(self, certificate: Certificate, key: EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key
        self._contexts: dict[tuple[str, str], tuple[datetime.datetime, ssl.SSLContext]] = {}

    @classmethod
    def make(cls, sandbox: str) -> Authority:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"Crucible sandbox {sandbox}"[:64])
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - GRACE)
            .not_valid_after(now + LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(_usage(is_authority=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, text: str) -> Authority:
        """From what `dump` gave."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key = load_pem_private_key(text.encode(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("an authority has a key of another kind")
        return cls(x509.load_pem_x509_certificate(text.encode()), key)

    def dump(self) -> str:
        """Certificate and key, to be kept by the host alone."""
        return self.certificate + _key_text(self._key).decode()

    @property
    def certificate(self) -> str:
        """What programs in the machine have to trust."""
        return _certificate_text(self._certificate).decode()

    def context(self, host: str, protocol: str) -> ssl.SSLContext:
        """For the server's side of a connection to `host` that will speak `protocol`, if any."""
        now = datetime.datetime.now(datetime.UTC)
        made, context = self._contexts.get((host, protocol), (None, None))
        if made is not None and context is not None and now - made < LEAF_LIFETIME / 2:
            return context
        if len(self._contexts) >= MOST_KEPT:
            self._contexts.clear()
        context = self._make_context(host, protocol, now)
        self._contexts[host, protocol] = now, context
        return context

    def _make_context(self, host: str, protocol: str, now: datetime.datetime) -> ssl.SSLContext:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_name(host[:64]))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - GRACE)
            .not_valid_after(now + LEAF_LIFETIME)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .add_extension(_usage(is_authority=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        chain = _key_text(key) + _certificate_text(certificate)
        _load(context, chain + _certificate_text(self._certificate))
        if protocol:
            context.set_alpn_protocols([protocol])
        return context


def _load(context: ssl.SSLContext, chain: bytes) -> None:
    """`ssl` reads keys from files only; this one is in memory."""
    descriptor = os.memfd_create("leaf")
    try:
        os.write(descriptor, chain)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _name(text: str) -> Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, is_authority: bool) -> KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _certificate_text(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_text(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
