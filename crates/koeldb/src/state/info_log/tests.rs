use koeldb_fs::{ManualClock, MemoryFileSystem};

use super::*;

#[test]
fn times_are_utc() {
    assert_eq!(utc(0), "1970/01/01-00:00:00");
    assert_eq!(utc(951_826_509), "2000/02/29-12:15:09");
}

fn files(fs: &Arc<dyn FileSystem>) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = fs
        .list(Path::new("/db"))
        .unwrap()
        .into_iter()
        .map(|entry| {
            let path = Path::new("/db").join(&entry.name);
            let bytes = fs.read_all(&path, 1 << 20, Purpose::Other).unwrap();
            (entry.name, String::from_utf8(bytes).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Logs a header and twelve lines, a second apart.
fn log_with(limits: LogFileLimits) -> Vec<(String, String)> {
    let clock = Arc::new(ManualClock::new());
    let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
    fs.create_dir_all(Path::new("/db")).unwrap();
    let info_log = InfoLog::create(&fs, Path::new("/db/LOG"), Arc::clone(&clock) as _, limits);
    info_log.header(|| vec!["opened /db".to_owned()]);
    for index in 0..12 {
        clock.advance(std::time::Duration::from_secs(1));
        info_log.info(format_args!("line {index}"));
    }
    files(&fs)
}

const UNLIMITED: LogFileLimits = LogFileLimits {
    level: LogLevel::Info,
    bytes_max: 0,
    seconds_max: 0,
    files_max: 1000,
};

#[test]
fn a_file_without_limits_takes_all_lines() {
    let files = log_with(UNLIMITED);
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].1.lines().count(), 13);
}

#[test]
fn a_full_or_old_file_is_renamed_and_the_next_begins_with_the_header() {
    for limits in [
        LogFileLimits {
            bytes_max: 200,
            ..UNLIMITED
        },
        LogFileLimits {
            seconds_max: 4,
            ..UNLIMITED
        },
    ] {
        let files = log_with(limits);
        assert!(files.len() > 2, "{limits:?}: {files:?}");
        let mut lines = 0;
        for (name, text) in &files {
            assert!(name.starts_with("LOG"), "{name}");
            assert!(
                text.lines().next().unwrap().ends_with("opened /db"),
                "{text}"
            );
            lines += text.lines().count() - 1;
        }
        assert_eq!(lines, 12, "{limits:?}");
    }
}

#[test]
fn the_oldest_files_are_removed() {
    let files = log_with(LogFileLimits {
        bytes_max: 1,
        files_max: 3,
        ..UNLIMITED
    });
    assert_eq!(files.len(), 3);
    assert!(files[0].1.contains("line 11"), "{files:?}");
}
