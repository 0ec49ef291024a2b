//! The defaults that keep data safe, one by one (`docs/durability.md`).

use std::os::unix::fs::PermissionsExt;

use koeldb::{Db, ErrorKind, Options, RecoveryMode};

use crate::scratch::ScratchDir;

/// Options whose default is the safe value, as their text has it.
const SAFE: [(&str, &str); 14] = [
    ("paranoid_checks", "true"),
    ("force_consistency_checks", "true"),
    ("flush_verify_memtable_count", "true"),
    ("compaction_verify_record_count", "true"),
    ("verify_sst_unique_id_in_manifest", "true"),
    ("wal_recovery_mode", "kPointInTimeRecovery"),
    ("recycle_log_file_num", "0"),
    ("wal_bytes_per_sync", "0"),
    ("inplace_update_support", "false"),
    ("allow_mmap_reads", "false"),
    ("allow_mmap_writes", "false"),
    ("allow_data_in_errors", "false"),
    ("max_bgerror_resume_count", "2147483647"),
    ("bgerror_resume_retry_interval", "1000000"),
];

#[test]
fn the_safe_value_is_the_default() {
    let dir = ScratchDir::new();
    let mut options = Options::new();
    options.create_if_missing(true);
    Db::open(&options, dir.path()).unwrap().close().unwrap();
    let text = std::fs::read_to_string(dir.only("OPTIONS")).unwrap();
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))
    };
    for (name, safe) in SAFE {
        // An option that is not written has its default, which the option's own description has.
        if let Some(value) = value(name) {
            assert_eq!(value, safe, "{name}");
        }
    }
    assert_eq!(value("checksum"), Some("kXXH3"));
    assert_eq!(value("format_version"), Some("6"));
    let defaults = Options::new();
    assert!(defaults.get_paranoid_checks());
    assert_eq!(defaults.get_wal_recovery_mode(), RecoveryMode::PointInTime);
    assert_eq!(defaults.get_recycle_log_file_num(), 0);
    assert!(!defaults.get_allow_mmap_reads());
}

#[test]
fn others_may_not_look_into_a_new_database() {
    let parent = ScratchDir::new();
    let dir = parent.join("db");
    let mut options = Options::new();
    options.create_if_missing(true);
    let db = Db::open(&options, &dir).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    db.close().unwrap();
}

#[test]
fn a_new_file_follows_no_link() {
    let dir = ScratchDir::new();
    let elsewhere = dir.join("elsewhere");
    let inside = dir.join("db");
    std::fs::create_dir(&inside).unwrap();
    // The names of the first MANIFEST and the first log.
    for name in ["MANIFEST-000001", "000004.log", "CURRENT"] {
        std::os::unix::fs::symlink(&elsewhere, inside.join(name)).unwrap();
    }
    let mut options = Options::new();
    options.create_if_missing(true);
    let _ = Db::open(&options, &inside).map(|db| db.put("key", "value"));
    assert!(!elsewhere.exists(), "something was written through a link");
}

#[test]
fn what_is_no_regular_file_is_not_read() {
    let dir = ScratchDir::new();
    let mut options = Options::new();
    options.create_if_missing(true);
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let table = dir.only("sst");
    std::fs::remove_file(&table).unwrap();
    std::fs::create_dir(&table).unwrap();
    let error = Db::open(&options, dir.path()).unwrap_err();
    assert!(
        matches!(
            error.kind(),
            ErrorKind::Corruption | ErrorKind::IoError | ErrorKind::InvalidArgument
        ),
        "{error}"
    );
}

#[test]
fn errors_do_not_repeat_what_is_stored() {
    let dir = ScratchDir::new();
    let mut options = Options::new();
    options.create_if_missing(true);
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("a-secret-key", "a-secret-value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let table = dir.only("sst");
    let whole = std::fs::read(&table).unwrap();
    for at in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x21;
        std::fs::write(&table, damaged).unwrap();
        let outcome = Db::open(&options, dir.path()).and_then(|db| {
            db.verify_checksums()
                .and_then(|()| db.get("a-secret-key").map(|_| ()))
        });
        if let Err(error) = outcome {
            let text = format!("{error} {error:?}");
            assert!(!text.contains("secret"), "{text}");
        }
    }
}
