//! Errors as RocksDB prints a status: `<kind>: [<detail>: ]<context>[: <path>][: <system's text>]`.
//! The engine's advice is left out.

use super::{Error, ErrorDetail, ErrorKind};

/// Returns the message of RocksDB's status subcode for an error; `None` if it has none.
fn subcode(error: &Error) -> Option<&'static str> {
    Some(match (error.kind(), error.detail()?) {
        (_, ErrorDetail::NoSpace) => "No space left on device",
        (_, ErrorDetail::SpaceLimit) => "Space limit reached",
        (_, ErrorDetail::PathNotFound) => "No such file or directory",
        (_, ErrorDetail::Deadlock) => "Deadlock",
        (_, ErrorDetail::LockLimit) => "Failed to acquire lock due to max_num_locks limit",
        (ErrorKind::TimedOut, ErrorDetail::LockTimeout) => "Timeout waiting to lock key",
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

/// Returns RocksDB's text for a LOCK file that another holder has; `None` for other errors.
fn lock_held(error: &Error) -> Option<String> {
    let file = error.file()?;
    if error.detail() != Some(ErrorDetail::LockHeld) {
        return None;
    }
    let path = file.path.display();
    Some(match error.message().contains("this process") {
        true => format!("IO error: lock hold by current process: {path}: No locks available"),
        false => format!("IO error: While lock file: {path}: Resource temporarily unavailable"),
    })
}

impl Error {
    /// Returns the text of the status that RocksDB would return, for programs that read its texts.
    ///
    /// ```
    /// let error = koeldb_base::error::Error::invalid_argument("no such level");
    /// assert_eq!(error.status_text(), "Invalid argument: no such level");
    /// ```
    #[must_use]
    pub fn status_text(&self) -> String {
        if let Some(held) = lock_held(self) {
            return held;
        }
        let mut parts: Vec<String> = Vec::with_capacity(5);
        parts.push(match self.kind() {
            ErrorKind::MemoryLimit => "Operation aborted: Memory limit reached".to_owned(),
            kind => kind.prefix().to_owned(),
        });
        let subcode = subcode(self);
        parts.extend(subcode.map(str::to_owned));
        let text = without_addition(without_number(self.message()));
        match self.file() {
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
        message
    }
}
