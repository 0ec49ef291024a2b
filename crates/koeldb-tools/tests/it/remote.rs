//! Remote compactions of the tools: `ldb` as primary and as worker, `db_bench`.

use super::{Scratch, fail, run, succeed};

/// A database whose tables overlap, and the directory of a job.
struct Job {
    scratch: Scratch,
    job_dir: String,
}

impl Job {
    fn new() -> koeldb::Result<Self> {
        let scratch = Scratch::new();
        let mut options = koeldb::Options::new();
        options
            .create_if_missing(true)
            .set_disable_auto_compactions(true);
        let db = koeldb::Db::open(&options, scratch.0.join("db"))?;
        for round in 0..3 {
            for key in 0..100 {
                db.put(format!("key{key}"), format!("value{round}"))?;
            }
            db.delete_range("key5", "key6")?;
            db.flush()?;
        }
        db.close()?;
        let job_dir = scratch.0.join("job");
        std::fs::create_dir(&job_dir).expect("a directory");
        let job_dir = format!("--job_dir={}", job_dir.display());
        Ok(Job { scratch, job_dir })
    }

    fn words<'a>(&'a self, db: &'a str, command: &'a str) -> [&'a str; 3] {
        [db, &self.job_dir, command]
    }
}

#[test]
fn a_primary_and_a_worker_share_the_directory_of_a_job() {
    let job = Job::new().unwrap();
    let db = job.scratch.db();
    let before = succeed("ldb", &[&db, "scan"]);
    assert_eq!(before.lines().count(), 89);
    std::thread::scope(|scope| {
        let worker = || succeed("ldb", &job.words(&db, "remote_compaction_worker"));
        let worker = scope.spawn(worker);
        let compacted = succeed("ldb", &job.words(&db, "remote_compaction_primary"));
        assert_eq!(compacted, "remote_compaction_primary: OK\n");
        let worked = worker.join().unwrap();
        assert!(
            worked.starts_with("remote_compaction_worker: OK ("),
            "{worked}"
        );
    });
    assert!(job.scratch.0.join("job/output/LOG").is_file());
    assert_eq!(succeed("ldb", &[&db, "scan"]), before);
    let tables = succeed("ldb", &[&db, "list_live_files_metadata", "--json"]);
    assert_eq!(tables.matches(".sst").count(), 1, "{tables}");
    let again = fail("ldb", &job.words(&db, "remote_compaction_primary"));
    assert!(again.contains("--job_dir"), "{again}");
}

#[test]
fn a_primary_compacts_itself_and_fails_if_its_worker_does() {
    let job = Job::new().unwrap();
    let db = job.scratch.db();
    let before = succeed("ldb", &[&db, "scan"]);
    let elsewhere = format!("{db}-elsewhere");
    std::thread::scope(|scope| {
        let worker = || fail("ldb", &job.words(&elsewhere, "remote_compaction_worker"));
        let worker = scope.spawn(worker);
        let (success, _, error) = run("ldb", &job.words(&db, "remote_compaction_primary"));
        assert!(!success && error.contains("ran locally"), "{error}");
        let error = worker.join().unwrap();
        assert!(error.contains("OpenAndCompact: "), "{error}");
    });
    assert_eq!(succeed("ldb", &[&db, "scan"]), before);
}

#[test]
fn the_compaction_of_a_worker_is_measured() {
    let scratch = Scratch::new();
    let db = scratch.db();
    let place = format!("--secondary_path={}", scratch.file("output"));
    let words = [
        &db,
        "--benchmarks=fillrandom,flush,openandcompact,openandcompact,readrandom",
        "--num=1000",
        "--disable_auto_compactions",
        "--threads=2",
    ];
    let error = fail("db_bench", &words);
    assert!(error.contains("--secondary_path"), "{error}");
    let out = succeed("db_bench", &[&words[..], &[&place]].concat());
    assert_eq!(out.matches("Input files: 1 files, ").count(), 2, "{out}");
    assert_eq!(out.matches("OpenAndCompact status: OK").count(), 2, "{out}");
    assert_eq!(
        out.matches("Output: 1 files, average size: ").count(),
        2,
        "{out}"
    );
    // The database did not change.
    let tables = succeed("ldb", &[&db, "list_live_files_metadata", "--json"]);
    assert!(tables.contains("\"level\":0"), "{tables}");
}

#[test]
fn compactions_of_a_benchmark_run_in_workers() {
    let scratch = Scratch::new();
    // A directory of somebody else.
    let other = scratch.0.join("db-jobs");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("koel"), "1").unwrap();
    let words = [
        &scratch.db(),
        "--benchmarks=fillrandom,waitforcompaction,compact,readrandom",
        "--num=20000",
        "--write_buffer_size=65536",
        "--compaction_workers=2",
    ];
    let out = succeed("db_bench", &words);
    let (_, figures) = out.split_once("Compaction workers: ").unwrap();
    let (jobs, rest) = figures.split_once(" jobs, ").unwrap();
    assert!(jobs.parse::<u64>().unwrap() > 0, "{figures}");
    assert!(rest.starts_with("0 failed, "), "{figures}");
    assert!(out.contains("readrandom"), "{out}");
    assert!(other.join("koel").exists());
    let entries = std::fs::read_dir(&scratch.0).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut left: Vec<String> = names.filter(|name| name.starts_with("db-")).collect();
    left.retain(|name| name != "db-jobs");
    assert!(left.is_empty(), "{left:?}");
}
