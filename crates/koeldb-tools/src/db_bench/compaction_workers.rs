//! Remote compactions: the service of a database, and workers in threads of this process.
//!
//! Both share a directory of jobs, in which workers of other processes (`koeldb-worker`) may take part.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use koeldb::{Env, Options};
use koeldb_fs::clock::{Clock, SystemClock};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::small_file;
use koeldb_worker::{DirectoryService, JobOutcome, Worker};

use super::flags::Flags;
use super::plan::{Failure, Outcome};

/// The pause of a worker that finds no job.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the directory of jobs; `None` if compactions are not remote.
///
/// Without a name it is beside the database, in whose directory a worker must not write, and of this
/// process alone, which removes it at the end.
fn store(flags: &Flags) -> Option<String> {
    match flags.compaction_store.as_str() {
        "" if flags.compaction_workers > 0 => {
            let (db, process) = (flags.db.trim_end_matches('/'), std::process::id());
            Some(format!("{db}-jobs-{process}"))
        }
        "" => None,
        store => Some(store.to_owned()),
    }
}

/// Gives the compactions of a database to workers, if the flags ask for that.
pub(crate) fn install_service(flags: &Flags, options: &mut Options) -> Outcome {
    let Some(store) = store(flags) else {
        return Ok(());
    };
    let service = DirectoryService::open(&Env::default(), store);
    let service = service.map_err(|error| Failure::of("compaction store", &error))?;
    options.set_compaction_service(service);
    Ok(())
}

/// The jobs that a worker has run.
#[derive(Clone, Copy, Debug, Default)]
struct Jobs {
    completed: u64,
    failed: u64,
    tables: u64,
    bytes: u64,
}

/// The worker threads of `--compaction_workers`.
pub(crate) struct CompactionWorkers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Jobs>>,
    /// The directory of jobs, if no flag named it: it is removed at the end.
    own_store: Option<PathBuf>,
}

impl CompactionWorkers {
    /// Starts the workers, when the databases are open; none without the flag.
    pub(crate) fn start(flags: &Flags) -> Outcome<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut workers = CompactionWorkers {
            stop: Arc::clone(&stop),
            threads: Vec::new(),
            own_store: None,
        };
        let Some(store) = store(flags) else {
            return Ok(workers);
        };
        for number in 1..=flags.compaction_workers {
            let name = format!("db_bench-{}-{number}", std::process::id());
            let worker = Worker::new(&Options::new(), &store, name);
            let worker = worker.map_err(|error| Failure::of("compaction worker", &error))?;
            let stop = Arc::clone(&stop);
            let thread = std::thread::spawn(move || run(worker, &stop));
            workers.threads.push(thread);
        }
        workers.own_store = flags.compaction_store.is_empty().then(|| store.into());
        Ok(workers)
    }

    /// Ends the workers, after the databases are closed, and prints what they did.
    pub(crate) fn finish(&mut self) {
        if self.threads.is_empty() {
            return;
        }
        self.stop.store(true, Ordering::Relaxed);
        let mut total = Jobs::default();
        for thread in self.threads.drain(..) {
            let jobs = match thread.join() {
                Ok(jobs) => jobs,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            total.completed += jobs.completed;
            total.failed += jobs.failed;
            total.tables += jobs.tables;
            total.bytes += jobs.bytes;
        }
        if let Some(store) = &self.own_store {
            // The finished jobs are obsolete.
            let _ = small_file::remove_dir_all(&PosixFileSystem::new(), store);
        }
        println!(
            "Compaction workers: {} jobs, {} failed, {} tables of {} bytes",
            total.completed, total.failed, total.tables, total.bytes
        );
    }
}

/// Runs jobs until `stop` is set.
fn run(mut worker: Worker, stop: &AtomicBool) -> Jobs {
    let mut jobs = Jobs::default();
    while !stop.load(Ordering::Relaxed) {
        match worker.run_one() {
            Ok(None) => SystemClock.sleep(POLL_INTERVAL),
            Ok(Some(report)) => {
                jobs.tables += report.table_count;
                jobs.bytes += report.table_bytes;
                match report.outcome {
                    JobOutcome::Completed => jobs.completed += 1,
                    JobOutcome::Failed(_) => {
                        jobs.failed += 1;
                        eprintln!("compaction worker: {report}");
                    }
                    _ => {}
                }
            }
            Err(error) => {
                eprintln!("compaction worker: {error}");
                break;
            }
        }
    }
    jobs
}
