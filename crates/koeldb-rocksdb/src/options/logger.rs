//! Receivers of the lines of LOG.

use std::fmt;
use std::sync::Arc;

use super::LogLevel;

type Callback = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;

/// An info logger, which receives the log lines instead of the LOG file.
#[derive(Clone)]
pub struct InfoLogger {
    pub(crate) level: LogLevel,
    pub(crate) callback: Callback,
}

impl InfoLogger {
    /// Creates a logger that writes to the standard error stream.
    #[must_use]
    pub fn new_stderr_logger<S: AsRef<str>>(log_level: LogLevel, prefix: Option<S>) -> Self {
        let prefix = prefix.map(|prefix| format!("{} ", prefix.as_ref()));
        let prefix = prefix.unwrap_or_default();
        Self::new_callback_logger(log_level, move |_, line| eprintln!("{prefix}{line}"))
    }

    /// Creates a logger that calls a closure with each log line, from any thread.
    pub fn new_callback_logger<F: Fn(LogLevel, &str) + Sync + Send + 'static>(
        level: LogLevel,
        cb: F,
    ) -> Self {
        InfoLogger {
            level,
            callback: Arc::new(cb),
        }
    }
}

impl koeldb::Logger for InfoLogger {
    fn log(&self, level: koeldb::LogLevel, message: fmt::Arguments<'_>) {
        (self.callback)(LogLevel::of_engine(level), &message.to_string());
    }
}
