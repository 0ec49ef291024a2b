//! Counts and latencies of one thread of a benchmark.
//!
//! [`Tally::finished`] is called after every operation. It costs an addition and a comparison: the
//! clock is read only for histograms and interval reports.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram as FineHistogram;
use indicatif::ProgressBar;
use koeldb_fs::clock::{Clock, SystemClock};

use super::header::date_time;
use crate::histogram::Histogram;

/// The kinds of operations with a latency histogram each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpKind {
    Read,
    Write,
    Delete,
    Seek,
    Merge,
    Update,
    Compress,
    Uncompress,
    Crc,
    Hash,
    MultiScan,
    Other,
}

impl OpKind {
    pub(crate) const ALL: [OpKind; 12] = [
        OpKind::Read,
        OpKind::Write,
        OpKind::Delete,
        OpKind::Seek,
        OpKind::Merge,
        OpKind::Update,
        OpKind::Compress,
        OpKind::Uncompress,
        OpKind::Crc,
        OpKind::Hash,
        OpKind::MultiScan,
        OpKind::Other,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Delete => "delete",
            OpKind::Seek => "seek",
            OpKind::Merge => "merge",
            OpKind::Update => "update",
            OpKind::Compress => "compress",
            OpKind::Uncompress => "uncompress",
            OpKind::Crc => "crc",
            OpKind::Hash => "hash",
            OpKind::MultiScan => "multiscan",
            OpKind::Other => "op",
        }
    }
}

/// The latency histograms of one kind of operation, in microseconds and nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    /// Whole microseconds, in RocksDB's buckets.
    pub(crate) micros: Histogram,
    /// Nanoseconds with three significant digits, if the JSON report shows them.
    pub(crate) nanos: Option<FineHistogram<u64>>,
}

impl Latencies {
    /// Creates empty histograms; nanoseconds are recorded only if `fine`.
    fn new(fine: bool) -> Self {
        Latencies {
            micros: Histogram::default(),
            // Creation cannot fail: three digits are a valid precision.
            nanos: fine.then(|| FineHistogram::new(3).ok()).flatten(),
        }
    }

    pub(crate) fn merge(&mut self, other: &Latencies) {
        self.micros.merge(&other.micros);
        match (&mut self.nanos, &other.nanos) {
            (Some(nanos), Some(more)) => drop(nanos.add(more)),
            (nanos @ None, Some(more)) => *nanos = Some(more.clone()),
            _ => {}
        }
    }
}

/// The settings of the measurement: histograms, interval lines and progress bar of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    pub(crate) histogram: bool,
    /// With `histogram`: also records nanoseconds.
    pub(crate) fine: bool,
    /// With `histogram`: reports operations that take at least this many microseconds.
    pub(crate) slow_micros: u64,
    /// The number of operations between interval lines; 0 for none.
    pub(crate) interval_ops: u64,
    /// The minimum time between interval lines.
    pub(crate) interval_time: Duration,
    /// The number of operations of all threads, for the report file.
    pub(crate) published: Option<Arc<AtomicU64>>,
    /// A progress bar, on a terminal without interval lines.
    pub(crate) progress: Option<ProgressBar>,
}

/// The operation count, bytes and latencies of one benchmark thread.
#[derive(Debug)]
pub(crate) struct Tally {
    watch: Watch,
    /// The number of operations at which the slow path of `finished` runs.
    next_look: u64,
    next_report: u64,
    last_op_finish: Duration,
    last_report: (u64, Duration),
    thread: usize,
    pub(crate) start: Duration,
    pub(crate) finish: Duration,
    pub(crate) done: u64,
    pub(crate) bytes: u64,
    pub(crate) message: String,
    /// Whether this is a background thread, which the result excludes.
    pub(crate) excluded: bool,
    /// Counters for the JSON report, summed over the threads.
    pub(crate) facts: Vec<(&'static str, u64)>,
    pub(crate) latencies: [Option<Box<Latencies>>; OpKind::ALL.len()],
}

/// The number of operations between updates of the progress bar.
const PROGRESS_STEP: u64 = 256;

impl Tally {
    pub(crate) fn new(thread: usize, watch: &Watch) -> Self {
        let now = SystemClock.now();
        let mut tally = Tally {
            watch: watch.clone(),
            next_look: 0,
            next_report: u64::MAX,
            last_op_finish: now,
            last_report: (0, now),
            thread,
            start: now,
            finish: now,
            done: 0,
            bytes: 0,
            message: String::new(),
            excluded: false,
            facts: Vec::new(),
            latencies: Default::default(),
        };
        tally.next_report = tally.report_step();
        tally.next_look = tally.look_at();
        tally
    }

    /// Starts the thread's measured time.
    ///
    /// The first sample of a histogram starts at the creation of the tally, as in RocksDB's
    /// program.
    pub(crate) fn start(&mut self) {
        let now = SystemClock.now();
        self.start = now;
        self.finish = now;
        self.last_report = (0, now);
    }

    /// Discards all counts and starts the measured time again.
    pub(crate) fn restart(&mut self) {
        let excluded = self.excluded;
        *self = Tally::new(self.thread, &self.watch);
        self.excluded = excluded;
    }

    /// Records the finish time of the thread, and completes its part of the progress bar.
    pub(crate) fn stop(&mut self) {
        self.finish = SystemClock.now();
        if let Some(progress) = &self.watch.progress {
            progress.inc(self.done - self.last_report.0);
        }
    }

    /// Counts `ops` completed operations, as one latency sample in the histogram of `kind`.
    ///
    /// Returns whether an interval line was printed.
    #[inline]
    pub(crate) fn finished(&mut self, ops: u64, kind: OpKind) -> bool {
        self.done += ops;
        self.done >= self.next_look && self.look(ops, kind)
    }

    /// Returns the number of operations to count before the next check, at least 1.
    ///
    /// None of them reaches the slow path of [`Tally::finished`].
    #[inline]
    pub(crate) fn unwatched(&self) -> u64 {
        self.next_look.saturating_sub(self.done).max(1)
    }

    /// Restarts the latency clock after a wait for the rate limiter, to exclude the wait.
    pub(crate) fn forget_wait(&mut self) {
        if self.watch.histogram {
            self.last_op_finish = SystemClock.now();
        }
    }

    /// Appends to the message of the result line, after a blank.
    pub(crate) fn add_message(&mut self, message: &str) {
        if !self.message.is_empty() && !message.is_empty() {
            self.message.push(' ');
        }
        self.message.push_str(message);
    }

    /// Returns the number of operations between progress updates or interval lines.
    fn report_step(&self) -> u64 {
        match (&self.watch.progress, self.watch.interval_ops) {
            (None, 0) => u64::MAX,
            (Some(_), _) => PROGRESS_STEP,
            (None, ops) => ops,
        }
    }

    /// Returns the operation count at which [`Tally::finished`] next does more than count.
    fn look_at(&self) -> u64 {
        if self.watch.histogram || self.watch.published.is_some() {
            0
        } else {
            self.next_report
        }
    }

    /// Records a latency sample, progress or interval line; returns whether a line was printed.
    #[cold]
    #[inline(never)]
    fn look(&mut self, ops: u64, kind: OpKind) -> bool {
        if let Some(published) = &self.watch.published {
            published.fetch_add(ops, Ordering::Relaxed);
        }
        if self.watch.histogram {
            self.sample(kind);
        }
        let mut printed = false;
        if self.done >= self.next_report {
            if let Some(progress) = &self.watch.progress {
                progress.inc(self.done - self.last_report.0);
                self.last_report.0 = self.done;
            } else {
                printed = self.interval_line();
            }
            self.next_report = self.done.saturating_add(self.report_step());
        }
        self.next_look = self.look_at();
        printed
    }

    /// Records the latency since the last operation and prints it if slow, not with interval lines.
    fn sample(&mut self, kind: OpKind) {
        let now = SystemClock.now();
        let took = now.saturating_sub(self.last_op_finish);
        let micros = whole_micros(now) - whole_micros(self.last_op_finish);
        self.last_op_finish = now;
        let fine = self.watch.fine;
        let slot = &mut self.latencies[kind as usize];
        let latencies = slot.get_or_insert_with(|| Box::new(Latencies::new(fine)));
        latencies.micros.record(micros);
        if let Some(nanos) = &mut latencies.nanos {
            // The histogram grows as needed: only an extreme value could be rejected.
            let _ = nanos.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
        if micros >= self.watch.slow_micros && self.watch.interval_ops == 0 {
            eprintln!("long op: {micros} micros");
        }
    }

    /// Prints the rates since the last interval line, if its minimum time has passed.
    #[expect(clippy::cast_precision_loss, reason = "rates are approximations")]
    fn interval_line(&mut self) -> bool {
        let now = SystemClock.now();
        let (ops_before, then) = self.last_report;
        let since_last = now.saturating_sub(then);
        if since_last < self.watch.interval_time {
            return false;
        }
        let since_start = now.saturating_sub(self.start);
        let ops = self.done - ops_before;
        let mut line = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            "{} ... thread {}: ({},{}) ops and ({:.1},{:.1}) ops/second in ({:.6},{:.6}) seconds",
            date_time(SystemClock.unix_micros() / 1_000_000),
            self.thread,
            ops,
            self.done,
            ops as f64 / since_last.as_secs_f64(),
            self.done as f64 / since_start.as_secs_f64(),
            since_last.as_secs_f64(),
            since_start.as_secs_f64(),
        );
        eprintln!("{line}");
        self.last_report = (self.done, now);
        true
    }
}

/// Converts a duration to whole microseconds.
pub(crate) fn whole_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwatched_tally_only_counts() {
        let mut tally = Tally::new(0, &Watch::default());
        for _ in 0..1000 {
            tally.finished(2, OpKind::Read);
        }
        assert_eq!(tally.done, 2000);
        assert!(tally.latencies.iter().all(Option::is_none));
    }

    #[test]
    fn a_histogram_gets_one_sample_per_call() {
        let watch = Watch {
            histogram: true,
            fine: true,
            slow_micros: u64::MAX,
            ..Watch::default()
        };
        let mut tally = Tally::new(0, &watch);
        for _ in 0..10 {
            tally.finished(8, OpKind::Read);
        }
        tally.finished(1, OpKind::Write);
        let reads = tally.latencies[OpKind::Read as usize]
            .as_ref()
            .expect("reads");
        assert!(reads.micros.to_string().starts_with("Count: 10 "));
        assert_eq!(reads.nanos.as_ref().expect("nanoseconds").len(), 10);
        assert_eq!(tally.done, 81);
    }

    #[test]
    fn fine_latencies_are_not_cut() {
        let mut latencies = Latencies::new(true);
        let nanos = latencies.nanos.as_mut().expect("fine latencies");
        nanos.record(3_000_000_000).expect("three seconds fit");
        assert!(nanos.max() >= 3_000_000_000);
    }

    #[test]
    fn interval_lines_come_every_so_many_operations() {
        let watch = Watch {
            interval_ops: 10,
            ..Watch::default()
        };
        let mut tally = Tally::new(3, &watch);
        let printed = (0..35).filter(|_| tally.finished(1, OpKind::Read)).count();
        assert_eq!(printed, 3);
    }

    #[test]
    fn published_operations_are_complete() {
        let published = Arc::new(AtomicU64::new(0));
        let watch = Watch {
            published: Some(published.clone()),
            ..Watch::default()
        };
        let mut tally = Tally::new(0, &watch);
        for _ in 0..7 {
            tally.finished(3, OpKind::Other);
        }
        assert_eq!(published.load(Ordering::Relaxed), 21);
    }
}
