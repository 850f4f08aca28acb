"""The errors that a server tells of, by the codes that it gives. Made by scripts/python_sdk.py."""

from __future__ import annotations


class CrucibleError(Exception):
    """Base of all. `request_id` finds it in the server's log; `status` is the answer's, if one came."""

    code = "crucible"

    def __init__(
        self, message: str, *, hint: str = "", request_id: str = "", status: int = 0
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.request_id = request_id
        self.status = status

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class AccountsError(CrucibleError):
    """A budget, a plan or a price stands in the way."""

    code = "accounts"


class AgentError(CrucibleError):
    """A session of the agent cannot go on."""

    code = "agent"


class BuildStepFailed(CrucibleError):
    """A RUN step ended with a status of its own, which is the build's then. Nothing was named."""

    code = "build-step-failed"


class ContentGone(CrucibleError):
    """The entry is there and tells the hash; the content was erased, or is lost."""

    code = "content-gone"


class ConversationError(CrucibleError):
    """Something is wrong with a conversation."""

    code = "conversation"


class DatabaseBusy(CrucibleError):
    """Others wrote for longer than we wait. Nothing of this transaction was kept."""

    code = "database-busy"


class DatabaseFailed(CrucibleError):
    """The database did not do what it was asked, and nothing of the transaction was kept."""

    code = "database-failed"


class DoorError(CrucibleError):
    """What a caller over HTTP did, or may not do. Never raised by a sandbox."""

    code = "door"


class ImageError(CrucibleError):
    """An image could not be fetched, or is not what it says it is."""

    code = "image"


class ImageNotBuilt(CrucibleError):
    """The image that a project wants could not be built. The status is ours, as no command was run."""

    code = "image-not-built"


class LedgerBroken(CrucibleError):
    """What is recorded of a run is not what was signed: nothing is added to it."""

    code = "ledger-broken"


class LedgerUnwritable(CrucibleError):
    """A file beside the database could not be written. Nothing is recorded until that works again."""

    code = "ledger-unwritable"


class McpFailed(CrucibleError):
    """An MCP server did not do what it was asked."""

    code = "mcp-failed"


class MemoryFault(CrucibleError):
    """Something is wrong with what is remembered of a user."""

    code = "memory"


class ModelError(CrucibleError):
    """A model did not answer."""

    code = "model"


class Refused(CrucibleError):
    """The request itself cannot be granted: the caller has to ask for something else."""

    code = "refused"


class SandboxError(CrucibleError):
    """A sandbox that should work does not."""

    code = "sandbox"


class SettingsError(CrucibleError):
    """What a user has set cannot be used."""

    code = "settings"


class SetupError(CrucibleError):
    """This machine lacks something; the hint is the command that mends it."""

    code = "setup"


class SkillChanged(CrucibleError):
    """A file of an installed skill, or a program it fetches, is not the one that was agreed to."""

    code = "skill-changed"


class AgentMissing(SetupError):
    code = "agent-missing"


class BackendUnknown(Refused):
    code = "backend-unknown"


class BackendUnusable(Refused):
    code = "backend-unusable"


class BadModelAnswer(ModelError):
    """What came is not what the provider's format allows, or ended before its end."""

    code = "model-bad-answer"


class BadEntry(Refused):
    """What was to be written is too large, or nothing that can be written the same way twice."""

    code = "bad-entry"


class BadName(Refused):
    code = "bad-name"


class BadPolicy(Refused):
    """A permission policy has a rule or a value that means nothing."""

    code = "bad-policy"


class BadReference(Refused):
    """What was given as an image's name can be none."""

    code = "bad-reference"


class BadRequest(DoorError):
    """A request whose fields are missing, unknown or of the wrong kind."""

    code = "bad-request"


class BadSetting(Refused):
    """A value from a flag, a variable or a file that does not mean anything here."""

    code = "bad-setting"


class BadSkill(Refused):
    """A skill that is not written as skills are."""

    code = "bad-skill"


class BadToolCall(AgentError):
    """For the model to read: what it should have sent."""

    code = "bad-tool-call"


class BootFailed(SandboxError):
    code = "boot-failed"


class BrowserMissing(DoorError):
    code = "browser-missing"


class BuildFailed(SetupError):
    code = "build-failed"


class BuildFileInvalid(Refused):
    """A Dockerfile or a recipe that cannot be built as it is written. Line 0 is the file as a whole."""

    code = "build-file-invalid"


class ClientLeft(DoorError):
    """Whoever asked went away before there was an answer."""

    code = "client-left"


class CommandEnded(Refused):
    code = "command-ended"


class CommandMissing(Refused):
    code = "command-missing"


class ContentTooLarge(Refused):
    code = "content-too-large"


class ContextMissing(Refused):
    code = "context-missing"


class CredentialsUnreadable(ImageError):
    """A file with logins, or the program that keeps them, could not be read."""

    code = "credentials-unreadable"


class DaemonRunning(Refused):
    code = "daemon-running"


class DatabaseDamaged(SetupError):
    code = "database-damaged"


class DatabaseTooNew(SetupError):
    code = "database-too-new"


class DatabaseUnreachable(SetupError):
    code = "database-unreachable"


class DeadlineOver(Refused):
    """A caller gave what it runs a time, and that is over."""

    code = "deadline-over"


class DigestMismatch(ImageError):
    """The bytes are not those that their name promises. They were thrown away."""

    code = "digest-mismatch"


class DiskTooDeep(SandboxError):
    code = "disk-too-deep"


class DoorOpen(DoorError):
    """Somebody serves these sandboxes already."""

    code = "door-open"


class DoorTaken(DoorError):
    """The address that the server was to listen on cannot be had."""

    code = "door-taken"


class EmbeddedModelFailed(ModelError):
    """The process that runs a model on this machine did not start, or broke off."""

    code = "embedded-model-failed"


class EngineClosed(AgentError):
    """It takes no new turn while it shuts down."""

    code = "engine-closed"


class FellBehind(Refused):
    code = "fell-behind"


class Forbidden(DoorError):
    """The caller is known and may not do this."""

    code = "forbidden"


class ForgettingIncomplete(MemoryFault):
    """The statement is gone from everything that is read, but a trace of its bytes may be left in a file."""

    code = "memory-trace-left"


class GuestGone(SandboxError):
    """The machine ended while something was waiting for it. `console` is what its kernel had said, if it is known."""

    code = "guest-gone"


class GuestRefused(SandboxError):
    """The agent answered a request with FAIL. `guest_code` is one of PROTOCOL.md's codes."""

    code = "guest-refused"


class GuestSilent(SandboxError):
    code = "guest-silent"


class HostDiskFull(SandboxError):
    code = "host-disk-full"


class ImageBomb(Refused):
    """An image holds more than any that was made to be used: bytes, entries, headers, links to follow."""

    code = "image-bomb"


class ImageDamaged(SetupError):
    code = "image-damaged"


class ImageInUse(Refused):
    code = "image-in-use"


class ImageMalformed(ImageError):
    """A manifest, a configuration or an archive that contradicts itself or the format."""

    code = "image-malformed"


class ImageMissing(Refused):
    """`available` are those that are here. Any other name may be one that a registry knows."""

    code = "image-missing"


class ImageNotFound(Refused):
    """The registry or the archive has no such image."""

    code = "image-not-found"


class ImageTooLarge(Refused):
    code = "image-too-large"


class ImageUnsafe(Refused):
    """A layer holds what no honest image does, or what cannot be told apart from that."""

    code = "image-unsafe"


class ImageUnsupported(Refused):
    """A kind of image that Crucible does not read, named in the message."""

    code = "image-unsupported"


class InterpreterFailed(SandboxError):
    """A context could not be started, or ended in the middle of its code."""

    code = "interpreter-failed"


class IsolationUnmet(Refused):
    code = "isolation-unmet"


class KernelMissing(SetupError):
    code = "kernel-missing"


class KeyReused(DoorError):
    code = "idempotency-key-reused"


class KeyUnusable(SetupError):
    code = "key-unusable"


class LayerDamaged(Refused):
    """A layer's bytes are not what they are said to be, or cannot be read as a layer at all."""

    code = "layer-damaged"


class MalformedBody(DoorError):
    """A body that is not the JSON it says it is."""

    code = "malformed-body"


class MalformedRequest(DoorError):
    """Bytes in which no request can be found."""

    code = "malformed-request"


class ManifestUnreadable(Refused):
    """A file that is no export of a run, or not one whose parts can be told apart."""

    code = "manifest-unreadable"


class MethodRefused(DoorError):
    code = "method-refused"


class ModelOverloaded(ModelError):
    """The provider has too much to do or failed by itself, and still did after all tries."""

    code = "model-overloaded"


class ModelTimedOut(ModelError):
    """The model did not answer in time, or fell silent in the middle."""

    code = "model-timed-out"


class ModelUnreachable(ModelError):
    """The provider could not be reached, or broke the connection."""

    code = "model-unreachable"


class NameTaken(Refused):
    code = "name-taken"


class NotEnoughMemory(Refused):
    code = "not-enough-memory"


class ObjectUnfit(AgentError):
    """What a model answered does not fit the schema, after all repairs."""

    code = "object-unfit"


class OutcomeUnknown(Refused):
    code = "outcome-unknown"


class Overloaded(Refused):
    """`retry_after_s` is when it is worth trying again."""

    code = "overloaded"


class OwnerUnreachable(SandboxError):
    """The program that holds the running sandboxes could not be started or reached."""

    code = "owner-unreachable"


class PathRefused(Refused):
    """A path, of the host or of the guest, that cannot or must not be used."""

    code = "path-refused"


class PortTaken(Refused):
    code = "port-taken"


class PrerequisiteMissing(SetupError):
    code = "prerequisite-missing"


class ProbeFailed(SettingsError):
    """A sandbox that was made to be tried out answers, and answers wrongly."""

    code = "probe-failed"


class ProtocolBroken(SandboxError):
    """The guest sent bytes that no honest agent sends."""

    code = "protocol-broken"


class RateLimited(ModelError):
    """The provider wants fewer requests. `retry_after_s` is 0 where it did not say how long to wait."""

    code = "model-rate-limited"


class RegistryBroken(ImageError):
    """The registry answered what no honest registry answers."""

    code = "registry-broken"


class RegistryBusy(ImageError):
    code = "registry-busy"


class RegistryDenied(Refused):
    """The registry wants credentials, or others than it got."""

    code = "registry-denied"


class RegistryUnreachable(ImageError):
    code = "registry-unreachable"


class RegistryUntrusted(ImageError):
    """The registry's certificate was not signed by anyone this machine trusts."""

    code = "registry-untrusted"


class RemoteRefused(Refused):
    """The provider answered that it will not: a key, a template or a limit of its own."""

    code = "remote-refused"


class RemoteUnreachable(SandboxError):
    """The provider gave no answer, or none that means anything."""

    code = "remote-unreachable"


class ReplayOver(AgentError):
    """Ends the turn of a replay that has left its record. No caller sees it: the replay tells why."""

    code = "replay-over"


class RequestForged(DoorError):
    """A request that carries a browser's cookie, and nothing that shows that one of our own pages sent it."""

    code = "request-forged"


class RequestTooLarge(DoorError):
    code = "request-too-large"


class RequestTooSlow(DoorError):
    code = "request-too-slow"


class RouteMissing(DoorError):
    code = "route-missing"


class RunMissing(Refused):
    code = "run-missing"


class RunTaken(Refused):
    code = "run-taken"


class SandboxLent(SandboxError):
    """Another host has this sandbox's channel: what is done in it is done from there."""

    code = "sandbox-lent"


class SandboxMissing(Refused):
    code = "sandbox-missing"


class SecretMissing(Refused):
    code = "secret-missing"


class SecretUnreadable(SettingsError):
    """A key that a user gave is kept, and the file that opens it is not the one it was sealed with."""

    code = "secret-unreadable"


class ServerMissing(DoorError):
    """Nobody serves HTTP for this state directory."""

    code = "server-missing"


class SkillMissing(Refused):
    """No skill of that name is installed."""

    code = "skill-missing"


class SkillTaken(Refused):
    """A skill of that name is installed already."""

    code = "skill-taken"


class SnapshotMissing(Refused):
    code = "snapshot-missing"


class SnapshotTaken(Refused):
    code = "snapshot-taken"


class StateDamaged(SetupError):
    code = "state-damaged"


class StateTooNew(SetupError):
    code = "state-too-new"


class TemplateDamaged(SandboxError):
    code = "template-damaged"


class TlsUnusable(DoorError):
    """The certificate that the server was to show, or its key, is not there or is no good."""

    code = "tls-unusable"


class TokenMissing(DoorError):
    code = "token-missing"


class TooManyAttempts(DoorError):
    """Somebody tries to sign in again and again, or guesses."""

    code = "too-many-attempts"


class TooManyOnlookers(Refused):
    code = "too-many-onlookers"


class TooManyPorts(Refused):
    code = "too-many-ports"


class TooManyRequests(DoorError):
    code = "too-many-requests"


class Unauthenticated(DoorError):
    """A request over TCP without a token that is good, and without the cookie of a browser that is signed in."""

    code = "unauthenticated"


class Unsupported(Refused):
    """A backend was asked for something it cannot do."""

    code = "unsupported"


class VolumeBusy(Refused):
    """A volume has one writer at a time."""

    code = "volume-busy"


class VolumeMissing(Refused):
    code = "volume-missing"


class VolumeTaken(Refused):
    code = "volume-taken"


class VolumeTooLarge(Refused):
    code = "volume-too-large"


class WorkerLacksCrucible(SetupError):
    """The connection came about, but there is no `microvmctl` at the other end of it."""

    code = "worker-lacks-crucible"


class WorkerLost(SandboxError):
    """A connection that stood has ended. What became of a command that ran is not known here."""

    code = "worker-lost"


class WorkerMismatch(SetupError):
    code = "worker-mismatch"


class WorkerUnreachable(SetupError):
    """No connection came about. Nothing was begun on the worker."""

    code = "worker-unreachable"


class WorkplaceLost(AgentError):
    """The sandbox ended under a call. What comes next opens it again, and tells what is left."""

    code = "workplace-lost"


class WrongPlatform(Refused):
    """The image exists, but not for this machine's processor."""

    code = "wrong-platform"


class WrongState(Refused):
    """The sandbox is not in a state in which this can be done."""

    code = "wrong-state"


class AddressRefused(SettingsError):
    """An address that only this machine can reach, asked for by somebody who may not reach it."""

    code = "address-refused"


class ApprovalMissing(AgentError):
    """Answered already, timed out, or never asked."""

    code = "approval-missing"


class ArtifactErased(AgentError):
    """Its bytes were erased; that it was handed over is still known."""

    code = "artifact-erased"


class ArtifactMissing(AgentError):
    """Nothing of that name was handed over in this session."""

    code = "artifact-missing"


class BadFileName(ConversationError):
    """No name for a file that is given or saved."""

    code = "bad-file-name"


class BadPassword(AccountsError):
    """One that nobody may have. What it was is never told."""

    code = "bad-password"


class BadUserName(AccountsError):
    code = "bad-user-name"


class BudgetSpent(AccountsError):
    """What is wanted does not fit what is left. Figures of USD are millionths of one; `resets_at` is 0.0 for never."""

    code = "budget-spent"


class CodeRefused(AccountsError):
    """A one-time code that is wrong, used already or too old."""

    code = "code-refused"


class CommandNotExecutable(GuestRefused):
    code = "command-not-executable"


class CommandNotFound(GuestRefused):
    code = "command-not-found"


class ContextTooLong(ModelError):
    """What was asked is longer than the model can read."""

    code = "model-context-too-long"


class ConversationMissing(ConversationError):
    """There is none of that id, or it is another user's, or it was deleted."""

    code = "conversation-missing"


class CredentialEnded(Unauthenticated):
    """What a caller came by ended while they were being answered: signed out, disabled, revoked, or too old."""

    code = "credential-ended"


class GuestPanicked(GuestGone):
    code = "guest-panicked"


class HookBlocked(AgentError):
    """The message is for the model and the user to read."""

    code = "hook-blocked"


class IdentityRefused(AccountsError):
    """Who signs in elsewhere came back with something that does not hold."""

    code = "identity-refused"


class LanguageUnknown(Unsupported):
    code = "language-unknown"


class LastAdministrator(AccountsError):
    code = "last-administrator"


class MemoryMissing(MemoryFault):
    """This user has no memory of that id."""

    code = "memory-missing"


class MemoryOff(MemoryFault):
    """Memory is turned off for the user or the session, and something was to be remembered."""

    code = "memory-off"


class MemoryRefused(MemoryFault):
    """What was to be remembered is nothing that can be, such as a text without words."""

    code = "memory-refused"


class ModelRefused(ModelError):
    """The provider does not take this request, whoever sends it."""

    code = "model-request-refused"


class NoKey(ModelError):
    """There is no key for the provider of the model."""

    code = "model-no-key"


class NothingToResume(AgentError):
    """The last turn of the session came to its end."""

    code = "nothing-to-resume"


class OwnServerMissing(SettingsError):
    """The user has no MCP server of that name."""

    code = "mcp-server-missing"


class OwnServerTaken(SettingsError):
    code = "mcp-server-taken"


class PlanMissing(AccountsError):
    code = "plan-missing"


class PriceUnknown(AccountsError):
    code = "price-unknown"


class QuotaSpent(RateLimited):
    """What the account may use is used up: waiting does not help."""

    code = "model-quota-spent"


class SecretRefused(MemoryFault):
    """What was to be remembered looks like a secret. It is not in the message either: that may end up in a log."""

    code = "memory-secret"


class SessionBusy(AgentError):
    """A session does one turn at a time."""

    code = "session-busy"


class SessionMissing(AgentError):
    """Nobody knows a session of that id."""

    code = "session-missing"


class SignInBusy(AccountsError):
    code = "sign-in-busy"


class SignInRefused(AccountsError):
    """The same words for a wrong name, a wrong password and a user who is disabled."""

    code = "sign-in-refused"


class SignUpClosed(AccountsError):
    code = "sign-up-closed"


class StepMissing(AgentError):
    """There is no checkpoint of that step: none was asked for, or it is older than what is kept."""

    code = "step-missing"


class TooManyServers(SettingsError):
    code = "mcp-too-many-servers"


class TooManyTurns(ConversationError):
    """More prompts in a minute than the server takes from one user."""

    code = "too-many-turns"


class TurnCompacted(AgentError):
    """What is compacted cannot be taken back: the summary that stands for it has what came later."""

    code = "turn-compacted"


class TurnMissing(AgentError):
    """A turn that never was, or was taken back."""

    code = "turn-missing"


class TurnResumed(AgentError):
    """A turn without a prompt of its own: it went on with what an earlier one had left."""

    code = "turn-resumed"


class UnknownModel(ModelError):
    """The provider has no model of that name, or not for this key."""

    code = "model-unknown"


class UploadMissing(ConversationError):
    """There is none of that id, or it is another user's or another conversation's."""

    code = "upload-missing"


class UploadQuotaSpent(ConversationError):
    """All files of the user together are more than the server keeps."""

    code = "upload-quota-spent"


class UploadTooLarge(ConversationError):
    """One file is larger than the server takes."""

    code = "upload-too-large"


class UserMissing(AccountsError):
    code = "user-missing"


class UserTaken(AccountsError):
    code = "user-taken"


class WrongKey(ModelError):
    """The provider does not take the key."""

    code = "model-wrong-key"
