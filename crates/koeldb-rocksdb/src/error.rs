//! Errors as RocksDB writes them, without the engine's advice.

use std::fmt;

/// Declares the kinds and the words that begin their texts.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $Kind:ident = $words:literal,)*) => {
        /// The status code of an error.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum ErrorKind {
            $($(#[doc = $doc])+ $Kind,)*
            /// The text does not begin with the words of a kind.
            Unknown,
        }

        impl ErrorKind {
            /// Parses RocksDB's status text of an error kind, such as `IO error`.
            fn of_words(words: &str) -> ErrorKind {
                match words {
                    $($words => ErrorKind::$Kind,)*
                    _ => ErrorKind::Unknown,
                }
            }
        }
    };
}

kinds! {
    /// A required object does not exist.
    NotFound = "NotFound",
    /// Stored bytes violate their format.
    Corruption = "Corruption",
    /// The engine does not support the request.
    NotSupported = "Not implemented",
    /// An argument or option is invalid.
    InvalidArgument = "Invalid argument",
    /// The operating system or the device failed.
    IOError = "IO error",
    /// A read needs a merge operator, or a merge is in progress.
    MergeInProgress = "Merge in progress",
    /// The answer is not available under the given restrictions.
    Incomplete = "Result incomplete",
    /// The database is closed or closing.
    ShutdownInProgress = "Shutdown in progress",
    /// A time limit passed.
    TimedOut = "Operation timed out",
    /// The operation was aborted.
    Aborted = "Operation aborted",
    /// Another user holds a needed resource.
    Busy = "Resource busy",
    /// The object has expired.
    Expired = "Operation expired",
    /// A retry of the operation may succeed.
    TryAgain = "Operation failed. Try again.",
    /// Never returned: compactions have no size limit.
    CompactionTooLarge = "Compaction too large",
    /// The column family was dropped.
    ColumnFamilyDropped = "Column family dropped",
}

/// The error of all operations: a message that begins with RocksDB's text of its kind, if known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    message: String,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Error {
            message: message.into(),
        }
    }

    /// Creates a `Not implemented` error: `what` cannot be done, because of `reason`.
    pub(crate) fn refused(what: &str, reason: &str) -> Self {
        Error::new(format!("Not implemented: {what}: {reason}"))
    }

    /// Creates the `Invalid argument` error of a timestamp of `bytes` bytes.
    fn timestamp_size(bytes: usize) -> Self {
        Error::invalid(format!(
            "Timestamp sizes mismatch: expect {}, {bytes} given",
            size_of::<koeldb::Timestamp>()
        ))
    }

    /// Creates an `Invalid argument` error.
    pub(crate) fn invalid(what: impl fmt::Display) -> Self {
        Error::new(format!("Invalid argument: {what}"))
    }

    /// Returns the message.
    #[must_use]
    pub fn into_string(self) -> String {
        self.message
    }

    /// Returns the kind, parsed from the message before its first colon.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::of_words(self.message.split(':').next().unwrap_or_default())
    }
}

impl From<koeldb::Error> for Error {
    fn from(error: koeldb::Error) -> Self {
        Error::new(error.status_text())
    }
}

impl AsRef<str> for Error {
    fn as_ref(&self) -> &str {
        &self.message
    }
}

impl From<Error> for String {
    fn from(error: Error) -> String {
        error.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.message)
    }
}

impl std::error::Error for Error {}

/// Converts a timestamp to that of the engine.
///
/// # Errors
/// `Invalid argument` if it has not eight bytes.
pub(crate) fn timestamp(bytes: impl AsRef<[u8]>) -> Result<koeldb::Timestamp, Error> {
    let bytes = bytes.as_ref();
    bytes
        .try_into()
        .map_err(|_| Error::timestamp_size(bytes.len()))
}
