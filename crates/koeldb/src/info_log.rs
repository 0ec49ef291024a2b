//! The information log: a text file `LOG` in the database directory.
//!
//! A line consists of a time, a level and a message, with control characters escaped. A failure to
//! write it never stops the database. An existing `LOG` is renamed to `LOG.old.<microseconds>` when
//! the database is opened.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use koeldb_base::file_name;
use koeldb_base::sync::lock_plain as lock;
use koeldb_fs::{Clock, FileSystem, Purpose, WritableFile, WriteOptions};

use crate::options::LogLevel;

/// Receives the lines of the information log instead of the file.
pub trait Logger: Send + Sync + 'static {
    /// Handles one line.
    fn log(&self, level: LogLevel, message: fmt::Arguments<'_>);
}

enum Sink {
    Nowhere,
    File(Mutex<Box<dyn WritableFile>>),
    Logger(Arc<dyn Logger>),
}

/// The destination of log lines.
pub(crate) struct InfoLog {
    sink: Sink,
    clock: Arc<dyn Clock>,
    level: LogLevel,
}

fn severity(level: LogLevel) -> u8 {
    match level {
        LogLevel::Debug => 0,
        LogLevel::Info => 1,
        LogLevel::Warn => 2,
        LogLevel::Error => 3,
        LogLevel::Fatal => 4,
        LogLevel::Header => 5,
    }
}

impl InfoLog {
    /// Logs nothing: for read-only handles.
    pub(crate) fn nowhere(clock: Arc<dyn Clock>) -> Self {
        InfoLog {
            sink: Sink::Nowhere,
            clock,
            level: LogLevel::Fatal,
        }
    }

    pub(crate) fn to_logger(
        logger: Arc<dyn Logger>,
        clock: Arc<dyn Clock>,
        level: LogLevel,
    ) -> Self {
        InfoLog {
            sink: Sink::Logger(logger),
            clock,
            level,
        }
    }

    /// Starts a new `LOG` in `directory`; logs nothing if it cannot be created.
    pub(crate) fn create(
        fs: &Arc<dyn FileSystem>,
        directory: &Path,
        clock: Arc<dyn Clock>,
        level: LogLevel,
        keep: usize,
    ) -> Self {
        let path = file_name::info_log(directory);
        if fs.exists(&path).unwrap_or(false) {
            let kept = directory.join(format!("LOG.old.{}", clock.unix_micros()));
            // A LOG that cannot be renamed is overwritten by its successor.
            let _ = fs.rename(&path, &kept);
            remove_oldest(&**fs, directory, keep);
        }
        let options = WriteOptions {
            purpose: Purpose::Other,
            buffer_bytes: 0,
            ..WriteOptions::default()
        };
        let sink = match fs.create(&path, &options) {
            Ok(file) => Sink::File(Mutex::new(file)),
            Err(_) => Sink::Nowhere,
        };
        InfoLog { sink, clock, level }
    }

    pub(crate) fn log(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        if severity(level) < severity(self.level) {
            return;
        }
        match &self.sink {
            Sink::Nowhere => {}
            Sink::Logger(logger) => logger.log(level, message),
            Sink::File(file) => {
                let micros = self.clock.unix_micros();
                let text: String = message
                    .to_string()
                    .chars()
                    .flat_map(|c| {
                        let (plain, escaped) = if c.is_control() {
                            (None, Some(c.escape_default()))
                        } else {
                            (Some(c), None)
                        };
                        plain.into_iter().chain(escaped.into_iter().flatten())
                    })
                    .collect();
                let line = format!(
                    "{}.{:06} [{level:?}] {text}\n",
                    utc(micros / 1_000_000),
                    micros % 1_000_000
                );
                // A full disk must not stop the database because of its log.
                let _ = lock(file).append(line.as_bytes());
            }
        }
    }

    pub(crate) fn info(&self, message: fmt::Arguments<'_>) {
        self.log(LogLevel::Info, message);
    }

    pub(crate) fn warn(&self, message: fmt::Arguments<'_>) {
        self.log(LogLevel::Warn, message);
    }
}

fn remove_oldest(fs: &dyn FileSystem, directory: &Path, keep: usize) {
    let Ok(entries) = fs.list(directory) else {
        return;
    };
    let mut old: Vec<String> = entries
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| name.starts_with("LOG.old.") && file_name::parse(name).is_some())
        .collect();
    old.sort();
    let surplus = (old.len() + 1).saturating_sub(keep.max(1));
    for name in old.iter().take(surplus) {
        let _ = fs.remove_file(&directory.join(name));
    }
}

/// Formats seconds since 1970 as `YYYY/MM/DD-HH:MM:SS`, in UTC.
fn utc(unix_secs: u64) -> String {
    let days = unix_secs / 86_400;
    let secs = unix_secs % 86_400;
    // Days to a civil date, after Howard Hinnant's algorithm (2013).
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}/{month:02}/{day:02}-{:02}:{:02}:{:02}",
        secs / 3600,
        secs / 60 % 60,
        secs % 60
    )
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn times_are_utc() {
        assert_eq!(utc(0), "1970/01/01-00:00:00");
        assert_eq!(utc(951_826_509), "2000/02/29-12:15:09");
    }
}
