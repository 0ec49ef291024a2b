"""Exceptions of the engine: `Error`, and a subclass for each of RocksDB's status codes."""

from __future__ import annotations

import os


class Error(Exception):
    """A failed call of the engine. Its text says what was wrong, where, and what to do."""

    #: The file that was read or written, if there is one.
    file: str | os.PathLike[str] | None
    #: The offset in that file, in bytes.
    offset: int | None
    #: What a person can do about it; the text includes it.
    advice: str | None
    #: Whether the same call may succeed when it is repeated.
    is_retryable: bool
    #: Whether a failed write took effect: `NotApplied`, or `Indeterminate` if the next open of the
    #: database may show it. `None` for other calls.
    outcome: str | None

    def __init__(
        self,
        message: str,
        file: str | os.PathLike[str] | None = None,
        offset: int | None = None,
        advice: str | None = None,
        is_retryable: bool = False,
        outcome: str | None = None,
        errno: int | None = None,
    ) -> None:
        super().__init__(message)
        self.file = file
        self.offset = offset
        self.advice = advice
        self.is_retryable = is_retryable
        self.outcome = outcome
        self._errno = errno

    @property
    def kind(self) -> str:
        """The name of the class."""
        return type(self).__name__


class Corruption(Error):
    """Stored bytes differ from those written, or violate their format."""


class NotSupported(Error):
    """The call, an option or the format of a file is not supported."""


class InvalidArgument(Error, ValueError):
    """An argument or option is out of range, or contradicts another or the stored data."""


class IoError(Error, OSError):
    """The operating system or the device failed."""

    def __init__(self, *arguments: object) -> None:
        Error.__init__(self, *arguments)  # type: ignore[arg-type]

    @property
    def errno(self) -> int | None:  # type: ignore[override]
        """The number of the operating system's error."""
        return self._errno


class MergeInProgress(Error):
    """RocksDB's status code of this name, which no call raises.

    A read that needs a merge operator where none is set raises `NotSupported`.
    """


class Incomplete(Error):
    """A read could not finish under its restrictions, such as a read of memory alone."""


class Closed(Error):
    """The database is closed."""


class TimedOut(Error, TimeoutError):
    """A deadline passed, or a lock was not free in time."""

    def __init__(self, *arguments: object) -> None:
        Error.__init__(self, *arguments)  # type: ignore[arg-type]


class Aborted(Error):
    """The operation was aborted."""


class Busy(Error):
    """A conflict: another transaction holds the lock of a key, or has written the key."""


class Expired(Error):
    """The transaction has expired."""


class TryAgain(Error):
    """The history in memory is too short to exclude a conflict: repeat the transaction."""


class FamilyDropped(Error):
    """The column family was dropped."""


class MemoryLimit(Error, MemoryError):
    """An operation would exceed a limit of memory."""


class NotFound(Error):
    """A required object, such as a file or a backup, does not exist."""
