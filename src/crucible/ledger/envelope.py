"""DSSE envelopes (Dead Simple Signing Envelope, version 1) with one Ed25519 signature. Pure: no files."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from crucible.ledger.canonical import NotCanonical, canonical, parse
from crucible.ledger.keys import PublicKey

_SIGNATURE_BYTES = 64


class BadEnvelope(ValueError):
    """It is none, or not in the one form in which we write them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    payload: bytes
    payload_type: str
    key: str
    signature: bytes

    def encode(self) -> bytes:
        """Canonical, so that there is one text for it: whatever byte of that is changed, it shows."""
        return canonical(
            {
                "payload": base64.b64encode(self.payload).decode(),
                "payloadType": self.payload_type,
                "signatures": [
                    {"keyid": self.key, "sig": base64.b64encode(self.signature).decode()}
                ],
            }
        )

    def is_signed_by(self, key: PublicKey) -> bool:
        return self.key == key.id and key.verifies(
            self.signature, pre_authentication(self.payload_type, self.payload)
        )


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """What is really signed: type and payload with their lengths, so that neither can pass for the other."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def decode(data: bytes) -> Envelope:
    """The caller has bounded its length. Says nothing about who signed it."""
    try:
        fields = parse(data)
    except NotCanonical as error:
        raise BadEnvelope(str(error)) from None
    match fields:
        case {
            "payload": str(payload),
            "payloadType": str(kind),
            "signatures": [{"keyid": str(key), "sig": str(signature), **rest_of_signature}],
            **rest,
        } if not rest and not rest_of_signature:
            found = unbase64(signature)
            if len(found) != _SIGNATURE_BYTES:
                raise BadEnvelope("its signature is not one of Ed25519")
            return Envelope(payload=unbase64(payload), payload_type=kind, key=key, signature=found)
    raise BadEnvelope("it is no envelope with one signature")


def unbase64(text: str) -> bytes:
    """Only the one way to write these bytes: the last character may otherwise have several."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadEnvelope("it is not base64") from None
    if base64.b64encode(data).decode() != text:
        raise BadEnvelope("it is not base64 in its one form")
    return data
