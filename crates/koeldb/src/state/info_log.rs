//! The information log: a text file `LOG` in the database directory.
//!
//! A line consists of a time, the number of the thread, a level unless that is INFO, and a message,
//! as in RocksDB's LOG. Control characters are escaped. A failure to write it never stops the
//! database. `LOG` is renamed to `LOG.old.<microseconds>` when the
//! database is opened, and when the file reaches its maximum size or age. Each file begins with the
//! header: the database's directories and options. With `db_log_dir` the files are in that directory,
//! and their names begin with the path of the database.

mod events;
mod jobs;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use koeldb_base::sync::lock_plain as lock;
use koeldb_fs::{Clock, FileSystem, Purpose, WritableFile, WriteOptions};

use crate::options::{LogLevel, Logger};

pub(crate) use events::{JobId, JsonObject, RECOVERY_JOB};
pub(crate) use jobs::CompactionOutcome;

/// The limits of LOG files: the least severe level, the size, the age and the number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogFileLimits {
    /// The least severe level that is logged.
    pub(crate) level: LogLevel,
    /// The size in bytes at which a new file begins; 0 for no limit.
    pub(crate) bytes_max: u64,
    /// The age in seconds at which a new file begins; 0 for no limit.
    pub(crate) seconds_max: u64,
    /// The number of files that are kept, including the current one.
    pub(crate) files_max: usize,
}

/// The destination of info log lines: none, the LOG file or a user's logger.
enum Sink {
    Nowhere,
    File(Mutex<LogFile>),
    Logger(Arc<dyn Logger>),
}

/// The information log of a database (RocksDB: `Logger`), usually written to the file `LOG`.
pub(crate) struct InfoLog {
    sink: Sink,
    clock: Arc<dyn Clock>,
    level: LogLevel,
    /// The number of jobs that have begun.
    jobs: AtomicU64,
}

/// Returns the rank of a level, ascending by severity.
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
    /// Creates an info log that discards its lines, for read-only handles.
    pub(crate) fn nowhere(clock: Arc<dyn Clock>) -> Self {
        InfoLog {
            sink: Sink::Nowhere,
            clock,
            level: LogLevel::Fatal,
            jobs: AtomicU64::new(0),
        }
    }

    /// Creates an info log that passes its lines to a logger.
    pub(crate) fn to_logger(
        logger: Arc<dyn Logger>,
        clock: Arc<dyn Clock>,
        level: LogLevel,
    ) -> Self {
        InfoLog {
            sink: Sink::Logger(logger),
            clock,
            level,
            jobs: AtomicU64::new(0),
        }
    }

    /// Creates a LOG file at `path`; if that fails, the info log discards its lines.
    pub(crate) fn create(
        fs: &Arc<dyn FileSystem>,
        path: &Path,
        clock: Arc<dyn Clock>,
        limits: LogFileLimits,
    ) -> Self {
        let file = LogFile::begin(fs, path, limits, clock.unix_micros());
        InfoLog {
            sink: file.map_or(Sink::Nowhere, |file| Sink::File(Mutex::new(file))),
            clock,
            level: limits.level,
            jobs: AtomicU64::new(0),
        }
    }

    /// Logs a message, unless its level is below that of the log.
    pub(crate) fn log(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        if severity(level) < severity(self.level) {
            return;
        }
        match &self.sink {
            Sink::Nowhere => {}
            Sink::Logger(logger) => logger.log(level, message),
            Sink::File(file) => {
                let micros = self.clock.unix_micros();
                lock(file).append(&line(micros, level, message), micros);
            }
        }
    }

    pub(crate) fn info(&self, message: fmt::Arguments<'_>) {
        self.log(LogLevel::Info, message);
    }

    pub(crate) fn warn(&self, message: fmt::Arguments<'_>) {
        self.log(LogLevel::Warn, message);
    }

    pub(crate) fn error(&self, message: fmt::Arguments<'_>) {
        self.log(LogLevel::Error, message);
    }

    /// Logs a multi-line text at level Info; only its first line has a time.
    pub(crate) fn text(&self, text: &str) {
        if severity(LogLevel::Info) < severity(self.level) {
            return;
        }
        match &self.sink {
            Sink::Nowhere => {}
            Sink::Logger(logger) => logger.log(LogLevel::Info, format_args!("{text}")),
            Sink::File(file) => {
                let micros = self.clock.unix_micros();
                let mut lines = begin_line(micros, LogLevel::Info);
                for line in text.trim_end_matches('\n').split('\n') {
                    escape(&mut lines, line);
                    lines.push('\n');
                }
                lock(file).append(&lines, micros);
            }
        }
    }

    /// Allocates the number of a new background job.
    pub(crate) fn new_job(&self) -> JobId {
        self.jobs.fetch_add(1, Ordering::Relaxed) + RECOVERY_JOB + 1
    }

    /// Begins the JSON object of an event, to be passed to [`InfoLog::log_event`].
    pub(crate) fn event(&self, job: Option<JobId>, name: &str) -> JsonObject {
        let event = JsonObject::default().number("time_micros", self.clock.unix_micros());
        let event = match job {
            Some(job) => event.number("job", job),
            None => event,
        };
        event.text("event", name)
    }

    /// Logs an event as JSON, as in RocksDB's `EventLogger`.
    pub(crate) fn log_event(&self, event: JsonObject) {
        self.info(format_args!("EVENT_LOG_v1 {}", event.finish()));
    }

    /// Logs lines that describe the database, which are repeated at the start of later LOG files.
    pub(crate) fn header(&self, messages: impl FnOnce() -> Vec<String>) {
        match &self.sink {
            Sink::Nowhere => {}
            Sink::Logger(logger) if !logger.is_enabled(LogLevel::Header) => {}
            Sink::Logger(logger) => {
                for message in messages() {
                    logger.log(LogLevel::Header, format_args!("{message}"));
                }
            }
            Sink::File(file) => {
                let micros = self.clock.unix_micros();
                let begin = begin_line(micros, LogLevel::Header);
                let messages = messages();
                let bytes = |message: &String| begin.len() + message.len() + 1;
                let mut lines = String::with_capacity(messages.iter().map(bytes).sum());
                for message in &messages {
                    lines.push_str(&begin);
                    escape(&mut lines, message);
                    lines.push('\n');
                }
                lock(file).append_header(&lines);
            }
        }
    }
}

/// Formats a line; control characters are escaped.
fn line(micros: u64, level: LogLevel, message: fmt::Arguments<'_>) -> String {
    let mut line = begin_line(micros, level);
    escape(&mut line, &message.to_string());
    line.push('\n');
    line
}

/// Returns the prefix of a LOG line: UTC time, thread number and level.
fn begin_line(micros: u64, level: LogLevel) -> String {
    let level = match level {
        LogLevel::Info | LogLevel::Header => "",
        LogLevel::Debug => "[DEBUG] ",
        LogLevel::Warn => "[WARN] ",
        LogLevel::Error => "[ERROR] ",
        LogLevel::Fatal => "[FATAL] ",
    };
    format!(
        "{}.{:06} {} {level}",
        utc(micros / 1_000_000),
        micros % 1_000_000,
        thread_number()
    )
}

/// Appends `text` with control characters escaped.
///
/// A line end stays if the next line is indented: it continues the message, and cannot be mistaken
/// for another one.
fn escape(line: &mut String, text: &str) {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        line.push_str(text);
        return;
    }
    for (at, c) in text.char_indices() {
        if c.is_control() && !text[at..].starts_with("\n  ") {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
}

/// The number of this thread, in the order in which the threads of the process first logged.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

/// The current `LOG` file.
struct LogFile {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    limits: LogFileLimits,
    file: Box<dyn WritableFile>,
    bytes: u64,
    begun_micros: u64,
    /// The header lines, with which every file begins.
    header: String,
}

impl LogFile {
    /// Creates the file of an info log; `None` if that fails.
    fn begin(
        fs: &Arc<dyn FileSystem>,
        path: &Path,
        limits: LogFileLimits,
        micros: u64,
    ) -> Option<Self> {
        Some(LogFile {
            file: create(&**fs, path, limits.files_max, micros)?,
            fs: Arc::clone(fs),
            path: path.to_owned(),
            limits,
            bytes: 0,
            begun_micros: micros,
            header: String::new(),
        })
    }

    /// Appends a line, to a new file if the current one has reached a limit.
    ///
    /// Failures are ignored: a full disk must not stop the database because of its LOG.
    fn append(&mut self, line: &str, micros: u64) {
        if self.is_full(micros)
            && let Some(file) = create(&*self.fs, &self.path, self.limits.files_max, micros)
        {
            self.file = file;
            self.bytes = 0;
            self.begun_micros = micros;
            let header = std::mem::take(&mut self.header);
            self.write(&header);
            self.header = header;
        }
        self.write(line);
    }

    /// Writes lines that are repeated at the start of each later file.
    fn append_header(&mut self, lines: &str) {
        self.header.push_str(lines);
        self.write(lines);
    }

    /// Appends text to the file; errors are ignored.
    fn write(&mut self, text: &str) {
        let _ = self.file.append(text.as_bytes());
        self.bytes = self.bytes.saturating_add(text.len() as u64);
    }

    /// Whether the file has reached a limit. One that holds nothing but the header never has.
    fn is_full(&self, micros: u64) -> bool {
        let LogFileLimits {
            bytes_max,
            seconds_max,
            ..
        } = self.limits;
        let age_secs = micros.saturating_sub(self.begun_micros) / 1_000_000;
        let is_full = bytes_max > 0 && self.bytes >= bytes_max;
        let is_old = seconds_max > 0 && age_secs >= seconds_max;
        self.bytes > self.header.len() as u64 && (is_full || is_old)
    }
}

/// Creates `LOG` in place of the previous one, which is renamed; `None` if that fails.
fn create(
    fs: &dyn FileSystem,
    path: &Path,
    files_max: usize,
    micros: u64,
) -> Option<Box<dyn WritableFile>> {
    if fs.exists(path).unwrap_or(false) {
        let mut kept = path.as_os_str().to_owned();
        kept.push(format!(".old.{micros}"));
        // A LOG that cannot be renamed is overwritten by its successor.
        let _ = fs.rename(path, Path::new(&kept));
        remove_oldest(fs, path, files_max);
    }
    let options = WriteOptions {
        purpose: Purpose::Other,
        buffer_bytes: 0,
        ..WriteOptions::default()
    };
    fs.create(path, &options).ok()
}

/// Removes the oldest `LOG.old` files beyond the limit.
fn remove_oldest(fs: &dyn FileSystem, path: &Path, files_max: usize) {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return;
    };
    let Ok(entries) = fs.list(directory) else {
        return;
    };
    let prefix = format!("{}.old.", name.to_string_lossy());
    let is_old = |name: &str| {
        let time = name.strip_prefix(&prefix);
        time.is_some_and(|time| time.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut old: Vec<String> = entries
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| is_old(name))
        .collect();
    old.sort();
    let surplus = (old.len() + 1).saturating_sub(files_max.max(1));
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
mod tests;
