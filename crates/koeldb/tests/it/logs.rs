//! Log switches, flushes and dropped column families in every order.
//!
//! With all log options, a crash or a close loses no guaranteed data. Each program runs often in
//! the setting in which it once lost data, and some times in every other one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koeldb::fs::{
    Clock, FaultAction, FaultFileSystem, FaultRule, FileSystem, MemoryFileSystem, Operation,
    Purpose, SurvivalPolicy, SystemClock,
};
use koeldb::{ColumnFamily, Compression, Db, Env, FlushOptions, Options, WriteOptions};
use koeldb_testkit::random::{Random, mix};
use koeldb_testkit::{Floors, Summary};

use crate::golden::golden;
use crate::prelude::creating;
use crate::scratch::files;

const DIRECTORY: &str = "/db";

/// Options that affect writing and switching logs, and the initial contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    compressed: bool,
    /// The directory begins with logs that RocksDB recycled, and logs are recycled.
    recycled: bool,
    manual_flush: bool,
    pipelined: bool,
    unordered: bool,
    family_count: usize,
}

impl Setting {
    /// The options of a new database, with a number of column families.
    const fn of_families(family_count: usize) -> Self {
        Setting {
            compressed: false,
            recycled: false,
            manual_flush: false,
            pipelined: false,
            unordered: false,
            family_count,
        }
    }

    /// Every combination; in the short form, each with only one number of column families.
    fn all() -> Vec<Setting> {
        let mut all = Vec::new();
        // Pipelined and unordered writes exclude each other.
        for bits in (0..32_u32).filter(|bits| bits & 24 < 24) {
            let some = 2 + usize::try_from(bits % 4).unwrap();
            for family_count in Floors::chosen().of(some..=some, 1..=5, 1..=5) {
                all.push(Setting {
                    compressed: bits & 1 > 0,
                    recycled: bits & 2 > 0,
                    manual_flush: bits & 4 > 0,
                    pipelined: bits & 8 > 0,
                    unordered: bits & 16 > 0,
                    family_count,
                });
            }
        }
        all
    }

    fn options(self, fs: &MemoryFileSystem) -> Options {
        // A flush takes long enough for later steps to run during it.
        let slow = FaultFileSystem::new(Arc::new(fs.clone()), 0);
        let sync = FaultAction::Call(Arc::new(|_| {
            std::thread::sleep(Duration::from_micros(300));
        }));
        slow.add_rule(
            FaultRule::new(sync)
                .on(&[Operation::SyncData, Operation::SyncAll])
                .purpose(Purpose::Flush),
        );
        let mut options = creating();
        options
            .set_write_buffer_size(1 << 20)
            .set_recycle_log_file_num(if self.recycled { 2 } else { 0 })
            .set_manual_wal_flush(self.manual_flush)
            .set_enable_pipelined_write(self.pipelined)
            .set_unordered_write(self.unordered)
            .set_env(&Env::new(Arc::new(slow), Arc::new(SystemClock)));
        if self.compressed && Compression::Zstd.is_available() {
            options.set_wal_compression(Compression::Zstd);
        }
        options
    }

    /// A file system with the directory as it is before the first open.
    fn directory(self) -> MemoryFileSystem {
        let fs = MemoryFileSystem::new();
        if self.recycled {
            fs.create_dir_all(Path::new(DIRECTORY)).unwrap();
            for (name, bytes) in files(&golden("wal-recycled")) {
                let path = Path::new(DIRECTORY).join(name);
                let mut file = fs.create(&path, &koeldb::fs::WriteOptions::default());
                let file = file.as_mut().unwrap();
                file.append(&bytes).unwrap();
                file.sync_all().unwrap();
            }
            fs.sync_dir(Path::new(DIRECTORY)).unwrap();
            fs.sync_dir(Path::new("/")).unwrap();
        }
        fs
    }
}

/// A step of a program; column families are indexes into the list.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put(usize),
    SyncedPut(usize),
    /// A flush that is not waited for.
    Flush(usize),
    FlushAndWait(usize),
    Create,
    Drop(usize),
}

/// The guaranteed contents: for each column family, the keys that were put.
type Owed = BTreeMap<String, BTreeMap<String, String>>;

/// A database and its acknowledged writes.
struct Session {
    db: Db,
    families: Vec<ColumnFamily>,
    owed: Owed,
    count: u64,
}

impl Session {
    fn open(setting: Setting, fs: &MemoryFileSystem, owed: Owed, count: u64) -> Self {
        let options = setting.options(fs);
        let mut builder = Db::builder(&options);
        builder.column_families(owed.keys().cloned());
        let db = builder
            .open(DIRECTORY)
            .unwrap_or_else(|error| panic!("{setting:?}: {error}"));
        let mut session = Session {
            families: owed
                .keys()
                .map(|name| db.cf_handle(name).unwrap())
                .collect(),
            db,
            owed,
            count,
        };
        if setting.recycled && count == 0 {
            let entries = session.db.iterator(koeldb::IteratorMode::Start);
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let default = session.owed.get_mut("default").unwrap();
            default.extend(entries.map(|entry| {
                let (key, value) = entry.unwrap();
                (text(&key), text(&value))
            }));
        }
        while session.families.len() < setting.family_count {
            session.create();
        }
        session
    }

    fn create(&mut self) {
        self.count += 1;
        let name = format!("family{}", self.count);
        let family = self.db.create_cf(&name, &Default::default()).unwrap();
        self.owed.insert(name, BTreeMap::new());
        self.families.push(family);
    }

    fn put(&mut self, family: usize, sync: bool) {
        self.count += 1;
        let family = &self.families[family % self.families.len()];
        let (key, value) = (format!("key{}", self.count), format!("{:200}", self.count));
        let mut options = WriteOptions::new();
        options.set_sync(sync);
        family.put_opt(&key, &value, &options).unwrap();
        self.owed.get_mut(family.name()).unwrap().insert(key, value);
    }

    fn flush(&self, family: usize, wait: bool) {
        let mut options = FlushOptions::new();
        options.set_wait(wait);
        let family = &self.families[family % self.families.len()];
        family.flush_opt(&options).unwrap();
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Put(family) => self.put(family, false),
            Step::SyncedPut(family) => self.put(family, true),
            Step::Flush(family) => self.flush(family, false),
            Step::FlushAndWait(family) => self.flush(family, true),
            Step::Create => self.create(),
            Step::Drop(family) => {
                let at = family % self.families.len();
                if self.families[at].name() != "default" {
                    let family = self.families.remove(at);
                    self.db.drop_cf(&family).unwrap();
                    self.owed.remove(family.name());
                }
            }
        }
    }

    fn check(&self, what: &dyn Fn() -> String) {
        for (name, owed) in &self.owed {
            let family = self.db.cf_handle(name).unwrap();
            for (key, value) in owed {
                let found = family.get(key).unwrap();
                assert_eq!(
                    found.as_deref(),
                    Some(value.as_bytes()),
                    "{key} of {name}: {}\n{}",
                    what(),
                    self.db.recovery_report()
                );
            }
        }
    }
}

/// Runs two processes, each of which ends with a power cut, a kill or a close.
///
/// Each runs all steps and a synced put before. The next open is checked.
fn lives(setting: Setting, run: u64, steps: &[Step]) {
    let mut fs = setting.directory();
    let mut owed = Owed::from([("default".to_owned(), BTreeMap::new())]);
    let mut count = 0;
    for life in 0..3_u64 {
        let mut session = Session::open(setting, &fs, owed, count);
        let end = mix(run.wrapping_mul(3).wrapping_add(life));
        session.check(&|| format!("{setting:?}, run {run}, life {life}: {steps:?}"));
        if life == 2 {
            return;
        }
        for &step in steps {
            session.take(step);
        }
        session.put(0, true);
        (owed, count) = (session.owed, session.count);
        // Synced data survives everything.
        let policy = SurvivalPolicy::ALL[usize::try_from(end % 14).unwrap()];
        if (end >> 32).is_multiple_of(2) {
            session.families.clear();
            session.db.close().unwrap();
        }
        fs = fs.crash_image(policy, end);
    }
}

/// Threads that run programs: more than processors, as most of the time syncs are slow.
const THREADS: usize = 8;

/// Runs a program in every setting, and most often in `worst`.
fn in_every_setting(
    program: &'static str,
    worst: Setting,
    steps: impl Fn(Setting, u64) -> Vec<Step> + Sync,
) {
    let begun = SystemClock.now();
    let (in_worst, in_others) = Floors::chosen().of((1, 1), (100, 8), (1000, 500));
    let mut settings = Setting::all();
    settings.retain(|setting| *setting != worst);
    let others = settings.len() as u64 * in_others;
    let next = AtomicU64::new(0);
    let runs = in_worst + others;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let run = next.fetch_add(1, Ordering::Relaxed);
                    if run >= runs {
                        break;
                    }
                    let index = usize::try_from(run % settings.len() as u64).unwrap();
                    let setting = if run < others { settings[index] } else { worst };
                    lives(setting, run, &steps(setting, run));
                }
            });
        }
    });
    Summary {
        suite: "logs",
        seed: 0,
        figures: vec![
            (program, runs),
            ("settings", settings.len() as u64 + 1),
            ("in_worst", in_worst),
        ],
        seconds: (SystemClock.now() - begun).as_secs_f64(),
        failures: 0,
    }
    .finish(program, runs);
}

#[test]
fn a_synced_put_behind_flushes_of_all_families_survives() {
    let worst = Setting {
        compressed: true,
        ..Setting::of_families(2)
    };
    in_every_setting("flushes", worst, |setting, _| {
        let all = 0..setting.family_count;
        let puts = all.clone().map(Step::Put);
        puts.chain(all.map(Step::Flush)).collect()
    });
}

#[test]
fn a_family_dropped_during_its_flush_takes_nothing_of_the_others_along() {
    in_every_setting("drops", Setting::of_families(1), |setting, _| {
        // The dropped column family is the last created one.
        let dropped = setting.family_count;
        let mut steps = vec![Step::Create];
        steps.extend((0..=dropped).map(Step::Put));
        steps.extend((1..dropped).map(Step::FlushAndWait));
        steps.extend([
            Step::FlushAndWait(0),
            Step::Put(dropped),
            Step::Flush(dropped),
        ]);
        steps.extend([Step::Drop(dropped), Step::Put(0)]);
        steps
    });
}

#[test]
fn puts_flushes_and_families_that_come_and_go_lose_nothing_in_any_order() {
    let worst = Setting {
        compressed: true,
        ..Setting::of_families(3)
    };
    in_every_setting("orders", worst, |setting, run| {
        let mut random = Random::new(mix(run).wrapping_add(setting.family_count as u64));
        let length = 4 + random.below(16);
        (0..length)
            .map(|_| {
                let family = usize::try_from(random.below(6)).unwrap();
                match random.below(12) {
                    0..5 => Step::Put(family),
                    5 => Step::SyncedPut(family),
                    6..9 => Step::Flush(family),
                    9 => Step::FlushAndWait(family),
                    10 => Step::Create,
                    _ => Step::Drop(family),
                }
            })
            .collect()
    });
}
