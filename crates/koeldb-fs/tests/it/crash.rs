//! Crash images of the in-memory file system.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use koeldb_base::error::ErrorDetail;
use koeldb_fs::small_file::{create_dir_durably, write_atomically};
use koeldb_fs::{FileSystem, MemoryFileSystem, OpenOptions, Purpose, SurvivalPolicy, WriteOptions};

const UNBUFFERED: WriteOptions = WriteOptions {
    purpose: Purpose::Wal,
    buffer_bytes: 0,
    direct: false,
    preallocate_bytes: 0,
    bytes_per_sync: 0,
    strict_bytes_per_sync: false,
    full_sync: false,
    temperature: 0,
};

fn read(fs: &MemoryFileSystem, path: &str) -> Option<Vec<u8>> {
    fs.read_all(Path::new(path), 1 << 24, Purpose::Read).ok()
}

/// `/db/synced` has 5000 durable ones and 9000 unsynced twos; `/db/new` is synced, its entry is
/// not.
fn example() -> MemoryFileSystem {
    let fs = MemoryFileSystem::new();
    create_dir_durably(&fs, Path::new("/db")).unwrap();
    let mut file = fs.create(Path::new("/db/synced"), &UNBUFFERED).unwrap();
    file.append(&[1; 5000]).unwrap();
    file.sync_data().unwrap();
    fs.sync_dir(Path::new("/db")).unwrap();
    file.append(&[2; 4000]).unwrap();
    file.append(&[2; 5000]).unwrap();
    file.close().unwrap();
    let mut file = fs.create(Path::new("/db/new"), &UNBUFFERED).unwrap();
    file.append(&[3; 100]).unwrap();
    file.sync_all().unwrap();
    file.close().unwrap();
    fs
}

#[test]
fn what_was_synced_survives_every_policy() {
    let fs = example();
    for policy in SurvivalPolicy::ALL {
        for seed in 0..50 {
            let image = fs.crash_image(policy, seed);
            let bytes = read(&image, "/db/synced").unwrap();
            assert!(bytes.len() >= 5000, "{policy:?} seed {seed}");
            assert!(bytes[..5000].iter().all(|&byte| byte == 1));
            assert!(bytes[5000..].iter().all(|&byte| byte == 2 || byte == 0));
            if let Some(new) = read(&image, "/db/new") {
                assert_eq!(new, [3; 100], "{policy:?} seed {seed}");
            }
            for depth in SurvivalPolicy::ALL {
                let second = image.crash_image(depth, seed);
                assert_eq!(read(&second, "/db/synced").unwrap(), bytes);
            }
        }
    }
}

#[test]
fn each_policy_leaves_what_it_says() {
    let fs = example();
    let image = |policy| {
        let image = fs.crash_image(policy, 1);
        let synced = read(&image, "/db/synced").unwrap();
        (synced, read(&image, "/db/new").is_some())
    };
    let old = vec![1; 5000];
    let all = [vec![1; 5000], vec![2; 9000]].concat();
    let zeros = [vec![1; 5000], vec![0; 9000]].concat();
    assert_eq!(image(SurvivalPolicy::Strict), (old.clone(), false));
    assert_eq!(image(SurvivalPolicy::Generous), (all.clone(), true));
    assert_eq!(image(SurvivalPolicy::LengthFirst), (zeros, true));
    assert_eq!(image(SurvivalPolicy::EntriesWithoutData), (old, true));
    assert_eq!(image(SurvivalPolicy::DataWithoutEntries), (all, false));
}

#[test]
fn torn_prefixes_cut_at_every_kind_of_place() {
    let fs = example();
    let mut lengths = Vec::new();
    let mut new = [0, 0];
    for seed in 0..200 {
        let image = fs.crash_image(SurvivalPolicy::TornPrefix, seed);
        let bytes = read(&image, "/db/synced").unwrap();
        assert!(bytes[5000..].iter().all(|&byte| byte == 2), "no holes");
        let has_new = read(&image, "/db/new").is_some();
        assert!(
            !has_new || bytes.len() == 14_000,
            "later operations need the earlier"
        );
        new[usize::from(has_new)] += 1;
        lengths.push(bytes.len());
    }
    assert!(lengths.iter().any(|&len| len > 5000 && len < 9000));
    assert!(lengths.iter().any(|&len| len > 9000 && len < 14_000));
    assert!(new[0] > 0 && new[1] > 0);
}

#[test]
fn pages_survive_one_by_one() {
    let fs = example();
    let mut holes = 0;
    for seed in 0..100 {
        let policy = SurvivalPolicy::Pages {
            unit_bytes: 512,
            percent: 50,
        };
        let bytes = read(&fs.crash_image(policy, seed), "/db/synced").unwrap();
        let kept = bytes[5000..].iter().rposition(|&byte| byte == 2);
        if let Some(last) = kept
            && bytes[5000..5000 + last].contains(&0)
        {
            holes += 1;
        }
    }
    assert!(holes > 50);
}

#[test]
fn reordering_keeps_later_files_and_loses_earlier_ones() {
    let fs = MemoryFileSystem::new();
    let paths = ["/1.log", "/2.log", "/3.log"];
    for path in paths {
        let mut file = fs.create(Path::new(path), &UNBUFFERED).unwrap();
        file.append(b"record").unwrap();
        file.close().unwrap();
    }
    fs.sync_dir(Path::new("/")).unwrap();
    let mut seen = BTreeMap::new();
    for seed in 0..100 {
        let image = fs.crash_image(SurvivalPolicy::Reordered, seed);
        let lens = paths.map(|path| read(&image, path).unwrap().len());
        assert!(lens.is_sorted(), "{lens:?}");
        *seen.entry(lens).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn cut_and_extended_files_can_show_what_they_held() {
    let fs = MemoryFileSystem::new();
    let path = Path::new("/f");
    let mut file = fs.create(path, &UNBUFFERED).unwrap();
    file.append(b"previous content").unwrap();
    file.sync_all().unwrap();
    file.close().unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    fs.truncate(path, 0).unwrap();
    let mut file = fs.append(path, &UNBUFFERED).unwrap();
    file.append(b"NEW").unwrap();
    file.close().unwrap();
    let image = fs.crash_image(SurvivalPolicy::StaleReuse, 1);
    assert_eq!(read(&image, "/f").unwrap(), b"pre");
    let strict = fs.crash_image(SurvivalPolicy::Strict, 1);
    assert_eq!(read(&strict, "/f").unwrap(), b"previous content");
}

#[test]
fn names_are_durable_only_through_their_directory() {
    let fs = MemoryFileSystem::new();
    fs.create_dir_all(Path::new("/db/archive")).unwrap();
    let strict = fs.crash_image(SurvivalPolicy::Strict, 0);
    assert!(!strict.exists(Path::new("/db")).unwrap());
    fs.sync_dir(Path::new("/")).unwrap();
    fs.sync_dir(Path::new("/db")).unwrap();

    let mut file = fs.create(Path::new("/db/1.log"), &UNBUFFERED).unwrap();
    file.append(b"x").unwrap();
    file.sync_all().unwrap();
    // The sync of the target directory makes the move durable, and the creation too.
    fs.rename(Path::new("/db/1.log"), Path::new("/db/archive/1.log"))
        .unwrap();
    let strict = fs.crash_image(SurvivalPolicy::Strict, 0);
    assert!(strict.list(Path::new("/db/archive")).unwrap().is_empty());
    fs.sync_dir(Path::new("/db/archive")).unwrap();
    fs.remove_file(Path::new("/db/archive/1.log")).unwrap();
    let strict = fs.crash_image(SurvivalPolicy::Strict, 0);
    assert_eq!(read(&strict, "/db/archive/1.log").unwrap(), b"x");
    assert!(!strict.exists(Path::new("/db/1.log")).unwrap());
    let generous = fs.crash_image(SurvivalPolicy::Generous, 0);
    assert!(!generous.exists(Path::new("/db/archive/1.log")).unwrap());
}

#[test]
fn a_replaced_small_file_is_old_or_new_at_every_crash_point() {
    let start = || {
        let fs = MemoryFileSystem::new();
        create_dir_durably(&fs, Path::new("/db")).unwrap();
        write(&fs, b"old").unwrap();
        fs
    };
    fn write(fs: &MemoryFileSystem, bytes: &[u8]) -> koeldb_base::Result<()> {
        let (temporary, current) = (Path::new("/db/1.dbtmp"), Path::new("/db/CURRENT"));
        write_atomically(fs, temporary, current, bytes, Purpose::Manifest)
    }
    let mut crashes = 0;
    loop {
        let fs = start();
        crashes += 1;
        fs.arm_crash(fs.operation_count() + crashes);
        let finished = write(&fs, b"new").is_ok();
        assert_eq!(finished, !fs.has_crashed());
        for policy in SurvivalPolicy::ALL {
            for seed in 0..20 {
                let image = fs.crash_image(policy, seed);
                let found = read(&image, "/db/CURRENT").unwrap();
                assert!(found == b"new" || found == b"old" && !finished, "{found:?}");
                write(&image, b"after").unwrap();
                let second = image.crash_image(SurvivalPolicy::Strict, 0);
                assert_eq!(read(&second, "/db/CURRENT").unwrap(), b"after");
            }
        }
        if finished {
            break;
        }
    }
    assert!(crashes > 5, "{crashes} operations");
}

#[test]
fn after_the_crash_nothing_works_any_more() {
    let fs = example();
    let reader = fs
        .open(Path::new("/db/synced"), &OpenOptions::default())
        .unwrap();
    let mut writer = fs.append(Path::new("/db/synced"), &UNBUFFERED).unwrap();
    fs.arm_crash(fs.operation_count() + 2);
    writer.append(b"last").unwrap();
    assert!(!fs.has_crashed());
    assert!(writer.sync_data().is_err());
    assert!(fs.has_crashed());
    assert!(writer.append(b"more").is_err());
    assert!(writer.close().is_err());
    assert!(reader.read_at(0, &mut [0; 4]).is_err());
    assert!(fs.list(Path::new("/db")).is_err());
    assert!(fs.lock(Path::new("/db/LOCK")).is_err());
    let image = fs.crash_image(SurvivalPolicy::Generous, 0);
    assert!(read(&image, "/db/synced").unwrap().ends_with(b"last"));
    drop(image.lock(Path::new("/db/LOCK")).unwrap());
}

#[test]
fn an_observer_sees_the_moment_before_each_operation() {
    let fs = MemoryFileSystem::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    fs.observe_mutations(move |fs, operation| {
        let image = fs.crash_image(SurvivalPolicy::Generous, 0);
        let len = read(&image, "/f").map(|bytes| bytes.len());
        log.lock().unwrap().push((operation, len));
    });
    let mut file = fs.create(Path::new("/f"), &UNBUFFERED).unwrap();
    file.append(b"ab").unwrap();
    file.append(b"cd").unwrap();
    file.sync_data().unwrap();
    drop(file);
    assert_eq!(
        *seen.lock().unwrap(),
        [(1, None), (2, Some(0)), (3, Some(2)), (4, Some(4))]
    );
    assert_eq!(fs.operation_count(), 4);
}

#[test]
fn budgets_are_kept_and_space_comes_back() {
    let fs = MemoryFileSystem::new();
    fs.set_byte_budget(Some(100));
    let path = PathBuf::from("/f");
    let mut file = fs.create(&path, &UNBUFFERED).unwrap();
    file.append(&[1; 60]).unwrap();
    let error = file.append(&[2; 60]).unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::NoSpace));
    assert!(
        file.append(&[2; 1]).is_err(),
        "a file that failed stays failed"
    );
    assert_eq!(fs.bytes_used(), 100, "what fitted was written");
    assert_eq!(fs.free_space(&path).unwrap(), 0);
    assert!(fs.truncate(&path, 200).is_err());
    fs.remove_file(&path).unwrap();
    assert_eq!(fs.bytes_used(), 100, "it is still open");
    drop(file);
    assert_eq!(fs.bytes_used(), 0);

    fs.set_file_budget(Some(1));
    drop(fs.create(&path, &UNBUFFERED).unwrap());
    let error = fs.create(Path::new("/g"), &UNBUFFERED).unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::NoSpace));
    fs.remove_file(&path).unwrap();
    drop(fs.create(Path::new("/g"), &UNBUFFERED).unwrap());
}
