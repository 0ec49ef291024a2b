//! The calls of the file system that create and drop column families.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use koeldb::fs::{FileSystem, MemoryFileSystem, Operation, Purpose, TraceDetail, TraceFileSystem};
use koeldb::{
    BoxError, ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, ConfigOptions, Db,
    MergeOperands, MergeOperator, Options,
};
use koeldb_testkit::Random;

use crate::storage::{HERE, over};

/// A database whose calls are recorded.
struct Traced {
    trace: Arc<TraceFileSystem>,
    options: Options,
    db: Db,
}

/// The calls of one action.
#[derive(Debug, PartialEq, Eq)]
struct Calls {
    /// The number of calls of each kind, except appends to LOG.
    counts: BTreeMap<String, usize>,
    syncs: usize,
    log_bytes: u64,
}

impl Traced {
    fn new() -> Self {
        let memory = Arc::new(MemoryFileSystem::new());
        let trace = Arc::new(TraceFileSystem::new(memory, TraceDetail::Events));
        let options = over(Arc::clone(&trace) as Arc<dyn FileSystem>);
        let db = Db::open(&options, HERE).unwrap();
        Traced { trace, options, db }
    }

    fn create(&self, name: &str) -> ColumnFamily {
        let options = ColumnFamilyOptions::default();
        self.db.create_cf(name, &options).unwrap()
    }

    /// Returns the calls of `action`.
    fn calls<T>(&self, action: impl FnOnce() -> T) -> (T, Calls) {
        let _ = self.trace.take_events();
        let result = action();
        let mut calls = Calls {
            counts: BTreeMap::new(),
            syncs: 0,
            log_bytes: 0,
        };
        for event in self.trace.take_events() {
            if event.path.ends_with("LOG") {
                calls.log_bytes += event.len;
                continue;
            }
            let name = format!("{:?}", event.operation);
            *calls.counts.entry(name).or_default() += 1;
            calls.syncs += usize::from(matches!(
                event.operation,
                Operation::SyncAll | Operation::SyncData | Operation::SyncDir
            ));
        }
        (result, calls)
    }

    /// The text of the newest OPTIONS file.
    fn options_text(&self) -> String {
        let mut how = ConfigOptions::new();
        how.set_ignore_unsupported_options(true);
        let env = self.options.get_env();
        let file = Options::load_latest_in(env, HERE, &how).unwrap().file;
        let bytes = self.trace.read_all(&file, 1 << 20, Purpose::Other);
        String::from_utf8(bytes.unwrap()).unwrap()
    }
}

fn descriptors(names: std::ops::Range<usize>) -> Vec<ColumnFamilyDescriptor> {
    names.map(|n| format!("together{n}").into()).collect()
}

#[test]
fn creating_and_dropping_a_column_family_take_as_many_calls_beside_any_number_of_others() {
    let traced = Traced::new();
    let mut seen = Vec::new();
    for count in [10, 30, 90] {
        for n in traced.db.cf_handles().len()..count {
            traced.create(&format!("family{n}"));
        }
        let (family, created) = traced.calls(|| traced.create("another"));
        let ((), dropped) = traced.calls(|| traced.db.drop_cf(&family).unwrap());
        // The MANIFEST, the OPTIONS file and the directory.
        assert_eq!(
            (created.syncs, dropped.syncs),
            (3, 3),
            "{created:?} {dropped:?}"
        );
        assert!(created.log_bytes < 200, "{created:?}");
        seen.push((created.counts, dropped.counts));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
}

#[test]
fn column_families_created_or_dropped_together_take_the_calls_of_one() {
    let traced = Traced::new();
    for n in 0..10 {
        traced.create(&format!("family{n}"));
    }
    let create = |names| {
        let created = traced.calls(|| traced.db.create_cfs(descriptors(names)).unwrap());
        assert_eq!(created.1.syncs, 3, "{created:?}");
        created.0
    };
    let one = create(0..1);
    let many = create(1..51);
    assert_eq!((one.len(), many.len()), (1, 50));
    for family in &many {
        family.put("key", family.name()).unwrap();
    }
    let ((), dropped) = traced.calls(|| traced.db.drop_cfs(&many[..40]).unwrap());
    assert_eq!(dropped.syncs, 3, "{dropped:?}");
    // Nothing is done if one of them cannot be.
    let twice: Vec<ColumnFamilyDescriptor> = vec!["new".into(), "together45".into()];
    assert!(traced.db.create_cfs(twice).is_err());
    assert!(traced.db.create_cfs(["new".into(), "new".into()]).is_err());
    assert!(traced.db.drop_cfs(&many[39..41]).is_err());
    assert!(traced.db.drop_cfs([&many[41], &many[41]]).is_err());
    assert!(traced.db.create_cfs([]).unwrap().is_empty());
    traced.db.drop_cfs([]).unwrap();
    let left = |db: &Db| {
        let families = db.cf_handles().into_iter();
        let mut left: Vec<String> = families.map(|family| family.name().to_owned()).collect();
        left.sort();
        left
    };
    let expected = left(&traced.db);
    assert_eq!(expected.len(), 1 + 10 + 1 + 10);
    let Traced {
        trace: _,
        options,
        db,
    } = traced;
    drop((one, many));
    db.close().unwrap();
    drop(db);
    let names: Vec<ColumnFamilyDescriptor> =
        expected.iter().map(|name| name.as_str().into()).collect();
    let db = Db::builder(&options)
        .column_families(names)
        .open(HERE)
        .unwrap();
    assert_eq!(left(&db), expected);
    let family = db.cf_handle("together45").unwrap();
    assert_eq!(
        family.get("key").unwrap().as_deref(),
        Some(&b"together45"[..])
    );
}

#[test]
fn an_open_creates_all_missing_column_families_with_one_sync() {
    let syncs = |count: usize| {
        let memory = Arc::new(MemoryFileSystem::new());
        let trace = Arc::new(TraceFileSystem::new(memory, TraceDetail::Counts));
        let mut options = over(Arc::clone(&trace) as Arc<dyn FileSystem>);
        options.create_missing_column_families(true);
        let db = Db::builder(&options)
            .column_families(descriptors(0..count))
            .open(HERE)
            .unwrap();
        assert_eq!(db.cf_handles().len(), count + 1);
        trace.counts(Purpose::Manifest).syncs
    };
    assert_eq!(syncs(1), syncs(40));
}

#[test]
fn the_options_file_has_the_options_of_all_column_families_after_any_changes() {
    let mut random = Random::new(5);
    let mut traced = Traced::new();
    let mut next = 0;
    for round in 0..12 {
        for _ in 0..6 {
            let families = traced.db.cf_handles();
            let chosen = &families[usize::try_from(random.below(families.len() as u64)).unwrap()];
            match random.below(4) {
                0 if chosen.name() != "default" => traced.db.drop_cf(chosen).unwrap(),
                1 => {
                    let bytes = (random.below(100) + 100) << 10;
                    let pairs = [("write_buffer_size", bytes.to_string())];
                    chosen.set_options(pairs).unwrap();
                }
                2 => std::thread::scope(|scope| {
                    for n in next..next + 3 {
                        let traced = &traced;
                        scope.spawn(move || traced.create(&format!("family{n}")));
                    }
                    next += 3;
                }),
                _ => {
                    let mut options = ColumnFamilyOptions::default();
                    let buffers = u32::try_from(random.below(3)).unwrap();
                    options.set_max_write_buffer_number(2 + buffers);
                    traced
                        .db
                        .create_cf(&format!("family{next}"), &options)
                        .unwrap();
                    next += 1;
                }
            }
        }
        // The file written by an open is that of the changes before.
        let before = traced.options_text();
        traced.db.close().unwrap();
        let loaded = Options::load_latest_in(traced.options.get_env(), HERE, &ConfigOptions::new());
        let families = loaded.unwrap().column_families;
        traced.db = Db::builder(&traced.options)
            .column_families(families)
            .open(HERE)
            .unwrap();
        assert_eq!(traced.options_text(), before, "round {round}");
    }
}

#[test]
fn an_open_logs_the_options_of_ten_column_families_and_the_number_of_the_others() {
    const HEADING: &str = "Options for column family [";
    for (others, left_out) in [(4, None), (9, None), (10, Some(1)), (60, Some(51))] {
        let traced = Traced::new();
        for n in 0..others {
            traced.create(&format!("family{n}"));
        }
        traced.db.close().unwrap();
        let loaded = Options::load_latest_in(traced.options.get_env(), HERE, &ConfigOptions::new());
        let db = Db::builder(&traced.options)
            .column_families(loaded.unwrap().column_families)
            .open(HERE)
            .unwrap();
        assert_eq!(db.cf_handles().len(), others + 1);
        let log = traced
            .trace
            .read_all(format!("{HERE}/LOG").as_ref(), 1 << 24, Purpose::Other);
        let log = String::from_utf8(log.unwrap()).unwrap();
        assert_eq!(log.matches(HEADING).count(), (others + 1).min(10), "{log}");
        let told = left_out.map(|count| format!("the options of {count} more column families"));
        assert!(told.is_none_or(|told| log.contains(&told)), "{log}");
    }
}

/// Counts how often it is named, as each printing of options does.
struct Named(Arc<AtomicUsize>);

impl MergeOperator for Named {
    fn name(&self) -> &str {
        self.0.fetch_add(1, Ordering::SeqCst);
        "Named"
    }

    fn full_merge(
        &self,
        _: &[u8],
        _: Option<&[u8]>,
        _: MergeOperands<'_>,
        _: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
}

#[test]
fn a_change_of_one_column_family_prints_the_options_of_no_other() {
    let traced = Traced::new();
    let named = Arc::new(AtomicUsize::new(0));
    let mut options = ColumnFamilyOptions::new();
    options.set_merge_operator(Named(Arc::clone(&named)));
    for n in 0..20 {
        traced.db.create_cf(&format!("named{n}"), &options).unwrap();
    }
    let before = named.load(Ordering::SeqCst);
    let family = traced.create("another");
    family
        .set_options([("write_buffer_size", "1000000")])
        .unwrap();
    traced.db.drop_cf(&family).unwrap();
    assert_eq!(named.load(Ordering::SeqCst), before);
    assert!(traced.options_text().contains("merge_operator=Named"));
}
