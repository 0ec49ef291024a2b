//! Corruption of directories: logs, MANIFEST, CURRENT, IDENTITY, OPTIONS and tables of a small
//! database.
//!
//! A damaged log may lose what its recovery mode allows, and the recovery report must say so. Any
//! other outcome must be an error or the whole content.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use koeldb::{
    BytewiseComparatorWithU64Ts, ConfigOptions, Db, DbBuilder, Env, IteratorMode, Options,
    ReadOptions, RecoveryMode, Result,
};
use koeldb_base::file_name::{self, FileKind};
use koeldb_damage::bytes_file::put_file;
use koeldb_damage::targets::directory::options;
use koeldb_fs::{FileSystem, MemoryFileSystem, Purpose, SurvivalPolicy};
use koeldb_testkit::{Floors, Random, Summary};

use crate::watch::watched;

const DIRECTORY: &str = "/db";

/// The number of cases for each kind of file and mode, unless all damage is tried.
fn cases() -> u64 {
    Floors::chosen().of(100, 1_000, u64::MAX)
}

const MODES: [RecoveryMode; 4] = [
    RecoveryMode::TolerateCorruptedTailRecords,
    RecoveryMode::AbsoluteConsistency,
    RecoveryMode::PointInTime,
    RecoveryMode::SkipAnyCorruptedRecords,
];

type Content = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// A small database: its content before its log began, and after each batch of the log.
struct Scene {
    fs: MemoryFileSystem,
    states: Vec<Content>,
}

fn builder(options: &Options) -> DbBuilder {
    let mut builder = Db::builder(options);
    builder.column_family("other");
    let mut dated = options.cf_options().clone();
    dated.set_comparator(BytewiseComparatorWithU64Ts);
    builder.column_family((DATED, dated));
    builder
}

/// The family whose keys have timestamps: the number of the round, and of the batch after [`IN_LOG`].
const DATED: &str = "dated";

/// The timestamp before those of the log.
const IN_LOG: u64 = 100;

/// Reads a family at `time`, if its keys have timestamps.
fn read_family(
    family: &koeldb::ColumnFamily,
    time: Option<u64>,
    content: &mut Content,
) -> Result<()> {
    let mut reads = ReadOptions::new();
    if let Some(time) = time {
        reads.set_timestamp(time.to_le_bytes());
    }
    let name = format!("{} at {time:?}", family.name());
    let mut backward = 0;
    for entry in family.iterator_opt(IteratorMode::End, &reads) {
        entry?;
        backward += 1;
    }
    let mut forward = 0;
    for entry in family.iterator_opt(IteratorMode::Start, &reads) {
        let (key, value) = entry?;
        assert_eq!(
            family.get_opt(&key, &reads)?.as_deref(),
            Some(&value[..]),
            "get and scan disagree"
        );
        content.insert((name.clone(), key.to_vec()), value.to_vec());
        forward += 1;
    }
    assert_eq!(forward, backward, "both directions agree");
    Ok(())
}

fn read(db: &Db) -> Result<Content> {
    let mut content = Content::new();
    for family in db.cf_handles() {
        match family.name() == DATED {
            false => read_family(&family, None, &mut content)?,
            true => {
                for time in [1, IN_LOG + 6, u64::MAX] {
                    read_family(&family, Some(time), &mut content)?;
                }
            }
        }
    }
    // Absent keys.
    for key in ["absent", "k0000x", "zzz"] {
        assert_eq!(db.get(key)?.as_deref(), None);
    }
    Ok(content)
}

impl Scene {
    fn new() -> Self {
        let fs = MemoryFileSystem::new();
        let mut how = options(&fs);
        how.create_if_missing(true)
            .create_missing_column_families(true);
        let db = builder(&how).open(DIRECTORY).unwrap();
        let other = db.cf_handle("other").unwrap();
        let dated = db.cf_handle(DATED).unwrap();
        for round in 0..2_u64 {
            let at = (round + 1).to_le_bytes();
            for number in 0..20 {
                db.put(format!("k{number:04}"), format!("{round} {number}"))
                    .unwrap();
                other.put(format!("o{number:04}"), "other").unwrap();
                let value = format!("{round} {number}");
                dated
                    .put_with_ts(format!("d{number:04}"), at, value)
                    .unwrap();
            }
            dated.delete_range_with_ts("d0003", "d0006", at).unwrap();
            db.delete_range("k0003", "k0006").unwrap();
            db.flush().unwrap();
        }
        let mut states = vec![read(&db).unwrap()];
        for number in 0..12 {
            let mut batch = koeldb::WriteBatch::new();
            batch.put(format!("w{number:04}"), "in the log".repeat(number % 4));
            batch.put_cf(&other, format!("w{number:04}"), format!("{number}"));
            batch.delete(format!("k{:04}", number + 7));
            batch.put_cf(&dated, format!("d{:04}", number % 4), format!("{number}"));
            batch.delete_cf(&dated, format!("d{:04}", number + 8));
            let time = IN_LOG + number as u64;
            batch.update_timestamps(time.to_le_bytes()).unwrap();
            db.write(&batch).unwrap();
            states.push(read(&db).unwrap());
        }
        db.flush_wal(true).unwrap();
        // The state that a crash leaves: after a close the log would be empty.
        let image = fs.crash_image(SurvivalPolicy::Generous, 0);
        drop((other, dated));
        drop(db);
        Scene { fs: image, states }
    }

    fn whole(&self) -> &Content {
        self.states.last().unwrap()
    }

    /// The files of some kinds.
    fn files(&self, wanted: impl Fn(FileKind) -> bool) -> Vec<(PathBuf, Vec<u8>)> {
        let directory = Path::new(DIRECTORY);
        let mut files = Vec::new();
        for entry in self.fs.list(directory).unwrap() {
            let path = directory.join(&entry.name);
            if file_name::parse(&entry.name).is_some_and(&wanted) {
                files.push((
                    path.clone(),
                    self.fs.read_all(&path, 1 << 30, Purpose::Open).unwrap(),
                ));
            }
        }
        files.retain(|(_, bytes)| !bytes.is_empty());
        files.sort();
        assert!(!files.is_empty());
        files
    }

    /// Opens the database with one file replaced: returns its content and recovery report, or the
    /// first error.
    fn open(
        &self,
        path: &Path,
        bytes: &[u8],
        mode: RecoveryMode,
    ) -> Result<(Content, koeldb::RecoveryReport)> {
        let fs = self.fs.crash_image(SurvivalPolicy::Generous, 0);
        put_file(&fs, path, bytes)?;
        let mut how = options(&fs);
        how.set_wal_recovery_mode(mode);
        let db = builder(&how).open(DIRECTORY)?;
        let content = read(&db)?;
        db.verify_checksums()?;
        let report = db.recovery_report().clone();
        db.close()?;
        Ok((content, report))
    }
}

/// One form of damage.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip(usize),
    Cut(usize),
    Zero(usize),
    Double(usize),
}

impl Damage {
    fn apply(self, bytes: &[u8]) -> Vec<u8> {
        let mut damaged = bytes.to_vec();
        let sector = |start: usize| start..bytes.len().min(start + 512);
        match self {
            Damage::Flip(bit) => damaged[bit / 8] ^= 1 << (bit % 8),
            Damage::Cut(len) => damaged.truncate(len),
            Damage::Zero(start) => damaged[sector(start)].fill(0),
            Damage::Double(start) => {
                let before = start.saturating_sub(512);
                damaged.copy_within(before..before + sector(start).len(), start);
            }
        }
        damaged
    }

    /// The gate's sample of damage to a file, or all of it.
    fn chosen(bytes: &[u8], seed: u64) -> Vec<Damage> {
        let bits = bytes.len() * 8;
        let mut chosen = Vec::new();
        if Floors::chosen() == Floors::Long {
            chosen.extend((0..bits).map(Damage::Flip));
            chosen.extend((0..bytes.len()).map(Damage::Cut));
        } else {
            let mut random = Random::new(seed);
            for round in 0..cases().min(bits as u64) {
                let mut below = |count: usize| usize::try_from(random.below(count as u64)).unwrap();
                chosen.push(match round % 3 {
                    0 => Damage::Cut(below(bytes.len())),
                    _ => Damage::Flip(below(bits)),
                });
            }
        }
        for start in (0..bytes.len()).step_by(512) {
            chosen.extend([Damage::Zero(start), Damage::Double(start)]);
        }
        chosen
    }
}

#[derive(Default)]
struct Tally {
    cases: u64,
    detected: u64,
    reported: u64,
    harmless: u64,
    unnoticeable: u64,
}

impl Tally {
    fn finish(&self, suite: &'static str, begun: f64, floor: u64) {
        Summary {
            suite,
            seed: crate::seed(),
            figures: vec![
                ("cases", self.cases),
                ("detected", self.detected),
                ("reported", self.reported),
                ("harmless", self.harmless),
                ("unnoticeable", self.unnoticeable),
                ("wrong", 0),
            ],
            seconds: crate::seconds() - begun,
            failures: 0,
        }
        .finish("cases", floor);
    }

    /// Opens the scene with a damaged file and judges the outcome.
    ///
    /// If it is not the whole content, `legal` decides.
    fn judge(
        &mut self,
        scene: &Scene,
        (path, bytes): &(PathBuf, Vec<u8>),
        damage: Damage,
        mode: RecoveryMode,
        legal: &dyn Fn(&Content, &koeldb::RecoveryReport, Damage) -> Option<Outcome>,
    ) {
        let damaged = damage.apply(bytes);
        let what = || {
            format!(
                "{damage:?} in {} of {} bytes, {mode:?}",
                path.display(),
                bytes.len()
            )
        };
        let mut outcome = None;
        watched(1 << 20, &what, || {
            outcome = Some(scene.open(path, &damaged, mode))
        });
        self.cases += 1;
        match outcome.unwrap() {
            Err(error) => {
                koeldb_damage::targets::judge(&error);
                self.detected += 1;
            }
            Ok((content, _)) if content == *scene.whole() => self.harmless += 1,
            Ok((content, report)) => match legal(&content, &report, damage) {
                Some(Outcome::Reported) => self.reported += 1,
                Some(Outcome::Unnoticeable) => self.unnoticeable += 1,
                None => panic!("{}: {content:?}, {report}", what()),
            },
        }
    }
}

/// A legal outcome other than the whole content.
enum Outcome {
    /// Data is missing, and the report says so.
    Reported,
    /// The file ends where it could have ended.
    Unnoticeable,
}

#[test]
fn a_damaged_log_loses_what_its_mode_says_and_the_report_says_so() {
    let begun = crate::seconds();
    let scene = Scene::new();
    let logs = scene.files(|kind| matches!(kind, FileKind::Wal(_)));
    let mut tally = Tally::default();
    for mode in MODES {
        let legal = |content: &Content, report: &koeldb::RecoveryReport, damage: Damage| {
            let is_prefix = scene.states.contains(content);
            let is_part = match mode {
                RecoveryMode::AbsoluteConsistency => false,
                RecoveryMode::SkipAnyCorruptedRecords => content.iter().all(|(key, value)| {
                    scene
                        .states
                        .iter()
                        .any(|state| state.get(key) == Some(value))
                }),
                _ => is_prefix,
            };
            let cut_between_records = matches!(damage, Damage::Cut(_)) && is_prefix;
            // After a crash there are no records after the damage.
            let is_torn = matches!(damage, Damage::Cut(_));
            assert!(
                !is_torn || report.logs.iter().all(|log| log.intact_records_after == 0),
                "{report}"
            );
            match report.dropped_anything() {
                true if is_part => Some(Outcome::Reported),
                // A log without its last records is indistinguishable from one to which they were
                // never written.
                false if cut_between_records => Some(Outcome::Unnoticeable),
                _ => None,
            }
        };
        for log in &logs {
            for damage in Damage::chosen(&log.1, crate::seed()) {
                tally.judge(&scene, log, damage, mode, &legal);
            }
        }
    }
    tally.finish("corruption-logs", begun, 4 * cases().min(10_000));
}

#[test]
fn damage_to_any_other_file_is_an_error_or_harmless() {
    let begun = crate::seconds();
    let scene = Scene::new();
    let mut tally = Tally::default();
    let never = |_: &Content, _: &koeldb::RecoveryReport, _: Damage| None;
    let others = scene.files(|kind| {
        matches!(
            kind,
            FileKind::Current | FileKind::Identity | FileKind::Options(_) | FileKind::Table(_)
        )
    });
    for file in &others {
        for damage in Damage::chosen(&file.1, crate::seed()) {
            tally.judge(&scene, file, damage, RecoveryMode::PointInTime, &never);
        }
    }
    // A table in the place of another one.
    let tables = scene.files(|kind| matches!(kind, FileKind::Table(_)));
    for (path, _) in &tables {
        for (other, bytes) in tables.iter().filter(|(other, _)| other != path) {
            let outcome = scene.open(path, bytes, RecoveryMode::PointInTime);
            let error = outcome.map(|_| ()).unwrap_err();
            assert!(
                error.is_corruption(),
                "{} as {}: {error}",
                other.display(),
                path.display()
            );
            tally.cases += 1;
            tally.detected += 1;
        }
    }
    // A MANIFEST with an incomplete last record is one whose writer died: its last change is
    // dropped and reported. No writer dies with a flipped bit.
    let older = |_: &Content, report: &koeldb::RecoveryReport, damage: Damage| match (
        &report.manifest_tail_dropped,
        damage,
    ) {
        (_, Damage::Flip(_)) => None,
        (Some(_), _) => Some(Outcome::Reported),
        (None, Damage::Cut(_)) => Some(Outcome::Unnoticeable),
        (None, _) => None,
    };
    for file in &scene.files(|kind| matches!(kind, FileKind::Manifest(_))) {
        for damage in Damage::chosen(&file.1, crate::seed()) {
            tally.judge(&scene, file, damage, RecoveryMode::PointInTime, &older);
        }
    }
    tally.finish("corruption-directories", begun, 6 * cases().min(10_000));
}

#[test]
fn a_damaged_options_file_is_refused_or_read() {
    let scene = Scene::new();
    let env = Env::new(
        std::sync::Arc::new(scene.fs.clone()),
        std::sync::Arc::new(koeldb_fs::SystemClock),
    );
    for (path, bytes) in scene.files(|kind| matches!(kind, FileKind::Options(_))) {
        for damage in Damage::chosen(&bytes, crate::seed()) {
            let damaged = damage.apply(&bytes);
            put_file(&scene.fs, &path, &damaged).unwrap();
            let what = || format!("{damage:?} in {}", path.display());
            watched(damaged.len(), &what, || {
                if let Err(error) = Options::load_file_in(&env, &path, &ConfigOptions::new()) {
                    koeldb_damage::targets::judge(&error);
                }
            });
        }
    }
}
