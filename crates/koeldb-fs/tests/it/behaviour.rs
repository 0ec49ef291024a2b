//! Behaviour common to all file systems, tested on each of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use koeldb_base::error::ErrorDetail;
use koeldb_base::{ErrorKind, PinnedSlice};
use koeldb_fs::small_file::{create_dir_durably, write_atomically};
use koeldb_fs::{
    AccessHint, AlignedBuffer, EntryKind, FaultFileSystem, FileSystem, LatencyFileSystem,
    ManualClock, MemoryFileSystem, OpenOptions, Purpose, TraceDetail, TraceFileSystem,
    WriteOptions,
};

type Behaviour = fn(&dyn FileSystem, &Path);

const BEHAVIOURS: &[Behaviour] = &[
    a_file_is_created_once_and_reads_back,
    appends_of_all_sizes_arrive_in_order_whatever_the_buffer,
    a_reopened_file_goes_on_at_its_end,
    a_reused_file_keeps_what_is_not_overwritten_until_it_is_closed,
    reads_are_short_only_at_the_end,
    a_dropped_file_is_closed,
    missing_paths_are_named_as_such,
    a_rename_replaces,
    links_are_names_of_one_file,
    a_removed_file_stays_readable_while_open,
    directories_nest_and_are_removed_empty,
    a_truncated_file_has_its_length,
    a_lock_excludes_until_it_is_dropped,
    mapped_files_pin_their_bytes,
    direct_reads_serve_any_request,
    small_files_are_replaced_whole,
    directories_are_no_files,
    space_is_left,
];

fn run_all(fs: &dyn FileSystem, root: &Path) {
    for (index, behaviour) in BEHAVIOURS.iter().enumerate() {
        let directory = root.join(format!("b{index}"));
        fs.create_dir_all(&directory).unwrap();
        behaviour(fs, &directory);
    }
}

#[test]
fn memory_behaves() {
    run_all(&MemoryFileSystem::new(), Path::new("/db"));
}

#[test]
#[cfg(unix)]
fn posix_behaves() {
    let scratch = crate::scratch::ScratchDir::new();
    run_all(&koeldb_fs::PosixFileSystem::new(), scratch.path());
}

#[test]
fn layers_without_orders_change_nothing() {
    let memory = Arc::new(MemoryFileSystem::new());
    let faults = Arc::new(FaultFileSystem::new(memory, 1));
    let clock = Arc::new(ManualClock::new());
    let latency = LatencyFileSystem::new(faults, Duration::from_millis(1), clock);
    let trace = TraceFileSystem::new(Arc::new(latency), TraceDetail::Bytes);
    run_all(&trace, Path::new("relative"));
    assert!(trace.total_counts().reads > 0);
}

fn write(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) {
    let mut file = fs.create(path, &WriteOptions::default()).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

fn read(fs: &dyn FileSystem, path: &Path) -> Vec<u8> {
    fs.read_all(path, 1 << 24, Purpose::Read).unwrap()
}

fn a_file_is_created_once_and_reads_back(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("000001.log");
    let mut file = fs.create(&path, &WriteOptions::new(Purpose::Wal)).unwrap();
    assert!(file.is_empty());
    file.append(b"hello ").unwrap();
    file.append(b"world").unwrap();
    assert_eq!(file.len(), 11);
    file.flush().unwrap();
    assert_eq!(read(fs, &path), b"hello world");
    file.append(b"!").unwrap();
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    file.close().unwrap();
    assert_eq!(read(fs, &path), b"hello world!");

    let error = fs.create(&path, &WriteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IoError);
    assert_eq!(error.file().unwrap().path, path);
    assert_eq!(read(fs, &path), b"hello world!");
    let metadata = fs.metadata(&path).unwrap();
    assert_eq!((metadata.kind, metadata.len), (EntryKind::File, 12));
    assert!(metadata.modified_unix_secs > 1_500_000_000);
    let error = fs.read_all(&path, 11, Purpose::Read).unwrap_err();
    assert!(error.is_corruption());
}

fn appends_of_all_sizes_arrive_in_order_whatever_the_buffer(fs: &dyn FileSystem, dir: &Path) {
    for (index, buffer_bytes) in [0, 1, 7, 64, 4096].into_iter().enumerate() {
        let path = dir.join(format!("{index}"));
        let options = WriteOptions {
            buffer_bytes,
            preallocate_bytes: 10_000,
            bytes_per_sync: 1000,
            ..WriteOptions::new(Purpose::Flush)
        };
        let mut file = fs.create(&path, &options).unwrap();
        let mut expected = Vec::new();
        for size in (0..200).chain([5000, 1, 4096, 0, 4095]) {
            let piece: Vec<u8> = (0..size).map(|at: u32| (at % 251) as u8).collect();
            file.append(&piece).unwrap();
            expected.extend_from_slice(&piece);
            assert_eq!(file.len(), expected.len() as u64);
        }
        file.sync_data().unwrap();
        file.close().unwrap();
        assert_eq!(read(fs, &path), expected);
        assert_eq!(fs.metadata(&path).unwrap().len, expected.len() as u64);
    }
}

fn a_reopened_file_goes_on_at_its_end(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    write(fs, &path, b"abc");
    let mut file = fs.append(&path, &WriteOptions::default()).unwrap();
    assert_eq!(file.len(), 3);
    file.append(b"def").unwrap();
    file.close().unwrap();
    assert_eq!(read(fs, &path), b"abcdef");
}

fn a_reused_file_keeps_what_is_not_overwritten_until_it_is_closed(fs: &dyn FileSystem, dir: &Path) {
    let (from, to) = (dir.join("f"), dir.join("g"));
    write(fs, &from, &[1; 200]);
    write(fs, &to, b"in the way");
    let options = WriteOptions::default();
    assert!(fs.reuse(&from, &to, &options).is_err());
    fs.remove_file(&to).unwrap();
    let mut file = fs.reuse(&from, &to, &options).unwrap();
    assert!(!fs.exists(&from).unwrap());
    assert_eq!(file.len(), 0);
    assert_eq!(read(fs, &to), [1; 200]);
    for (count, until) in [
        (2, 64),
        (40, 64),
        (41, 128),
        (104, 128),
        (105, 192),
        (170, 200),
    ] {
        let more = count - usize::try_from(file.len()).unwrap();
        file.append(&vec![2; more]).unwrap();
        file.flush().unwrap();
        assert_eq!(file.len(), count as u64);
        let expected = [vec![2; count], vec![0; until - count], vec![1; 200 - until]].concat();
        assert_eq!(read(fs, &to), expected, "after {count} bytes");
    }
    file.append(&[3; 31]).unwrap();
    file.sync_data().unwrap();
    assert_eq!(read(fs, &to), [vec![2; 170], vec![3; 31]].concat());
    file.close().unwrap();
    let mut file = fs.reuse(&to, &from, &options).unwrap();
    file.append(b"short").unwrap();
    file.close().unwrap();
    assert_eq!(read(fs, &from), b"short");
    assert!(fs.reuse(&to, &dir.join("h"), &options).is_err());
}

fn reads_are_short_only_at_the_end(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    write(fs, &path, b"0123456789");
    for hint in [
        AccessHint::Normal,
        AccessHint::Random,
        AccessHint::Sequential,
    ] {
        let options = OpenOptions {
            hint,
            ..OpenOptions::default()
        };
        let file = fs.open(&path, &options).unwrap();
        assert_eq!((file.len(), file.path()), (10, path.as_path()));
        assert_eq!(file.alignment(), 1);
        assert!(file.mapped().is_none());
        file.prefetch(0, 10);
        file.prefetch(5, 500);
        let mut buffer = [0; 4];
        assert_eq!(file.read_at(3, &mut buffer).unwrap(), 4);
        assert_eq!(&buffer, b"3456");
        assert_eq!(file.read_at(8, &mut buffer).unwrap(), 2);
        assert_eq!(&buffer[..2], b"89");
        assert_eq!(file.read_at(10, &mut buffer).unwrap(), 0);
        assert_eq!(file.read_at(1 << 40, &mut buffer).unwrap(), 0);
        file.read_exact_at(6, &mut buffer).unwrap();
        let error = file.read_exact_at(7, &mut buffer).unwrap_err();
        assert!(error.is_corruption());
        assert_eq!(error.file().unwrap().offset, Some(7));
    }
}

fn a_dropped_file_is_closed(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    let mut file = fs.create(&path, &WriteOptions::default()).unwrap();
    file.append(b"kept").unwrap();
    drop(file);
    assert_eq!(read(fs, &path), b"kept");
}

fn missing_paths_are_named_as_such(fs: &dyn FileSystem, dir: &Path) {
    let missing = dir.join("missing");
    let below = missing.join("x");
    let options = WriteOptions::default();
    let errors = [
        fs.open(&missing, &OpenOptions::default()).unwrap_err(),
        fs.append(&missing, &options).unwrap_err(),
        fs.create(&below, &options).unwrap_err(),
        fs.rename(&missing, &dir.join("other")).unwrap_err(),
        fs.link(&missing, &dir.join("other")).unwrap_err(),
        fs.remove_file(&missing).unwrap_err(),
        fs.remove_dir(&missing).unwrap_err(),
        fs.list(&missing).unwrap_err(),
        fs.sync_dir(&missing).unwrap_err(),
        fs.truncate(&missing, 0).unwrap_err(),
        fs.metadata(&missing).unwrap_err(),
        fs.lock(&below).unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_path_not_found(), "{error}");
        assert_eq!(error.kind(), ErrorKind::IoError);
    }
    assert!(!fs.exists(&missing).unwrap());
    assert!(fs.exists(dir).unwrap());
}

fn a_rename_replaces(fs: &dyn FileSystem, dir: &Path) {
    let (a, b) = (dir.join("a"), dir.join("b"));
    write(fs, &a, b"new");
    write(fs, &b, b"old");
    let before = fs.metadata(&a).unwrap().identity;
    let old = fs.open(&b, &OpenOptions::default()).unwrap();
    fs.rename(&a, &b).unwrap();
    fs.sync_dir(dir).unwrap();
    assert!(!fs.exists(&a).unwrap());
    assert_eq!(read(fs, &b), b"new");
    assert_eq!(fs.metadata(&b).unwrap().identity, before);
    let mut buffer = [0; 3];
    old.read_exact_at(0, &mut buffer).unwrap();
    assert_eq!(&buffer, b"old");

    let sub = dir.join("sub");
    fs.create_dir_all(&sub).unwrap();
    fs.rename(&b, &sub.join("c")).unwrap();
    assert_eq!(read(fs, &sub.join("c")), b"new");
    assert!(fs.rename(&sub, &sub.join("inside")).is_err(), "into itself");
    let moved = dir.join("moved");
    fs.rename(&sub, &moved).unwrap();
    assert_eq!(read(fs, &moved.join("c")), b"new");
    write(fs, &a, b"file");
    assert!(fs.rename(&a, &moved).is_err(), "a file over a directory");
    assert!(fs.rename(&moved, &a).is_err(), "a directory over a file");
}

fn links_are_names_of_one_file(fs: &dyn FileSystem, dir: &Path) {
    let (a, b) = (dir.join("a"), dir.join("b"));
    write(fs, &a, b"one");
    fs.link(&a, &b).unwrap();
    assert!(fs.link(&a, &b).is_err(), "the name is taken");
    assert_eq!(
        fs.metadata(&a).unwrap().identity,
        fs.metadata(&b).unwrap().identity
    );
    fs.rename(&a, &b).unwrap();
    assert!(
        fs.exists(&a).unwrap(),
        "renaming one name of a file onto another does nothing"
    );
    fs.remove_file(&a).unwrap();
    assert_eq!(read(fs, &b), b"one");
    fs.remove_file(&b).unwrap();
    assert!(!fs.exists(&b).unwrap());
}

fn a_removed_file_stays_readable_while_open(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    let mut writer = fs.create(&path, &WriteOptions::default()).unwrap();
    writer.append(b"abc").unwrap();
    writer.flush().unwrap();
    let reader = fs.open(&path, &OpenOptions::default()).unwrap();
    fs.remove_file(&path).unwrap();
    writer.append(b"def").unwrap();
    writer.sync_data().unwrap();
    write(fs, &path, b"another");
    let mut buffer = [0; 6];
    reader.read_exact_at(0, &mut buffer).unwrap();
    assert_eq!(&buffer, b"abcdef");
    writer.close().unwrap();
    assert_eq!(read(fs, &path), b"another");
}

fn directories_nest_and_are_removed_empty(fs: &dyn FileSystem, dir: &Path) {
    let deep = dir.join("x/y/z");
    fs.create_dir_all(&deep).unwrap();
    fs.create_dir_all(&deep).unwrap();
    write(fs, &dir.join("x/file"), b"1");
    let names: BTreeSet<_> = fs
        .list(&dir.join("x"))
        .unwrap()
        .into_iter()
        .map(|entry| (entry.name, entry.kind == EntryKind::Directory))
        .collect();
    assert_eq!(
        names,
        BTreeSet::from([("file".to_owned(), false), ("y".to_owned(), true)])
    );
    assert!(fs.remove_dir(&dir.join("x")).is_err(), "not empty");
    assert!(fs.remove_file(&deep).is_err(), "a directory");
    assert!(fs.create_dir_all(&dir.join("x/file")).is_err(), "a file");
    assert!(
        fs.create_dir_all(&dir.join("x/file/sub")).is_err(),
        "below a file"
    );
    fs.remove_dir(&deep).unwrap();
    assert!(!fs.exists(&deep).unwrap());
    create_dir_durably(fs, &deep.join("again")).unwrap();
    create_dir_durably(fs, &deep.join("again")).unwrap();
    assert!(fs.list(&deep.join("again")).unwrap().is_empty());
}

fn a_truncated_file_has_its_length(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    write(fs, &path, b"0123456789");
    fs.truncate(&path, 4).unwrap();
    assert_eq!(read(fs, &path), b"0123");
    fs.truncate(&path, 6).unwrap();
    assert_eq!(read(fs, &path), b"0123\0\0");
    let mut file = fs.append(&path, &WriteOptions::default()).unwrap();
    file.append(b"x").unwrap();
    file.close().unwrap();
    assert_eq!(read(fs, &path), b"0123\0\0x");
}

fn a_lock_excludes_until_it_is_dropped(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("LOCK");
    let lock = fs.lock(&path).unwrap();
    for spelling in [path.clone(), dir.join(".").join("LOCK")] {
        let error = fs.lock(&spelling).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IoError);
        assert_eq!(error.detail(), Some(ErrorDetail::LockHeld));
        assert_eq!(error.file().unwrap().path, spelling);
        assert!(error.to_string().contains("this process"), "{error}");
    }
    let other = fs.lock(&dir.join("OTHER")).unwrap();
    drop(lock);
    drop(fs.lock(&path).unwrap());
    let again = fs.lock(&path).unwrap();
    assert!(fs.exists(&path).unwrap());

    let directory = fs.lock(dir).unwrap();
    let error = fs.lock(dir).unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::LockHeld));
    drop((directory, other, again));
    drop(fs.lock(dir).unwrap());
}

fn mapped_files_pin_their_bytes(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("000007.sst");
    let bytes: Vec<u8> = (0..20_000_u32).map(|at| (at % 253) as u8).collect();
    write(fs, &path, &bytes);
    let options = OpenOptions {
        mmap: true,
        ..OpenOptions::default()
    };
    let file = fs.open(&path, &options).unwrap();
    let mapped = file.mapped().unwrap();
    assert_eq!(mapped.slice(0, 20_000), bytes);
    let value = PinnedSlice::pin(mapped, 5000, 100);
    let mut buffer = [0; 200];
    assert_eq!(file.read_at(19_900, &mut buffer).unwrap(), 100);
    assert_eq!(&buffer[..100], &bytes[19_900..]);
    assert_eq!(file.read_at(u64::MAX, &mut buffer).unwrap(), 0);
    file.prefetch(100, 5000);
    file.prefetch(30_000, 1);
    drop(file);
    fs.remove_file(&path).unwrap();
    assert_eq!(value.as_slice(), &bytes[5000..5100]);

    let empty = dir.join("empty");
    write(fs, &empty, b"");
    let file = fs.open(&empty, &options).unwrap();
    assert!(file.is_empty());
    assert_eq!(file.read_at(0, &mut buffer).unwrap(), 0);
    let both = OpenOptions {
        direct: true,
        ..options
    };
    assert!(fs.open(&empty, &both).is_err());
}

fn direct_reads_serve_any_request(fs: &dyn FileSystem, dir: &Path) {
    let path = dir.join("f");
    let bytes: Vec<u8> = (0..10_000_u32).map(|at| (at % 241) as u8).collect();
    let mut file = fs.create(&path, &WriteOptions::default()).unwrap();
    file.append(&bytes).unwrap();
    file.sync_all().unwrap();
    file.close().unwrap();
    let options = OpenOptions {
        direct: true,
        ..OpenOptions::default()
    };
    let file = match fs.open(&path, &options) {
        Ok(file) => file,
        // Not every file system supports direct reads.
        Err(error) if error.raw_os_error().is_some() => return,
        Err(error) => panic!("{error}"),
    };
    let alignment = file.alignment();
    assert!(alignment >= 512);
    let mut aligned = AlignedBuffer::new(12_288, alignment).unwrap();
    assert_eq!(file.read_at(0, &mut aligned).unwrap(), 10_000);
    assert_eq!(&aligned[..10_000], bytes);
    assert_eq!(file.read_at(8192, &mut aligned[..4096]).unwrap(), 1808);
    assert_eq!(&aligned[..1808], &bytes[8192..]);
    assert_eq!(file.read_at(12_288, &mut aligned[..4096]).unwrap(), 0);
    for offset in (0..bytes.len()).step_by(alignment) {
        for len in [alignment, 3 * alignment] {
            let read = file.read_at(offset as u64, &mut aligned[..len]).unwrap();
            let expected = &bytes[offset..(offset + len).min(bytes.len())];
            assert_eq!(&aligned[..read], expected);
        }
    }
    for (offset, len) in [(0, 1), (4095, 2), (8191, 5000), (9999, 1), (10_000, 10)] {
        let mut buffer = vec![0; len];
        let read = file.read_at(offset as u64, &mut buffer).unwrap();
        let expected = &bytes[offset..(offset + len).min(bytes.len())];
        assert_eq!(&buffer[..read], expected);
    }
}

fn small_files_are_replaced_whole(fs: &dyn FileSystem, dir: &Path) {
    let (temporary, current) = (dir.join("000001.dbtmp"), dir.join("CURRENT"));
    write(fs, &temporary, b"left by a crash");
    for content in [b"MANIFEST-000001\n", b"MANIFEST-000005\n"] {
        write_atomically(fs, &temporary, &current, content, Purpose::Manifest).unwrap();
        assert_eq!(read(fs, &current), content);
        assert!(!fs.exists(&temporary).unwrap());
    }
    let directory = dir.join("sub");
    fs.create_dir_all(&directory).unwrap();
    assert!(write_atomically(fs, &temporary, &directory, b"x", Purpose::Other).is_err());
    assert!(!fs.exists(&temporary).unwrap(), "nothing is left behind");
}

fn directories_are_no_files(fs: &dyn FileSystem, dir: &Path) {
    let file = dir.join("f");
    write(fs, &file, b"x");
    assert!(fs.open(dir, &OpenOptions::default()).is_err());
    assert!(fs.append(dir, &WriteOptions::default()).is_err());
    assert!(fs.truncate(dir, 0).is_err());
    assert!(fs.list(&file).is_err());
    assert!(fs.sync_dir(&file).is_err());
    assert!(fs.remove_dir(&file).is_err());
    assert!(fs.metadata(&file.join("x")).is_err());
    assert_eq!(fs.metadata(dir).unwrap().kind, EntryKind::Directory);
}

fn space_is_left(fs: &dyn FileSystem, dir: &Path) {
    assert!(fs.free_space(dir).unwrap() > 0);
}
