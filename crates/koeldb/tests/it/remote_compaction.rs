//! Remote compactions: jobs given to a service, and workers that fail or lie.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb::fs::file::Purpose;
use koeldb::fs::small_file::write_atomically;
use koeldb::fs::{
    Clock, Failure, FaultFileSystem, FaultRule, FileSystem, ManualClock, MemoryFileSystem,
    SurvivalPolicy, SystemClock,
};
use koeldb::{
    BlockBasedOptions, BottommostLevelCompaction, BoxError, BytewiseComparatorWithU64Ts,
    CompactRangeOptions, CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceScheduleResponse, CompactionServiceWaitResponse, Db, DbPath, Env, ErrorKind,
    IndexType, MergeOperands, MergeOperator, Options, ReadOptions, SstFileReader, StringAppend,
};
use koeldb_testkit::Random;

use crate::storage::{HERE, Storage, over};
use crate::wait::until;

/// A change of the result between the worker and the primary.
type Bend = dyn Fn(&mut Vec<u8>, &Path) + Send + Sync;

/// A service whose worker runs in `wait`.
#[derive(Clone)]
struct InProcess {
    worker: Options,
    bend: Arc<Bend>,
    inputs: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    ended: Arc<Mutex<Vec<CompactionServiceJobStatus>>>,
    next: Arc<AtomicU64>,
}

impl InProcess {
    fn new(worker: &Options, bend: impl Fn(&mut Vec<u8>, &Path) + Send + Sync + 'static) -> Self {
        InProcess {
            worker: worker.clone(),
            bend: Arc::new(bend),
            inputs: Arc::default(),
            ended: Arc::default(),
            next: Arc::default(),
        }
    }

    fn honest(worker: &Options) -> Self {
        Self::new(worker, |_, _| ())
    }

    fn ended(&self) -> Vec<CompactionServiceJobStatus> {
        std::mem::take(&mut *self.ended.lock().unwrap())
    }
}

fn output_of(job: &str) -> PathBuf {
    Path::new("/jobs").join(job)
}

impl CompactionService for InProcess {
    fn schedule(
        &self,
        info: &CompactionServiceJobInfo,
        input: &[u8],
    ) -> CompactionServiceScheduleResponse {
        assert_eq!(info.db_path, Path::new(HERE));
        let job_id = format!("{:04}", self.next.fetch_add(1, Ordering::Relaxed));
        let mut inputs = self.inputs.lock().unwrap();
        inputs.insert(job_id.clone(), input.to_vec());
        CompactionServiceScheduleResponse::Scheduled { job_id }
    }

    fn wait(&self, job: &str) -> CompactionServiceWaitResponse {
        let input = self.inputs.lock().unwrap()[job].clone();
        let output = output_of(job);
        match Db::open_and_compact(&self.worker, HERE, &output, &input) {
            Ok(mut result) => {
                (self.bend)(&mut result, &output);
                CompactionServiceWaitResponse::Completed {
                    result,
                    output_directory: output,
                }
            }
            Err(_) => {
                let status = CompactionServiceJobStatus::Failure;
                self.ended.lock().unwrap().push(status);
                CompactionServiceWaitResponse::Ended(status)
            }
        }
    }

    fn on_installation(&self, _: &str, status: CompactionServiceJobStatus) {
        self.ended.lock().unwrap().push(status);
    }
}

fn options(storage: &Storage) -> Options {
    let mut options = storage.options();
    options
        .set_disable_auto_compactions(true)
        .set_merge_operator(StringAppend::default());
    let mut table = BlockBasedOptions::new();
    // Partitions of filters are read when they are needed, not when a table is opened.
    table
        .set_bloom_filter(10.0)
        .set_index_type(IndexType::TwoLevel)
        .set_partition_filters(true);
    options.set_block_based_table_factory(&table);
    options
}

type Contents = Vec<(Vec<u8>, Vec<u8>)>;

fn contents(db: &Db) -> Contents {
    db.range(..)
        .map(|entry| entry.unwrap())
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// Random writes of all kinds, with a flush now and then.
fn write(db: &Db, random: &mut Random, count: u64) {
    for _ in 0..count {
        let key = |random: &mut Random| format!("key{:03}", random.below(200));
        let (from, to) = (key(random), key(random));
        match random.below(20) {
            0 => db.flush().unwrap(),
            1 if from < to => db.delete_range(from, to).unwrap(),
            2..=4 => db.delete(from).unwrap(),
            5..=8 => db.merge(from, random.below(100).to_string()).unwrap(),
            _ => db.put(from, vec![b'v'; 40]).unwrap(),
        }
    }
    db.flush().unwrap();
}

fn tables(memory: &MemoryFileSystem) -> Vec<String> {
    let entries = memory.list(HERE.as_ref()).unwrap();
    let names = entries.into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".sst")).collect()
}

fn compact(db: &Db) -> koeldb::Result<()> {
    db.compact_range(..)
}

#[test]
fn a_worker_compacts_as_the_database_does() {
    for seed in 0..6 {
        let mut seen = Vec::new();
        for is_remote in [false, true] {
            let storage = Storage::new();
            let mut options = options(&storage);
            options.set_target_file_size_base(4 << 10);
            let service = InProcess::honest(&options);
            if is_remote {
                options.set_compaction_service(service.clone());
            }
            let db = Db::open(&options, HERE).unwrap();
            let mut random = Random::new(seed);
            let mut old = Vec::new();
            let mut views = Vec::new();
            for round in 0..4 {
                write(&db, &mut random, 300);
                if round == 1 {
                    old.push(db.snapshot());
                }
                compact(&db).unwrap();
                views.push(contents(&db));
            }
            let snapshot: Contents = old[0]
                .range(..)
                .map(|entry| entry.unwrap())
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .collect();
            views.push(snapshot);
            drop(old);
            let ended = service.ended();
            assert_eq!(!ended.is_empty(), is_remote);
            let is_taken = |status: &_| *status == CompactionServiceJobStatus::Success;
            assert!(ended.iter().all(is_taken), "{ended:?}");
            db.verify_checksums().unwrap();
            db.close().unwrap();
            let again = Db::open(&options, HERE).unwrap();
            views.push(contents(&again));
            seen.push(views);
        }
        assert!(seen[0] == seen[1], "seed {seed}");
    }
}

#[test]
fn a_worker_leaves_timestamps_out_of_tables_as_the_database_does() {
    let storage = Storage::new();
    let mut options = options(&storage);
    options
        .set_comparator(BytewiseComparatorWithU64Ts)
        .set_persist_user_defined_timestamps(false)
        .set_allow_concurrent_memtable_write(false);
    let service = InProcess::honest(&options);
    options.set_compaction_service(service.clone());
    let db = Db::open(&options, HERE).unwrap();
    let family = db.default_cf();
    for time in 1..4_u64 {
        let at = time.to_le_bytes();
        family.put_with_ts("a", at, format!("{time}")).unwrap();
        family.put_with_ts(format!("b{time}"), at, "b").unwrap();
        db.flush().unwrap();
    }
    compact(&db).unwrap();
    assert_eq!(service.ended(), [CompactionServiceJobStatus::Success]);
    for is_again in [false, true] {
        let db = match is_again {
            false => db.clone(),
            true => {
                db.close().unwrap();
                Db::open(&options, HERE).unwrap()
            }
        };
        let mut read = ReadOptions::new();
        read.set_timestamp(4_u64.to_le_bytes());
        let found = db.get_opt("a", &read).unwrap();
        assert_eq!(found.as_deref(), Some(&b"3"[..]));
        assert!(db.get_opt("b2", &read).unwrap().is_some());
        db.verify_checksums().unwrap();
    }
}

#[test]
fn families_with_blob_files_are_compacted_locally() {
    let storage = Storage::new();
    let mut options = options(&storage);
    options
        .set_enable_blob_files(true)
        .set_blob_file_starting_level(1_u32);
    let service = InProcess::honest(&options);
    options.set_compaction_service(service.clone());
    let db = Db::open(&options, HERE).unwrap();
    write(&db, &mut Random::new(3), 300);
    let before = contents(&db);
    compact(&db).unwrap();
    assert!(service.ended().is_empty(), "a result lists no blob files");
    let entries = storage.memory.list(HERE.as_ref()).unwrap();
    assert!(entries.iter().any(|entry| entry.name.ends_with(".blob")));
    assert_eq!(contents(&db), before);
}

/// The worker finds the inputs in all directories, and the primary takes the output into its own.
#[test]
fn the_tables_of_a_worker_go_to_the_directory_of_the_output() {
    let storage = Storage::new();
    let mut worker = options(&storage);
    worker.set_db_paths([DbPath::new("/fast", 300 << 20), DbPath::new("/slow", 0)]);
    let service = InProcess::honest(&worker);
    let mut options = worker.clone();
    options.set_compaction_service(service.clone());
    let db = Db::open(&options, HERE).unwrap();
    let mut random = Random::new(7);
    for path_id in [1, 0, 1] {
        write(&db, &mut random, 200);
        db.flush().unwrap();
        let expected = contents(&db);
        let mut how = CompactRangeOptions::new();
        how.set_target_path_id(path_id)
            .set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        db.default_cf().compact_range_opt(.., &how).unwrap();
        let directory = Path::new(["/fast", "/slow"][path_id as usize]);
        let files = db.live_files();
        assert!(
            files.iter().all(|file| file.directory == directory),
            "{files:?}"
        );
        assert_eq!(contents(&db), expected);
        let ended = service.ended();
        let is_taken = |status| ended.contains(&status);
        assert!(is_taken(CompactionServiceJobStatus::Success), "{ended:?}");
        assert!(!is_taken(CompactionServiceJobStatus::UseLocal), "{ended:?}");
    }
    let expected = contents(&db);
    drop(db);
    let db = Db::open(&options, HERE).unwrap();
    assert_eq!(contents(&db), expected);
}

/// A service that gives a job up after 30 s while no worker lives.
#[derive(Clone)]
struct Deserted {
    workers: InProcess,
    clock: ManualClock,
    has_workers: Arc<AtomicBool>,
    offered: Arc<AtomicU64>,
}

impl CompactionService for Deserted {
    fn schedule(
        &self,
        info: &CompactionServiceJobInfo,
        input: &[u8],
    ) -> CompactionServiceScheduleResponse {
        self.offered.fetch_add(1, Ordering::Relaxed);
        self.workers.schedule(info, input)
    }

    fn wait(&self, job: &str) -> CompactionServiceWaitResponse {
        if self.has_workers.load(Ordering::Relaxed) {
            return self.workers.wait(job);
        }
        self.clock.advance(Duration::from_secs(30));
        CompactionServiceWaitResponse::Ended(CompactionServiceJobStatus::UseLocal)
    }

    fn on_installation(&self, job: &str, status: CompactionServiceJobStatus) {
        self.workers.on_installation(job, status);
    }
}

#[test]
fn a_service_without_workers_is_asked_ever_more_rarely_and_used_when_they_come_back() {
    let storage = Storage::new();
    let clock = ManualClock::new();
    let fs: Arc<dyn FileSystem> = Arc::clone(&storage.faults) as _;
    let mut options = options(&storage);
    options.set_env(&Env::new(fs, Arc::new(clock.clone())));
    let service = Deserted {
        workers: InProcess::honest(&options),
        clock: clock.clone(),
        has_workers: Arc::default(),
        offered: Arc::default(),
    };
    options.set_compaction_service(service.clone());
    let db = Db::open(&options, HERE).unwrap();
    let mut random = Random::new(7);
    // Compacts; returns the number of jobs offered, and the seconds that passed.
    let mut job = || {
        write(&db, &mut random, 200);
        let (offered, begun) = (service.offered.load(Ordering::Relaxed), clock.now());
        compact(&db).unwrap();
        let offered = service.offered.load(Ordering::Relaxed) - offered;
        (offered, (clock.now() - begun).as_secs())
    };
    for pause in [60, 120, 240] {
        assert_eq!(job(), (1, 30));
        for _ in 0..3 {
            assert_eq!(job(), (0, 0));
        }
        clock.advance(Duration::from_secs(pause));
    }
    service.has_workers.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        assert_eq!(job(), (1, 0));
    }
    let success = CompactionServiceJobStatus::Success;
    assert_eq!(service.workers.ended(), [success; 3]);
    // The pauses begin anew.
    service.has_workers.store(false, Ordering::Relaxed);
    assert_eq!(job(), (1, 30));
    clock.advance(Duration::from_secs(59));
    assert_eq!(job(), (0, 0));
    clock.advance(Duration::from_secs(1));
    assert_eq!(job(), (1, 30));
    db.close().unwrap();
}

/// The message to a worker does not tell which snapshots are of transactions.
#[test]
fn a_worker_keeps_the_traces_of_writes_that_a_transaction_checks_for() {
    let storage = Storage::new();
    let mut options = options(&storage);
    let service = InProcess::honest(&options);
    options.set_compaction_service(service.clone());
    let db = Db::open(&options, HERE).unwrap();
    let mut transaction = db.transaction();
    transaction.get_for_update("k").unwrap();
    db.put("k", "new").unwrap();
    db.flush().unwrap();
    db.default_cf().single_delete("k").unwrap();
    db.flush().unwrap();
    compact(&db).unwrap();
    let ended = service.ended.lock().unwrap().clone();
    assert_eq!(ended, [CompactionServiceJobStatus::Success]);
    transaction.put("k", "mine").unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(db.get("k").unwrap(), None);
}

/// A database with tables to compact, and its contents.
/// A worker does not know the tables below its output: the primary weighs range deletions.
#[test]
fn range_deletions_that_a_worker_compacts_give_space_back_without_further_writes() {
    let storage = Storage::new();
    let mut worker = options(&storage);
    worker
        .set_disable_auto_compactions(false)
        .set_write_buffer_size(128 << 10)
        .set_target_file_size_base(64 << 10)
        .set_max_bytes_for_level_base(256 << 10);
    let service = InProcess::honest(&worker);
    let mut options = worker.clone();
    options.set_compaction_service(service.clone());
    let db = Db::open(&options, HERE).unwrap();
    let key = |number: u32| format!("key{number:06}");
    let mut random = Random::new(1);
    for number in 0..3000 {
        let value: Vec<u64> = (0..125).map(|_| random.below(u64::MAX)).collect();
        let value: Vec<u8> = value.iter().flat_map(|word| word.to_le_bytes()).collect();
        db.put(key(number), value).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    // Entries above the last level, so that the range deletion cannot be moved there.
    for number in 0..4 {
        db.put(key(number), "above").unwrap();
        db.put(key(2999 - number), "above").unwrap();
        db.flush().unwrap();
    }
    db.wait_for_compact(None).unwrap();
    let bytes = || db.property_int_value("rocksdb.live-sst-files-size");
    let bytes = || bytes().unwrap().unwrap();
    assert!(bytes() > 3_000_000);
    service.ended();
    db.delete_range("key", "l").unwrap();
    db.flush().unwrap();
    db.wait_for_compact(None).unwrap();
    assert!(
        service
            .ended()
            .contains(&CompactionServiceJobStatus::Success)
    );
    assert!(bytes() < 100_000, "{} bytes", bytes());
}

fn prepared(options: &Options) -> (Db, Contents) {
    let db = Db::open(options, HERE).unwrap();
    write(&db, &mut Random::new(3), 400);
    let before = contents(&db);
    (db, before)
}

/// Compacts with a worker whose result is changed; returns whether the result was refused.
fn is_refused(
    bend: impl Fn(&mut Vec<u8>, &Path, &MemoryFileSystem) + Send + Sync + 'static,
) -> bool {
    let storage = Storage::new();
    let mut options = options(&storage);
    let memory = storage.memory.clone();
    let service = InProcess::new(&options, move |result, output| {
        bend(result, output, &memory)
    });
    options.set_compaction_service(service.clone());
    let (db, before) = prepared(&options);
    compact(&db).unwrap();
    assert_eq!(contents(&db), before);
    db.verify_checksums().unwrap();
    until("the removal of all other tables", || {
        tables(&storage.memory).len() == db.live_files().len()
    });
    db.close().unwrap();
    assert_eq!(contents(&Db::open(&options, HERE).unwrap()), before);
    let ended = service.ended();
    assert!(!ended.is_empty());
    ended.contains(&CompactionServiceJobStatus::UseLocal)
}

/// The place of the value of a field in a message.
fn value_of(message: &[u8], name: &str) -> std::ops::Range<usize> {
    let text = std::str::from_utf8(&message[4..]).unwrap();
    let pattern = format!("{name}=");
    let mut found = text.match_indices(&pattern).map(|(at, _)| at);
    let at = found.find(|at| text[..*at].is_empty() || text[..*at].ends_with([';', '{']));
    let start = 4 + at.unwrap() + name.len() + 1;
    let end = message[start..].iter().position(|byte| *byte == b';');
    start..start + end.unwrap()
}

fn replace(message: &mut Vec<u8>, name: &str, value: &str) {
    let place = value_of(message, name);
    message.splice(place, value.bytes());
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02X}")).collect()
}

#[test]
fn a_result_with_another_value_in_any_checked_field_is_refused() {
    assert!(!is_refused(|_, _, _| ()));
    for name in [
        "file_name",
        "file_size",
        "smallest_internal_key",
        "largest_internal_key",
        "unique_id",
        "is_proximal_level_output",
        "output_level",
        "output_path",
        "code",
        "num_input_records",
        "num_output_files",
        "num_output_records",
    ] {
        let refused = is_refused(move |result, _, _| {
            let place = value_of(result, name);
            let last = place.end - 1;
            match &result[place.clone()] {
                b"false" => replace(result, name, "true"),
                _ => result[last] = if result[last] == b'1' { b'2' } else { b'1' },
            }
        });
        assert!(refused, "{name}");
    }
    for (name, value) in [
        ("largest_seqno", "99999999"),
        ("smallest_seqno", "99999999"),
        ("file_size", "18446744073709551615"),
        ("output_files", ""),
        ("file_checksum_func_name", "4142"),
        ("has_no_such_field", ""),
    ] {
        let refused = is_refused(move |result, _, _| match name {
            "has_no_such_field" => result.truncate(result.len() / 2),
            _ => replace(result, name, value),
        });
        assert!(refused, "{name}={value}");
    }
}

#[test]
fn a_worker_that_lies_about_its_files_is_refused() {
    type Lie = fn(&mut Vec<u8>, &Path, &MemoryFileSystem);
    let lies: [(&str, Lie); 7] = [
        ("a path out of the directory", |result, _, _| {
            replace(result, "file_name", &hex("../0001/000010.sst"));
        }),
        ("the directory of the database", |result, _, _| {
            replace(result, "output_path", &hex(HERE));
        }),
        ("a table that is missing", |_, output, memory| {
            for entry in memory.list(output).unwrap() {
                if entry.name.ends_with(".sst") {
                    memory.remove_file(&output.join(entry.name)).unwrap();
                }
            }
        }),
        ("an input in place of the output", |_, output, memory| {
            bend_table(output, memory, |bytes| {
                let input = Path::new(HERE).join(&tables(memory)[0]);
                *bytes = memory.read_all(&input, 1 << 30, Purpose::Read).unwrap();
            });
        }),
        ("a flipped bit", |_, output, memory| {
            bend_table(output, memory, |bytes| bytes[20] ^= 4);
        }),
        (
            "a flipped bit in a block without entries",
            |result, output, memory| {
                let data_size = &result[value_of(result, "data_size")];
                let filter: usize = std::str::from_utf8(data_size).unwrap().parse().unwrap();
                bend_table(output, memory, |bytes| bytes[filter + 3] ^= 4);
            },
        ),
        ("a cut table", |_, output, memory| {
            bend_table(output, memory, |bytes| bytes.truncate(bytes.len() / 2));
        }),
    ];
    for (what, lie) in lies {
        assert!(is_refused(lie), "{what}");
    }
}

/// Changes the bytes of the first table of a worker.
fn bend_table(output: &Path, memory: &MemoryFileSystem, bend: impl Fn(&mut Vec<u8>)) {
    let names = memory
        .list(output)
        .unwrap()
        .into_iter()
        .map(|entry| entry.name);
    let name = names.filter(|name| name.ends_with(".sst")).min().unwrap();
    let path = output.join(name);
    let mut bytes = memory.read_all(&path, 1 << 30, Purpose::Read).unwrap();
    bend(&mut bytes);
    let other = output.join("bent");
    write_atomically(memory, &other, &path, &bytes, Purpose::Other).unwrap();
}

#[test]
fn a_worker_that_fails_at_any_operation_costs_only_time() {
    let mut failed = 0;
    for number in (1..).step_by(3) {
        let storage = Storage::new();
        let mut options = options(&storage);
        let memory = Arc::new(storage.memory.clone());
        let faults = Arc::new(FaultFileSystem::new(memory, 1));
        let mut worker = over(Arc::clone(&faults) as _);
        worker.set_merge_operator(StringAppend::default());
        let service = InProcess::honest(&worker);
        options.set_compaction_service(service.clone());
        let (db, before) = prepared(&options);
        faults.add_rule(FaultRule::fail(Failure::Device).from_nth(number));
        compact(&db).unwrap();
        assert_eq!(contents(&db), before);
        db.close().unwrap();
        assert_eq!(tables(&storage.memory).len(), {
            let db = Db::open(&options, HERE).unwrap();
            assert_eq!(contents(&db), before);
            db.live_files().len()
        });
        let ended = service.ended();
        if ended
            .iter()
            .all(|it| *it == CompactionServiceJobStatus::Success)
        {
            break;
        }
        failed += 1;
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn a_power_cut_at_any_operation_loses_nothing() {
    let mut cuts = 0;
    for number in (1..).step_by(4) {
        let storage = Storage::new();
        let mut options = options(&storage);
        let service = InProcess::honest(&options);
        options.set_compaction_service(service);
        let (db, before) = prepared(&options);
        let last = storage.memory.operation_count() + number;
        storage.memory.arm_crash(last);
        let compacted = compact(&db);
        let has_crashed = storage.memory.has_crashed();
        drop(db);
        let policy =
            SurvivalPolicy::ALL[usize::try_from(number).unwrap() % SurvivalPolicy::ALL.len()];
        let image = storage.memory.crash_image(policy, number);
        let mut options = over(Arc::new(image.clone()));
        options
            .set_disable_auto_compactions(true)
            .set_merge_operator(StringAppend::default());
        let db = Db::open(&options, HERE).unwrap();
        assert_eq!(contents(&db), before, "operation {number}");
        assert_eq!(tables(&image).len(), db.live_files().len());
        if !has_crashed {
            compacted.unwrap();
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 10, "{cuts}");
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
        for operand in operands {
            if operand == b"fail" {
                return Err("unusable operand".into());
            }
            result.extend_from_slice(operand);
        }
        Ok(())
    }
}

#[test]
fn a_worker_keeps_operands_that_cannot_be_merged() {
    let storage = Storage::new();
    let mut options = storage.options();
    options
        .set_disable_auto_compactions(true)
        .set_merge_operator(Own);
    let service = InProcess::honest(&options);
    options.set_compaction_service(service.clone());
    let db = Db::open(&options, HERE).unwrap();
    for operand in ["a", "fail", "b"] {
        db.merge("sick", operand).unwrap();
        db.put("well", operand).unwrap();
        db.flush().unwrap();
    }
    compact(&db).unwrap();
    assert_eq!(service.ended(), [CompactionServiceJobStatus::Success]);
    assert!(db.get("sick").is_err());
    assert_eq!(db.get_merge_operands("sick").unwrap().len(), 3);
    assert_eq!(db.get("well").unwrap().unwrap(), b"b"[..]);
}

#[test]
fn a_worker_without_the_merge_operator_refuses() {
    for is_given in [false, true] {
        let storage = Storage::new();
        let mut options = storage.options();
        options.set_disable_auto_compactions(true);
        let mut worker = options.clone();
        options.set_merge_operator(Own);
        if is_given {
            worker.set_merge_operator(Own);
        }
        let service = InProcess::honest(&worker);
        options.set_compaction_service(service.clone());
        let (db, before) = prepared(&options);
        compact(&db).unwrap();
        assert_eq!(contents(&db), before);
        let expected = match is_given {
            true => CompactionServiceJobStatus::Success,
            false => CompactionServiceJobStatus::Failure,
        };
        assert_eq!(service.ended()[0], expected);
    }
}

#[test]
fn parts_of_a_job_have_the_entries_of_the_whole() {
    let storage = Storage::new();
    let options = options(&storage);
    let (db, _) = prepared(&options);
    let names: Vec<String> = tables(&storage.memory)
        .iter()
        .map(|name| hex(name))
        .collect();
    let options_file = storage.memory.list(HERE.as_ref()).unwrap().into_iter();
    let options_file =
        options_file.filter_map(|entry| entry.name.strip_prefix("OPTIONS-")?.parse::<u64>().ok());
    let options_file = options_file.max().unwrap();
    let env = koeldb::Env::new(Arc::new(storage.memory.clone()), Arc::new(SystemClock));
    let run = |number: u32, bounds: &str| {
        let mut input = 1_u32.to_le_bytes().to_vec();
        let text = format!(
            "cf_name={};input_files={};output_level=6;db_id={};options_file_number={options_file};{bounds}",
            hex("default"),
            names.join(":"),
            hex(db.identity()),
        );
        input.extend_from_slice(text.as_bytes());
        let output = output_of(&number.to_string());
        Db::open_and_compact(&options, HERE, &output, &input).unwrap();
        let mut found = Vec::new();
        let entries = storage.memory.list(&output).unwrap().into_iter();
        let mut names: Vec<String> = entries.map(|entry| entry.name).collect();
        names.retain(|name| name.ends_with(".sst"));
        names.sort();
        for name in names {
            let reader =
                SstFileReader::open_in(options.cf_options(), output.join(name), &env).unwrap();
            for entry in reader.entries().unwrap() {
                let entry = entry.unwrap();
                found.push((entry.key.to_vec(), entry.value.to_vec()));
            }
        }
        found
    };
    let middle = hex("key100");
    let whole = run(0, "");
    let mut parts = run(1, &format!("has_end=true;end={middle};"));
    let border = b"key100".to_vec();
    assert!(!parts.is_empty() && parts.iter().all(|(key, _)| *key < border));
    let rest = run(2, &format!("has_begin=true;begin={middle};"));
    assert!(rest.iter().all(|(key, _)| *key >= border));
    parts.extend(rest);
    assert_eq!(parts, whole);
    let error = Db::open_and_compact(&options, HERE, output_of("0"), b"\x01\0\0\0a=;").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}
