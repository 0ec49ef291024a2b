//! Fault, latency and trace layers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use koeldb_base::Result;
use koeldb_base::error::ErrorDetail;
use koeldb_base::file_name::FileKind;
use koeldb_fs::small_file::write_atomically;
use koeldb_fs::trace::replay;
use koeldb_fs::{
    Clock, Failure, FaultAction, FaultFileSystem, FaultRule, FileSystem, LatencyFileSystem,
    ManualClock, MemoryFileSystem, OpenOptions, Operation, Purpose, SurvivalPolicy, TraceDetail,
    TraceFileSystem, WriteOptions,
};

fn faulty() -> (MemoryFileSystem, FaultFileSystem) {
    let memory = MemoryFileSystem::new();
    let faults = FaultFileSystem::new(Arc::new(memory.clone()), 42);
    (memory, faults)
}

fn write(fs: &dyn FileSystem, path: &str, bytes: &[u8]) -> Result<()> {
    let mut file = fs.create(Path::new(path), &WriteOptions::new(Purpose::Flush))?;
    file.append(bytes)?;
    file.sync_data()?;
    file.close()
}

fn read(fs: &dyn FileSystem, path: &str) -> Result<Vec<u8>> {
    fs.read_all(Path::new(path), 1 << 20, Purpose::Read)
}

#[test]
fn the_nth_match_fails_and_says_so() {
    let (_, fs) = faulty();
    let rule = fs.add_rule(
        FaultRule::fail(Failure::NoSpace)
            .on(&[Operation::Append])
            .purpose(Purpose::Flush)
            .kind(|kind| matches!(kind, FileKind::Table(_)))
            .nth(2),
    );
    write(&fs, "/1.log", b"x").unwrap();
    write(&fs, "/1.sst", b"x").unwrap();
    let error = write(&fs, "/2.sst", b"x").unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::NoSpace));
    assert!(error.to_string().contains("injected fault 1"), "{error}");
    write(&fs, "/3.sst", b"x").unwrap();
    assert_eq!((fs.match_count(rule), fs.injection_count()), (3, 1));
    let log = fs.injections();
    assert_eq!(log[0].path, PathBuf::from("/2.sst"));
    assert_eq!(log[0].operation, Operation::Append);
}

#[test]
fn rules_come_and_go_and_can_be_switched() {
    let (_, fs) = faulty();
    let flag = Arc::new(AtomicBool::new(false));
    let rule = fs.add_rule(
        FaultRule::fail(Failure::Device)
            .suffix(".log")
            .on_syncs()
            .only_while(Arc::clone(&flag)),
    );
    write(&fs, "/1.log", b"x").unwrap();
    flag.store(true, Ordering::Release);
    assert!(write(&fs, "/2.log", b"x").is_err());
    write(&fs, "/2.sst", b"x").unwrap();
    fs.remove_rule(rule);
    write(&fs, "/3.log", b"x").unwrap();
    fs.add_rule(FaultRule::fail(Failure::Quota).on_mutations().limit(2));
    for path in ["/a", "/b"] {
        let error = write(&fs, path, b"x").unwrap_err();
        assert_eq!(error.detail(), Some(ErrorDetail::NoSpace));
    }
    write(&fs, "/c", b"x").unwrap();
    fs.clear_rules();
}

#[test]
fn chances_come_from_the_seed() {
    let strikes = |seed| {
        let memory = Arc::new(MemoryFileSystem::new());
        let fs = FaultFileSystem::new(memory, seed);
        fs.add_rule(
            FaultRule::fail(Failure::Device)
                .on(&[Operation::Create])
                .chance(300_000),
        );
        (0..100)
            .map(|n| write(&fs, &format!("/{n}"), b"").is_err())
            .collect::<Vec<_>>()
    };
    assert_eq!(strikes(1), strikes(1));
    assert_ne!(strikes(1), strikes(2));
    let count = strikes(3).iter().filter(|&&struck| struck).count();
    assert!((10..60).contains(&count), "{count}");
}

#[test]
fn bytes_are_spoilt_on_the_way() {
    let (memory, fs) = faulty();
    let bytes = [7_u8; 1000];
    write(&fs, "/f", &bytes).unwrap();
    let differing = |found: &[u8]| -> u32 {
        found
            .iter()
            .zip(&bytes)
            .map(|(a, b)| (a ^ b).count_ones())
            .sum()
    };
    fs.add_rule(FaultRule::new(FaultAction::FlipReadBits(1)).nth(1));
    assert_eq!(differing(&read(&fs, "/f").unwrap()), 1);
    assert_eq!(read(&fs, "/f").unwrap(), bytes);
    fs.add_rule(FaultRule::new(FaultAction::ShortRead).nth(1));
    assert!(read(&fs, "/f").unwrap_err().is_corruption());

    fs.add_rule(FaultRule::new(FaultAction::FlipWrittenBits(1)).nth(1));
    write(&fs, "/g", &bytes).unwrap();
    assert_eq!(differing(&read(&memory, "/g").unwrap()), 1);

    fs.add_rule(FaultRule::new(FaultAction::TornWrite(Failure::NoSpace)).nth(1));
    write(&fs, "/h", &bytes).unwrap_err();
    let torn = read(&memory, "/h").unwrap();
    assert!(torn.len() < 1000 && torn.iter().all(|&byte| byte == 7));

    write(&fs, "/i", &(0..=255).collect::<Vec<u8>>()).unwrap();
    fs.add_rule(FaultRule::new(FaultAction::MisplacedRead).nth(1));
    let file = fs.open(Path::new("/i"), &OpenOptions::default()).unwrap();
    let mut buffer = [0; 4];
    let read = file.read_at(0, &mut buffer).unwrap();
    assert!(read > 0 && buffer[0] != 0);
}

#[test]
fn a_lying_sync_leaves_nothing_durable() {
    let (memory, fs) = faulty();
    fs.add_rule(FaultRule::new(FaultAction::DropSync).suffix(".log"));
    write(&fs, "/1.log", b"lost").unwrap();
    write(&fs, "/1.sst", b"kept").unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    assert_eq!(read(&memory, "/1.log").unwrap(), b"lost");
    let image = memory.crash_image(SurvivalPolicy::Strict, 0);
    assert_eq!(read(&image, "/1.log").unwrap(), b"");
    assert_eq!(read(&image, "/1.sst").unwrap(), b"kept");
    fs.add_rule(FaultRule::new(FaultAction::DropSync).on(&[Operation::SyncDir]));
    write(&fs, "/2.sst", b"nameless").unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    let image = memory.crash_image(SurvivalPolicy::Strict, 0);
    assert!(!image.exists(Path::new("/2.sst")).unwrap());
}

#[test]
fn a_call_can_take_effect_and_still_fail() {
    let (memory, fs) = faulty();
    write(&fs, "/a", b"x").unwrap();
    fs.add_rule(
        FaultRule::new(FaultAction::FailAfter(Failure::Device))
            .on(&[Operation::Rename])
            .suffix("/b"),
    );
    assert!(fs.rename(Path::new("/a"), Path::new("/b")).is_err());
    assert!(memory.exists(Path::new("/b")).unwrap());
}

#[test]
fn delays_and_functions_let_the_call_pass() {
    let memory = MemoryFileSystem::new();
    let clock = ManualClock::new();
    let fs = FaultFileSystem::with_clock(Arc::new(memory), 0, Arc::new(clock.clone()));
    let called = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&called);
    fs.add_rule(FaultRule::new(FaultAction::Delay(Duration::from_secs(1))).on_syncs());
    fs.add_rule(
        FaultRule::new(FaultAction::Call(Arc::new(move |injection| {
            assert_eq!(injection.operation, Operation::SyncData);
            flag.store(true, Ordering::Release);
        })))
        .on_syncs(),
    );
    write(&fs, "/f", b"x").unwrap();
    assert_eq!(clock.now(), Duration::from_secs(1));
    assert!(called.load(Ordering::Acquire));
}

#[test]
fn slow_reads_take_their_time_and_nothing_else_does() {
    let memory = Arc::new(MemoryFileSystem::new());
    let clock = ManualClock::new();
    let delay = Duration::from_micros(100);
    let fs = LatencyFileSystem::new(memory, delay, Arc::new(clock.clone()));
    write(&fs, "/f", b"abc").unwrap();
    assert_eq!(clock.now(), Duration::ZERO);
    let file = fs.open(Path::new("/f"), &OpenOptions::default()).unwrap();
    let mut buffer = [0; 3];
    for reads in 1..4 {
        file.read_exact_at(0, &mut buffer).unwrap();
        assert_eq!(clock.now(), delay * reads);
    }
    fs.set_read_delay(Duration::ZERO);
    file.read_exact_at(0, &mut buffer).unwrap();
    assert_eq!(clock.now(), delay * 3);
}

#[test]
fn a_trace_shows_the_order_in_which_things_became_durable() {
    let memory = Arc::new(MemoryFileSystem::new());
    let fs = TraceFileSystem::new(memory, TraceDetail::Events);
    let (temporary, current) = (Path::new("/1.dbtmp"), Path::new("/CURRENT"));
    write_atomically(&fs, temporary, current, b"MANIFEST-1\n", Purpose::Manifest).unwrap();
    let events = fs.take_events();
    let operations: Vec<_> = events.iter().map(|event| event.operation).collect();
    assert_eq!(
        operations,
        [
            Operation::RemoveFile,
            Operation::Create,
            Operation::Append,
            Operation::SyncAll,
            Operation::Close,
            Operation::Rename,
            Operation::SyncDir,
        ]
    );
    assert!(events[0].error.as_ref().unwrap().is_path_not_found());
    assert_eq!((events[2].offset, events[2].len), (0, 11));
    assert_eq!(events[2].handle, events[1].handle);
    assert!(events[2].bytes.is_none());
    assert_eq!(events[5].to.as_deref(), Some(current));
    assert!(fs.events().is_empty());

    read(&fs, "/CURRENT").unwrap();
    let manifest = fs.counts(Purpose::Manifest);
    assert_eq!((manifest.appends, manifest.append_bytes), (1, 11));
    assert_eq!((manifest.syncs, manifest.reads), (1, 0));
    assert_eq!(fs.counts(Purpose::Read).read_bytes, 11);
    assert_eq!(fs.total_counts().reads, 1);
}

#[test]
fn a_trace_replays_into_crash_images() {
    let fs = TraceFileSystem::new(Arc::new(MemoryFileSystem::new()), TraceDetail::Bytes);
    fs.create_dir_all(Path::new("/db")).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    let mut log = fs
        .create(Path::new("/db/1.log"), &WriteOptions::new(Purpose::Wal))
        .unwrap();
    log.append(b"synced").unwrap();
    log.sync_data().unwrap();
    fs.sync_dir(Path::new("/db")).unwrap();
    log.append(b" and not").unwrap();
    log.close().unwrap();
    fs.link(Path::new("/db/1.log"), Path::new("/db/2.log"))
        .unwrap();

    let copy = MemoryFileSystem::new();
    replay(&fs.events(), &copy).unwrap();
    assert_eq!(read(&copy, "/db/2.log").unwrap(), b"synced and not");
    let image = copy.crash_image(SurvivalPolicy::Strict, 0);
    assert_eq!(read(&image, "/db/1.log").unwrap(), b"synced");
    assert!(!image.exists(Path::new("/db/2.log")).unwrap());
}
