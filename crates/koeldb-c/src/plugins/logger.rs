//! Loggers: the standard error stream, and functions.

#![expect(unsafe_code, reason = "calls functions of the caller")]

use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::sync::Arc;

use koeldb::LogLevel;

use crate::handle::{self, Handle};
use crate::settings::options::Options;

use super::callbacks::State;

type Callback = unsafe extern "C" fn(*mut c_void, u32, *mut c_char, usize);

/// A logger (`rocksdb_logger_t`). Options and databases share it.
#[derive(Clone)]
pub(crate) struct Logger {
    level: i32,
    sink: Arc<Sink>,
}

/// Where lines go.
enum Sink {
    Stderr {
        prefix: String,
    },
    Callback {
        state: State,
        callback: Option<Callback>,
    },
}

/// The number of a level in C.
fn number(level: LogLevel) -> u8 {
    match level {
        LogLevel::Debug => 0,
        LogLevel::Info => 1,
        LogLevel::Warn => 2,
        LogLevel::Error => 3,
        LogLevel::Fatal => 4,
        // Header.
        _ => 5,
    }
}

impl koeldb::Logger for Logger {
    fn log(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        if !self.is_enabled(level) {
            return;
        }
        match &*self.sink {
            Sink::Stderr { prefix } => eprintln!("{prefix}{message}"),
            Sink::Callback { callback: None, .. } => {}
            Sink::Callback {
                state,
                callback: Some(callback),
            } => {
                // The function may change the message, and expects a zero behind it.
                let mut text = message.to_string().into_bytes();
                let length = text.len();
                text.push(0);
                let (level, text) = (u32::from(number(level)), text.as_mut_ptr().cast());
                // SAFETY: the function takes this state and text, as the caller promises.
                unsafe { callback(state.get(), level, text, length) };
            }
        }
    }

    fn is_enabled(&self, level: LogLevel) -> bool {
        i32::from(number(level)) >= self.level
    }
}

/// Creates a logger that writes to the standard error stream.
pub(crate) fn create_stderr(level: i32, prefix: Option<&CStr>) -> Logger {
    let prefix = prefix.map(|prefix| format!("{} ", prefix.to_string_lossy()));
    Logger {
        level,
        sink: Arc::new(Sink::Stderr {
            prefix: prefix.unwrap_or_default(),
        }),
    }
}

/// Creates a logger that calls a function with each message.
pub(crate) fn create_callback(
    level: i32,
    callback: Option<Callback>,
    state: *mut c_void,
) -> *mut Handle<Logger> {
    let state = State::new(state, None);
    handle::give(Logger {
        level,
        sink: Arc::new(Sink::Callback { state, callback }),
    })
}

/// Sets the logger of options.
pub(crate) fn set(options: &mut Options, logger: Option<&Logger>) {
    if let Some(logger) = logger {
        options.inner.set_logger(logger.clone());
        options.attached.logger = Some(logger.clone());
    }
}

/// Returns the logger of options, to be destroyed; null if they have none.
pub(crate) fn get(options: &Options) -> Option<Logger> {
    options.attached.logger.clone()
}
