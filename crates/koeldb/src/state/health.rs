//! The health of an open database: its life cycle, and the error that stops writes until a resume.
//!
//! A failure wakes every thread that waits in a stall or for background work. Reporting it to
//! listeners, which run without locks, is a second step, and so is the start of an automatic
//! resume.

pub(crate) mod failures;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use koeldb_base::error::{ErrorDetail, Severity, WriteOutcome};
use koeldb_base::stats::Ticker;
use koeldb_base::{Error, ErrorKind, Result};

use crate::options::LogLevel;
use crate::report::listener::Event;
use crate::state::context::Context;
use crate::state::job_slots::JobSlots;
use crate::state::write_stall::WriteStall;

use failures::Failures;

/// The state of a database that accepts operations.
const OPEN: u8 = 0;
/// The state of a database whose close has begun.
const CLOSING: u8 = 1;
/// The state of a closed database.
const CLOSED: u8 = 2;

/// A function that starts an automatic resume after a failure.
type BeginResuming = Box<dyn Fn() + Send + Sync>;

/// The life cycle of a database (open, closing, closed) and its background error.
pub(crate) struct Health {
    life: AtomicU8,
    failures: Failures,
    context: Arc<Context>,
    stall: Arc<WriteStall>,
    slots: Arc<JobSlots>,
    begin_resuming: OnceLock<BeginResuming>,
    /// Whether a resume has abandoned logs whose data is not in tables yet.
    gave_up_logs: AtomicBool,
    /// The number of errors of background work since the database was opened.
    error_count: AtomicU64,
}

impl Health {
    /// Creates the health of an open database; a failure wakes the waiters of `stall` and `slots`.
    pub(crate) fn new(
        context: &Arc<Context>,
        stall: &Arc<WriteStall>,
        slots: &Arc<JobSlots>,
    ) -> Self {
        Health {
            life: AtomicU8::new(OPEN),
            failures: Failures::default(),
            context: Arc::clone(context),
            stall: Arc::clone(stall),
            slots: Arc::clone(slots),
            begin_resuming: OnceLock::new(),
            gave_up_logs: AtomicBool::new(false),
            error_count: AtomicU64::new(0),
        }
    }

    // The life cycle.

    /// Fails with `ShutdownInProgress` if the database is closing or closed.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.life.load(Ordering::Acquire) == OPEN {
            return Ok(());
        }
        Err(Error::with_kind(
            ErrorKind::ShutdownInProgress,
            "the database is closed",
        ))
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.life.load(Ordering::Acquire) != OPEN
    }

    /// Begins a close; `false` if one has begun before.
    pub(crate) fn begin_closing(&self) -> bool {
        let begun = self
            .life
            .compare_exchange(OPEN, CLOSING, Ordering::AcqRel, Ordering::Acquire);
        if begun.is_ok() {
            self.stall.notify();
        }
        begun.is_ok()
    }

    pub(crate) fn finish_closing(&self) {
        self.life.store(CLOSED, Ordering::Release);
    }

    // Failures.

    /// Checks that writes are accepted; otherwise returns the error that stopped them.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if !self.context.read_only && !self.failures.is_any() && !self.context.is_forked() {
            return Ok(());
        }
        Err(self.write_refusal())
    }

    /// Returns the error of writes to a read-only, forked, failed or resuming database.
    #[cold]
    fn write_refusal(&self) -> Error {
        if self.context.read_only {
            return Error::not_supported("the database was opened read-only")
                .with_outcome(WriteOutcome::NotApplied);
        }
        if self.context.is_forked() {
            // Its threads and its place in the files are those of the parent.
            let error = "a forked child cannot write to a database that its parent opened";
            return Error::with_kind(ErrorKind::Aborted, error)
                .with_outcome(WriteOutcome::NotApplied);
        }
        match self.failures.first() {
            Some(error) => error.with_outcome(WriteOutcome::NotApplied),
            None => Error::with_kind(ErrorKind::Busy, "the database resumes"),
        }
    }

    /// Whether background work may start.
    pub(crate) fn permits_jobs(&self) -> bool {
        !self.is_closing() && !self.context.read_only && !self.failures.is_any()
    }

    /// Whether writes are refused because of a failure.
    pub(crate) fn has_failed(&self) -> bool {
        self.failures.is_any()
    }

    /// The error that stopped writes, if one did.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failures.first()
    }

    /// The number of failures so far.
    pub(crate) fn failure_count(&self) -> u64 {
        self.failures.count()
    }

    /// Stores the first error that stops writes, wakes all waiting threads, and returns the error.
    #[cold]
    pub(crate) fn fail_writes(&self, error: Error) -> Error {
        self.failures.store(&error);
        self.stall.notify();
        self.slots.notify();
        error
    }

    /// Stores the error of a failed MANIFEST write and stops writes, if anything was written.
    ///
    /// A rejection before writing affects only the caller; after that the state on disk is unknown,
    /// and writes stop (O21).
    pub(crate) fn manifest_failed(&self, error: Error) -> Error {
        let severity = match error.kind() {
            ErrorKind::InvalidArgument | ErrorKind::ColumnFamilyDropped => return error,
            ErrorKind::Corruption => Severity::Unrecoverable,
            _ => Severity::Hard,
        };
        self.fail_writes(
            error
                .context("writing the MANIFEST")
                .with_severity(severity),
        )
    }

    /// Stores the error of a failed background job and stops writes.
    ///
    /// `docs/reliability.md`, background-error states, has the consequences for writes.
    pub(crate) fn job_failed(&self, what: &str, error: Error) {
        let has_panicked = error.detail() == Some(ErrorDetail::PluginPanicked);
        if error.severity() > Severity::None && !has_panicked {
            // The error was already stored where it occurred; storing it again could undo a resume.
            return;
        }
        let severity = match error.kind() {
            ErrorKind::Corruption => Severity::Unrecoverable,
            // Memtables and logs are unchanged: a resume writes another table.
            _ if is_transient(&error) => Severity::Hard,
            _ => Severity::Fatal,
        };
        self.fail_writes(error.context(what).with_severity(severity));
    }

    /// The number of errors of background work since the database was opened.
    pub(crate) fn error_count(&self) -> u64 {
        self.error_count.load(Ordering::Relaxed)
    }

    /// Reports a background error to listeners and counts it, without stopping writes.
    pub(crate) fn report_passing(&self, error: &Error) {
        self.error_count.fetch_add(1, Ordering::Relaxed);
        self.context.notify(&Event::BackgroundError(error));
        self.context.count(Ticker::ErrorHandlerBgErrorCount, 1);
    }

    /// Reports failures to the log and to listeners, and starts automatic resume if possible.
    ///
    /// Must be called without locks.
    pub(crate) fn report_failures(&self) {
        if !self.failures.is_any() {
            return;
        }
        for error in self.failures.take_unreported() {
            self.context
                .info_log
                .log(LogLevel::Error, format_args!("writes are refused: {error}"));
            self.report_passing(&error);
        }
        if let Some(begin_resuming) = self.begin_resuming.get() {
            begin_resuming();
        }
    }

    // Resuming.

    /// Sets the function that starts an automatic resume; called once, at open.
    pub(crate) fn on_failure(&self, begin_resuming: impl Fn() + Send + Sync + 'static) {
        let _ = self.begin_resuming.set(Box::new(begin_resuming));
    }

    /// Whether a resume is pointless: there is no failure, or one that requires a reopen.
    pub(crate) fn is_beyond_resuming(&self) -> bool {
        self.failure()
            .is_none_or(|failure| failure.severity() > Severity::Hard)
    }

    /// Records whether a resume has abandoned WALs whose data is not in tables yet.
    pub(crate) fn set_gave_up_logs(&self, gave_up: bool) {
        self.gave_up_logs.store(gave_up, Ordering::Release);
    }

    /// Whether a resume has abandoned WALs whose data is not in tables yet.
    pub(crate) fn gave_up_logs(&self) -> bool {
        self.gave_up_logs.load(Ordering::Acquire)
    }

    /// Accepts writes again after a repair; fails if there were more than `count` failures.
    pub(crate) fn clear_failure(&self, count: u64) -> Result<()> {
        self.failures.clear(count)?;
        self.context
            .info_log
            .info(format_args!("writes are accepted again"));
        self.context.notify(&Event::Resumed);
        self.stall.notify();
        Ok(())
    }
}

/// Runs a job; a panic in it becomes a fatal error.
pub(crate) fn catch_panics<R>(job: impl FnOnce() -> Result<R>) -> Result<R> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        Err(Error::with_kind(
            ErrorKind::Aborted,
            format!("a background job panicked: {what}"),
        )
        .with_detail(ErrorDetail::PluginPanicked)
        .with_severity(Severity::Fatal))
    })
}

/// Whether a failed job may be retried: the error is an I/O error and has not stopped writes.
pub(crate) fn is_transient(error: &Error) -> bool {
    error.kind() == ErrorKind::IoError
        && error.severity() == Severity::None
        && error.detail() != Some(ErrorDetail::PluginPanicked)
}
