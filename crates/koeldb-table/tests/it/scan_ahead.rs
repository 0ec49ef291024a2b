//! Parallel readahead of scans through one table: reads, memory, and outcomes.

use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb_base::codec::Compression;
use koeldb_base::key::{MAX_SEQNO, ValueType, encode};
use koeldb_base::{Cursor, Error, ErrorKind, Fault, Lookup, Result};
use koeldb_cache::{Cache, CacheOptions};
use koeldb_fs::read_driver::{AsyncReads, SimAttempt, SimReads};
use koeldb_fs::{
    FileSystem, LatencyFileSystem, MemoryFileSystem, OpenOptions, Purpose, SystemClock,
    WriteOptions,
};
use koeldb_table::TableReader;
use koeldb_table::block_based::readahead::ahead::ScanLimits;
use koeldb_table::block_based::readahead::scan_reads::{
    ENGINE_BYTES, ScanEngine, ScanReads, ScanSuspended, TimeLimits,
};
use koeldb_table::block_based::readahead::scan_source::{ReadaheadPolicy, ScanSource};
use koeldb_table::builder::{TableBuildContext, TableBuilder};
use koeldb_table::reader::{TableCursor, TableCursorOptions, TableReadContext};
use koeldb_table::source::{BlockReadOptions, BlockingSource, CachedBlock};

use crate::judge::blocking;

const PATH: &str = "/table.sst";
const COUNT: usize = 6_000;

fn user_key(number: usize) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// Some values are larger than any piece.
fn value(number: usize) -> Vec<u8> {
    let len = if number % 2500 == 1200 {
        400_000
    } else {
        number % 130
    };
    format!("value{number}-{}", "x".repeat(len)).into_bytes()
}

fn target(number: usize) -> Vec<u8> {
    encode(&user_key(number), MAX_SEQNO, ValueType::FOR_SEEK)
}

fn table(with_cache: bool) -> Arc<TableReader> {
    table_in(&MemoryFileSystem::new(), with_cache)
}

fn table_in(fs: &dyn FileSystem, with_cache: bool) -> Arc<TableReader> {
    let path = Path::new(PATH);
    let file = fs.create(path, &WriteOptions::new(Purpose::Flush)).unwrap();
    let context = TableBuildContext {
        compression: Compression::None,
        ..TableBuildContext::default()
    };
    let mut builder = TableBuilder::create(file, &context).unwrap();
    for number in 0..COUNT {
        let key = encode(&user_key(number), 1, ValueType::Value);
        builder.add(&key, &value(number)).unwrap();
    }
    builder.finish().unwrap();
    let file = fs.open(path, &OpenOptions::default()).unwrap();
    let context = TableReadContext {
        cache: with_cache.then(|| Cache::<CachedBlock>::new(&CacheOptions::default())),
        ..TableReadContext::default()
    };
    TableReader::open(file, &context).unwrap()
}

/// A scan and its reads.
struct Scan {
    reads: Arc<ScanReads>,
    limits: Arc<ScanLimits>,
    cursor: TableCursor<'static, ScanSource>,
}

impl Scan {
    fn new(
        table: &Arc<TableReader>,
        engine: &Arc<ScanEngine>,
        bytes: u64,
        policy: ReadaheadPolicy,
    ) -> Self {
        Self::within(TimeLimits::default(), table, engine, bytes, policy)
    }

    fn within(
        time: TimeLimits,
        table: &Arc<TableReader>,
        engine: &Arc<ScanEngine>,
        bytes: u64,
        policy: ReadaheadPolicy,
    ) -> Self {
        let options = BlockReadOptions::default();
        let reads = ScanReads::new(engine, options.clone(), bytes, time);
        let limits = Arc::new(ScanLimits::new());
        let source = ScanSource::new(
            options,
            policy,
            Arc::clone(&limits),
            Some(Arc::clone(&reads)),
        );
        Scan {
            reads,
            limits,
            cursor: table.cursor(source, &TableCursorOptions::default()),
        }
    }

    /// Repeats a call until it does not suspend.
    fn done(
        &mut self,
        call: impl Fn(&mut TableCursor<'static, ScanSource>) -> Result<(), Fault<ScanSuspended>>,
    ) -> Result<()> {
        for _ in 0..1000 {
            match call(&mut self.cursor) {
                Ok(()) => {
                    self.reads.settle();
                    return Ok(());
                }
                Err(Fault::Suspend(ScanSuspended)) => self.reads.wait()?,
                Err(Fault::Error(error)) => return Err(error),
            }
        }
        panic!("the call suspends for ever");
    }

    fn seek(&mut self, number: usize) {
        self.done(|cursor| cursor.seek(&target(number))).unwrap();
        assert_eq!(self.cursor.value(), value(number));
    }

    /// Reads on from entry `from` to the end or `until`.
    fn read_on(&mut self, from: usize, until: usize) {
        for number in from..until {
            assert!(self.cursor.valid(), "{number}");
            assert_eq!(self.cursor.value(), value(number));
            self.done(TableCursor::next).unwrap();
        }
        assert_eq!(self.cursor.valid(), until < COUNT);
    }
}

/// Offset and length of every read.
type Made = Arc<Mutex<Vec<(u64, usize)>>>;

/// A simulation, and its log of reads.
fn simulated(seed: u64) -> (SimReads, Made) {
    let sim = SimReads::new(seed);
    let lengths = Made::default();
    let seen = Arc::clone(&lengths);
    sim.set_script(move |request| {
        seen.lock().unwrap().push(request.rest());
        SimAttempt::Read
    });
    (sim, lengths)
}

#[test]
fn p1_blocks_of_all_sizes_are_whole_in_both_directions() {
    let table = table(false);
    for seed in 0..3 {
        let sim = SimReads::new(seed);
        let engine = ScanEngine::new(sim.reads(), ENGINE_BYTES);
        let mut scan = Scan::new(&table, &engine, 2 << 20, ReadaheadPolicy::default());
        scan.done(TableCursor::seek_to_first).unwrap();
        scan.read_on(0, COUNT);
        scan.done(TableCursor::seek_to_last).unwrap();
        for number in (0..COUNT).rev() {
            assert_eq!(scan.cursor.value(), value(number));
            scan.done(TableCursor::prev).unwrap();
        }
        assert!(!scan.cursor.valid());
        drop(scan);
        sim.run();
        assert_eq!(engine.held_bytes(), 0);
    }
}

#[test]
fn p2_a_piece_that_fails_leaves_its_successors_and_loses_no_entry() {
    let table = table(false);
    for seed in 0..4 {
        let sim = SimReads::new(seed);
        let large = AtomicU64::new(0);
        sim.set_script(move |request| {
            let fails = request.rest().1 > 10_000
                && !large.fetch_add(1, Ordering::Relaxed).is_multiple_of(3);
            if fails {
                SimAttempt::Fail(Error::io(
                    std::io::Error::from_raw_os_error(5),
                    "read",
                    Path::new(PATH),
                ))
            } else {
                SimAttempt::Read
            }
        });
        let engine = ScanEngine::new(sim.reads(), ENGINE_BYTES);
        let mut scan = Scan::new(&table, &engine, 2 << 20, ReadaheadPolicy::default());
        scan.done(TableCursor::seek_to_first).unwrap();
        // The first block that is itself too large cannot be read at all.
        scan.read_on(0, 1150);
    }
}

#[test]
fn p3_a_block_that_others_cache_while_a_seek_waits_is_the_same_block() {
    let table = table(true);
    let engine = ScanEngine::new(SimReads::new(1).reads(), ENGINE_BYTES);
    let mut scan = Scan::new(&table, &engine, 2 << 20, ReadaheadPolicy::default());
    for number in [3000, 100, 4000] {
        let suspended = scan.cursor.seek(&target(number));
        assert!(matches!(suspended, Err(Fault::Suspend(ScanSuspended))));
        let mut lookup = Lookup::new(&user_key(number), MAX_SEQNO);
        blocking(table.search(&mut lookup, &mut BlockingSource::default())).unwrap();
        scan.seek(number);
        scan.read_on(number, number + 60);
    }
}

#[test]
fn p5_a_plan_that_is_trimmed_to_nothing_reads_one_block() {
    let table = table(false);
    let (sim, lengths) = simulated(1);
    let engine = ScanEngine::new(sim.reads(), ENGINE_BYTES);
    let policy = ReadaheadPolicy {
        fixed_bytes: 200 << 10,
        ..ReadaheadPolicy::default()
    };
    let mut scan = Scan::new(&table, &engine, 2 << 20, policy);
    scan.limits
        .set(Bound::Unbounded, Bound::Excluded(user_key(3001)));
    scan.seek(3000);
    assert_eq!(sim.held(), 0);
    let read: usize = lengths.lock().unwrap().iter().map(|read| read.1).sum();
    assert!(read < 10_000, "{read} bytes");
    // The scan may continue nevertheless, and the end of the table is the end.
    scan.read_on(3000, COUNT);
}

#[test]
fn p7_a_seek_into_what_was_read_ahead_reads_nothing_again() {
    let table = table(false);
    let (sim, lengths) = simulated(1);
    let engine = ScanEngine::new(sim.reads(), ENGINE_BYTES);
    let policy = ReadaheadPolicy {
        fixed_bytes: 100 << 10,
        ..ReadaheadPolicy::default()
    };
    let mut scan = Scan::new(&table, &engine, 2 << 20, policy);
    scan.seek(2000);
    sim.run();
    let before = lengths.lock().unwrap().len();
    for number in [2010, 2100, 2300, 2500] {
        scan.seek(number);
    }
    sim.run();
    let reads = lengths.lock().unwrap();
    let mut starts: Vec<u64> = reads.iter().map(|read| read.0).collect();
    assert!(starts.len() <= before + 3, "{starts:?}");
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts.len(), reads.len(), "no range was read twice");
}

#[test]
fn p8_a_replayed_seek_counts_as_one_block() {
    let table = table(false);
    let (sim, lengths) = simulated(1);
    let engine = ScanEngine::new(sim.reads(), ENGINE_BYTES);
    let policy = ReadaheadPolicy {
        blocks_before: 1,
        ..ReadaheadPolicy::default()
    };
    let mut scan = Scan::new(&table, &engine, 2 << 20, policy);
    let suspended = scan.cursor.seek(&target(3000));
    assert!(matches!(suspended, Err(Fault::Suspend(ScanSuspended))));
    assert!(matches!(
        scan.cursor.seek(&target(3000)),
        Err(Fault::Suspend(ScanSuspended))
    ));
    scan.seek(3000);
    assert_eq!(
        lengths.lock().unwrap().len(),
        0,
        "one need is read in place"
    );
    scan.read_on(3000, 3200);
    let least = lengths.lock().unwrap().iter().map(|read| read.1).min();
    let least = least.expect("the second block is read with 8 KiB behind it");
    assert!((8 << 10..16 << 10).contains(&least), "{least} bytes");
}

#[test]
fn p9_a_seek_reads_the_block_and_no_byte_more() {
    let table = table(false);
    let TableReader::BlockBased(reader) = &*table else {
        panic!("the table is block-based");
    };
    let mut handles = Vec::new();
    reader
        .for_each_data_block(|_, handle| {
            handles.push((handle.offset, handle.size + 5));
            Ok(())
        })
        .unwrap();
    let (sim, lengths) = simulated(1);
    let engine = ScanEngine::new(sim.reads(), ENGINE_BYTES);
    let scans: Vec<Scan> = (0..3)
        .map(|_| Scan::new(&table, &engine, 2 << 20, ReadaheadPolicy::default()))
        .collect();
    // Two needs of one scan are not read synchronously.
    let mut scan = scans.into_iter().next().unwrap();
    for number in [500, 5000] {
        let suspended = scan.cursor.seek(&target(number));
        assert!(matches!(suspended, Err(Fault::Suspend(ScanSuspended))));
    }
    scan.reads.wait().unwrap();
    for &(offset, bytes) in lengths.lock().unwrap().iter() {
        assert!(
            handles.contains(&(offset, bytes as u64)),
            "{bytes} at {offset}"
        );
    }
    assert_eq!(lengths.lock().unwrap().len(), 2);
}

#[test]
fn p11_a_scan_turns_round_at_the_end_of_what_is_planned() {
    let table = table(false);
    let engine = ScanEngine::new(SimReads::new(5).reads(), ENGINE_BYTES);
    let policy = ReadaheadPolicy {
        fixed_bytes: 100 << 10,
        ..ReadaheadPolicy::default()
    };
    let mut scan = Scan::new(&table, &engine, 2 << 20, policy);
    scan.seek(COUNT - 50);
    for number in (1..COUNT - 50).rev().take(300) {
        scan.done(TableCursor::prev).unwrap();
        assert_eq!(scan.cursor.value(), value(number));
    }
    scan.seek(COUNT - 50);
    scan.read_on(COUNT - 50, COUNT);
    scan.done(TableCursor::seek_to_last).unwrap();
    assert_eq!(scan.cursor.value(), value(COUNT - 1));
    scan.done(TableCursor::next).unwrap();
    assert!(!scan.cursor.valid());
    scan.done(TableCursor::seek_to_first).unwrap();
    scan.done(TableCursor::prev).unwrap();
    assert!(!scan.cursor.valid());
}

#[test]
fn p12_pieces_come_and_go_in_any_order() {
    let table = table(true);
    for seed in 0..4_u64 {
        let sim = SimReads::new(seed);
        let engine = ScanEngine::new(sim.reads(), ENGINE_BYTES);
        let policy = ReadaheadPolicy {
            initial_bytes: 3000,
            max_bytes: 20_000,
            blocks_before: seed % 3,
            ..ReadaheadPolicy::default()
        };
        let mut scan = Scan::new(&table, &engine, 2 << 20, policy);
        let mut at = 0;
        let mut random = 7 + seed;
        for _ in 0..60 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(seed);
            let draw = usize::try_from(random >> 40).unwrap();
            match draw % 3 {
                0 => {
                    at = draw % COUNT;
                    scan.seek(at);
                }
                1 => {
                    scan.seek(at);
                    let until = COUNT.min(at + draw % 400);
                    scan.read_on(at, until);
                    at = until.min(COUNT - 1);
                }
                _ => {
                    scan.seek(at);
                    for _ in 0..(draw % 300).min(at) {
                        at -= 1;
                        scan.done(TableCursor::prev).unwrap();
                        assert_eq!(scan.cursor.value(), value(at));
                    }
                }
            }
        }
        drop(scan);
        sim.run();
        assert_eq!(engine.held_bytes(), 0);
    }
}

#[test]
fn a_dropped_scan_waits_for_nothing_and_leaves_nothing() {
    let table = table(false);
    let sim = SimReads::new(3);
    let engine = ScanEngine::new(sim.reads(), ENGINE_BYTES);
    let mut scan = Scan::new(&table, &engine, 2 << 20, ReadaheadPolicy::default());
    scan.done(TableCursor::seek_to_first).unwrap();
    scan.read_on(0, 300);
    sim.set_stopped(true);
    let held = sim.held();
    assert!(held > 0, "something is under way");
    drop(scan);
    assert_eq!(sim.held(), held, "nobody waited");
    assert!(engine.held_bytes() > 0, "memory under way counts");
    drop(table);
    sim.run();
    assert_eq!(engine.held_bytes(), 0);
}

#[test]
fn what_is_read_ahead_never_exceeds_the_budgets() {
    let table = table(false);
    for (of_engine, of_scan) in [
        (ENGINE_BYTES, 40 << 10),
        (30 << 10, 2 << 20),
        (64 << 10, 48 << 10),
        (1000, 1000),
        (0, 0),
    ] {
        let sim = SimReads::new(of_scan);
        let engine = ScanEngine::new(sim.reads(), of_engine);
        let most = Arc::new(AtomicU64::new(0));
        let mut scans: Vec<Scan> = (0..2)
            .map(|_| Scan::new(&table, &engine, of_scan, ReadaheadPolicy::default()))
            .collect();
        for scan in &mut scans {
            scan.done(TableCursor::seek_to_first).unwrap();
        }
        for number in 0..COUNT {
            for scan in &mut scans {
                assert_eq!(scan.cursor.value(), value(number));
                scan.done(TableCursor::next).unwrap();
                most.fetch_max(engine.held_bytes(), Ordering::Relaxed);
            }
        }
        let limit = of_engine.min(2 * of_scan);
        let most = most.load(Ordering::Relaxed);
        assert!(most <= limit, "{most} of {limit} bytes");
        assert!(
            limit < 2000 || most > limit / 4,
            "{most} of {limit} bytes are used"
        );
    }
}

#[test]
fn a_range_that_is_under_way_is_joined() {
    let table = table(false);
    let (sim, lengths) = simulated(1);
    let engine = ScanEngine::new(sim.reads(), ENGINE_BYTES);
    let policy = ReadaheadPolicy {
        fixed_bytes: 100 << 10,
        ..ReadaheadPolicy::default()
    };
    let mut scans: Vec<Scan> = (0..3)
        .map(|_| Scan::new(&table, &engine, 2 << 20, policy))
        .collect();
    for scan in &mut scans {
        let suspended = scan.cursor.seek(&target(2000));
        assert!(matches!(suspended, Err(Fault::Suspend(ScanSuspended))));
    }
    let bytes = engine.held_bytes();
    assert!(bytes < 400 << 10, "{bytes} bytes for three scans");
    for scan in &mut scans {
        scan.seek(2000);
    }
    sim.run();
    let mut starts: Vec<u64> = lengths.lock().unwrap().iter().map(|read| read.0).collect();
    let reads = starts.len();
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts.len(), reads, "nothing was read twice");
    // A scan that joined a read may outlive the one that began it.
    let mut last = scans.pop().unwrap();
    drop(scans);
    last.read_on(2000, 3000);
}

#[test]
fn a_scan_moves_between_threads_and_outlives_those_that_read_for_it() {
    let table = table(false);
    let engine = ScanEngine::new(AsyncReads::pool(3), ENGINE_BYTES);
    let mut scan = Scan::new(&table, &engine, 2 << 20, ReadaheadPolicy::default());
    scan.done(TableCursor::seek_to_first).unwrap();
    for from in (0..COUNT).step_by(500) {
        scan = std::thread::spawn(move || {
            scan.read_on(from, from + 500);
            scan
        })
        .join()
        .unwrap();
    }
    assert!(!scan.cursor.valid());
}

/// Uses the machine's clock, with threads that sleep in reads of single blocks and of pieces.
#[test]
fn a_wait_for_a_slow_device_ends_when_it_may_take_no_longer() {
    let memory = Arc::new(MemoryFileSystem::new());
    let fs = LatencyFileSystem::new(memory, Duration::ZERO, Arc::new(SystemClock));
    let table = table_in(&fs, false);
    let reads = AsyncReads::pool(4);
    let engine = ScanEngine::new(reads.clone(), ENGINE_BYTES);
    let long = Duration::from_secs(100);
    for fixed_bytes in [0, 4000] {
        let policy = ReadaheadPolicy {
            fixed_bytes,
            ..ReadaheadPolicy::default()
        };
        let soon = Duration::from_millis(3);
        let limits = |deadline: Duration, timeout| TimeLimits {
            deadline: Some(reads.clock().now() + deadline),
            io_timeout: Some(timeout),
        };
        fs.set_read_delay(Duration::from_millis(100));
        for (deadline, timeout, word) in [(long, soon, "io_timeout"), (soon, long, "deadline")] {
            // A thread that is woken late may find that the read has completed.
            let error = (0..20).find_map(|attempt| {
                let limits = limits(deadline, timeout);
                let mut scan = Scan::within(limits, &table, &engine, 2 << 20, policy);
                let sought = scan.done(|cursor| cursor.seek(&target(7 + attempt * 100)));
                sought.err()
            });
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert!(error.to_string().contains(word), "{error}");
        }
        fs.set_read_delay(Duration::from_millis(1));
        let mut scan = Scan::within(limits(long, long), &table, &engine, 2 << 20, policy);
        scan.seek(3000);
        scan.read_on(3000, 3100);
    }
}
