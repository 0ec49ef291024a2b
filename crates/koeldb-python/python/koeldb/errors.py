"""Exceptions. Each is an `Error`; the class says the kind, as RocksDB's status codes do."""

from __future__ import annotations

import os


class Error(Exception):
    """A failed call: what was wrong, where, and what to do."""

    #: The file that was read or written, if there is one.
    file: str | os.PathLike[str] | None
    #: The offset in that file, in bytes.
    offset: int | None
    #: What a person can do about it.
    advice: str | None
    #: Whether the same call may succeed when it is repeated.
    is_retryable: bool
    #: Of a failed write: `NotApplied`, or `Indeterminate` if the next open may show it.
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
    """The request is understood, and not supported."""


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
    """A read needs merge operands, and no merge operator is configured."""


class Incomplete(Error):
    """The answer is not available under the given restrictions."""


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
    """A conflict could not be excluded; a repetition of the operation may succeed."""


class FamilyDropped(Error):
    """The column family was dropped."""


class MemoryLimit(Error, MemoryError):
    """A limit of memory was reached."""


class NotFound(Error):
    """A required object, such as a file or a backup, does not exist."""
