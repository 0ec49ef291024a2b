//! The error type: a coarse kind a caller can act on, a readable message, the file it concerns, and
//! what to do about it.
//!
//! `Error` is one pointer wide and cheap to clone, because one failed block fails many keys and one
//! background error fails many writers. Absence is never an error: it is `Ok(None)`.

pub mod advice;
mod status_text;

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of a fallible operation of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error a plug-in may return.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The coarse category of an error, for callers to act on: the codes of RocksDB's `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Stored bytes differ from those written, or violate their format.
    Corruption,
    /// The request is understood and deliberately not supported.
    NotSupported,
    /// An argument or option is out of range, or contradicts another or the stored data.
    InvalidArgument,
    /// The operating system or the device failed.
    IoError,
    /// A read needs merge operands but no merge operator is configured, or a merge is in progress.
    MergeInProgress,
    /// The answer is not available under the restrictions given (read tier, no slowdown).
    Incomplete,
    /// The database is closing or closed.
    ShutdownInProgress,
    /// A deadline passed.
    TimedOut,
    /// The operation was aborted.
    Aborted,
    /// Another user holds a resource that the operation needs.
    Busy,
    /// The requested object has expired.
    Expired,
    /// A conflict: the same operation may succeed when retried.
    TryAgain,
    /// The column family was dropped.
    ColumnFamilyDropped,
    /// A memory limit was reached.
    MemoryLimit,
    /// A required object does not exist.
    NotFound,
}

/// The cause of an error within its [`ErrorKind`], where a caller can act on the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorDetail {
    /// The device or quota is full.
    NoSpace,
    /// The tables have reached the space that a manager of files allows them.
    SpaceLimit,
    /// A path does not exist.
    PathNotFound,
    /// A merge operator failed.
    MergeOperatorFailed,
    /// Another holder has the lock.
    LockHeld,
    /// A stored checksum differs from the computed one.
    ChecksumMismatch,
    /// The feature was left out of this build.
    FeatureMissing,
    /// A plug-in panicked.
    PluginPanicked,
    /// A lock was not acquired before its time limit.
    LockTimeout,
    /// Waiting for a lock would close a cycle of waits.
    Deadlock,
    /// A key was written since the snapshot of a transaction, or since its first use.
    WriteConflict,
    /// The maximum number of locks is reached.
    LockLimit,
    /// The commit of a transaction was requested before the transaction was prepared.
    NotPrepared,
}

/// Whether a failed write may still take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteOutcome {
    /// Nothing was written; the call may be retried.
    NotApplied,
    /// The log write had begun. The write never becomes visible through this handle, and is wholly
    /// present or wholly absent after the next open.
    Indeterminate,
}

/// The extent of an error's effect (`docs/reliability.md`, background-error states).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Severity {
    /// Only the failed call is affected.
    #[default]
    None,
    /// Background work may be limited; writes continue.
    Soft,
    /// Writes are refused until the database resumes.
    Hard,
    /// Writes are refused until the database is reopened.
    Fatal,
    /// Writes are refused until the directory is repaired.
    Unrecoverable,
}

/// The file that an error concerns, with the offset and the failed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileContext {
    /// The path of the file.
    pub path: PathBuf,
    /// The offset in bytes, where one is known.
    pub offset: Option<u64>,
    /// The failed operation: "open", "read", "sync".
    pub operation: &'static str,
}

/// The content of an error, shared by its clones.
#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    detail: Option<ErrorDetail>,
    message: String,
    file: Option<FileContext>,
    advice: Option<Cow<'static, str>>,
    outcome: Option<WriteOutcome>,
    severity: Severity,
    raw_os_error: Option<i32>,
    source: Option<Arc<dyn std::error::Error + Send + Sync + 'static>>,
}

/// The error of every fallible operation.
#[derive(Clone)]
pub struct Error {
    inner: Arc<Inner>,
}

impl Error {
    /// Creates an error of `kind` caused by `source`; for plug-ins.
    pub fn new(kind: ErrorKind, source: impl Into<BoxError>) -> Self {
        let source: Arc<dyn std::error::Error + Send + Sync> = Arc::from(source.into());
        let mut error = Self::message_only(kind, source.to_string());
        error.edit(|inner| inner.source = Some(source));
        error
    }

    /// Creates an error with only a kind and a message.
    fn message_only(kind: ErrorKind, message: String) -> Self {
        Error {
            inner: Arc::new(Inner {
                kind,
                detail: None,
                message,
                file: None,
                advice: None,
                outcome: None,
                severity: Severity::None,
                raw_os_error: None,
                source: None,
            }),
        }
    }

    /// Changes the content of the error, copying it first if clones of the error share it.
    fn edit(&mut self, change: impl FnOnce(&mut Inner)) {
        change(Arc::make_mut(&mut self.inner));
    }

    /// Creates a corruption error. `message` names the expected and the found value.
    pub fn corruption(message: impl Into<String>) -> Self {
        Self::message_only(ErrorKind::Corruption, message.into())
    }

    /// Creates an error for an unsupported request.
    pub fn not_supported(message: impl Into<String>) -> Self {
        Self::message_only(ErrorKind::NotSupported, message.into())
    }

    /// Creates an error for an invalid argument. `message` names it and its legal values.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::message_only(ErrorKind::InvalidArgument, message.into())
    }

    /// Creates an error of any kind with a message.
    pub fn with_kind(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::message_only(kind, message.into())
    }

    /// Creates an error from an operating-system error met during `operation` on `path`.
    pub fn io(source: std::io::Error, operation: &'static str, path: &Path) -> Self {
        let mut error = Self::message_only(ErrorKind::IoError, source.to_string());
        let raw_os_error = source.raw_os_error();
        let detail = match source.kind() {
            std::io::ErrorKind::NotFound => Some(ErrorDetail::PathNotFound),
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Some(ErrorDetail::NoSpace)
            }
            _ => None,
        };
        let advice = advice::of_system_error(&source, path);
        error.edit(|inner| {
            inner.raw_os_error = raw_os_error;
            inner.advice = advice.map(Cow::Borrowed);
            inner.detail = detail;
            inner.file = Some(FileContext {
                path: path.to_owned(),
                offset: None,
                operation,
            });
            inner.source = Some(Arc::new(source));
        });
        error
    }

    /// Sets the file that the error concerns, unless it is set already.
    ///
    /// A `Corruption` without advice gets that for a damaged file of its kind.
    #[must_use]
    pub fn in_file(mut self, path: &Path, offset: Option<u64>, operation: &'static str) -> Self {
        if self.inner.file.is_none() {
            self.edit(|inner| {
                if inner.kind == ErrorKind::Corruption && inner.advice.is_none() {
                    inner.advice = advice::of_damaged_file(path).map(Cow::Borrowed);
                }
                inner.file = Some(FileContext {
                    path: path.to_owned(),
                    offset,
                    operation,
                });
            });
        }
        self
    }

    /// Prefixes the message with the operation that failed.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.edit(|inner| inner.message = format!("{what}: {}", inner.message));
        self
    }

    /// Sets what the user can do about the error: a short sentence, without capital and full stop.
    #[must_use]
    pub fn with_advice(mut self, advice: impl Into<Cow<'static, str>>) -> Self {
        self.edit(|inner| inner.advice = Some(advice.into()));
        self
    }

    /// Removes the advice, for a report that gives its own.
    #[must_use]
    pub fn without_advice(mut self) -> Self {
        self.edit(|inner| inner.advice = None);
        self
    }

    /// Sets the [`ErrorDetail`], which refines the kind of the error.
    #[must_use]
    pub fn with_detail(mut self, detail: ErrorDetail) -> Self {
        self.edit(|inner| inner.detail = Some(detail));
        self
    }

    /// Sets whether a failed write may still take effect.
    #[must_use]
    pub fn with_outcome(mut self, outcome: WriteOutcome) -> Self {
        self.edit(|inner| inner.outcome = Some(outcome));
        self
    }

    /// Sets the [`Severity`], the extent of the error's effect on the database.
    #[must_use]
    pub fn with_severity(mut self, severity: Severity) -> Self {
        self.edit(|inner| inner.severity = severity);
        self
    }

    /// The category of the error, as the code of RocksDB's `Status`.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The detail that refines the kind.
    #[must_use]
    pub fn detail(&self) -> Option<ErrorDetail> {
        self.inner.detail
    }

    /// Whether a failed write may still take effect; `None` if the operation was not a write.
    #[must_use]
    pub fn write_outcome(&self) -> Option<WriteOutcome> {
        self.inner.outcome
    }

    /// Whether the same call may succeed later, without a change by the caller.
    ///
    /// True of conflicts and timeouts, and of a full device, quota or limit of space, after which
    /// the database resumes by itself.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.inner.kind,
            ErrorKind::Busy | ErrorKind::TryAgain | ErrorKind::TimedOut
        ) || matches!(
            self.inner.detail,
            Some(ErrorDetail::NoSpace | ErrorDetail::SpaceLimit)
        )
    }

    /// The severity of the error.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.inner.severity
    }

    /// The file that the error concerns.
    #[must_use]
    pub fn file(&self) -> Option<&FileContext> {
        self.inner.file.as_ref()
    }

    /// Advice on the error, one short sentence; `None` if there is none.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.inner.advice.as_deref()
    }

    /// The message of the error, without kind, file and advice.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The operating system's error number.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.inner.raw_os_error
    }

    /// Whether the error is that a path does not exist.
    #[must_use]
    pub fn is_path_not_found(&self) -> bool {
        self.inner.detail == Some(ErrorDetail::PathNotFound)
    }

    /// Whether the error is of kind [`ErrorKind::Corruption`].
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        self.inner.kind == ErrorKind::Corruption
    }
}

impl ErrorKind {
    /// The text with which RocksDB begins the message of an error of this kind: `Corruption`.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            ErrorKind::Corruption => "Corruption",
            ErrorKind::NotSupported => "Not implemented",
            ErrorKind::InvalidArgument => "Invalid argument",
            ErrorKind::IoError => "IO error",
            ErrorKind::MergeInProgress => "Merge in progress",
            ErrorKind::Incomplete => "Result incomplete",
            ErrorKind::ShutdownInProgress => "Shutdown in progress",
            ErrorKind::TimedOut => "Operation timed out",
            ErrorKind::Aborted => "Operation aborted",
            ErrorKind::Busy => "Resource busy",
            ErrorKind::Expired => "Operation expired",
            ErrorKind::TryAgain => "Operation failed. Try again.",
            ErrorKind::ColumnFamilyDropped => "Column family dropped",
            ErrorKind::MemoryLimit => "Memory limit",
            ErrorKind::NotFound => "NotFound",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.inner.kind {
            // RocksDB's words say that the engine lacks something, which a closed or read-only
            // database does not.
            ErrorKind::NotSupported => "Not supported",
            kind => kind.prefix(),
        };
        write!(f, "{kind}: {}", self.inner.message)?;
        if let Some(file) = &self.inner.file {
            write!(f, " ({} {}", file.operation, file.path.display())?;
            if let Some(offset) = file.offset {
                write!(f, " at offset {offset}")?;
            }
            f.write_str(")")?;
        }
        if let Some(advice) = &self.inner.advice {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.inner.source {
            Some(source) => Some(&**source),
            None => None,
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::IoError => match error.raw_os_error() {
                Some(code) => std::io::Error::from_raw_os_error(code).kind(),
                None => std::io::ErrorKind::Other,
            },
            ErrorKind::Corruption => std::io::ErrorKind::InvalidData,
            ErrorKind::InvalidArgument => std::io::ErrorKind::InvalidInput,
            ErrorKind::NotSupported => std::io::ErrorKind::Unsupported,
            ErrorKind::TimedOut => std::io::ErrorKind::TimedOut,
            ErrorKind::NotFound => std::io::ErrorKind::NotFound,
            ErrorKind::Busy => std::io::ErrorKind::ResourceBusy,
            _ => std::io::ErrorKind::Other,
        };
        std::io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_pointer_and_names_its_file() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        let error = Error::corruption("block checksum mismatch: stored = 1, computed = 2")
            .in_file(Path::new("000012.sst"), Some(4096), "read")
            .in_file(Path::new("other"), None, "open");
        assert_eq!(
            error.to_string(),
            "Corruption: block checksum mismatch: stored = 1, computed = 2 (read 000012.sst at offset 4096); \
             restore a backup, or run `ldb repair`, which keeps what is readable"
        );
        assert!(error.is_corruption());
    }

    #[test]
    fn advice_ends_the_text_and_not_the_message() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let error = Error::io(full, "write", Path::new("000012.log"));
        let text = "IO error: no storage space (write 000012.log)";
        assert_eq!(
            error.to_string(),
            format!("{text}; free space on the device")
        );
        let error = error.with_advice("wait");
        assert_eq!(error.to_string(), format!("{text}; wait"));
        assert_eq!(error.advice(), Some("wait"));
        assert_eq!(error.message(), "no storage space");
        assert_eq!(error.without_advice().to_string(), text);
    }
}
