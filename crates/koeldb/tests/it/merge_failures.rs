//! Keys whose merge fails: their reads fail, and nothing else does.

use std::collections::BTreeMap;

use koeldb::{
    BoxError, CompactRangeOptions, Db, ErrorDetail, ErrorKind, MergeOperands, MergeOperator,
    Options, ReadOptions, Snapshot, SstFileWriter,
};
use koeldb_testkit::Random;

use crate::prelude::creating;
use crate::scratch::ScratchDir;
use crate::storage::{HERE, Storage};

/// Joins its operands; fails at one named `fail` and panics at one named `panic`, with a base or
/// without.
struct Picky;

impl Picky {
    fn join<'a>(
        parts: impl IntoIterator<Item = &'a [u8]>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        for part in parts {
            match part {
                b"fail" => return Err("unusable operand".into()),
                b"panic" => panic!("the operator panics, as the test wants it"),
                part => result.extend_from_slice(part),
            }
        }
        Ok(())
    }
}

impl MergeOperator for Picky {
    fn name(&self) -> &str {
        "Picky"
    }

    fn full_merge(
        &self,
        _: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        Picky::join(existing.into_iter().chain(operands), result)
    }

    fn partial_merge(
        &self,
        _: &[u8],
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        Picky::join(operands, result).map(|()| true)
    }
}

fn options() -> Options {
    let mut options = creating();
    options.set_merge_operator(Picky);
    options
}

/// Checks that reads of `sick` fail, and that its neighbours `a` and `z` are readable.
fn check_reads(db: &Db) {
    let error = db.get("sick").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(
        matches!(
            error.detail(),
            Some(ErrorDetail::MergeOperatorFailed | ErrorDetail::PluginPanicked)
        ),
        "{error}"
    );
    for named in ["Picky", "\"sick\"", "column family \"default\""] {
        assert!(error.to_string().contains(named), "{named}: {error}");
    }
    let answers = db.multi_get(&["a", "sick", "z"]);
    assert_eq!(answers.get(0).unwrap(), Some(&b"1"[..]));
    assert!(answers.get(1).is_err());
    assert_eq!(answers.get(2).unwrap(), Some(&b"2"[..]));
    // A scan ends at the key, and begins anew beyond it.
    let mut cursor = db.cursor();
    assert!(cursor.seek_to_first().unwrap());
    let error = cursor.next().unwrap_err();
    assert!(error.to_string().contains("\"sick\""), "{error}");
    assert!(!cursor.valid());
    assert!(cursor.status().is_err());
    assert!(cursor.seek("t").unwrap());
    assert_eq!(cursor.key(), Some(&b"z"[..]));
    assert!(cursor.prev().is_err());
    assert!(cursor.seek_for_prev("b").unwrap());
    assert_eq!(cursor.key(), Some(&b"a"[..]));
}

#[test]
fn a_key_that_cannot_be_merged_stops_no_job_and_no_other_key() {
    for (base, operand) in [
        (None, "fail"),
        (Some("x"), "fail"),
        (None, "panic"),
        (Some("x"), "panic"),
    ] {
        let dir = ScratchDir::new();
        let db = Db::open(&options(), dir.path()).unwrap();
        if let Some(base) = base {
            db.put("sick", base).unwrap();
            db.flush().unwrap();
        }
        db.put("a", "1").unwrap();
        db.put("z", "2").unwrap();
        db.merge("sick", "y").unwrap();
        db.merge("sick", operand).unwrap();
        check_reads(&db);
        db.flush().unwrap();
        check_reads(&db);
        db.merge("sick", "y").unwrap();
        db.flush().unwrap();
        for _ in 0..2 {
            db.compact_all(&CompactRangeOptions::new()).unwrap();
            check_reads(&db);
        }
        let kept = db.get_merge_operands("sick").unwrap();
        let kept: Vec<&[u8]> = kept.iter().map(|operand| &**operand).collect();
        let expected = base.into_iter().chain(["y", operand, "y"]);
        assert!(kept.into_iter().eq(expected.map(str::as_bytes)));

        // Recovery replays operands from the log, and flushes them.
        db.merge("sick", operand).unwrap();
        drop(db);
        let db = Db::open(&options(), dir.path()).unwrap();
        check_reads(&db);
        db.merge("sick", "w").unwrap();
        drop(db);
        std::fs::remove_file(dir.join("CURRENT")).unwrap();
        Db::repair(&options(), dir.path()).unwrap();
        let db = Db::open(&options(), dir.path()).unwrap();
        check_reads(&db);
        ingest(&db, &dir, operand);
        check_reads(&db);
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        check_reads(&db);

        // The application can mend the key.
        db.put("sick", "well").unwrap();
        assert_eq!(db.get("sick").unwrap().unwrap(), b"well"[..]);
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        assert_eq!(db.get_merge_operands("sick").unwrap().len(), 1);
        db.close().unwrap();
    }
}

fn ingest(db: &Db, dir: &ScratchDir, operand: &str) {
    let file = dir.join("ingested");
    let mut writer = SstFileWriter::create(db.options().cf_options(), &file).unwrap();
    writer.merge("sick", operand).unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&[file]).unwrap();
}

/// Their sequence numbers remain, as do those of entries for a snapshot, but a rewrite frees nothing.
#[test]
fn tables_with_operands_that_cannot_be_merged_are_rewritten_only_once() {
    let storage = Storage::new();
    let mut options = storage.options();
    options.set_merge_operator(Picky);
    let mut seen = Vec::new();
    for round in 0..4 {
        let db = Db::open(&options, HERE).unwrap();
        if round == 0 {
            for operand in ["y", "fail"] {
                db.put("a", "1").unwrap();
                db.merge("sick", operand).unwrap();
                db.flush().unwrap();
            }
            db.compact_all(&CompactRangeOptions::new()).unwrap();
        }
        db.wait_for_compact(None).unwrap();
        let tables: Vec<String> = db.live_files().into_iter().map(|file| file.name).collect();
        seen.push(tables);
        db.close().unwrap();
    }
    assert_eq!(seen[1], seen[2]);
    assert_eq!(seen[2], seen[3]);
}

#[test]
fn operands_without_an_operator_stop_no_job() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    db.put("sick", "x").unwrap();
    db.merge("sick", "y").unwrap();
    drop(db);
    let db = Db::open(&Options::new(), dir.path()).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    let error = db.get("sick").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(error.to_string().contains("\"sick\""), "{error}");
    assert_eq!(db.get("a").unwrap().unwrap(), b"1"[..]);
    drop(db);
    let db = Db::open(&options(), dir.path()).unwrap();
    assert_eq!(db.get("sick").unwrap().unwrap(), b"xy"[..]);
}

#[test]
fn an_error_of_a_merge_shows_a_bounded_part_of_the_key() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    let key = [[0xff; 100], [b'k'; 100]].concat();
    db.merge(&key, "fail").unwrap();
    let text = db.get(&key).unwrap_err().to_string();
    assert!(text.contains("\\xff\\xff"), "{text}");
    assert!(text.contains("136 more bytes"), "{text}");
    assert!(text.len() < 500, "{text}");
}

/// The state of a key: its base and its operands, oldest first.
#[derive(Clone, Default)]
struct History {
    base: Option<Vec<u8>>,
    operands: Vec<&'static str>,
}

impl History {
    /// The value of the key; an error if it cannot be merged.
    fn value(&self) -> Result<Option<Vec<u8>>, ()> {
        let is_sick = |operand: &&str| matches!(*operand, "fail" | "panic");
        if self.operands.iter().any(is_sick) {
            return Err(());
        }
        if self.operands.is_empty() {
            return Ok(self.base.clone());
        }
        let mut value = self.base.clone().unwrap_or_default();
        value.extend(self.operands.iter().flat_map(|operand| operand.bytes()));
        Ok(Some(value))
    }
}

type Model = BTreeMap<String, History>;

fn check_model(db: &Db, model: &Model, snapshot: Option<&Snapshot>, context: &str) {
    let mut options = ReadOptions::new();
    if let Some(snapshot) = snapshot {
        options.set_snapshot(snapshot);
    }
    for (key, history) in model {
        let found = db.get_opt(key, &options);
        let found = found.map(|value| value.map(|value| value.to_vec()));
        assert_eq!(found.map_err(|_| ()), history.value(), "{context}: {key}");
    }
    // Every visible key is found by a seek, also behind one that cannot be read.
    let mut cursor = db.cursor_opt(&options);
    for (key, history) in model {
        let found = cursor.seek(key);
        match history.value() {
            Err(()) => assert!(found.is_err(), "{context}: {key}"),
            Ok(Some(value)) => {
                assert!(found.unwrap());
                let entry = (key.as_bytes(), &*value);
                assert_eq!(cursor.entry(), Some(entry), "{context}");
            }
            Ok(None) => {}
        }
    }
}

/// Random histories in which some merges fail agree with a model.
#[test]
fn random_histories_with_keys_that_cannot_be_merged_agree_with_a_model() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let storage = Storage::new();
        let mut options = storage.options();
        options
            .set_merge_operator(Picky)
            .set_level_zero_file_num_compaction_trigger(2);
        let mut db = Db::open(&options, HERE).unwrap();
        let keys: Vec<String> = (0..6).map(|number| format!("key{number}")).collect();
        let mut model: Model = keys
            .iter()
            .map(|key| (key.clone(), History::default()))
            .collect();
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..150 {
            let key = &keys[usize::try_from(random.below(6)).unwrap()];
            let history = model.get_mut(key).unwrap();
            match random.below(20) {
                0..=7 => {
                    let operands = ["a", "b", "c", "fail", "panic"];
                    let operand = operands[usize::try_from(random.below(5)).unwrap()];
                    db.merge(key, operand).unwrap();
                    history.operands.push(operand);
                }
                8..=10 => {
                    let value = format!("{step}");
                    db.put(key, &value).unwrap();
                    *history = History {
                        base: Some(value.into_bytes()),
                        operands: Vec::new(),
                    };
                }
                11 => {
                    db.delete(key).unwrap();
                    *history = History::default();
                }
                12 => {
                    let end = format!("key{}", random.below(7));
                    if *key < end {
                        db.delete_range(key, &end).unwrap();
                        for (_, history) in model.range_mut(key.clone()..end) {
                            *history = History::default();
                        }
                    }
                }
                13 => snapshots.push((db.snapshot(), model.clone())),
                14 => drop(snapshots.pop()),
                15..=16 => db.flush().unwrap(),
                17 => db.compact_all(&CompactRangeOptions::new()).unwrap(),
                18 => db.wait_for_compact(None).unwrap(),
                _ => {
                    snapshots.clear();
                    drop(db);
                    db = Db::open(&options, HERE).unwrap();
                }
            }
            let context = format!("seed {seed}, step {step}");
            check_model(&db, &model, None, &context);
            for (snapshot, model) in &snapshots {
                check_model(&db, model, Some(snapshot), &context);
            }
        }
        snapshots.clear();
        db.close().unwrap();
    }
}
