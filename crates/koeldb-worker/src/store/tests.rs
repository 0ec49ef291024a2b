use koeldb::fs::MemoryFileSystem;

use super::*;

fn store() -> (Store, MemoryFileSystem) {
    let memory = MemoryFileSystem::new();
    let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
    (Store::open(&fs, Path::new("/jobs"), true).unwrap(), memory)
}

#[test]
fn a_job_is_claimed_once_an_attempt_and_again_when_its_worker_is_lost() {
    let (store, _) = store();
    let job = store.job("db", "job-1").unwrap();
    assert_eq!(job.progress().unwrap(), None);
    job.create("/db", b"input").unwrap();
    assert_eq!(job.input().unwrap(), ("/db".into(), b"input".to_vec()));
    assert_eq!(store.jobs().unwrap().len(), 1);

    let limit = Duration::from_secs(15);
    let mut seen = job.progress().unwrap().unwrap();
    let mut watch = Watch::begin(seen, Duration::ZERO);
    for attempt in 1..=ATTEMPTS_MAX {
        let now = limit * 2 * attempt;
        let idle = watch.observe(seen, now);
        assert!(seen.may_claim(idle, limit), "attempt {attempt}");
        assert_eq!(seen.attempts + 1, attempt);
        let mut claim = job.claim(attempt, "first").unwrap().unwrap();
        assert!(job.claim(attempt, "second").unwrap().is_none());
        seen = job.progress().unwrap().unwrap();
        assert!(!seen.may_claim(watch.observe(seen, now), limit));
        // A beat starts the time anew.
        claim.beat().unwrap();
        seen = job.progress().unwrap().unwrap();
        assert!(!seen.may_claim(watch.observe(seen, now + limit), limit));
    }
    // A job that kills every worker is not tried forever.
    assert!(!seen.may_claim(limit * 100, limit));
}

#[test]
fn the_result_of_any_attempt_counts_and_ends_the_job() {
    let (store, memory) = store();
    let job = store.job("db", "job-1").unwrap();
    job.create("/db", b"input").unwrap();
    for attempt in 1..=2 {
        job.claim(attempt, "worker").unwrap().unwrap();
    }
    assert_eq!(job.progress().unwrap().unwrap().result, None);
    job.write_result(1, b"late").unwrap();
    let seen = job.progress().unwrap().unwrap();
    assert_eq!(seen.result, Some(1));
    assert!(!seen.may_claim(Duration::MAX, Duration::ZERO));
    assert_eq!(job.result(1).unwrap(), b"late");
    job.remove().unwrap();
    assert_eq!(job.progress().unwrap(), None);
    assert_eq!(memory.list(Path::new("/jobs/db")).unwrap().len(), 0);
    job.remove().unwrap();
}

#[test]
fn names_that_are_paths_and_other_mounts_are_refused() {
    let (store, memory) = store();
    for name in ["", "..", "a/b", "a b", "a.b"] {
        assert!(store.job(name, "job").is_err(), "{name:?}");
        assert!(store.job("db", name).is_err(), "{name:?}");
    }
    let job = store.job("db", "job-1").unwrap();
    job.create("/db", b"input").unwrap();
    job.write(&job.path, "directory", b"/elsewhere/db/job-1")
        .unwrap();
    let error = job.input().unwrap_err();
    assert!(error.to_string().contains("/elsewhere"), "{error}");
    // Files that are no jobs are left alone.
    memory
        .create_dir_all(Path::new("/jobs/lost+found"))
        .unwrap();
    memory.create_dir_all(Path::new("/jobs/db/a.tmp")).unwrap();
    assert_eq!(store.jobs().unwrap().len(), 1);
}
