use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koeldb_fs::layer::{Call, Layer, Layered};
use koeldb_fs::{
    Clock, Failure, FaultAction, FaultFileSystem, FaultRule, FileSystem, MemoryFileSystem,
    Operation, Purpose, SurvivalPolicy, SystemClock,
};

use super::*;
use crate::options::Options;
use crate::{Db, Env};

const PATH: &str = "/db";
const LIMIT: Duration = Duration::from_secs(60);

fn options(fs: Arc<dyn FileSystem>) -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_size(128 << 10)
        .set_disable_auto_compactions(true)
        .set_env(&Env::new(fs, Arc::new(SystemClock)));
    options
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begun = SystemClock.now();
    while !condition() {
        assert!(SystemClock.now() - begun < LIMIT, "in vain: {what}");
        SystemClock.sleep(Duration::from_millis(1));
    }
}

/// A database and the number of its last key.
struct Loaded {
    db: Db,
    keys: u64,
}

impl Loaded {
    fn open(options: &Options) -> Self {
        let db = Db::open(options, PATH).unwrap();
        Loaded { db, keys: 0 }
    }

    fn put(&mut self) {
        self.keys += 1;
        self.db.put(self.keys.to_le_bytes(), [1; 1000]).unwrap();
    }

    /// Writes until the active memtable is filled to this number of sixteenths.
    fn fill(&mut self, sixteenths: usize) {
        let filled_bytes = |db: &Db| {
            let family = db.default_cf().data();
            family.read(|state| state.active.memtable.filled_bytes())
        };
        while filled_bytes(&self.db) < sixteenths * (8 << 10) {
            self.put();
        }
        // The next leader checks the grown memtable.
        self.put();
    }

    fn current(&self) -> FileNumber {
        let leadership = self.db.inner().commit.queue.lead();
        leadership.commit.wal.as_ref().unwrap().number
    }

    /// Waits for the standby log and returns its number.
    fn standing_by(&self) -> FileNumber {
        let standby = &self.db.inner().wals.standby;
        wait_until("a log that stands by", || {
            self.db.inner().wals.has_standby()
        });
        match &*lock(&standby.state) {
            StandbyState::Ready(log) => log.number,
            state => panic!("{state:?}"),
        }
    }

    fn has_all(&self, db: &Db) {
        for key in 1..=self.keys {
            assert!(db.get(key.to_le_bytes()).unwrap().is_some(), "key {key}");
        }
    }
}

fn logs(fs: &dyn FileSystem) -> Vec<FileNumber> {
    koeldb_log::wal::list(fs, Path::new(PATH)).unwrap()
}

#[test]
fn the_switch_takes_over_the_log_that_stands_by_and_a_close_removes_it() {
    let fs = MemoryFileSystem::new();
    let mut loaded = Loaded::open(&options(Arc::new(fs.clone())));
    loaded.fill(5);
    assert_eq!(logs(&fs), [loaded.current()], "before it is half full");
    for _ in 0..3 {
        loaded.fill(9);
        let next = loaded.standing_by();
        assert_eq!(logs(&fs).last(), Some(&next));
        let path = file_name::wal(Path::new(PATH), next);
        assert!(fs.read_all(&path, 1, Purpose::Other).unwrap().is_empty());
        assert!(next > loaded.current());
        loaded.fill(16);
        assert_eq!(loaded.current(), next);
    }
    loaded.fill(9);
    let unused = loaded.standing_by();
    loaded.db.close().unwrap();
    assert!(!logs(&fs).contains(&unused));
    let db = Db::open(&options(Arc::new(fs)), PATH).unwrap();
    loaded.has_all(&db);
}

#[test]
fn what_a_crash_leaves_of_a_log_that_stood_by_is_passed_over_and_removed() {
    let fs = MemoryFileSystem::new();
    let mut loaded = Loaded::open(&options(Arc::new(fs.clone())));
    loaded.fill(9);
    let first = loaded.standing_by();
    // Alone, and after a started log: before and after a synced write to that log.
    let mut images = vec![fs.crash_image(SurvivalPolicy::Generous, 1)];
    loaded.fill(16);
    loaded.fill(9);
    let second = loaded.standing_by();
    images.push(fs.crash_image(SurvivalPolicy::Generous, 2));
    loaded.db.flush_wal(true).unwrap();
    for policy in SurvivalPolicy::ALL {
        images.push(fs.crash_image(policy, 3));
    }
    assert!(first < second);
    for (index, image) in images.iter().enumerate() {
        let left = logs(image);
        let mut options = options(Arc::new(image.clone()));
        options.set_wal_recovery_mode(koeldb_log::RecoveryMode::AbsoluteConsistency);
        let db = Db::open(&options, PATH).unwrap();
        if index > 0 {
            loaded.has_all(&db);
        }
        assert!(!db.recovery_report().dropped_anything());
        let now = logs(image);
        assert_eq!(now.len(), 1, "{now:?}");
        assert!(now[0] > *left.last().unwrap(), "{left:?}, {now:?}");
        db.close().unwrap();
    }
}

#[test]
fn a_log_that_cannot_be_made_ahead_is_told_of_and_made_by_the_switch() {
    let faults = Arc::new(FaultFileSystem::new(Arc::new(MemoryFileSystem::new()), 0));
    let told = Arc::new(AtomicU64::new(0));
    let mut options = options(Arc::clone(&faults) as _);
    let counted = Arc::clone(&told);
    options.add_event_listener(move |event: &crate::Event<'_>| {
        if matches!(event, crate::Event::BackgroundError(_)) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut loaded = Loaded::open(&options);
    let rule = FaultRule::new(FaultAction::Fail(Failure::TooManyFiles));
    faults.add_rule(rule.on(&[Operation::Create]).purpose(Purpose::Wal).nth(1));
    loaded.fill(9);
    wait_until("somebody told", || told.load(Ordering::Relaxed) == 1);
    let before = loaded.current();
    loaded.fill(16);
    assert!(loaded.current() > before);
    loaded.fill(9);
    loaded.standing_by();
    loaded.db.close().unwrap();
    let db = Db::open(&options, PATH).unwrap();
    loaded.has_all(&db);
}

#[test]
fn a_log_that_is_made_too_late_is_removed_and_never_begun() {
    let faults = Arc::new(FaultFileSystem::new(Arc::new(MemoryFileSystem::new()), 0));
    let mut loaded = Loaded::open(&options(Arc::clone(&faults) as _));
    let rule = FaultRule::new(FaultAction::Delay(Duration::from_millis(300)));
    faults.add_rule(rule.on(&[Operation::Create]).purpose(Purpose::Wal).nth(1));
    loaded.fill(16);
    let begun = loaded.current();
    let standby = &loaded.db.inner().wals.standby;
    wait_until("the late one", || {
        matches!(&*lock(&standby.state), StandbyState::Nothing)
    });
    wait_until("its end", || logs(&*faults).last() == Some(&begun));
    loaded.put();
    assert_eq!(loaded.current(), begun);
}

#[test]
fn writes_without_a_log_have_none_made_ahead() {
    let fs = MemoryFileSystem::new();
    let mut loaded = Loaded::open(&options(Arc::new(fs.clone())));
    let mut unlogged = crate::WriteOptions::new();
    unlogged.disable_wal(true);
    let only = loaded.current();
    for key in 0..400_u64 {
        loaded
            .db
            .put_opt(key.to_le_bytes(), [1; 1000], &unlogged)
            .unwrap();
    }
    assert!(matches!(
        &*lock(&loaded.db.inner().wals.standby.state),
        StandbyState::Nothing
    ));
    assert_eq!(logs(&fs), [only]);
    // Logged data needs a standby again.
    loaded.fill(16);
    loaded.fill(9);
    loaded.standing_by();
}

/// A concurrent action.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// Lets something happen before the n-th call of a kind for a log.
#[derive(Default)]
struct BeforeLog {
    happens: Mutex<Option<(Operation, u32, Meanwhile)>>,
}

impl BeforeLog {
    fn arm(&self, operation: Operation, count: u32, meanwhile: impl FnOnce() + Send + 'static) {
        *lock(&self.happens) = Some((operation, count, Box::new(meanwhile)));
    }

    /// Returns the action that is due before this call.
    fn due(&self, call: &Call<'_>) -> Option<Meanwhile> {
        let mut happens = lock(&self.happens);
        let is_log = call.path.extension().is_some_and(|name| name == "log");
        let (operation, count, meanwhile) = happens.take()?;
        if !is_log || call.operation != operation {
            *happens = Some((operation, count, meanwhile));
            return None;
        }
        if count > 1 {
            *happens = Some((operation, count - 1, meanwhile));
            return None;
        }
        Some(meanwhile)
    }
}

impl std::fmt::Debug for BeforeLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BeforeLog")
    }
}

impl Layer for BeforeLog {
    fn around<T>(
        &self,
        call: &Call<'_>,
        proceed: impl FnOnce() -> koeldb_base::Result<T>,
    ) -> koeldb_base::Result<T> {
        if let Some(meanwhile) = self.due(call) {
            meanwhile();
        }
        proceed()
    }
}

/// A read-only open during which a writer acts before the n-th log.
fn open_beside(
    fs: &MemoryFileSystem,
    count: u32,
    meanwhile: impl FnOnce() + Send + 'static,
) -> koeldb_base::Result<Db> {
    let layer = BeforeLog::default();
    layer.arm(Operation::Open, count, meanwhile);
    let mut options = options(Arc::new(Layered::with_layer(Arc::new(fs.clone()), layer)));
    options.set_wal_recovery_mode(koeldb_log::RecoveryMode::AbsoluteConsistency);
    Db::builder(&options).read_only().open(PATH)
}

#[test]
fn a_reader_beside_a_writer_that_begins_the_log_that_stood_by_sees_no_hole() {
    for count in [1, 2] {
        let fs = MemoryFileSystem::new();
        let mut options = options(Arc::new(fs.clone()));
        // Without a flush the MANIFEST does not change, and the reader does not restart.
        options
            .set_max_write_buffer_number(4)
            .set_min_write_buffer_number_to_merge(3);
        let mut loaded = Loaded::open(&options);
        loaded.fill(9);
        let next = loaded.standing_by();
        let before = loaded.keys;
        let (sender, receiver) = std::sync::mpsc::channel();
        let reader = open_beside(&fs, count, move || {
            loaded.fill(16);
            assert_eq!(loaded.current(), next);
            for _ in 0..5 {
                loaded.put();
            }
            sender.send(loaded).unwrap();
        })
        .unwrap();
        let loaded = receiver.recv().unwrap();
        let has = |key: u64| reader.get(key.to_le_bytes()).unwrap().is_some();
        let seen = (1..=loaded.keys).take_while(|&key| has(key)).count() as u64;
        assert!(seen >= before, "{seen} of {before}");
        assert!((seen + 1..=loaded.keys).all(|key| !has(key)), "a hole");
    }
}

#[test]
fn a_reader_beside_a_writer_that_closes_does_without_the_log_that_stood_by() {
    for count in [1, 2] {
        let fs = MemoryFileSystem::new();
        let mut loaded = Loaded::open(&options(Arc::new(fs.clone())));
        loaded.fill(9);
        loaded.standing_by();
        let (db, keys) = (loaded.db.clone(), loaded.keys);
        let reader = open_beside(&fs, count, move || db.close().unwrap()).unwrap();
        Loaded {
            db: reader.clone(),
            keys,
        }
        .has_all(&reader);
    }
}

#[test]
fn a_resume_begins_no_log_that_was_made_before_the_failure() {
    let faults = Arc::new(FaultFileSystem::new(Arc::new(MemoryFileSystem::new()), 0));
    let mut loaded = Loaded::open(&options(Arc::clone(&faults) as _));
    loaded.fill(9);
    let stood_by = loaded.standing_by();
    let rule = FaultRule::new(FaultAction::Fail(Failure::Device));
    faults.add_rule(rule.on(&[Operation::SyncData]).purpose(Purpose::Wal).nth(1));
    loaded.db.flush_wal(true).unwrap_err();
    loaded.db.resume().unwrap();
    assert!(loaded.current() > stood_by);
    assert!(!logs(&*faults).contains(&stood_by));
    loaded.put();
    loaded.has_all(&loaded.db.clone());
}

#[test]
fn a_resume_begins_a_log_anew_whose_name_a_failed_sync_may_have_lost() {
    let faults = Arc::new(FaultFileSystem::new(Arc::new(MemoryFileSystem::new()), 0));
    let mut loaded = Loaded::open(&options(Arc::clone(&faults) as _));
    loaded.put();
    // The flush starts an empty log, and the directory of its table cannot be synced.
    let rule = FaultRule::new(FaultAction::Fail(Failure::Device));
    faults.add_rule(rule.on(&[Operation::SyncDir]).nth(1));
    loaded.db.flush().unwrap_err();
    let before = loaded.current();
    loaded.db.resume().unwrap();
    assert!(loaded.current() > before);
    loaded.put();
    loaded.has_all(&loaded.db.clone());
}

#[test]
fn a_panic_while_a_log_is_made_ahead_is_told_of_and_stops_writes() {
    let fs = Layered::with_layer(Arc::new(MemoryFileSystem::new()), BeforeLog::default());
    let told = Arc::new(AtomicU64::new(0));
    let mut options = options(Arc::new(fs.clone()));
    let counted = Arc::clone(&told);
    options.add_event_listener(move |event: &crate::Event<'_>| {
        if matches!(event, crate::Event::BackgroundError(_)) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let db = Db::open(&options, PATH).unwrap();
    fs.layer().arm(Operation::Create, 1, || panic!("regretted"));
    for key in 0..75_u64 {
        // The panic may stop the last ones already.
        if db.put(key.to_le_bytes(), [1; 1000]).is_err() {
            break;
        }
    }
    wait_until("somebody told", || told.load(Ordering::Relaxed) > 0);
    let error = db.put("more", "").unwrap_err();
    assert!(error.to_string().contains("regretted"), "{error}");
    assert!(db.get(7_u64.to_le_bytes()).unwrap().is_some());
}
