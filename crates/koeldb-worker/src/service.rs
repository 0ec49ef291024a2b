//! The compaction service of a primary: jobs in a directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use koeldb::fs::Clock;
use koeldb::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceScheduleResponse, CompactionServiceWaitResponse, Env, Result,
};

use crate::store::{Job, Progress, Store, Watch};

/// A [`CompactionService`] that leaves jobs in a directory, for workers that share it.
///
/// A database needs a service of its own: closing it cancels all jobs of its service. Several
/// services and any number of workers may use the same directory.
pub struct DirectoryService {
    store: Store,
    clock: Arc<dyn Clock>,
    poll_interval: Duration,
    worker_timeout: Duration,
    state: Mutex<State>,
    /// Wakes waiting calls when jobs are cancelled.
    cancelled: Condvar,
}

/// The maximum number of halvings of the wait for a worker after jobs that no worker took.
const HALVINGS_MAX: u32 = 4;

/// The sessions and jobs of a service, under its mutex.
#[derive(Default)]
struct State {
    /// The sessions that have scheduled jobs, and whether they are being closed.
    sessions: BTreeMap<String, bool>,
    /// The jobs that have not ended, by their ids.
    jobs: BTreeMap<String, Running>,
    /// The number of jobs in succession that no worker took.
    unclaimed: u32,
}

/// A job that has not ended, with the database session that scheduled it.
#[derive(Clone)]
struct Running {
    job: Job,
    session: String,
}

impl DirectoryService {
    /// Opens the compaction service on a directory for its jobs, created if it does not exist.
    ///
    /// # Errors
    /// If the directory cannot be created, or the path is not a directory.
    pub fn open(env: &Env, directory: impl AsRef<Path>) -> Result<Self> {
        Ok(DirectoryService {
            store: Store::open(env.file_system(), directory.as_ref(), true)?,
            clock: Arc::clone(env.clock()),
            poll_interval: Duration::from_millis(100),
            worker_timeout: Duration::from_secs(30),
            state: Mutex::default(),
            cancelled: Condvar::new(),
        })
    }

    /// Sets the interval in which results are looked for; 100 ms by default.
    pub fn set_poll_interval(&mut self, interval: Duration) -> &mut Self {
        self.poll_interval = interval;
        self
    }

    /// Sets the time after which a job without a sign of a worker runs locally; 30 s by default.
    ///
    /// Signs are that a worker takes the job, and its beats. The timeout should be longer than the
    /// time after which workers take a job over from each other
    /// ([`crate::Worker::set_beat_interval`]).
    ///
    /// After a job that no worker took, the next one waits half as long for a worker, down to a
    /// sixteenth of the timeout, until a worker takes a job again.
    pub fn set_worker_timeout(&mut self, timeout: Duration) -> &mut Self {
        self.worker_timeout = timeout;
        self
    }

    /// Locks the sessions and jobs.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the files of a job; the first one of a session removes those of earlier sessions.
    ///
    /// Returns `None` if the session is closing.
    fn create(&self, info: &CompactionServiceJobInfo, input: &[u8]) -> Result<Option<Job>> {
        let session = &info.db_session_id;
        let (is_new, is_closing) = {
            let mut state = self.state();
            let known = state.sessions.get(session).copied();
            state.sessions.entry(session.clone()).or_default();
            (known.is_none(), known == Some(true))
        };
        if is_closing {
            return Ok(None);
        }
        let prefix = format!("{session}-");
        let job = self
            .store
            .job(&info.db_id, &format!("{prefix}{:08}", info.job_id))?;
        if is_new {
            // Only one process has the database open, so nobody waits for these.
            for old in self.store.jobs_of(&info.db_id)? {
                if !is_of_session(&old, &prefix) {
                    // Files that a worker still writes are removed after the next open.
                    let _ = old.remove();
                }
            }
        }
        let database = info.db_path.to_string_lossy();
        let created = std::path::absolute(&*database)
            .map_err(|error| koeldb::Error::io(error, "resolve", &info.db_path))
            .and_then(|path| job.create(&path.to_string_lossy(), input));
        if let Err(error) = created {
            let _ = job.remove();
            return Err(error);
        }
        let running = Running {
            job: job.clone(),
            session: session.clone(),
        };
        self.state().jobs.insert(job.id.clone(), running);
        Ok(Some(job))
    }

    /// Removes a job that has ended, and its files.
    fn end(&self, id: &str) {
        let running = self.state().jobs.remove(id);
        if let Some(running) = running {
            // Files that a worker still writes are removed after the next open.
            let _ = running.job.remove();
        }
    }

    /// Polls for the result of a job until it exists, the worker is lost, or the session closes.
    fn wait_for(&self, running: &Running) -> CompactionServiceWaitResponse {
        let local = CompactionServiceWaitResponse::Ended(CompactionServiceJobStatus::UseLocal);
        let mut watch = Watch::begin(Progress::default(), self.clock.now());
        let unclaimed = self.state().unclaimed;
        let claim_timeout = self.worker_timeout / (1 << unclaimed.min(HALVINGS_MAX));
        loop {
            let Ok(Some(progress)) = running.job.progress() else {
                return local;
            };
            if progress.attempts > 0 {
                self.state().unclaimed = 0;
            }
            if let Some(attempt) = progress.result {
                return match running.job.result(attempt) {
                    Ok(result) => CompactionServiceWaitResponse::Completed {
                        result,
                        output_directory: running.job.tables(attempt),
                    },
                    Err(_) => local,
                };
            }
            let idle = watch.observe(progress, self.clock.now());
            let mut state = self.state();
            if progress.attempts == 0 && idle >= claim_timeout {
                // Jobs that waited together count once.
                state.unclaimed = state.unclaimed.max(unclaimed.saturating_add(1));
                return local;
            }
            if idle >= self.worker_timeout {
                return local;
            }
            let is_closing = |state: &State| state.sessions.get(&running.session) == Some(&true);
            let waited = self
                .cancelled
                .wait_timeout_while(state, self.poll_interval, |state| !is_closing(state));
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if is_closing(&state) {
                return CompactionServiceWaitResponse::Ended(CompactionServiceJobStatus::Aborted);
            }
        }
    }
}

/// Whether the directory of a job is named with the prefix of a session.
fn is_of_session(job: &Job, prefix: &str) -> bool {
    let name = job.path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(prefix))
}

impl CompactionService for DirectoryService {
    fn schedule(
        &self,
        info: &CompactionServiceJobInfo,
        input: &[u8],
    ) -> CompactionServiceScheduleResponse {
        use CompactionServiceScheduleResponse::{Refused, Scheduled};
        match self.create(info, input) {
            Ok(Some(job)) => Scheduled { job_id: job.id },
            Ok(None) => Refused(CompactionServiceJobStatus::Aborted),
            Err(_) => Refused(CompactionServiceJobStatus::UseLocal),
        }
    }

    fn wait(&self, job_id: &str) -> CompactionServiceWaitResponse {
        let running = self.state().jobs.get(job_id).cloned();
        let answer = match &running {
            Some(running) => self.wait_for(running),
            None => CompactionServiceWaitResponse::Ended(CompactionServiceJobStatus::UseLocal),
        };
        if matches!(answer, CompactionServiceWaitResponse::Ended(_)) {
            self.end(job_id);
        }
        answer
    }

    fn cancel_awaiting_jobs(&self) {
        self.state().sessions.values_mut().for_each(|it| *it = true);
        self.cancelled.notify_all();
    }

    fn on_installation(&self, job_id: &str, _: CompactionServiceJobStatus) {
        self.end(job_id);
    }
}
