//! Our secondary beside a primary of RocksDB that works and is killed, and its secondary beside ours.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use koeldb::{CompactRangeOptions, Db, ErrorKind, Options, WriteBatch};
use koeldb_testkit::Random;

use super::contents;
use crate::history::theirs::{RocksDb, hex};
use crate::prelude::creating;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

/// Options under which memtables, tables and MANIFESTs of RocksDB are replaced often, and logs
/// overwrite older ones.
const DATABASE: &str = "recycle_log_file_num=4;create_if_missing=true;create_missing_column_families=true;\
                        max_manifest_file_size=4096;max_background_jobs=4;\
                        delete_obsolete_files_period_micros=0";
const FAMILY: &str = "write_buffer_size=65536;level0_file_num_compaction_trigger=2";

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

struct Model {
    random: Random,
    /// By name, with the id.
    families: BTreeMap<String, (u32, Entries)>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let empty = |id| (id, BTreeMap::new());
        Model {
            random: Random::new(seed),
            families: BTreeMap::from([
                ("default".to_owned(), empty(0)),
                ("koel".to_owned(), empty(1)),
            ]),
        }
    }

    fn entries(&self, name: &str) -> Entries {
        self.families[name].1.clone()
    }

    /// A batch in the format of the log that changes a few keys of all column families.
    fn batch(&mut self) -> Vec<u8> {
        let mut data = vec![0_u8; 12];
        let mut count = 0_u32;
        for (id, entries) in self.families.values_mut() {
            for _ in 0..3 {
                let key = format!("key{:04}", self.random.below(500));
                let value = format!("{:016x}", self.random.draw()).repeat(12);
                let is_put = self.random.chance(3, 4);
                data.push(if is_put { 5 } else { 4 });
                data.push(u8::try_from(*id).unwrap());
                for text in [&key, &value][..1 + usize::from(is_put)].iter() {
                    let mut length = text.len();
                    while length >= 128 {
                        data.push(u8::try_from(length % 128 + 128).unwrap());
                        length /= 128;
                    }
                    data.push(u8::try_from(length).unwrap());
                    data.extend_from_slice(text.as_bytes());
                }
                match is_put {
                    true => entries.insert(key.into(), value.into()),
                    false => entries.remove(key.as_bytes()),
                };
                count += 1;
            }
        }
        data[8..12].copy_from_slice(&count.to_le_bytes());
        data
    }
}

fn open_theirs(rocks: &mut RocksDb, dir: &Path, others: &[&str]) {
    let dir = dir.display().to_string();
    let mut fields = vec!["open", "strings", &dir, DATABASE];
    for name in [&["default", "koel"][..], others].concat() {
        fields.extend([name, "bytewise", FAMILY]);
    }
    rocks.execute(&fields).unwrap();
}

fn catch_up(secondary: &Db) {
    for attempt in 0.. {
        match secondary.try_catch_up_with_primary() {
            Ok(_) => return,
            Err(error) if error.kind() == ErrorKind::TryAgain && attempt < 100 => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn check(secondary: &Db, model: &Model) {
    let found = contents(secondary);
    for (name, entries) in &found {
        assert!(*entries == model.entries(name), "column family {name}");
    }
    assert_eq!(found.len(), model.families.len());
}

#[test]
fn our_secondary_follows_a_primary_of_rocksdb_that_works_and_is_killed() {
    let Some(java) = Java::find() else { return };
    let (dir, own) = (ScratchDir::new(), ScratchDir::new());
    let mut rocks = RocksDb::start(java);
    open_theirs(&mut rocks, dir.path(), &[]);
    let mut model = Model::new(1);
    let mut random = Random::new(2);
    let options = Options::new();
    let mut builder = Db::builder(&options);
    builder.other_column_families(options.cf_options());
    let secondary = builder.secondary(own.path()).open(dir.path()).unwrap();
    let mut created = 0;
    for round in 0..300 {
        for _ in 0..1 + random.below(8) {
            let batch = hex(&model.batch());
            rocks.execute(&["write", "", &batch]).unwrap();
        }
        match random.below(20) {
            0..3 => {
                let name = ["default", "koel"][usize::from(random.chance(1, 2))];
                rocks.execute(&["flush", "1", name]).unwrap();
            }
            3 => {
                rocks
                    .execute(&["compact", "default", "-", "-", "", "-1"])
                    .unwrap();
            }
            4 | 5 => match model.families.remove("new") {
                Some(_) => {
                    rocks.execute(&["drop", "new"]).unwrap();
                }
                None => {
                    let answer = rocks
                        .execute(&["create", "new", "bytewise", FAMILY])
                        .unwrap();
                    let id = answer[0].parse().unwrap();
                    created += 1;
                    model
                        .families
                        .insert("new".to_owned(), (id, BTreeMap::new()));
                }
            },
            6 if round % 3 == 0 => {
                rocks.kill();
                let others: &[&str] = match model.families.contains_key("new") {
                    true => &["new"],
                    false => &[],
                };
                catch_up(&secondary);
                check(&secondary, &model);
                open_theirs(&mut rocks, dir.path(), others);
            }
            7..14 => {
                catch_up(&secondary);
                check(&secondary, &model);
            }
            _ => {}
        }
    }
    assert!(created > 0);
    catch_up(&secondary);
    check(&secondary, &model);
    let copy = dir.path().with_extension("copy");
    secondary.create_checkpoint(&copy).unwrap();
    rocks.execute(&["close"]).unwrap();
    let others: &[&str] = match model.families.contains_key("new") {
        true => &["new"],
        false => &[],
    };
    open_theirs(&mut rocks, &copy, others);
    for name in model.families.keys() {
        let found = rocks.dump(name, None, true).unwrap();
        assert!(found.into_iter().collect::<BTreeMap<_, _>>() == model.entries(name));
    }
    rocks.execute(&["close"]).unwrap();
    std::fs::remove_dir_all(&copy).unwrap();
}

#[test]
fn recycled_logs_of_a_busy_primary_of_rocksdb_are_never_damage() {
    let Some(java) = Java::find() else { return };
    let (dir, own) = (ScratchDir::new(), ScratchDir::new());
    let mut rocks = RocksDb::start(java);
    open_theirs(&mut rocks, dir.path(), &[]);
    let mut model = Model::new(5);
    let options = Options::new();
    let mut builder = Db::builder(&options);
    builder.other_column_families(options.cf_options());
    let secondary = builder.secondary(own.path()).open(dir.path()).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3_000 {
                let batch = hex(&model.batch());
                rocks.execute(&["write", "", &batch]).unwrap();
            }
            is_done.store(true, Ordering::Release);
        });
        while !is_done.load(Ordering::Acquire) {
            catch_up(&secondary);
        }
    });
    catch_up(&secondary);
    check(&secondary, &model);
    rocks.execute(&["close"]).unwrap();
}

#[test]
fn a_secondary_of_rocksdb_follows_our_primary() {
    let Some(java) = Java::find() else { return };
    let (dir, own) = (ScratchDir::new(), ScratchDir::new());
    let mut options = creating();
    options
        .set_write_buffer_size(64 << 10)
        .set_level_zero_file_num_compaction_trigger(2)
        .set_max_manifest_file_size(4 << 10)
        .set_max_manifest_space_amp_pct(0);
    let (primary, [koel]) = Db::open_cf(&options, dir.path(), ["koel"]).unwrap();
    let mut rocks = RocksDb::start(java);
    let (path, own_path) = (
        dir.path().display().to_string(),
        own.path().display().to_string(),
    );
    let open = [
        "secondary",
        &path,
        &own_path,
        "",
        "default",
        "bytewise",
        "",
        "koel",
        "bytewise",
        "",
    ];
    rocks.execute(&open).unwrap();
    let mut model = Model::new(3);
    let mut random = Random::new(4);
    for _ in 0..200 {
        for _ in 0..1 + random.below(8) {
            let batch = WriteBatch::from_data(model.batch()).unwrap();
            primary.write(&batch).unwrap();
        }
        match random.below(10) {
            0 => koel.flush().unwrap(),
            1 => primary.compact_all(&CompactRangeOptions::new()).unwrap(),
            2..5 => {
                // It does not notice that a log was removed between MANIFEST and logs.
                primary.wait_for_compact(None).unwrap();
                rocks.execute(&["catch_up"]).unwrap();
                for name in ["default", "koel"] {
                    let found = rocks.dump(name, None, true).unwrap();
                    let found: BTreeMap<_, _> = found.into_iter().collect();
                    assert!(found == model.entries(name), "column family {name}");
                }
            }
            _ => {}
        }
    }
    rocks.execute(&["catch_up"]).unwrap();
    let number = rocks.execute(&["number"]).unwrap();
    assert_eq!(number, [primary.latest_sequence_number().to_string()]);
}
