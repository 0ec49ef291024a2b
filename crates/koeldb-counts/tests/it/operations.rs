//! The costs of the operations of a database, beside the table of `docs/architecture.md`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use koeldb::fs::layer::{Call, Layer, Layered, Operation};
use koeldb::fs::{PosixFileSystem, Purpose, SystemClock};
use koeldb::{Db, Env, Options, TransactionDbOptions, WriteOptions};
use koeldb_counts::record::{self, Record};
use koeldb_counts::sync::Arc;

use crate::costs::{COLUMNS, Costs, costs, explain, lower_quartile, shared_addresses};
use crate::threads::Worker;

/// Rounds before counting, after which every thread has its slots and buffers.
const WARM: usize = 1000;
/// The same for a group, whose rounds take longer.
const WARM_GROUP: usize = 40;
/// Counted rounds.
const ROUNDS: usize = 33;
/// Counts of a row that differs from the page: on a loaded machine the threads of a group may meet in the
/// memtable in most rounds. A cost that has changed differs in every count.
const ATTEMPTS: usize = 8;
const MEMBERS: usize = 8;

/// A directory that goes away.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("koeldb-counts-{}-{number}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options() -> Options {
    let mut options = Options::new();
    options.create_if_missing(true);
    options
}

/// A key of a thread and a round of its own.
fn own_key(thread: usize, round: usize) -> String {
    format!("{thread:08}{round:08}")
}

/// A key that both threads use: they share its block.
fn common_key(_: usize, round: usize) -> String {
    own_key(0, round)
}

const VALUE: [u8; 100] = [7; 100];

/// A row of the table, and the origins of its counts.
struct Row {
    name: &'static str,
    costs: Costs,
    origins: String,
}

/// Counts an operation on a database, which two threads execute in turn: an address that both change is
/// shared. `key` returns the key for a thread and a round.
fn alone(
    name: &'static str,
    db: &Db,
    key: fn(usize, usize) -> String,
    operation: impl Fn(&Db, &str) + Clone + Send + 'static,
) -> Row {
    let workers = [Worker::new(), Worker::new()];
    let mut rounds: [Vec<Vec<Record>>; 2] = Default::default();
    for round in 0..WARM + ROUNDS {
        for (thread, worker) in workers.iter().enumerate() {
            let (db, operation, key) = (db.clone(), operation.clone(), key(thread, round));
            worker.start(move || record::during(|| operation(&db, &key)).1);
            let records = worker.result();
            if round >= WARM {
                rounds[thread].push(records);
            }
        }
    }
    let whole = rounds.each_ref().map(|rounds| rounds.concat());
    let shared = shared_addresses(whole.iter().map(Vec::as_slice));
    row(name, &rounds[1], &shared)
}

/// Makes a row, and lists the origins of the round that is nearest to it.
fn row(name: &'static str, rounds: &[Vec<Record>], shared: &BTreeSet<usize>) -> Row {
    let counted: Vec<Costs> = rounds
        .iter()
        .map(|records| costs(records, shared))
        .collect();
    let quartile = lower_quartile(&counted);
    let distance = |costs: &Costs| -> usize {
        let columns = costs.iter().zip(&quartile);
        columns.map(|(count, usual)| count.abs_diff(*usual)).sum()
    };
    let nearest = (0..rounds.len()).min_by_key(|&round| distance(&counted[round]));
    Row {
        name,
        costs: quartile,
        origins: explain(&rounds[nearest.unwrap()], shared),
    }
}

/// A layer that holds one write to the log, and counts them.
#[derive(Debug)]
struct LogGate {
    is_closed: AtomicBool,
    appends: AtomicUsize,
    reached: Mutex<Sender<()>>,
    opened: Mutex<Receiver<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Layer for LogGate {
    fn around<T>(
        &self,
        call: &Call<'_>,
        proceed: impl FnOnce() -> koeldb::Result<T>,
    ) -> koeldb::Result<T> {
        if call.purpose == Some(Purpose::Wal) && call.operation == Operation::Append {
            self.appends.fetch_add(1, Ordering::SeqCst);
            if self.is_closed.swap(false, Ordering::SeqCst) {
                let _ = lock(&self.reached).send(());
                let _ = lock(&self.opened).recv();
            }
        }
        proceed()
    }
}

/// Counts a group of eight puts as a whole. A ninth thread holds leadership while they are queued.
///
/// `is_awake` lets the members spin until their group ends; otherwise all of them sleep before it begins.
fn group(name: &'static str, is_awake: bool) -> Row {
    let (reached, arrivals) = channel();
    let (open, opened) = channel();
    let gate = LogGate {
        is_closed: AtomicBool::new(false),
        appends: AtomicUsize::new(0),
        reached: Mutex::new(reached),
        opened: Mutex::new(opened),
    };
    let scratch = Scratch::new();
    let fs = Layered::with_layer(Arc::new(PosixFileSystem::default()), gate);
    let mut options = options();
    options.set_env(&Env::new(Arc::new(fs.clone()), Arc::new(SystemClock)));
    let db = Db::open(&options, scratch.path()).unwrap();
    let gate = fs.layer();
    let opener = Worker::new();
    let members: Vec<Worker> = (0..MEMBERS).map(|_| Worker::new()).collect();
    let mut rounds = Vec::new();
    let mut all: Vec<Vec<Record>> = vec![Vec::new(); MEMBERS];
    for round in 0..WARM_GROUP + ROUNDS {
        let put = |thread| {
            let (db, key) = (db.clone(), own_key(thread, round));
            move || record::during(|| db.put(&key, VALUE).unwrap()).1
        };
        let appends = gate.appends.load(Ordering::SeqCst);
        record::hold_spinners(is_awake);
        gate.is_closed.store(true, Ordering::SeqCst);
        opener.start(put(MEMBERS));
        arrivals.recv().unwrap();
        for (thread, member) in members.iter().enumerate() {
            let put = put(thread);
            member.start(put);
            while record::waiting() <= thread {
                std::thread::yield_now();
            }
        }
        open.send(()).unwrap();
        let counted: Vec<Vec<Record>> = members.iter().map(Worker::result).collect();
        opener.result::<Vec<Record>>();
        record::hold_spinners(false);
        let appended = gate.appends.load(Ordering::SeqCst) - appends;
        assert_eq!(appended, 2, "the members are one group");
        if round >= WARM_GROUP {
            for (all, counted) in all.iter_mut().zip(&counted) {
                all.extend(counted);
            }
            rounds.push(counted.concat());
        }
    }
    let shared = shared_addresses(all.iter().map(Vec::as_slice));
    db.close().unwrap();
    row(name, &rounds, &shared)
}

fn puts() -> Vec<Row> {
    let scratch = Scratch::new();
    let db = Db::open(&options(), scratch.path()).unwrap();
    let put = alone("put", &db, own_key, |db, key| db.put(key, VALUE).unwrap());
    let mut unlogged = WriteOptions::new();
    unlogged.disable_wal(true);
    let put_unlogged = alone("put without log", &db, own_key, move |db, key| {
        db.put_opt(key, VALUE, &unlogged).unwrap();
    });
    db.close().unwrap();
    vec![
        put,
        put_unlogged,
        group("8 puts in a group, awake", true),
        group("8 puts in a group, asleep", false),
    ]
}

/// Creates a database with keys in a table, or in the memtable.
fn filled(scratch: &Scratch, is_flushed: bool) -> Db {
    let db = Db::open(&options(), scratch.path()).unwrap();
    for round in 0..WARM + ROUNDS {
        db.put(common_key(0, round), VALUE).unwrap();
    }
    if is_flushed {
        db.flush().unwrap();
    }
    db
}

fn reads() -> Vec<Row> {
    let get = |db: &Db, key: &str| assert!(db.get(key).unwrap().is_some());
    let seek = |db: &Db, key: &str| assert!(db.cursor().seek(key).unwrap());
    let take = |db: &Db, _: &str| drop(db.snapshot());
    let (scratches, dbs): (Vec<_>, Vec<_>) = [false, true]
        .map(|is_flushed| {
            let scratch = Scratch::new();
            let db = filled(&scratch, is_flushed);
            (scratch, db)
        })
        .into_iter()
        .unzip();
    let rows = vec![
        alone("get, memtable", &dbs[0], common_key, get),
        alone("get, table, cached block", &dbs[1], common_key, get),
        alone(
            "cursor (create, seek, drop), memtable",
            &dbs[0],
            common_key,
            seek,
        ),
        alone(
            "cursor (create, seek, drop), table, cached block",
            &dbs[1],
            common_key,
            seek,
        ),
        alone("snapshot (take, release)", &dbs[0], common_key, take),
    ];
    for db in dbs {
        db.close().unwrap();
    }
    drop(scratches);
    rows
}

fn transactions() -> Vec<Row> {
    let scratch = Scratch::new();
    let mut options = options();
    options.set_transactions(&TransactionDbOptions::new());
    let db = Db::open(&options, scratch.path()).unwrap();
    let put = |db: &Db, key: &str| db.put(key, VALUE).unwrap();
    let transact = |db: &Db, key: &str| {
        let mut transaction = db.transaction();
        transaction.put(key, VALUE).unwrap();
        transaction.commit().unwrap();
    };
    let rows = vec![
        alone("put, transaction database", &db, own_key, put),
        alone("transaction (begin, put, commit)", &db, own_key, transact),
    ];
    db.close().unwrap();
    rows
}

const BEGIN: &str = "<!-- Generated: REWRITE=1 .ci/counts -->";
const END: &str = "<!-- End of the generated part -->";

/// Writes a row as the page has it.
fn line(row: &Row) -> String {
    let costs = row.costs.map(|count| count.to_string());
    format!("| {} | {} |", row.name, costs.join(" | "))
}

/// Writes the table as the page has it.
fn table(rows: &[Row]) -> String {
    let mut text = format!("| operation | {} |\n|---|", COLUMNS.join(" | "));
    text += &"---|".repeat(COLUMNS.len());
    for row in rows {
        text += &format!("\n{}", line(row));
    }
    text
}

fn count_all() -> Vec<Row> {
    [puts(), reads(), transactions()]
        .into_iter()
        .flatten()
        .collect()
}

/// Every number of the table in `docs/architecture.md` is that of this test. A number that grows fails it,
/// and one that shrinks too, so that the page stays true.
#[test]
fn operations_touch_as_much_shared_state_as_documented() {
    record::keep_memory();
    let mut rows = count_all();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/architecture.md");
    let before = std::fs::read_to_string(&page).unwrap();
    let (start, rest) = before.split_once(BEGIN).unwrap();
    let (documented, end) = rest.split_once(END).unwrap();
    let rewrites = std::env::var_os("REWRITE").is_some();
    for _ in 1..ATTEMPTS {
        let is_documented = |row: &Row| documented.lines().any(|known| known == line(row));
        if rewrites || rows.iter().all(is_documented) {
            break;
        }
        for (row, again) in rows.iter_mut().zip(count_all()) {
            if !is_documented(row) {
                *row = again;
            }
        }
    }
    let counted = table(&rows);
    if rewrites {
        std::fs::write(&page, format!("{start}{BEGIN}\n\n{counted}\n\n{END}{end}")).unwrap();
    }
    for row in &rows {
        println!("{}: {:?}\n{}", row.name, row.costs, row.origins);
    }
    println!("{counted}");
    for (row, line) in rows.iter().zip(documented.trim().lines().skip(2)) {
        if !counted.lines().any(|counted| counted == line) {
            println!("documented of {}: {line}", row.name);
        }
    }
    assert!(
        documented.trim() == counted || rewrites,
        "docs/architecture.md has other counts; REWRITE=1 .ci/counts writes them"
    );
}
