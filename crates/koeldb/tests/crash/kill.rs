//! A process under load is repeatedly killed at random times, on a real file system.
//!
//! The child writes batches from several threads and reports over a pipe which it begins and which
//! were acknowledged. Every batch of a thread puts or deletes one slot, identically in all column
//! families, and increments the counter of the thread. The parent kills the child, opens the
//! directory and checks that each thread has written a prefix of its batches, up to an acknowledged
//! one or further, and that all column families agree.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use koeldb::fs::{Clock, SystemClock};
use koeldb::{
    ColumnFamily, ColumnFamilyDescriptor, Db, IteratorMode, Options, WriteBatch, WriteOptions,
};
use koeldb_testkit::random::mix;
use koeldb_testkit::{Floors, Random, Summary};

use crate::ScratchDir;
use crate::scripts::{MEMTABLES, WRITE_MODES};

const FAMILIES: [&str; 3] = ["default", "a", "b"];
const THREADS: u64 = 2;
const SLOTS: u64 = 40;

/// The environment variable with the directory for the child.
const DIRECTORY: &str = "KOELDB_KILL_DIRECTORY";

fn options() -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .create_missing_column_families(true)
        .set_write_buffer_size(64 << 10)
        .set_target_file_size_base(32 << 10)
        .set_max_bytes_for_level_base(64 << 10)
        .set_level_zero_file_num_compaction_trigger(3);
    let mut table = koeldb::BlockBasedOptions::new();
    // Required by the tools of RocksDB 7.8.
    table.set_format_version(5);
    options.set_block_based_table_factory(&table);
    options
}

fn open(path: &Path) -> koeldb::Result<(Db, Vec<ColumnFamily>)> {
    open_with(&options(), path)
}

fn open_with(options: &Options, path: &Path) -> koeldb::Result<(Db, Vec<ColumnFamily>)> {
    let mut builder = Db::builder(options);
    builder.column_families(FAMILIES.map(ColumnFamilyDescriptor::from));
    let db = builder.open(path)?;
    let families = FAMILIES
        .iter()
        .map(|name| db.cf_handle(name).expect("it was opened"));
    let families = families.collect();
    Ok((db, families))
}

fn counter_key(thread: u64) -> String {
    format!("counter {thread}")
}

fn slot_key(thread: u64, slot: u64) -> String {
    format!("slot {thread} {slot:02}")
}

/// The value that batch `number` of `thread` puts into its slot; `None` deletes it.
fn slot_value(thread: u64, number: u64) -> Option<Vec<u8>> {
    let drawn = mix(mix(thread) ^ number);
    if drawn.is_multiple_of(7) {
        return None;
    }
    let mut value = format!("{number} ").into_bytes();
    let length = if drawn.is_multiple_of(5) { 1500 } else { 60 };
    value.extend((0..length).map(|at| b'a' + u8::try_from(mix(drawn ^ at) % 26).unwrap()));
    Some(value)
}

fn batch(families: &[ColumnFamily], thread: u64, number: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for family in families {
        let key = slot_key(thread, number % SLOTS);
        match slot_value(thread, number) {
            Some(value) => batch.put_cf(family, key, value),
            None => batch.delete_cf(family, key),
        };
        batch.put_cf(family, counter_key(thread), number.to_string());
    }
    batch
}

/// Returns the last batch of each thread in a column family, if all required ones are there.
fn prefixes(family: &ColumnFamily) -> Result<Vec<u64>, String> {
    let entries: BTreeMap<Vec<u8>, Vec<u8>> = family
        .iterator(IteratorMode::Start)
        .map(|entry| {
            entry
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .map_err(|error| error.to_string())
        })
        .collect::<Result<_, String>>()?;
    let mut known = 0;
    let mut prefixes = Vec::new();
    for thread in 0..THREADS {
        let counter = entries.get(counter_key(thread).as_bytes());
        known += usize::from(counter.is_some());
        let last: u64 = match counter {
            Some(text) => std::str::from_utf8(text).unwrap().parse().unwrap(),
            None => 0,
        };
        for slot in 0..SLOTS {
            let key = slot_key(thread, slot);
            let found = entries.get(key.as_bytes());
            known += usize::from(found.is_some());
            // The last batch up to the counter that was about this slot; batches are numbered from
            // 1.
            let writer = (0..SLOTS)
                .map(|back| last.saturating_sub(back))
                .find(|n| n % SLOTS == slot);
            let expected = writer
                .filter(|&n| n > 0)
                .and_then(|n| slot_value(thread, n));
            if found != expected.as_ref() {
                let begin = |value: Option<&Vec<u8>>| {
                    value.map(|v| {
                        v.iter()
                            .take(12)
                            .copied()
                            .collect::<Vec<u8>>()
                            .escape_ascii()
                            .to_string()
                    })
                };
                return Err(format!(
                    "family {:?}: {key} of {last} batches: found {:?}, expected {:?}",
                    family.name(),
                    begin(found),
                    begin(expected.as_ref())
                ));
            }
            if family
                .get(&key)
                .map_err(|error| error.to_string())?
                .as_deref()
                != found.map(Vec::as_slice)
            {
                return Err(format!(
                    "family {:?}: a lookup of {key} differs from a scan",
                    family.name()
                ));
            }
        }
        prefixes.push(last);
    }
    if known != entries.len() {
        return Err(format!("family {:?} has keys nobody wrote", family.name()));
    }
    Ok(prefixes)
}

/// The child: writes until it is killed.
#[test]
fn child_process() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    // Each process uses another mode, independently of the previous one.
    let life = usize::try_from(std::process::id()).unwrap();
    let (mode, set_mode) = WRITE_MODES[life % WRITE_MODES.len()];
    let (memtable, set_memtable) = MEMTABLES[life / WRITE_MODES.len() % MEMTABLES.len()];
    let mut options = options();
    set_mode(&mut options);
    set_memtable(&mut options);
    let (db, families) = open_with(&options, Path::new(&directory)).unwrap();
    let say = |text: String| {
        // One write for each line, so that a kill tears none of the previous lines.
        let _ = std::io::stderr().write_all(text.as_bytes());
    };
    say(format!("writes {mode}, into a {memtable}\n"));
    say("open\n".to_owned());
    let starts = prefixes(&families[0]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, families, say) = (&db, &families, &say);
            let from = starts[usize::try_from(thread).unwrap()] + 1;
            scope.spawn(move || {
                for number in from.. {
                    let mut options = WriteOptions::new();
                    options.set_sync(mix(number ^ 0x5_eed).is_multiple_of(16));
                    say(format!("begin {thread} {number}\n"));
                    db.write_opt(&batch(families, thread, number), &options)
                        .unwrap();
                    say(format!("end {thread} {number}\n"));
                    if number % 97 == 0 && thread == 0 {
                        families[usize::try_from(number % 3).unwrap()]
                            .flush()
                            .unwrap();
                    }
                }
            });
        }
    });
}

/// The reports of a child: for each thread the last begun and the last acknowledged batch.
#[derive(Clone, Debug, Default)]
struct Said {
    begun: BTreeMap<u64, u64>,
    acknowledged: BTreeMap<u64, u64>,
    is_open: bool,
    other: String,
}

impl Said {
    fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["open"] => self.is_open = true,
            [what @ ("begin" | "end"), thread, number] => {
                let (Ok(thread), Ok(number)) = (thread.parse(), number.parse()) else {
                    return;
                };
                let numbers = match *what {
                    "begin" => &mut self.begun,
                    _ => &mut self.acknowledged,
                };
                numbers.insert(thread, number);
            }
            _ => {
                self.other.push_str(line);
                self.other.push('\n');
            }
        }
    }
}

pub(crate) fn start_child(test: &str, variable: &str, directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(variable, directory)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs a child and kills it after `life`, counted from the end of its open or from its start.
fn run_child(directory: &Path, life: Duration, from_start: bool) -> Said {
    let mut child = start_child("kill::child_process", DIRECTORY, directory);
    let pipe = BufReader::new(child.stderr.take().unwrap());
    let said: Arc<Mutex<Said>> = Arc::default();
    let heard = Arc::clone(&said);
    let listener = std::thread::spawn(move || {
        for line in pipe.lines().map_while(Result::ok) {
            heard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(&line);
        }
    });
    let is_open = || said.lock().unwrap_or_else(PoisonError::into_inner).is_open;
    let begun = SystemClock.now();
    while !from_start && !is_open() && SystemClock.now() - begun < Duration::from_secs(30) {
        SystemClock.sleep(Duration::from_millis(1));
    }
    SystemClock.sleep(life);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    listener.join().unwrap();
    let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(
        status.signal(),
        Some(9),
        "the child ended by itself: {}",
        said.other
    );
    said
}

/// Opens and checks what a killed child left; returns the batches of each thread.
fn check(directory: &Path, said: &Said, before: &[u64]) -> Result<Vec<u64>, String> {
    let (db, families) = open(directory).map_err(|error| format!("open: {error}"))?;
    let found = prefixes(&families[0])?;
    for family in &families[1..] {
        let other = prefixes(family)?;
        if other != found {
            return Err(format!("families differ: {found:?} and {other:?} batches"));
        }
    }
    for (thread, &last) in (0..THREADS).zip(&found) {
        let known = before[usize::try_from(thread).unwrap()];
        let owed = said
            .acknowledged
            .get(&thread)
            .copied()
            .unwrap_or(0)
            .max(known);
        let begun = said.begun.get(&thread).copied().unwrap_or(0).max(known);
        if last < owed || last > begun {
            return Err(format!(
                "thread {thread}: {last} batches are there, {owed} are owed, {begun} were begun; {}\n{}",
                said.other,
                db.recovery_report()
            ));
        }
    }
    if db.recovery_report().dropped_anything() {
        // The death of a process tears at most the write in progress.
        let torn = db
            .recovery_report()
            .logs
            .iter()
            .filter(|log| log.dropped_bytes > 0)
            .count();
        if torn > 1 {
            return Err(format!("more than one torn log: {}", db.recovery_report()));
        }
    }
    db.verify_checksums().map_err(|error| error.to_string())?;
    db.close().map_err(|error| format!("close: {error}"))?;
    Ok(found)
}

/// Checks that RocksDB's tool reads the same from a copy as a read-only open.
///
/// Returns `None` without the tool.
fn check_with_rocksdb(directory: &Path) -> Option<Result<(), String>> {
    let copy = ScratchDir::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), copy.path.join(entry.file_name())).unwrap();
        }
    }
    for (name, expected) in FAMILIES.iter().zip(scans(directory)) {
        let output = Command::new("ldb")
            .arg(format!("--db={}", copy.path.display()))
            .arg(format!("--column_family={name}"))
            .args(["--hex", "scan"])
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let found = text.lines().filter(|line| line.contains(" : "));
        if !output.status.success() || !found.eq(expected.iter()) {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            return Some(Err(format!("ldb finds something else in {name}: {error}")));
        }
    }
    Some(Ok(()))
}

/// Returns the entries of each column family, as RocksDB's tool prints them.
fn scans(directory: &Path) -> Vec<Vec<String>> {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02X}")).collect() };
    let options = options();
    let mut builder = Db::builder(&options);
    builder
        .column_families(FAMILIES.map(ColumnFamilyDescriptor::from))
        .read_only();
    let db = builder.open(directory).unwrap();
    let scan = |name: &&str| {
        let entries = db.cf_handle(name).unwrap().iterator(IteratorMode::Start);
        let lines = entries.map(|entry| {
            let (key, value) = entry.unwrap();
            format!("0x{} : 0x{}", hex(&key), hex(&value))
        });
        lines.collect()
    };
    FAMILIES.iter().map(scan).collect()
}

#[test]
fn a_process_killed_at_any_moment_loses_nothing_acknowledged() {
    let seed = crate::seed();
    let begun = crate::seconds();
    let kills = Floors::chosen().of(200, 200, 1000);
    let directory = ScratchDir::new();
    let mut random = Random::new(seed);
    let mut found = vec![0; usize::try_from(THREADS).unwrap()];
    let (mut killed_opening, mut judged_by_rocksdb, mut acknowledged) = (0_u64, 0_u64, 0_u64);
    for round in 0..kills {
        let from_start = random.chance(1, 5);
        let life = Duration::from_micros(random.below(if from_start { 30_000 } else { 40_000 }));
        let said = run_child(&directory.path, life, from_start);
        killed_opening += u64::from(!said.is_open);
        // Before recovery, which the other engine has to do as well.
        let by_rocksdb = (round % 40 == 39).then(|| check_with_rocksdb(&directory.path));
        if let Some(Some(verdict)) = by_rocksdb {
            judged_by_rocksdb += 1;
            assert_eq!(verdict, Ok(()), "round {round} with KOELDB_SEED={seed}");
        }
        match check(&directory.path, &said, &found) {
            Ok(now) => {
                acknowledged += now.iter().sum::<u64>() - found.iter().sum::<u64>();
                found = now;
            }
            Err(text) => panic!("round {round} with KOELDB_SEED={seed}: {text}"),
        }
    }
    Summary {
        suite: "kill",
        seed,
        figures: vec![
            ("kills", kills),
            ("while_opening", killed_opening),
            ("batches", acknowledged),
            ("judged_by_rocksdb", judged_by_rocksdb),
        ],
        seconds: crate::seconds() - begun,
        failures: 0,
    }
    .finish("kills", 200);
}
