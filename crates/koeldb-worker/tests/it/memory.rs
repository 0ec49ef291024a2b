//! The primary and its workers in one process, on a memory file system.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb::fs::file::{Purpose, WriteOptions};
use koeldb::fs::{Clock, FileSystem, ManualClock, MemoryFileSystem, SystemClock};
use koeldb::{
    BoxError, CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceScheduleResponse, CompactionServiceWaitResponse, Db, Env, MergeOperands,
    MergeOperator, Options,
};
use koeldb_worker::{DirectoryService, JobOutcome, Worker};

/// Counts the results that were installed.
pub(crate) struct Counted {
    pub(crate) service: DirectoryService,
    pub(crate) ended: Arc<Mutex<Vec<CompactionServiceJobStatus>>>,
}

impl CompactionService for Counted {
    fn schedule(
        &self,
        info: &CompactionServiceJobInfo,
        input: &[u8],
    ) -> CompactionServiceScheduleResponse {
        self.service.schedule(info, input)
    }

    fn wait(&self, job_id: &str) -> CompactionServiceWaitResponse {
        let answer = self.service.wait(job_id);
        if let CompactionServiceWaitResponse::Ended(status) = &answer {
            self.ended.lock().unwrap().push(*status);
        }
        answer
    }

    fn cancel_awaiting_jobs(&self) {
        self.service.cancel_awaiting_jobs();
    }

    fn on_installation(&self, job_id: &str, status: CompactionServiceJobStatus) {
        self.service.on_installation(job_id, status);
        self.ended.lock().unwrap().push(status);
    }
}

pub(crate) fn fill(db: &Db, from: u32) {
    for number in from..from + 500 {
        db.put(format!("key{:05}", number % 700), vec![b'v'; 100])
            .unwrap();
    }
    db.flush().unwrap();
}

fn memory() -> (MemoryFileSystem, Env) {
    let memory = MemoryFileSystem::new();
    let env = Env::new(Arc::new(memory.clone()), Arc::new(SystemClock));
    (memory, env)
}

fn open(
    env: &Env,
    options: &mut Options,
    worker_timeout: Duration,
) -> (Db, Arc<Mutex<Vec<CompactionServiceJobStatus>>>) {
    let mut service = DirectoryService::open(env, "/jobs").unwrap();
    service
        .set_poll_interval(Duration::from_millis(1))
        .set_worker_timeout(worker_timeout);
    let ended = Arc::default();
    options.create_if_missing(true).set_env(env);
    options.set_compaction_service(Counted {
        service,
        ended: Arc::clone(&ended),
    });
    (Db::open(options, "/db").unwrap(), ended)
}

#[test]
fn a_job_that_no_worker_takes_runs_locally_and_leaves_nothing() {
    let (memory, env) = memory();
    let (db, ended) = open(&env, &mut Options::default(), Duration::from_millis(50));
    fill(&db, 0);
    fill(&db, 300);
    db.compact_range(..).unwrap();
    assert_eq!(db.range(..).count(), 700);
    assert!(
        ended
            .lock()
            .unwrap()
            .contains(&CompactionServiceJobStatus::UseLocal)
    );
    let identity = db.identity().to_owned();
    db.close().unwrap();
    let left = memory.list(format!("/jobs/{identity}").as_ref()).unwrap();
    assert!(left.is_empty(), "{left:?}");
}

/// A clock that advances by a second with each reading.
#[derive(Clone, Debug, Default)]
struct Ticking(ManualClock);

impl Clock for Ticking {
    fn now(&self) -> Duration {
        self.0.advance(Duration::from_secs(1));
        self.0.now()
    }

    fn unix_micros(&self) -> u64 {
        self.0.unix_micros()
    }

    fn sleep(&self, duration: Duration) {
        self.0.sleep(duration);
    }
}

/// A service that keeps the description of a job.
struct Described(Arc<Mutex<Option<CompactionServiceJobInfo>>>);

impl CompactionService for Described {
    fn schedule(
        &self,
        info: &CompactionServiceJobInfo,
        _: &[u8],
    ) -> CompactionServiceScheduleResponse {
        *self.0.lock().unwrap() = Some(info.clone());
        CompactionServiceScheduleResponse::Refused(CompactionServiceJobStatus::UseLocal)
    }

    fn wait(&self, _: &str) -> CompactionServiceWaitResponse {
        unreachable!("no job was scheduled")
    }
}

/// Returns the description of a job of some database.
fn described_job() -> CompactionServiceJobInfo {
    let (_, env) = memory();
    let info = Arc::default();
    let mut options = Options::default();
    options.create_if_missing(true).set_env(&env);
    options.set_compaction_service(Described(Arc::clone(&info)));
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 0);
    fill(&db, 300);
    db.compact_range(..).unwrap();
    db.close().unwrap();
    info.lock().unwrap().take().unwrap()
}

#[test]
fn jobs_wait_for_a_worker_half_as_long_after_each_that_none_took() {
    let memory = MemoryFileSystem::new();
    let clock = Ticking::default();
    let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
    let mut service =
        DirectoryService::open(&Env::new(fs, Arc::new(clock.clone())), "/jobs").unwrap();
    service
        .set_poll_interval(Duration::ZERO)
        .set_worker_timeout(Duration::from_secs(320));
    let mut info = described_job();
    let mut number = 0;
    let mut wait = |claims: bool| {
        number += 1;
        info.job_id = number;
        let CompactionServiceScheduleResponse::Scheduled { job_id } = service.schedule(&info, b"")
        else {
            panic!("refused");
        };
        if claims {
            let attempt = Path::new("/jobs").join(&job_id).join("1");
            memory.create_dir_all(&attempt).unwrap();
            let claim = memory.create(&attempt.join("claim"), &WriteOptions::new(Purpose::Other));
            claim.unwrap().close().unwrap();
        }
        let begun = clock.0.now();
        let answer = service.wait(&job_id);
        let local = CompactionServiceJobStatus::UseLocal;
        assert_eq!(answer, CompactionServiceWaitResponse::Ended(local));
        (clock.0.now() - begun).as_secs() / 10 * 10
    };
    let waits: Vec<u64> = (0..6).map(|_| wait(false)).collect();
    assert_eq!(waits, [320, 160, 80, 40, 20, 20]);
    // A worker that takes a job and dies is waited for.
    assert_eq!(wait(true), 320);
    assert_eq!([wait(false), wait(false)], [320, 160]);
}

/// A merge operator that no OPTIONS file can create.
struct Own;

impl MergeOperator for Own {
    fn name(&self) -> &str {
        "test.Own"
    }

    fn full_merge(
        &self,
        _: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        result.extend_from_slice(existing.unwrap_or_default());
        operands
            .into_iter()
            .for_each(|operand| result.extend_from_slice(operand));
        Ok(())
    }
}

#[test]
fn a_worker_needs_the_objects_of_the_database() {
    for has_operator in [false, true] {
        let (_, env) = memory();
        let mut options = Options::default();
        options.set_merge_operator(Own);
        let (db, _) = open(&env, &mut options, Duration::from_secs(1));
        fill(&db, 0);
        fill(&db, 300);
        db.merge("key00001", "x").unwrap();
        db.flush().unwrap();
        let mut overrides = Options::default();
        overrides.set_env(&env);
        if has_operator {
            overrides.set_merge_operator(Own);
        }
        let report = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut worker = Worker::new(&overrides, "/jobs", "one").unwrap();
                loop {
                    if let Some(report) = worker.run_one().unwrap() {
                        break report;
                    }
                    std::thread::yield_now();
                }
            });
            // A job may have timed out before the worker ran.
            while !worker.is_finished() {
                fill(&db, 100);
                db.compact_range(..).unwrap();
            }
            worker.join().unwrap()
        });
        match report.outcome {
            JobOutcome::Completed => assert!(has_operator && report.table_count > 0),
            JobOutcome::Failed(error) => assert!(!has_operator, "{error}"),
            _ => {}
        }
        let value = db.get("key00001").unwrap().unwrap();
        assert!(value.ends_with(b"v") || value.ends_with(b"x"));
        db.close().unwrap();
    }
}

#[test]
fn a_close_does_not_wait_for_workers_and_the_next_open_removes_their_jobs() {
    let (memory, env) = memory();
    let mut options = Options::default();
    options
        .create_if_missing(true)
        .set_env(&env)
        .set_level_zero_file_num_compaction_trigger(2);
    let mut service = DirectoryService::open(&env, "/jobs").unwrap();
    service.set_worker_timeout(Duration::from_secs(3_600));
    options.set_compaction_service(service);
    let db = Db::open(&options, "/db").unwrap();
    let jobs = format!("/jobs/{}", db.identity());
    // Of a session that crashed.
    let old = format!("{jobs}/OLD-1/1/tables");
    memory.create_dir_all(old.as_ref()).unwrap();
    fill(&db, 0);
    fill(&db, 300);
    let is_waiting = || {
        let entries = memory.list(jobs.as_ref()).unwrap();
        entries.iter().any(|entry| {
            let input = format!("{jobs}/{}/input", entry.name);
            memory.exists(input.as_ref()).unwrap()
        })
    };
    while !is_waiting() {
        std::thread::yield_now();
    }
    db.close().unwrap();
    let left = memory.list(jobs.as_ref()).unwrap();
    assert!(left.is_empty(), "{left:?}");
}
