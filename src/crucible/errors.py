"""Every error Crucible raises on purpose: a class that names the state, a stable code, a hint.

A command that fails inside a sandbox is a result and never appears here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

EXIT_TIMED_OUT = 124
EXIT_FAILED = 125
EXIT_REFUSED = 126
EXIT_NOT_FOUND = 127


class CrucibleError(Exception):
    """Base of all. `exit_status` is what the command line ends with when it meets this error."""

    code = "crucible"
    exit_status = EXIT_FAILED

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def as_fields(self) -> dict[str, str | int]:
        """As it crosses from one process to another."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "exit_status": self.exit_status,
        }


def suggestion(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """What was probably meant, as a hint."""
    from difflib import get_close_matches

    names = list(known)
    close = get_close_matches(word, names, n=1)
    if close:
        return f"Did you mean `{close[0]}`?"
    return otherwise or f"One of: {', '.join(names)}"


class Refused(CrucibleError):
    """The request itself cannot be granted: the caller has to ask for something else."""

    code = "refused"
    exit_status = EXIT_REFUSED


class BadName(Refused):
    code = "bad-name"

    def __init__(self, name: str) -> None:
        shown = name if len(name) <= 80 else name[:77] + "..."
        super().__init__(
            f"{shown!r} is not a sandbox name",
            hint="Use 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit",
        )


class BadSetting(Refused):
    """A value from a flag, a variable or a file that does not mean anything here."""

    code = "bad-setting"


class NameTaken(Refused):
    code = "name-taken"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"A sandbox named {name!r} exists already",
            hint=f"Choose another name, or remove it with `crucible rm {name}`",
        )


class SandboxMissing(Refused):
    code = "sandbox-missing"

    def __init__(self, name: str) -> None:
        shown = name if len(name) <= 80 else name[:77] + "..."
        super().__init__(
            f"There is no sandbox named {shown!r}", hint="List them with `crucible list`"
        )


class VolumeMissing(Refused):
    code = "volume-missing"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"There is no volume {name!r}", hint=f"Make it with `crucible volume create {name}`"
        )


class VolumeTaken(Refused):
    code = "volume-taken"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"A volume {name!r} exists already", hint="List them with `crucible volume list`"
        )


class VolumeBusy(Refused):
    """A volume has one writer at a time."""

    code = "volume-busy"

    def __init__(self, name: str, holder: str) -> None:
        super().__init__(
            f"The volume {name!r} is in use by the sandbox {holder!r}",
            hint=f"Wait until that has stopped, or only read it: --volume {name}:TARGET:ro",
        )


class VolumeTooLarge(Refused):
    code = "volume-too-large"

    def __init__(self, name: str, most: int) -> None:
        super().__init__(
            f"What the sandbox has in the volume {name!r} is more than {most >> 20} MiB and was not kept",
            hint="Remove something of it inside, and stop the sandbox again",
        )


class SnapshotMissing(Refused):
    code = "snapshot-missing"

    def __init__(self, tag: str) -> None:
        super().__init__(
            f"There is no snapshot {tag!r}", hint="List them with `crucible snapshot list`"
        )


class SnapshotTaken(Refused):
    code = "snapshot-taken"

    def __init__(self, tag: str) -> None:
        super().__init__(
            f"A snapshot {tag!r} exists already",
            hint=f"Choose another tag, or remove it with `crucible snapshot remove {tag}`",
        )


class WrongState(Refused):
    """The sandbox is not in a state in which this can be done."""

    code = "wrong-state"

    def __init__(self, name: str, state: str, wanted: str, *, hint: str = "") -> None:
        super().__init__(f"Sandbox {name!r} is {state}; this needs it {wanted}", hint=hint)


class PortTaken(Refused):
    code = "port-taken"

    def __init__(self, address: str, port: int, why: str) -> None:
        super().__init__(
            f"Port {port} of {address} cannot be used: {why}",
            hint="Choose another one before the colon, or 0 for any that is free",
        )


class SecretMissing(Refused):
    code = "secret-missing"

    def __init__(self, sandbox: str, names: tuple[str, ...]) -> None:
        super().__init__(
            f"The values of {', '.join(names)} are not known: they are never written down",
            hint=f"Set the variables of these names and try again: `crucible start {sandbox}`",
        )


class BackendUnknown(Refused):
    code = "backend-unknown"

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(
            f"There is no backend {name!r}",
            hint=f"Known backends: {', '.join(known)}; `crucible doctor` tells which work here",
        )


class BackendUnusable(Refused):
    code = "backend-unusable"

    def __init__(self, name: str, why: str, *, hint: str = "Run `crucible doctor`") -> None:
        super().__init__(f"Backend {name!r} does not work here: {why}", hint=hint)


class IsolationUnmet(Refused):
    code = "isolation-unmet"

    def __init__(self, wanted: str, best: str) -> None:
        super().__init__(
            f"Isolation {wanted!r} was asked for, but the best this machine can give is {best!r}",
            hint="Run `crucible doctor` to see why, or lower --min-isolation",
        )


class Unsupported(Refused):
    """A backend was asked for something it cannot do."""

    code = "unsupported"


class NotEnoughMemory(Refused):
    code = "not-enough-memory"

    def __init__(self, wanted_mib: int, free_mib: int) -> None:
        super().__init__(
            f"The sandbox may need {wanted_mib} MiB of memory, but the host can spare {free_mib} MiB",
            hint="Stop other sandboxes (`crucible list`) or ask for less with --memory",
        )


class ImageMissing(Refused):
    """`available` are those built here. Any other name may be one that a registry knows."""

    code = "image-missing"

    def __init__(self, name: str, available: tuple[str, ...]) -> None:
        shown = name if len(name) <= 120 else name[:117] + "..."
        if not available:
            hint = "Build the base image with `crucible setup`"
        else:
            hint = (
                f"Fetch it with `crucible image pull {shown}`; built here: {', '.join(available)}"
            )
        super().__init__(f"Image {shown!r} was not found", hint=hint)


class BadReference(Refused):
    """What was given as an image's name can be none."""

    code = "bad-reference"

    def __init__(self, text: str, why: str) -> None:
        shown = text if len(text) <= 120 else text[:117] + "..."
        super().__init__(
            f"{shown!r} is not an image's name: {why}",
            hint="Names look like python:3.12, ghcr.io/owner/image:tag or oci-archive:FILE",
        )


class ImageNotFound(Refused):
    """The registry or the archive has no such image."""

    code = "image-not-found"

    def __init__(self, reference: str, place: str, *, hint: str = "") -> None:
        super().__init__(f"Image `{reference}` was not found in {place}", hint=hint)


class ImageInUse(Refused):
    code = "image-in-use"

    def __init__(self, reference: str, users: str) -> None:
        super().__init__(
            f"Image `{reference}` is in use by {users}",
            hint="Remove the sandboxes that use it first (`crucible list`)",
        )


class ImageTooLarge(Refused):
    code = "image-too-large"

    def __init__(self, reference: str, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{what} of `{reference}` has {size_bytes} bytes; the limit is {limit_bytes}",
            hint="Images as a whole are limited by CRUCIBLE_IMAGE_LIMIT_MIB",
        )


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


class RegistryDenied(Refused):
    """The registry wants credentials, or others than it got."""

    code = "registry-denied"

    def __init__(self, registry: str, what: str) -> None:
        super().__init__(
            f"Registry {registry} denies {what}, which may not exist or may need a login",
            hint=f"Check the name, or log in with `docker login {registry}` (or podman's)",
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


class PathRefused(Refused):
    """A path, of the host or of the guest, that cannot or must not be used."""

    code = "path-refused"


class BuildFileInvalid(Refused):
    """A Dockerfile or a recipe that cannot be built as it is written. Line 0 is the file as a whole."""

    code = "build-file-invalid"

    def __init__(self, origin: str, line: int, why: str, *, hint: str = "") -> None:
        place = f"line {line} of {origin}" if line else origin
        super().__init__(f"In {place}: {why}", hint=hint)


class BuildStepFailed(CrucibleError):
    """A RUN step ended with a status of its own, which is the build's then. Nothing was named."""

    code = "build-step-failed"

    def __init__(self, step: str, status: int, *, hint: str = "") -> None:
        shown = step if len(step) <= 80 else step[:77] + "..."
        super().__init__(f"The step `{shown}` failed with status {status}", hint=hint)
        self.exit_status = status


class SetupError(CrucibleError):
    """This machine lacks something; the hint is the command that mends it."""

    code = "setup"


class PrerequisiteMissing(SetupError):
    code = "prerequisite-missing"


class KernelMissing(SetupError):
    code = "kernel-missing"

    def __init__(self, why: str) -> None:
        super().__init__(f"The guest kernel is not usable: {why}", hint="Run `crucible setup`")


class AgentMissing(SetupError):
    code = "agent-missing"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"The guest agent is not built: {path} does not exist", hint="Run `make agent`"
        )


class ImageDamaged(SetupError):
    code = "image-damaged"

    def __init__(
        self, name: str, why: str, *, hint: str = "Rebuild it with `crucible setup`"
    ) -> None:
        super().__init__(f"Image {name!r} is damaged: {why}", hint=hint)


class BuildFailed(SetupError):
    code = "build-failed"


class StateTooNew(SetupError):
    code = "state-too-new"

    def __init__(self, found: int, known: int, path: str) -> None:
        super().__init__(
            f"The state in {path} was written by a newer Crucible (format {found}, known {known})",
            hint="Upgrade Crucible, or set CRUCIBLE_HOME to another directory",
        )


class StateDamaged(SetupError):
    code = "state-damaged"


class ImageError(CrucibleError):
    """An image could not be fetched, or is not what it says it is."""

    code = "image"


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


class DigestMismatch(ImageError):
    """The bytes are not those that their name promises. They were thrown away."""

    code = "digest-mismatch"

    def __init__(self, what: str, wanted: str, found: str) -> None:
        super().__init__(
            f"{what} is not what it should be: wanted {wanted}, found {found}",
            hint="Do not use this source before you know why",
        )


class ImageMalformed(ImageError):
    """A manifest, a configuration or an archive that contradicts itself or the format."""

    code = "image-malformed"

    def __init__(self, reference: str, why: str) -> None:
        super().__init__(f"Image `{reference}` is malformed: {why}")


class CredentialsUnreadable(ImageError):
    """A file with logins, or the program that keeps them, could not be read."""

    code = "credentials-unreadable"


class SandboxError(CrucibleError):
    """A sandbox that should work does not."""

    code = "sandbox"


class BootFailed(SandboxError):
    code = "boot-failed"


class GuestSilent(SandboxError):
    code = "guest-silent"

    def __init__(self, sandbox: str, seconds: float) -> None:
        super().__init__(
            f"Sandbox {sandbox!r} did not answer within {seconds:g} s",
            hint=f"Read its console with `crucible logs {sandbox} --console`",
        )


class GuestGone(SandboxError):
    """The machine ended while something was waiting for it. `console` is what its kernel had said, if it is known."""

    code = "guest-gone"
    console = b""

    def __init__(self, sandbox: str, why: str) -> None:
        super().__init__(
            f"Sandbox {sandbox!r} has ended: {why}", hint="Start it again, or use a new one"
        )
        self.why = why


class GuestPanicked(GuestGone):
    code = "guest-panicked"

    def __init__(self, sandbox: str, why: str) -> None:
        super().__init__(sandbox, why)
        self.hint = f"If it still exists, read its console with `crucible logs {sandbox} --console`"


class ProtocolBroken(SandboxError):
    """The guest sent bytes that no honest agent sends."""

    code = "protocol-broken"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The guest broke the protocol: {why}",
            hint="Treat this sandbox as hostile and remove it",
        )


class GuestRefused(SandboxError):
    """The agent answered a request with FAIL. `guest_code` is one of PROTOCOL.md's codes."""

    code = "guest-refused"

    def __init__(self, guest_code: str, message: str) -> None:
        super().__init__(message)
        self.guest_code = guest_code


class CommandNotFound(GuestRefused):
    code = "command-not-found"
    exit_status = EXIT_NOT_FOUND


class CommandNotExecutable(GuestRefused):
    code = "command-not-executable"
    exit_status = EXIT_REFUSED


class HostDiskFull(SandboxError):
    code = "host-disk-full"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"The host's disk is full: {path} could not be written",
            hint="Free space, or look at `crucible system df` and `crucible system prune`",
        )


class DiskTooDeep(SandboxError):
    code = "disk-too-deep"

    def __init__(self, sandbox: str, layers: int, why: str) -> None:
        super().__init__(
            f"The disk of sandbox {sandbox!r} has {layers} layers that could not be merged: {why}",
            hint="Free space on the host's disk and try again; `crucible system df` shows what takes it",
        )


class TemplateDamaged(SandboxError):
    code = "template-damaged"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"A template was damaged: {why}", hint="It is rebuilt by itself; run again"
        )


class OwnerUnreachable(SandboxError):
    """The program that holds the running sandboxes could not be started or reached."""

    code = "owner-unreachable"
