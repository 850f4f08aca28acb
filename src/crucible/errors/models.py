"""What goes wrong between us and a model's provider, sorted by who must act."""

from __future__ import annotations

from crucible.errors.base import CrucibleError, Refused


class ModelError(CrucibleError):
    """A model did not answer."""

    code = "model"


class NoKey(ModelError, Refused):
    code = "model-no-key"


class WrongKey(ModelError, Refused):
    code = "model-wrong-key"


class UnknownModel(ModelError, Refused):
    code = "model-unknown"


class ContextTooLong(ModelError, Refused):
    code = "model-context-too-long"


class ModelRefused(ModelError, Refused):
    """The provider does not take this request, whoever sends it."""

    code = "model-request-refused"


class RateLimited(ModelError):
    """`retry_after_s` is 0 where the provider did not say."""

    code = "model-rate-limited"

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class ModelOverloaded(ModelError):
    code = "model-overloaded"


class ModelUnreachable(ModelError):
    code = "model-unreachable"


class ModelTimedOut(ModelError):
    code = "model-timed-out"


class BadAnswer(ModelError):
    """What came is not what the provider's format allows, or ended before its end."""

    code = "model-bad-answer"
