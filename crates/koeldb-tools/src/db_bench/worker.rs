//! The threads of one benchmark.
//!
//! They are released together, and each has its own random numbers and its own counts.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};

use koeldb::perf::{self, PerfLevel};
use koeldb_fs::clock::{Clock, SystemClock};
use koeldb_fs::process_usage;

use super::database::{Database, Databases};
use super::flags::Flags;
use super::limit::{Pacer, WorkLimit};
use super::plan::{Failure, Outcome, Plan};
use super::random::Mersenne64;
use super::report::Outcome as Report;
use super::tally::{OpKind, Tally, Watch};

/// The code of a thread.
pub(crate) type WorkFn = fn(&mut Worker<'_>) -> Outcome;

/// The code that the threads of a benchmark run.
#[derive(Clone, Copy)]
pub(crate) struct ThreadedWork {
    pub(crate) work: WorkFn,
    /// The code of thread 0, if it differs from `work`.
    pub(crate) background: Option<WorkFn>,
}

/// The state shared by all threads of one benchmark run.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    pub(crate) flags: &'a Flags,
    pub(crate) plan: &'a Plan,
    pub(crate) databases: &'a Databases,
    pub(crate) write_pacer: Option<Pacer>,
    pub(crate) read_pacer: Option<Pacer>,
    watch: Watch,
    failed: AtomicBool,
    /// The number of threads, without the background thread.
    threads: usize,
    /// The number of unfinished threads, without the background thread.
    running: AtomicUsize,
}

/// One thread of a benchmark, with its random generator and counts.
#[derive(Debug)]
pub(crate) struct Worker<'a> {
    pub(crate) shared: &'a Shared<'a>,
    pub(crate) random: Mersenne64,
    pub(crate) tally: Tally,
    thread: usize,
}

impl<'a> Worker<'a> {
    pub(crate) fn plan(&self) -> &'a Plan {
        self.shared.plan
    }

    pub(crate) fn flags(&self) -> &'a Flags {
        self.shared.flags
    }

    pub(crate) fn databases(&self) -> &'a Databases {
        self.shared.databases
    }

    /// Draws a random number and returns the database that it selects for the next operation.
    ///
    /// A random number is drawn even if there is only one.
    #[inline]
    pub(crate) fn select(&mut self) -> &'a Database {
        let draw = self.random.draw();
        self.shared.databases.select(draw)
    }

    /// Creates the end condition of a loop: `seconds`, or `ops` operations if `seconds` is 0.
    pub(crate) fn limit(&self, seconds: u64, ops: u64) -> WorkLimit<'a> {
        if seconds == 0 {
            self.announce(ops);
        }
        let look_every = u64::try_from(self.flags().ops_between_duration_checks).unwrap_or(1);
        WorkLimit::new(seconds, ops, look_every, &self.shared.failed)
    }

    /// Adds `ops` operations to the expected total of the progress bar.
    pub(crate) fn announce(&self, ops: u64) {
        if let Some(progress) = &self.shared.watch.progress {
            progress.inc_length(ops);
        }
    }

    /// Counts `ops` completed operations, as one latency sample of `kind`.
    #[inline]
    pub(crate) fn finished(&mut self, ops: u64, kind: OpKind) {
        if self.tally.finished(ops, kind) {
            self.print_engine_state();
        }
    }

    /// Returns the index of the thread, from 0.
    pub(crate) fn number(&self) -> usize {
        self.thread
    }

    /// Returns whether this is the first thread.
    pub(crate) fn is_first(&self) -> bool {
        self.thread == 0
    }

    /// Returns whether at least one foreground thread has finished.
    pub(crate) fn one_is_done(&self) -> bool {
        self.shared.running.load(Ordering::Relaxed) < self.shared.threads
    }

    /// Returns whether all foreground threads have finished.
    #[inline]
    pub(crate) fn others_are_done(&self) -> bool {
        self.shared.running.load(Ordering::Relaxed) == 0
    }

    /// Waits for the read rate limit, after every 256 reads.
    #[inline]
    pub(crate) fn pace_reads(&self, reads_done: u64) {
        if let Some(pacer) = &self.shared.read_pacer
            && reads_done % 256 == 255
        {
            pacer.request(256);
        }
    }

    /// Returns how many reads, at least 1, may be counted and rate limited together.
    #[inline]
    pub(crate) fn unwatched_reads(&self) -> u64 {
        match self.shared.read_pacer {
            Some(_) => 1,
            None => self.tally.unwatched(),
        }
    }

    /// Prints the statistics of all column families, in thread 0 with `--stats_per_interval`.
    #[cold]
    fn print_engine_state(&self) {
        if self.thread != 0 || self.flags().stats_per_interval == 0 {
            return;
        }
        for database in self.databases().all() {
            for family in &database.families {
                for name in ["stats", "num-running-compactions", "num-running-flushes"] {
                    let Ok(Some(text)) = family.property_value(&format!("rocksdb.{name}")) else {
                        continue;
                    };
                    match name {
                        "stats" => eprint!("{text}"),
                        "num-running-flushes" => eprintln!("{name}: {text}\n"),
                        _ => eprintln!("{name}: {text}"),
                    }
                }
            }
        }
    }

    /// Runs the thread's part of a benchmark and records its times.
    fn run(&mut self, threaded: ThreadedWork) -> Outcome {
        let level = perf_level(self.flags().perf_level);
        perf::set_level(level);
        self.tally.start();
        let outcome = match threaded.background {
            Some(background) if self.thread == 0 => background(self),
            _ => {
                let outcome = (threaded.work)(self);
                self.shared.running.fetch_sub(1, Ordering::Relaxed);
                outcome
            }
        };
        self.tally.stop();
        if level > PerfLevel::Disable {
            let context = perf::context();
            self.tally.add_message(&format!("PERF_CONTEXT:\n{context}"));
        }
        if outcome.is_err() {
            self.shared.failed.store(true, Ordering::Relaxed);
        }
        outcome
    }
}

/// Converts RocksDB's number of a perf level to the perf level.
fn perf_level(number: i32) -> PerfLevel {
    match number {
        ..=1 => PerfLevel::Disable,
        2 => PerfLevel::EnableCount,
        3 => PerfLevel::EnableWait,
        4 | 5 => PerfLevel::EnableTimeExceptForMutex,
        6.. => PerfLevel::EnableTime,
    }
}

/// Runs a benchmark on `threads` threads; returns the merged report and the first failure.
///
/// A background thread, if any, is an additional one. `started` counts the threads of the whole
/// process, each of which has its own random numbers.
pub(crate) fn run_threads(
    name: &str,
    threaded: ThreadedWork,
    threads: usize,
    shared: &mut Shared<'_>,
    started: &mut u64,
) -> (Report, Outcome) {
    let total = threads + usize::from(threaded.background.is_some());
    *shared.running.get_mut() = threads;
    shared.threads = threads;
    let shared = &*shared;
    let gate = Barrier::new(total);
    let failure = Mutex::new(None);
    let mut tallies = Vec::with_capacity(total);
    let usage_before = process_usage();
    std::thread::scope(|scope| {
        let mut handles = Vec::with_capacity(total);
        for thread in 0..total {
            *started += 1;
            let mut worker = Worker {
                shared,
                random: Mersenne64::new(shared.plan.seed.wrapping_add(*started)),
                tally: Tally::new(thread, &shared.watch),
                thread,
            };
            let (gate, failure) = (&gate, &failure);
            handles.push(scope.spawn(move || {
                gate.wait();
                if let Err(error) = worker.run(threaded) {
                    let mut first = failure.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert(error);
                }
                worker.tally
            }));
        }
        for handle in handles {
            match handle.join() {
                Ok(tally) => tallies.push(tally),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let used = process_usage().zip(usage_before);
    let report = Report::new(name, &tallies, SystemClock.now())
        .with_usage(used.map(|(after, before)| after.since(before)));
    let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    (report, failure.map_or(Ok(()), Err::<(), Failure>))
}

/// The initial rate of a benchmark that varies its rate, in operations per second.
const RATE_AT_FIRST: u64 = 1_000_000;

impl<'a> Shared<'a> {
    pub(crate) fn new(
        flags: &'a Flags,
        plan: &'a Plan,
        databases: &'a Databases,
        watch: Watch,
    ) -> Self {
        let rate = |limit| match plan.varies_rates {
            true => RATE_AT_FIRST,
            false => limit,
        };
        Shared {
            flags,
            plan,
            databases,
            write_pacer: Pacer::new(rate(flags.benchmark_write_rate_limit)),
            read_pacer: Pacer::new(rate(flags.benchmark_read_rate_limit)),
            watch,
            failed: AtomicBool::new(false),
            threads: 0,
            running: AtomicUsize::new(0),
        }
    }
}
