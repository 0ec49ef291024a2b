//! Errors as RocksDB writes them: `<kind>: [<detail>: ]<context>[: <path>][: <system's text>]`.
//! The engine's advice is left out.

use std::fmt;

use koeldb::ErrorDetail;

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

/// Returns the message of RocksDB's status subcode for an engine error; `None` if it has none.
fn subcode(error: &koeldb::Error) -> Option<&'static str> {
    use koeldb::ErrorKind as Kind;
    Some(match (error.kind(), error.detail()?) {
        (_, ErrorDetail::NoSpace) => "No space left on device",
        (_, ErrorDetail::SpaceLimit) => "Space limit reached",
        (_, ErrorDetail::PathNotFound) => "No such file or directory",
        (_, ErrorDetail::Deadlock) => "Deadlock",
        (_, ErrorDetail::LockLimit) => "Failed to acquire lock due to max_num_locks limit",
        (Kind::TimedOut, ErrorDetail::LockTimeout) => "Timeout waiting to lock key",
        _ => return None,
    })
}

/// Removes the suffix ` (os error N)` that the standard library adds to a system error's text.
fn without_number(text: &str) -> &str {
    match text.rfind(" (os error ") {
        Some(end) if text.ends_with(')') => &text[..end],
        _ => text,
    }
}

/// Removes the engine's suffix in parentheses from the message of an unknown column family.
///
/// Programs parse the name.
fn without_addition(text: &str) -> &str {
    match text.find(" (") {
        Some(end) if text.starts_with("Column family not found: ") => &text[..end],
        _ => text,
    }
}

/// Returns RocksDB's error for a LOCK file that another holder has; `None` for other errors.
fn lock_held(error: &koeldb::Error) -> Option<Error> {
    let file = error.file()?;
    if error.detail() != Some(ErrorDetail::LockHeld) {
        return None;
    }
    let path = file.path.display();
    Some(Error::new(match error.message().contains("this process") {
        true => format!("IO error: lock hold by current process: {path}: No locks available"),
        false => format!("IO error: While lock file: {path}: Resource temporarily unavailable"),
    }))
}

impl From<koeldb::Error> for Error {
    fn from(error: koeldb::Error) -> Self {
        if let Some(held) = lock_held(&error) {
            return held;
        }
        let mut parts: Vec<String> = Vec::with_capacity(5);
        parts.push(match error.kind() {
            koeldb::ErrorKind::MemoryLimit => "Operation aborted: Memory limit reached".to_owned(),
            kind => kind.prefix().to_owned(),
        });
        let subcode = subcode(&error);
        parts.extend(subcode.map(str::to_owned));
        let text = without_addition(without_number(error.message()));
        match error.file() {
            Some(file) => {
                let path = file.path.display();
                let offset = file.offset.map(|offset| format!(" offset {offset}"));
                parts.push(format!("While {}", file.operation));
                parts.push(format!("{path}{}", offset.unwrap_or_default()));
                parts.push(text.to_owned());
            }
            None if subcode != Some(text) && !text.is_empty() => parts.push(text.to_owned()),
            None => {}
        }
        let mut message = parts.join(": ");
        if parts.len() == 1 || (parts.len() == 2 && subcode.is_some()) {
            message.push_str(": ");
        }
        Error { message }
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
