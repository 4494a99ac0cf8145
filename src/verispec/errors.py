"""Every error verispec raises on purpose. Each message says what was wrong, where, and what was expected."""

from __future__ import annotations


class VerispecError(Exception):
    """Base of all errors raised on purpose."""


class ArtifactError(VerispecError):
    """A model file that cannot be trusted or understood.

    ``file`` and ``where`` (a tensor, a metadata key or an offset) locate the fault; ``expected`` and
    ``found`` say what it is.
    """

    def __init__(self, file: object, where: str, expected: str, found: str) -> None:
        self.file = str(file)
        self.where = where
        self.expected = expected
        self.found = found
        super().__init__(f"{self.file}: {where}: expected {expected}, found {found}")


class FetchError(VerispecError):
    """A model that could not be found or fetched; the message says what to do next."""


class UnsupportedError(VerispecError):
    """Something asked for that no available path does.

    ``code`` is stable; ``remedy`` says what would make it work.
    """

    def __init__(self, code: str, message: str, remedy: str = "") -> None:
        self.code = code
        self.message = message
        self.remedy = remedy
        super().__init__(f"{message} [{code}]" + (f". {remedy}" if remedy else ""))


class AdmissionError(UnsupportedError):
    """A draft artifact that is not what it is said to be, or does not belong to its target; ``code`` says which."""


class OptionError(VerispecError):
    """An option that is unknown, malformed, out of range or read by nothing."""


class GrammarError(OptionError):
    """A grammar or schema that is malformed, too large or cannot be followed."""


class ContextOverflowError(VerispecError):
    """A prompt that does not fit the context."""


class MemoryLimitError(VerispecError):
    """A model and context that need more memory than there is; raised before anything is allocated."""


class BackendError(VerispecError):
    """A backend that failed while evaluating rows."""


class TrainingError(VerispecError):
    """A training that cannot go on."""


class DrafterFaultError(VerispecError):
    """A drafter that raised, was late or returned invalid tokens, under ``strict_drafter``."""


class QueueFullError(VerispecError):
    """More requests than may wait; ``retry_after`` is in how many seconds to try again."""

    def __init__(self, room: int, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(f"queue: expected at most {room} requests waiting, found more")


class DrainingError(VerispecError):
    """A request to an engine that is shutting down."""


class RequestCancelledError(VerispecError):
    """A request that was cancelled while it still waited."""


class EngineFailedError(VerispecError):
    """A request to an engine whose thread has died."""


class DeadlineError(VerispecError):
    """A request that was not over by its deadline."""


class ReceiptError(VerispecError):
    """A receipt that is malformed, altered or made by another arithmetic."""
