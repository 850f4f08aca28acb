"""Images from elsewhere: registries that do not give them, and bytes that cannot be used or trusted."""

from __future__ import annotations

from crucible.errors.base import Refused
from crucible.errors.images import ImageError


class RegistryDenied(Refused):
    """The registry wants credentials, or others than it got."""

    code = "registry-denied"

    def __init__(self, registry: str, what: str) -> None:
        super().__init__(
            f"Registry {registry} denies {what}, which may not exist or may need a login",
            hint=f"Check the name, or log in with `docker login {registry}` (or podman's)",
        )


class RegistryUnreachable(ImageError):
    code = "registry-unreachable"

    def __init__(self, registry: str, why: str, *, hint: str = "") -> None:
        super().__init__(
            f"Registry {registry} cannot be reached: {why}",
            hint=hint or "Check the network and the proxy settings; `crucible image list` is here",
        )


class RegistryUntrusted(ImageError):
    """The registry's certificate was not signed by anyone this machine trusts."""

    code = "registry-untrusted"

    def __init__(self, registry: str, why: str) -> None:
        super().__init__(
            f"Registry {registry} is not trusted: {why}",
            hint="Put its authority's certificate where SSL_CERT_FILE points, or into "
            f"/etc/docker/certs.d/{registry}/ca.crt",
        )


class RegistryBusy(ImageError):
    code = "registry-busy"

    def __init__(self, registry: str, status: int, wait_s: float) -> None:
        later = f" and asks to wait {wait_s:.0f} s" if wait_s else ""
        super().__init__(
            f"Registry {registry} answers {status}{later}",
            hint="Try again later; a login often allows more requests",
        )


class RegistryBroken(ImageError):
    """The registry answered what no honest registry answers."""

    code = "registry-broken"

    def __init__(self, registry: str, why: str) -> None:
        super().__init__(f"Registry {registry} gave a broken answer: {why}")


class CredentialsUnreadable(ImageError):
    """A file with logins, or the program that keeps them, could not be read."""

    code = "credentials-unreadable"


class WrongPlatform(Refused):
    """The image exists, but not for this machine's processor."""

    code = "wrong-platform"

    def __init__(self, reference: str, wanted: str, offered: tuple[str, ...]) -> None:
        listed = ", ".join(offered) or "nothing"
        super().__init__(f"Image `{reference}` has nothing for {wanted}; it has {listed}")
        self.offered = offered


class ImageUnsupported(Refused):
    """A kind of image that Crucible does not read, named in the message."""

    code = "image-unsupported"

    def __init__(self, reference: str, why: str, *, hint: str = "") -> None:
        super().__init__(f"Image `{reference}` cannot be used: {why}", hint=hint)


class ImageTooLarge(Refused):
    code = "image-too-large"

    def __init__(self, reference: str, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{what} of `{reference}` has {size_bytes} bytes; the limit is {limit_bytes}",
            hint="Images as a whole are limited by CRUCIBLE_IMAGE_LIMIT_MIB",
        )


class ImageMalformed(ImageError):
    """A manifest, a configuration or an archive that contradicts itself or the format."""

    code = "image-malformed"

    def __init__(self, reference: str, why: str) -> None:
        super().__init__(f"Image `{reference}` is malformed: {why}")


class DigestMismatch(ImageError):
    """The bytes are not those that their name promises. They were thrown away."""

    code = "digest-mismatch"

    def __init__(self, what: str, wanted: str, found: str) -> None:
        super().__init__(
            f"{what} is not what it should be: wanted {wanted}, found {found}",
            hint="Do not use this source before you know why",
        )


class ImageUnsafe(Refused):
    """A layer holds what no honest image does, or what cannot be told apart from that."""

    code = "image-unsafe"

    def __init__(self, layer: str, why: str) -> None:
        super().__init__(
            f"Layer {layer} of the image was refused: {why}",
            hint="Nothing of it was kept; do not trust where it came from",
        )


class ImageBomb(Refused):
    """An image holds more than any that was made to be used: bytes, entries, headers, links to follow."""

    code = "image-bomb"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="Nothing of it was kept; do not trust where it came from")


class LayerDamaged(Refused):
    """A layer's bytes are not what they are said to be, or cannot be read as a layer at all."""

    code = "layer-damaged"

    def __init__(self, layer: str, why: str) -> None:
        super().__init__(
            f"Layer {layer} of the image is damaged: {why}",
            hint="Pull the image again; if that does not help, it was pushed like this",
        )
