"""What goes wrong with conversations and the files that are given to them."""

from __future__ import annotations

from crucible.errors.base import CrucibleError, Refused


class ConversationError(CrucibleError):
    """Something is wrong with a conversation."""

    code = "conversation"


class ConversationMissing(ConversationError, Refused):
    """There is none of that id, or it is another user's, or it was deleted."""

    code = "conversation-missing"

    def __init__(self, conversation: str) -> None:
        super().__init__(
            f"There is no conversation {conversation[:64]!r}",
            hint="List yours; one that was deleted can be restored for ten minutes",
        )


class BadFileName(ConversationError, Refused):
    """No name for a file that is given or saved."""

    code = "bad-file-name"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The file's name cannot be used: {why}", hint="Rename the file and send it again"
        )


class UploadMissing(ConversationError, Refused):
    """There is none of that id, or it is another user's or another conversation's."""

    code = "upload-missing"

    def __init__(self, upload: str) -> None:
        super().__init__(
            f"There is no upload {upload[:64]!r}",
            hint="Send the file again; what no turn uses is kept for a day",
        )


class UploadTooLarge(ConversationError, Refused):
    """One file is larger than the server takes."""

    code = "upload-too-large"

    def __init__(self, most: int) -> None:
        super().__init__(
            f"A file may have {most >> 20} MiB at most",
            hint="Send a smaller one; CRUCIBLE_UPLOAD_MIB of the server sets the limit",
        )


class UploadQuotaSpent(ConversationError, Refused):
    """All files of the user together are more than the server keeps."""

    code = "upload-quota-spent"

    def __init__(self, most: int) -> None:
        super().__init__(
            f"Your files may have {most >> 20} MiB in all",
            hint="Delete conversations with files you no longer need; CRUCIBLE_UPLOADS_MIB sets the limit",
        )


class TooManyTurns(ConversationError, Refused):
    """More prompts in a minute than the server takes from one user."""

    code = "too-many-turns"

    def __init__(self, per_minute: int, retry_after_s: int) -> None:
        super().__init__(
            f"You may ask {per_minute} times in a minute", hint=f"Ask again in {retry_after_s} s"
        )
        self.retry_after_s = retry_after_s
