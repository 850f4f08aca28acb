"""What goes wrong between us and a model's provider, sorted by who must act."""

from __future__ import annotations

from crucible.errors.base import CrucibleError, Refused


class ModelError(CrucibleError):
    """A model did not answer."""

    code = "model"


class NoKey(ModelError, Refused):
    """There is no key for the provider of the model."""

    code = "model-no-key"


class WrongKey(ModelError, Refused):
    """The provider does not take the key."""

    code = "model-wrong-key"


class UnknownModel(ModelError, Refused):
    """The provider has no model of that name, or not for this key."""

    code = "model-unknown"


class ContextTooLong(ModelError, Refused):
    """What was asked is longer than the model can read."""

    code = "model-context-too-long"


class ModelRefused(ModelError, Refused):
    """The provider does not take this request, whoever sends it."""

    code = "model-request-refused"


class RateLimited(ModelError):
    """The provider wants fewer requests. `retry_after_s` is 0 where it did not say how long to wait."""

    code = "model-rate-limited"

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class QuotaSpent(RateLimited):
    """What the account may use is used up: waiting does not help."""

    code = "model-quota-spent"


class ModelOverloaded(ModelError):
    """The provider has too much to do or failed by itself, and still did after all tries."""

    code = "model-overloaded"

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class ModelUnreachable(ModelError):
    """The provider could not be reached, or broke the connection."""

    code = "model-unreachable"


class ModelTimedOut(ModelError):
    """The model did not answer in time, or fell silent in the middle."""

    code = "model-timed-out"


class BadAnswer(ModelError):
    """What came is not what the provider's format allows, or ended before its end."""

    code = "model-bad-answer"


class EmbeddedModelFailed(ModelError):
    """The process that runs a model on this machine did not start, or broke off."""

    code = "embedded-model-failed"
