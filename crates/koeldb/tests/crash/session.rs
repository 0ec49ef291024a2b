//! A running script: the database, the requests and the results.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use koeldb::fs::{
    FaultFileSystem, FaultRule, FileSystem, MemoryFileSystem, Purpose, SurvivalPolicy, SystemClock,
};
use koeldb::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, Env, Error, ErrorKind, Event,
    LogLevel, Logger, Options, WriteBatch, WriteOptions, WriteOutcome,
};
use koeldb_testkit::monitor::{self, Acknowledged, OrderingMonitor};
use koeldb_testkit::oracle::{DEFAULT_FAMILY, UNLOGGED_PREFIX};
use koeldb_testkit::{Camera, Change, FamilyId, History, Random};

use crate::check;
use crate::script::{Load, Mix, Script, Step};
use crate::scripts;

/// The path of the database.
pub(crate) const PATH: &str = "/db";

/// A note of images for which the MANIFEST is lost and a repair is needed.
pub(crate) const REPAIRING: u64 = 1;

/// Drops the lines of the information log.
struct NoLog;

impl Logger for NoLog {
    fn log(&self, _level: LogLevel, _message: std::fmt::Arguments<'_>) {}

    fn is_enabled(&self, _: LogLevel) -> bool {
        false
    }
}

/// The options of a script over a file system.
pub(crate) fn options(script: &Script, fs: Arc<dyn FileSystem>) -> Options {
    options_in(script, &Env::new(fs, Arc::new(SystemClock)))
}

/// The options of a script over a crash image, to check it.
///
/// Without background threads and compactions: starting and waking a thread costs more than most
/// images, and what is recovered must not depend on them.
pub(crate) fn image_options(script: &Script, image: &MemoryFileSystem) -> Options {
    let mut options = options_in(script, &image_env(image));
    options.set_disable_auto_compactions(true);
    options
}

/// An environment without threads for a crash image.
pub(crate) fn image_env(image: &MemoryFileSystem) -> Env {
    Env::stepped(Arc::new(image.clone()), Arc::new(SystemClock), 1)
}

fn options_in(script: &Script, env: &Env) -> Options {
    let mut options = Options::new();
    scripts::base(&mut options);
    script.apply_drawn(&mut options);
    (script.options)(&mut options);
    options.set_logger(NoLog).set_env(env);
    options
}

/// Opens the database with all existing column families, which have the same options.
pub(crate) fn open(options: &Options, path: &Path) -> koeldb::Result<Db> {
    open_each(options, path, |_| options.cf_options().clone())
}

/// Opens the database of a script with all existing column families.
pub(crate) fn open_script(script: &Script, options: &Options) -> koeldb::Result<Db> {
    let of_family = |name: &str| script.family_options(options, name);
    open_each(options, Path::new(PATH), of_family)
}

fn open_each(
    options: &Options,
    path: &Path,
    of_family: impl Fn(&str) -> ColumnFamilyOptions,
) -> koeldb::Result<Db> {
    let names = match Db::list_cf(options, path) {
        Ok(names) => names,
        Err(error) if error.is_path_not_found() => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut builder = Db::builder(options);
    let families = names.into_iter().filter(|name| name != "default");
    builder.column_families(families.map(|name| {
        let own = of_family(&name);
        (name, own)
    }));
    builder.open(path)
}

/// The reason for the failure of a step.
#[derive(Debug)]
pub(crate) struct Trouble(pub(crate) String);

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble(error.to_string())
    }
}

/// A run of a script on a file system with faults.
pub(crate) struct Session<'s> {
    script: &'s Script,
    pub(crate) memory: MemoryFileSystem,
    pub(crate) faults: Arc<FaultFileSystem>,
    /// Observes the file system calls of the database.
    monitor: OrderingMonitor,
    camera: Option<Arc<Camera>>,
    pub(crate) history: Arc<History>,
    options: Options,
    db: Option<Db>,
    families: Vec<(FamilyId, ColumnFamily)>,
    random: Random,
    next_key: u64,
    /// The timestamp of the last batch.
    time: u64,
    /// Keys that were put once, for single deletions.
    once_put: Vec<(usize, Vec<u8>)>,
    seed: u64,
    /// Errors are expected.
    pub(crate) lenient: bool,
    /// The number of opens.
    opens: u32,
    /// Blob files that opens wrote with values of logs.
    pub(crate) blob_files: u64,
    /// The handle that met the first error.
    failed_at_open: Option<u32>,
    /// An error reached a caller or a listener.
    pub(crate) surfaced: Arc<AtomicBool>,
}

impl<'s> Session<'s> {
    /// Creates a session with an empty file system and no open database.
    pub(crate) fn new(script: &'s Script, seed: u64) -> Self {
        let memory = MemoryFileSystem::new();
        let faults = Arc::new(FaultFileSystem::new(Arc::new(memory.clone()), seed));
        let monitor = monitor::watch(Arc::clone(&faults) as _, Path::new(PATH));
        let surfaced = Arc::new(AtomicBool::new(false));
        Session {
            script,
            options: Self::options_over(script, &monitor, &surfaced),
            memory,
            faults,
            monitor,
            camera: None,
            history: Arc::new(History::new()),
            db: None,
            families: Vec::new(),
            random: Random::new(seed),
            next_key: 0,
            time: 0,
            once_put: Vec::new(),
            seed,
            lenient: false,
            opens: 0,
            blob_files: 0,
            failed_at_open: None,
            surfaced,
        }
    }

    fn options_over(
        script: &Script,
        monitor: &OrderingMonitor,
        surfaced: &Arc<AtomicBool>,
    ) -> Options {
        let fs: Arc<dyn FileSystem> = Arc::new(monitor.clone());
        let mut options = options(script, fs);
        // A pause of the default length outlasts a script.
        options.set_bgerror_resume_retry_interval(Duration::from_millis(20));
        let surfaced = Arc::clone(surfaced);
        options.add_event_listener(move |event: &Event<'_>| {
            if matches!(event, Event::BackgroundError(_)) {
                surfaced.store(true, Ordering::Release);
            }
        });
        options
    }

    /// Lets the system refuse more background threads than these, until the session is abandoned.
    pub(crate) fn limit_threads(&self, threads: usize) {
        let env = self.options.get_env();
        env.simulate_thread_limit(Some(threads));
    }

    /// Has images taken from now on.
    pub(crate) fn film(&mut self, camera: &Arc<Camera>) {
        camera.attach(&self.memory);
        self.camera = Some(Arc::clone(camera));
    }

    pub(crate) fn db(&self) -> Result<&Db, Trouble> {
        self.db
            .as_ref()
            .ok_or_else(|| Trouble("not open".to_owned()))
    }

    /// Opens the database; column families keep their index in the history.
    pub(crate) fn open(&mut self) -> Result<(), Trouble> {
        self.opens += 1;
        let db = open_script(self.script, &self.options)?;
        self.blob_files += db.recovery_report().blob_files_written.len() as u64;
        let known = std::mem::take(&mut self.families);
        if known.is_empty() {
            self.families
                .push((DEFAULT_FAMILY, db.default_cf().clone()));
        }
        for (id, old) in known {
            let handle = db.cf_handle(old.name());
            let handle = handle.ok_or_else(|| Trouble(format!("{} is gone", old.name())))?;
            self.families.push((id, handle));
        }
        self.db = Some(db);
        Ok(())
    }

    /// Closes the database; all acknowledged data is then guaranteed.
    pub(crate) fn close(&mut self) -> Result<(), Trouble> {
        let Some(db) = self.db.take() else {
            return Ok(());
        };
        let closed = db.close();
        drop(db);
        closed?;
        self.history.all_durable();
        if !self.options.get_avoid_flush_during_shutdown() {
            let all: Vec<FamilyId> = self.families.iter().map(|(id, _)| *id).collect();
            self.history.flushed(&all);
        }
        Ok(())
    }

    /// Forgets the handles; the files stay.
    pub(crate) fn abandon(&mut self) {
        self.db = None;
    }

    /// Whether the column families of the script drop old data.
    pub(crate) fn drops_oldest(&self) -> bool {
        self.script.drops_oldest
    }

    /// Whether the database is open.
    pub(crate) fn is_open(&self) -> bool {
        self.db.is_some()
    }

    /// Whether no handle was opened since the first error: the failed writes must not be seen.
    pub(crate) fn is_first_to_fail(&self) -> bool {
        self.failed_at_open.is_none_or(|open| open == self.opens)
    }

    /// Runs the whole script, from creation to close; unexpected errors end it.
    pub(crate) fn run(&mut self) -> Result<(), Trouble> {
        self.open()?;
        for step in self.script.steps {
            self.step(step)
                .map_err(|Trouble(text)| Trouble(format!("{step:?}: {text}")))?;
        }
        self.close()?;
        self.check_order()
    }

    /// Whether everything was made durable in the order that the rules ask for.
    pub(crate) fn check_order(&self) -> Result<(), Trouble> {
        monitor::verdict(&self.monitor).map_err(Trouble::from)
    }

    /// Records an error, which is a failure unless it is expected.
    fn met(&mut self, error: Error) -> Result<(), Trouble> {
        self.failed_at_open.get_or_insert(self.opens);
        self.surfaced.store(true, Ordering::Release);
        if self.lenient {
            Ok(())
        } else {
            Err(error.into())
        }
    }

    fn tolerate(&mut self, result: koeldb::Result<()>) -> Result<bool, Trouble> {
        match result {
            Ok(()) => Ok(true),
            Err(error) => self.met(error).map(|()| false),
        }
    }

    pub(crate) fn step(&mut self, step: &Step) -> Result<(), Trouble> {
        match *step {
            Step::Write(load) => self.write(load)?,
            Step::Flush => self.flush(None)?,
            Step::FlushFamily(name) => self.flush(Some(name))?,
            Step::FlushWal { sync } => {
                let flushed = self.db()?.flush_wal(sync);
                if self.tolerate(flushed)? {
                    if sync {
                        self.history.all_durable();
                    } else {
                        self.history.all_handed();
                    }
                }
            }
            Step::Compact => {
                let compacted = self.db()?.compact_all(&CompactRangeOptions::new());
                if self.tolerate(compacted)? {
                    let all: Vec<FamilyId> = self.families.iter().map(|(id, _)| *id).collect();
                    self.history.flushed(&all);
                }
            }
            Step::Wait => {
                let waited = self.db()?.wait_for_compact(Some(check::DEADLINE));
                self.tolerate(waited)?;
            }
            Step::Create(name) => self.create(name)?,
            Step::Drop(name) => self.drop_family(name)?,
            Step::SetOption(name, value) => {
                let set = self.db()?.default_cf().set_options([(name, value)]);
                self.tolerate(set)?;
            }
            Step::SetDbOption(name, value) => {
                let set = self.db()?.set_db_options([(name, value)]);
                self.tolerate(set)?;
            }
            Step::Reopen => {
                self.close()?;
                self.open()?;
            }
            Step::Kill => self.kill()?,
            Step::Repair => self.repair()?,
            Step::ReadOnly => self.read_only()?,
            Step::Break(failure, operations) => {
                self.lenient = true;
                let rule = FaultRule::fail(failure)
                    .on(operations)
                    .purpose(Purpose::Wal);
                self.faults.add_rule(rule);
            }
            Step::Resume => {
                self.faults.clear_rules();
                self.lenient = false;
                self.db()?.resume()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self, only: Option<&str>) -> Result<(), Trouble> {
        let chosen: Vec<FamilyId> = self
            .families
            .iter()
            .filter(|(_, family)| only.is_none_or(|name| family.name() == name))
            .map(|(id, _)| *id)
            .collect();
        let flushed = match only {
            None => self.db()?.flush(),
            Some(name) => {
                let family = self
                    .families
                    .iter()
                    .find(|(_, family)| family.name() == name);
                family.map_or(Ok(()), |(_, family)| family.flush())
            }
        };
        if self.tolerate(flushed)? {
            self.history.flushed(&chosen);
        }
        Ok(())
    }

    fn create(&mut self, name: &str) -> Result<(), Trouble> {
        let id = self.history.begin_create(name);
        let options = match self.script.drawn {
            Some(_) => self.script.family_options(&self.options, name),
            None => self.db()?.default_cf().options(),
        };
        match self.db()?.create_cf(name, &options) {
            Ok(family) => {
                self.history.created(id);
                self.families.push((id, family));
                Ok(())
            }
            Err(error) => {
                let was_refused = error.write_outcome() == Some(WriteOutcome::NotApplied);
                if was_refused || error.kind() == ErrorKind::InvalidArgument {
                    self.history.dropped(id);
                }
                self.met(error)
            }
        }
    }

    fn drop_family(&mut self, name: &str) -> Result<(), Trouble> {
        let Some(index) = self
            .families
            .iter()
            .position(|(_, family)| family.name() == name)
        else {
            return Ok(());
        };
        let (id, family) = self.families.remove(index);
        self.history.begin_drop(id);
        match self.db()?.drop_cf(&family) {
            Ok(()) => self.history.dropped(id),
            Err(error) => {
                if error.write_outcome() == Some(WriteOutcome::NotApplied) {
                    self.history.created(id);
                    self.families.insert(index, (id, family));
                }
                self.met(error)?;
            }
        }
        Ok(())
    }

    fn kill(&mut self) -> Result<(), Trouble> {
        Camera::detach(&self.memory);
        let left = self.memory.crash_image(SurvivalPolicy::Generous, 0);
        self.abandon();
        self.memory = left;
        self.faults = Arc::new(FaultFileSystem::new(
            Arc::new(self.memory.clone()),
            self.seed,
        ));
        self.check_order()?;
        self.monitor = monitor::watch(Arc::clone(&self.faults) as _, Path::new(PATH));
        self.options = Self::options_over(self.script, &self.monitor, &self.surfaced);
        if let Some(camera) = &self.camera {
            camera.attach(&self.memory);
        }
        self.open()
    }

    fn repair(&mut self) -> Result<(), Trouble> {
        self.close()?;
        Camera::detach(&self.memory);
        for entry in self.memory.list(Path::new(PATH))? {
            if entry.name.starts_with("MANIFEST-") {
                self.memory.remove_file(&Path::new(PATH).join(entry.name))?;
            }
        }
        self.memory.sync_dir(Path::new(PATH))?;
        self.monitor.layer().forget();
        if let Some(camera) = &self.camera {
            camera.set_note(REPAIRING);
            camera.attach(&self.memory);
        }
        Db::repair(&self.options, PATH)?;
        if let Some(camera) = &self.camera {
            camera.set_note(0);
        }
        self.open()
    }

    /// Checks the contents of a read-only open that must not change anything.
    fn read_only(&self) -> Result<(), Trouble> {
        let sealed = Arc::new(FaultFileSystem::new(Arc::new(self.memory.clone()), 0));
        sealed.add_rule(FaultRule::fail(koeldb::fs::Failure::ReadOnly).on_mutations());
        let fs: Arc<dyn FileSystem> = Arc::clone(&sealed) as _;
        let options = options(self.script, fs);
        let mut builder = Db::builder(&options);
        builder
            .column_families(Db::list_cf(&options, PATH)?)
            .read_only();
        let db = builder.open(PATH)?;
        let content = check::content(&db).map_err(Trouble)?;
        db.close()?;
        drop(db);
        if sealed.injection_count() > 0 {
            return Err(Trouble(format!(
                "a read-only open wrote: {:?}",
                sealed.injections()
            )));
        }
        let bounds = self.history.bounds_of_all();
        let judged = self
            .history
            .judge(&content, &bounds, koeldb_testkit::Legality::Prefix);
        judged.map(|_| ()).map_err(Trouble)
    }

    fn write(&mut self, load: Load) -> Result<(), Trouble> {
        for number in 1..=load.batches {
            let is_due = |every: usize| every > 0 && number % every == 0;
            if is_due(load.unlogged_every) {
                self.write_unlogged(load)?;
            } else {
                self.write_logged(load, is_due(load.sync_every))?;
            }
        }
        Ok(())
    }

    pub(crate) fn write_logged(&mut self, load: Load, sync: bool) -> Result<(), Trouble> {
        let family_count = self.families.len();
        let changes: Vec<(usize, Change)> = (0..load.changes)
            .map(|index| index % family_count)
            .map(|family| (family, self.change(family, load)))
            .collect();
        let mut batch = WriteBatch::new();
        for (family, change) in &changes {
            add(&mut batch, &self.families[*family].1, change);
        }
        self.date(&mut batch)?;
        let changes = changes
            .into_iter()
            .map(|(family, change)| (self.families[family].0, change));
        let number = self.history.begin(changes.collect());
        let mut options = WriteOptions::new();
        options.set_sync(sync);
        match self.db()?.write_opt(&batch, &options) {
            Ok(()) => {
                let is_handed = !self.options.get_manual_wal_flush();
                self.history.acknowledge(number, is_handed, sync);
                if sync {
                    self.monitor.layer().acknowledged(Acknowledged::Synced);
                } else if is_handed {
                    self.monitor.layer().acknowledged(Acknowledged::Handed);
                }
                Ok(())
            }
            Err(error) => {
                match error.write_outcome() {
                    Some(WriteOutcome::NotApplied) => self.history.not_applied(number),
                    Some(WriteOutcome::Indeterminate) => self.history.indeterminate(number),
                    None => {
                        return Err(Trouble(format!("a write failed without outcome: {error}")));
                    }
                }
                self.met(error)
            }
        }
    }

    fn write_unlogged(&mut self, load: Load) -> Result<(), Trouble> {
        let index = usize::try_from(self.random.below(self.families.len() as u64)).unwrap();
        let (id, family) = self.families[index].clone();
        let mut batch = WriteBatch::new();
        let mut changes = Vec::new();
        for _ in 0..load.changes {
            let mut key = vec![UNLOGGED_PREFIX];
            key.extend_from_slice(format!("{:03}", self.random.below(40)).as_bytes());
            let change = Change::Put(key, self.value(load));
            add(&mut batch, &family, &change);
            changes.push(change);
        }
        self.date(&mut batch)?;
        self.history.begin_unlogged(id, changes);
        let mut options = WriteOptions::new();
        options.disable_wal(true);
        match self.db()?.write_opt(&batch, &options) {
            Ok(()) => {
                self.history.acknowledge_unlogged(id);
                Ok(())
            }
            Err(error) => {
                self.history.not_applied_unlogged(id);
                self.met(error)
            }
        }
    }

    /// Gives the keys of families that have timestamps the next one.
    fn date(&mut self, batch: &mut WriteBatch) -> Result<(), Trouble> {
        self.time += 1;
        batch.update_timestamps(self.time.to_le_bytes())?;
        Ok(())
    }

    /// Returns an identifiable value that does not compress well.
    fn value(&mut self, load: Load) -> Vec<u8> {
        let mut value = format!("{}:", self.random.draw()).into_bytes();
        for _ in 0..load.value_bytes / 8 {
            value.extend_from_slice(&self.random.draw().to_le_bytes());
        }
        value
    }

    fn change(&mut self, family: usize, load: Load) -> Change {
        let key = format!("k{:03}", self.random.below(40)).into_bytes();
        let chance = self.random.below(100);
        match load.mix {
            Mix::Unique => {
                self.next_key += 1;
                Change::Put(
                    format!("n{:08}", self.next_key).into_bytes(),
                    self.value(load),
                )
            }
            Mix::Everything if chance < 15 => {
                Change::Merge(key, format!("m{}", self.random.draw()).into_bytes())
            }
            Mix::Deletions | Mix::Everything if chance < 30 => Change::Delete(key),
            Mix::Deletions | Mix::Everything if chance < 35 => {
                let length = self.random.below(12);
                let to = format!("k{:03}", self.random.below(40) + length).into_bytes();
                if key < to {
                    Change::DeleteRange(key, to)
                } else {
                    Change::Delete(key)
                }
            }
            Mix::Deletions | Mix::Everything if chance < 40 => {
                self.next_key += 1;
                let key = format!("s{:08}", self.next_key).into_bytes();
                self.once_put.push((family, key.clone()));
                Change::Put(key, self.value(load))
            }
            Mix::Deletions | Mix::Everything if chance < 44 => {
                let known = self.once_put.iter().position(|(of, _)| *of == family);
                match known {
                    Some(index) => Change::SingleDelete(self.once_put.swap_remove(index).1),
                    None => Change::Delete(key),
                }
            }
            _ => Change::Put(key, self.value(load)),
        }
    }
}

/// Adds a change to a batch. Some puts are of entities, which have no timestamps.
pub(crate) fn add(batch: &mut WriteBatch, family: &ColumnFamily, change: &Change) {
    match change {
        Change::Put(key, value) if value.first() == Some(&b'7') && !check::is_dated(family) => {
            let columns = [(&b""[..], &value[..]), (b"key", key)];
            let put = batch.put_entity_cf(family, key, &columns);
            put.expect("the columns are in order")
        }
        Change::Put(key, value) => batch.put_cf(family, key, value),
        Change::Delete(key) => batch.delete_cf(family, key),
        Change::SingleDelete(key) => batch.single_delete_cf(family, key),
        Change::DeleteRange(from, to) => batch.delete_range_cf(family, from, to),
        Change::Merge(key, operand) => batch.merge_cf(family, key, operand),
    };
}
