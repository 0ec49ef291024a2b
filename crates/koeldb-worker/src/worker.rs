//! The worker: takes jobs from a directory and runs them.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use koeldb::fs::Clock;
use koeldb::{Db, Error, Options, Result, compaction_failure_result};

use crate::store::{Claim, Job, Store, Watch};

/// The number of missed beats after which a job is taken over.
const MISSED_BEATS_MAX: u32 = 3;

/// A worker that runs the compaction jobs of a directory, one at a time.
///
/// Several may share the directory.
pub struct Worker {
    store: Store,
    overrides: Options,
    name: String,
    beat_interval: Duration,
    /// The jobs that other workers have claimed.
    watched: HashMap<PathBuf, Watch>,
}

/// The outcome of a compaction job at its worker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum JobOutcome {
    /// The result was written.
    Completed,
    /// The compaction failed. The result says so, and the primary compacts locally.
    Failed(Error),
    /// The primary no longer waits.
    Withdrawn,
}

/// The report of a compaction job that a worker ran.
#[derive(Clone, Debug)]
pub struct JobReport {
    /// The database id and the name of the job.
    pub job: String,
    /// The number of this attempt; larger than 1 after the loss of a worker.
    pub attempt: u32,
    /// The directory of the database, unless it could not be read.
    pub database: Option<PathBuf>,
    /// The number of new tables.
    pub table_count: u64,
    /// The bytes of new tables.
    pub table_bytes: u64,
    /// The time from the claim to the end.
    pub elapsed: Duration,
    /// How the job ended.
    pub outcome: JobOutcome,
}

impl fmt::Display for JobReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JobReport {
            job,
            attempt,
            table_count,
            table_bytes,
            ..
        } = self;
        write!(f, "{job}, attempt {attempt}: ")?;
        match &self.outcome {
            JobOutcome::Completed => write!(f, "{table_count} tables of {table_bytes} bytes")?,
            JobOutcome::Failed(error) => write!(f, "failed: {error}")?,
            JobOutcome::Withdrawn => write!(f, "withdrawn by the primary")?,
        }
        write!(f, ", {:.3} s", self.elapsed.as_secs_f64())
    }
}

impl Worker {
    /// Creates a worker for the jobs in `directory`, which must exist.
    ///
    /// `overrides` has the environment, and the comparators, merge operators, compaction filters and
    /// prefix extractors that OPTIONS files can only name; see [`Db::open_and_compact`]. `name`
    /// identifies the worker in its claims.
    ///
    /// # Errors
    /// If the directory cannot be read, or the path is not a directory.
    pub fn new(
        overrides: &Options,
        directory: impl AsRef<Path>,
        name: impl Into<String>,
    ) -> Result<Self> {
        let fs = overrides.get_env().file_system();
        Ok(Worker {
            store: Store::open(fs, directory.as_ref(), false)?,
            overrides: overrides.clone(),
            name: name.into(),
            beat_interval: Duration::from_secs(5),
            watched: HashMap::new(),
        })
    }

    /// Sets the interval of heartbeats during a job; 5 s by default.
    ///
    /// After three intervals without one, another worker takes the job over. All workers of a
    /// directory must have the same interval.
    pub fn set_beat_interval(&mut self, interval: Duration) -> &mut Self {
        self.beat_interval = interval;
        self
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        self.overrides.get_env().clock()
    }

    /// Claims a job and runs it; `None` if there is no job to claim now.
    ///
    /// A failed compaction is an outcome of the report, not an error.
    ///
    /// # Errors
    /// If the directory cannot be read or written.
    pub fn run_one(&mut self) -> Result<Option<JobReport>> {
        let jobs = self.store.jobs()?;
        self.watched
            .retain(|path, _| jobs.iter().any(|job| job.path == *path));
        for job in jobs {
            let claimed = match self.claim(&job) {
                // The primary removed the job meanwhile.
                Err(error) if error.is_path_not_found() => continue,
                claimed => claimed?,
            };
            if let Some((attempt, claim)) = claimed {
                return self.run(&job, attempt, claim).map(Some);
            }
        }
        Ok(None)
    }

    /// Claims the next attempt of a job; `None` if it is withdrawn, running, or claimed by another.
    fn claim(&mut self, job: &Job) -> Result<Option<(u32, Claim)>> {
        let now = self.clock().now();
        let Some(progress) = job.progress()? else {
            return Ok(None);
        };
        let watch = self.watched.entry(job.path.clone());
        let watch = watch.or_insert_with(|| Watch::begin(progress, now));
        let idle = watch.observe(progress, now);
        if !progress.may_claim(idle, self.beat_interval * MISSED_BEATS_MAX) {
            return Ok(None);
        }
        let attempt = progress.attempts + 1;
        let claim = job.claim(attempt, &self.name)?;
        Ok(claim.map(|claim| (attempt, claim)))
    }

    /// Runs a claimed attempt, writes its result, and reports its outcome.
    fn run(&self, job: &Job, attempt: u32, claim: Claim) -> Result<JobReport> {
        let begun = self.clock().now();
        let input = job.input();
        let database = input.as_ref().ok().map(|(database, _)| database.clone());
        let compacted = input.and_then(|(database, input)| {
            self.with_beats(claim, || {
                let output = job.tables(attempt);
                Db::open_and_compact(&self.overrides, &database, output, &input)
            })
        });
        let message = match &compacted {
            Ok(message) => message.clone(),
            Err(error) => compaction_failure_result(error),
        };
        // A primary removes the tables as soon as it has taken them.
        let (table_count, table_bytes) = match &compacted {
            Ok(_) => job.output(attempt).unwrap_or_default(),
            Err(_) => (0, 0),
        };
        let outcome = if !job.exists()? {
            JobOutcome::Withdrawn
        } else {
            match (job.write_result(attempt, &message), compacted) {
                (Ok(()), Ok(_)) => JobOutcome::Completed,
                (Ok(()), Err(error)) => JobOutcome::Failed(error),
                (Err(_), _) if !job.exists()? => JobOutcome::Withdrawn,
                (Err(error), _) => return Err(error),
            }
        };
        Ok(JobReport {
            job: job.id.clone(),
            attempt,
            database,
            table_count,
            table_bytes,
            elapsed: self.clock().now().saturating_sub(begun),
            outcome,
        })
    }

    /// Runs `work` while another thread appends heartbeats to the claim.
    fn with_beats<T>(&self, mut claim: Claim, work: impl FnOnce() -> T) -> T {
        let interval = self.beat_interval;
        let (end, ended) = mpsc::channel::<()>();
        std::thread::scope(move |scope| {
            scope.spawn(move || {
                while ended.recv_timeout(interval) == Err(mpsc::RecvTimeoutError::Timeout) {
                    // A beat that fails is a missed one.
                    let _ = claim.beat();
                }
            });
            let result = work();
            drop(end);
            result
        })
    }
}
