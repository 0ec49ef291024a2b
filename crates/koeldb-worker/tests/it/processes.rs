//! The primary in this process, and workers in processes of their own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use koeldb::{CompactionServiceJobStatus, Db, Env, Options};
use koeldb_worker::DirectoryService;

use crate::memory::{Counted, fill};

/// A directory that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("koeldb-worker-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::DirBuilder::new().create(&path).unwrap();
        Scratch(path.canonicalize().unwrap())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A worker process that is killed at the end.
struct Running(Child);

impl Running {
    fn start(jobs: &Path, arguments: &[&str]) -> Self {
        let child = command(jobs, arguments).stdout(Stdio::piped()).spawn();
        Running(child.unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(jobs: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_koeldb-worker"));
    command.arg("--store").arg(jobs).args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_koeldb-worker"));
    command.args(arguments).output().unwrap()
}

fn options(
    jobs: &Path,
) -> (
    Options,
    Arc<std::sync::Mutex<Vec<CompactionServiceJobStatus>>>,
) {
    let mut service = DirectoryService::open(&Env::default(), jobs).unwrap();
    service
        .set_poll_interval(Duration::from_millis(5))
        .set_worker_timeout(Duration::from_secs(600));
    let ended = Arc::default();
    let mut options = Options::default();
    options
        .create_if_missing(true)
        .set_disable_auto_compactions(true);
    options.set_compaction_service(Counted {
        service,
        ended: Arc::clone(&ended),
    });
    (options, ended)
}

#[test]
fn a_primary_and_a_worker_are_two_processes() {
    let scratch = Scratch::new("two");
    let jobs = scratch.0.join("jobs");
    let (options, ended) = options(&jobs);
    let db = Db::open(&options, scratch.0.join("db")).unwrap();
    let mut worker = Running::start(&jobs, &["--json", "--poll-millis=5", "--name=two"]);
    for round in 0..3 {
        fill(&db, round * 300);
        fill(&db, round * 300 + 100);
        db.compact_range(..).unwrap();
    }
    assert_eq!(db.range(..).count(), 700);
    db.verify_checksums().unwrap();
    let ended = ended.lock().unwrap().clone();
    assert_eq!(ended, [CompactionServiceJobStatus::Success; 3]);
    let mut lines = BufReader::new(worker.0.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains("\"outcome\":\"completed\""), "{line}");
        assert!(line.contains("\"attempt\":1"), "{line}");
        assert!(line.contains(db.identity()), "{line}");
    }
    db.close().unwrap();
    let db = Db::open(&options, scratch.0.join("db")).unwrap();
    assert_eq!(db.range(..).count(), 700);
    db.close().unwrap();
}

#[test]
fn a_killed_worker_is_replaced_and_nothing_is_lost() {
    let scratch = Scratch::new("killed");
    let jobs = scratch.0.join("jobs");
    let (options, ended) = options(&jobs);
    let db = Db::open(&options, scratch.0.join("db")).unwrap();
    fill(&db, 0);
    fill(&db, 300);
    let is_claimed = || {
        let path = jobs.join(db.identity());
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries
            .into_iter()
            .any(|job| job.path().join("1/claim").exists())
    };
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| db.compact_range(..));
        let killed = Running::start(&jobs, &["--poll-millis=1"]);
        // Killed with a claim, somewhere between its begin and the end of the job.
        while !is_claimed() && !compacting.is_finished() {
            std::thread::yield_now();
        }
        drop(killed);
        let arguments = ["--poll-millis=5", "--beat-millis=20"];
        let _next = Running::start(&jobs, &arguments);
        compacting.join().unwrap().unwrap();
    });
    assert_eq!(
        *ended.lock().unwrap(),
        [CompactionServiceJobStatus::Success]
    );
    assert_eq!(db.range(..).count(), 700);
    db.verify_checksums().unwrap();
    db.close().unwrap();
}

#[test]
fn the_program_explains_itself_and_names_what_is_wrong() {
    let help = String::from_utf8(output(&["--help"]).stdout).unwrap();
    for text in [
        "--store <DIR>",
        "--json",
        "--until-idle",
        "DirectoryService",
        "killed",
    ] {
        assert!(help.contains(text), "{text}: {help}");
    }
    for (arguments, text) in [
        (&["--store", "/nowhere/at/all"][..], "/nowhere/at/all"),
        (&["--store", "s3://bucket/jobs"], "object stores"),
        (&["--store", "/tmp", "--threads", "0"], "--threads"),
        (&["--threads", "2"], "--store"),
    ] {
        let output = output(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(text), "{arguments:?}: {error}");
    }
    let scratch = Scratch::new("idle");
    let idle = command(&scratch.0, &["--until-idle"]).output().unwrap();
    assert!(idle.status.success() && idle.stdout.is_empty());
}
