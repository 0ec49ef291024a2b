//! KoelDB, in this process.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use koeldb::{
    BackupEngine, BackupEngineOptions, BottommostLevelCompaction, CheckpointOptions, ColumnFamily,
    ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions, CompactionOptions,
    Comparator, ConfigOptions, CreateBackupOptions, Db, DbPath, FlushOptions, FlushPolicy,
    KeyBounds, Options, ReadOptions, RestoreOptions, Snapshot, TransactionDbOptions, WriteBatch,
    WriteOptions,
};

use super::model::{Columns, Family, Order, Scan};

/// The comparator of [`Order::NoCase`], also in `History.java`.
struct IgnoresCase;

impl Comparator for IgnoresCase {
    fn name(&self) -> &str {
        "history.IgnoresCase"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        Order::NoCase.compare(a, b)
    }
}

/// An open database.
pub(super) struct Ours {
    pub(super) db: Db,
    pub(super) snapshots: Vec<Snapshot>,
}

type Answer<T> = Result<T, String>;

fn say(error: &koeldb::Error) -> String {
    format!("KoelDB: {error}")
}

/// Parameters of an open.
#[derive(Clone, Debug, Default)]
pub(super) struct How {
    pub(super) read_only: bool,
    pub(super) transactions: bool,
    /// The directory of a secondary, if it is one.
    pub(super) secondary: Option<PathBuf>,
    /// Options that replace those of the OPTIONS file: of the database, and of families by name.
    pub(super) database: String,
    pub(super) families: BTreeMap<String, String>,
    /// Families with a comparator that an OPTIONS file does not define.
    pub(super) ignoring_case: BTreeSet<String>,
}

/// Returns the `db_paths` of a directory: the lines of the file `DIRECTORY.paths`, if there is one.
fn paths_of(dir: &Path) -> Vec<DbPath> {
    let text = std::fs::read_to_string(dir.with_extension("paths")).unwrap_or_default();
    let paths = text.lines().map(|line| {
        let (directory, bytes) = line.split_once('\t').unwrap();
        DbPath::new(directory, bytes.parse().unwrap())
    });
    paths.collect()
}

impl Ours {
    /// Opens a directory with the options of its OPTIONS file.
    pub(super) fn open(dir: &Path, how: &How) -> Answer<Self> {
        let open = || {
            let mut reading = ConfigOptions::new();
            reading.set_apply_paths(true);
            reading.set_ignore_unsupported_options(!how.ignoring_case.is_empty());
            let loaded = Options::load_latest(dir, &reading)?;
            let mut options = loaded.options;
            options.apply_str(&how.database, &reading)?;
            options.set_db_paths(paths_of(dir));
            if how.transactions {
                options.set_transactions(&TransactionDbOptions::new());
            }
            let mut builder = Db::builder(&options);
            for (name, mut family) in loaded.column_families {
                if let Some(text) = how.families.get(&name) {
                    family.apply_str(text, &reading)?;
                }
                if how.ignoring_case.contains(&name) {
                    family.set_comparator(IgnoresCase);
                }
                builder.column_family(ColumnFamilyDescriptor::new(name, family));
            }
            if how.read_only {
                builder.read_only();
            }
            if let Some(path) = &how.secondary {
                builder.secondary(path);
            }
            builder.open(dir)
        };
        let db = open().map_err(|error| say(&error))?;
        Ok(Ours {
            db,
            snapshots: Vec::new(),
        })
    }

    pub(super) fn names(&self) -> Vec<String> {
        let families = self.db.cf_handles();
        families
            .iter()
            .map(|family| family.name().to_owned())
            .collect()
    }

    fn family(&self, name: &str) -> Answer<ColumnFamily> {
        let family = self.db.cf_handle(name);
        family.ok_or_else(|| format!("KoelDB: no family {name}"))
    }

    pub(super) fn id_of(&self, name: &str) -> Option<u32> {
        self.db.cf_handle(name).map(|family| family.id())
    }

    pub(super) fn catch_up(&self) -> Answer<()> {
        let caught_up = self.db.try_catch_up_with_primary();
        caught_up.map(drop).map_err(|error| say(&error))
    }

    pub(super) fn checkpoint(&self, path: &Path, flush: bool) -> Answer<()> {
        let mut how = CheckpointOptions::new();
        if flush {
            how.set_flush(FlushPolicy::Always);
        }
        let made = self.db.create_checkpoint_opt(path, &how);
        made.map(drop).map_err(|error| say(&error))
    }

    /// Adds a backup to those in the directory.
    pub(super) fn backup(&self, backups: &Path, flush: bool) -> Answer<()> {
        let engine = BackupEngine::open(backups, &BackupEngineOptions::new());
        let engine = engine.map_err(|error| say(&error))?;
        let mut how = CreateBackupOptions::new();
        how.set_flush_before_backup(flush);
        let made = engine.create_new_backup_opt(&self.db, &how);
        made.map(drop).map_err(|error| say(&error))
    }

    /// Prepares a transaction of puts.
    pub(super) fn prepare<'p>(
        &self,
        name: &str,
        puts: impl Iterator<Item = (&'p str, &'p [u8], &'p [u8])>,
    ) -> Answer<()> {
        let mut transaction = self.db.transaction();
        for (family, key, value) in puts {
            let family = self.family(family)?;
            let put = transaction.put_cf(&family, key, value);
            put.map_err(|error| say(&error))?;
        }
        let prepared = transaction.prepare(name);
        prepared.map(drop).map_err(|error| say(&error))
    }

    /// Commits or rolls back all prepared transactions.
    pub(super) fn settle(&self, commits: bool) -> Answer<()> {
        for transaction in self.db.prepared_transactions() {
            match commits {
                true => transaction.commit().map(drop),
                false => transaction.rollback(),
            }
            .map_err(|error| say(&error))?;
        }
        Ok(())
    }

    /// The names of all prepared transactions.
    pub(super) fn prepared(&self) -> Vec<String> {
        let prepared = self.db.prepared_transactions();
        let names = prepared
            .iter()
            .map(|one| String::from_utf8_lossy(one.name()).into_owned());
        names.collect()
    }

    /// Commits a prepared transaction or rolls it back.
    pub(super) fn decide(&self, name: &str, commits: bool) -> Answer<()> {
        let transaction = self
            .db
            .prepared_transaction(name)
            .ok_or("no such transaction")?;
        match commits {
            true => transaction.commit().map(drop),
            false => transaction.rollback(),
        }
        .map_err(|error| say(&error))
    }

    pub(super) fn write(&self, batch: &[u8], sync: bool, unlogged: bool) -> Answer<()> {
        let mut options = WriteOptions::new();
        options.set_sync(sync).disable_wal(unlogged);
        let batch = WriteBatch::from_data(batch).map_err(|error| say(&error))?;
        self.db
            .write_opt(&batch, &options)
            .map_err(|error| say(&error))
    }

    pub(super) fn flush(&self, names: &[&str], wait: bool) -> Answer<()> {
        let mut options = FlushOptions::new();
        options.set_wait(wait).set_allow_write_stall(true);
        for name in names {
            let family = self.family(name)?;
            family.flush_opt(&options).map_err(|error| say(&error))?;
        }
        Ok(())
    }

    pub(super) fn flush_wal(&self, sync: bool) -> Answer<()> {
        self.db.flush_wal(sync).map_err(|error| say(&error))
    }

    pub(super) fn compact(
        &self,
        name: &str,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        force: bool,
        level: Option<u32>,
    ) -> Answer<()> {
        let mut options = CompactRangeOptions::new();
        if force {
            options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        }
        options
            .set_change_level(level.is_some())
            .set_target_level(level);
        let bound = |key: Option<&[u8]>| match key {
            Some(key) => Bound::Included(key.to_vec()),
            None => Bound::Unbounded,
        };
        let range = KeyBounds {
            lower: bound(from),
            upper: bound(to),
        };
        let family = self.family(name)?;
        family
            .compact_range_opt(range, &options)
            .map_err(|error| say(&error))
    }

    /// Compacts the tables of level 0, and those of the other levels that `pick` selects.
    pub(super) fn compact_files(&self, name: &str, level: u32, pick: u64) -> Answer<()> {
        let live = self.db.live_files();
        let of_family = live.iter().filter(|file| file.column_family == name);
        let chosen: Vec<PathBuf> = of_family
            .enumerate()
            .filter(|(index, file)| file.level == 0 || pick >> (index % 16) & 1 == 1)
            .map(|(_, file)| self.db.path().join(&file.name))
            .collect();
        if chosen.is_empty() {
            return Ok(());
        }
        let family = self.family(name)?;
        let path_count = self.db.options().get_db_paths().len() as u64;
        let mut how = CompactionOptions::new();
        if path_count > 1 {
            how.set_output_path_id(u32::try_from(pick % path_count).unwrap());
        }
        let made = family.compact_files_opt(&chosen, level, &how);
        made.map(drop).map_err(|error| say(&error))
    }

    pub(super) fn set_options(&self, name: &str, text: &str) -> Answer<()> {
        let pairs = text.split_terminator(';').filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        let family = self.family(name)?;
        family.set_options(pairs).map_err(|error| say(&error))
    }

    pub(super) fn create(&self, name: &str, order: Order, text: &str) -> Answer<u32> {
        let comparator = match order {
            Order::Bytewise => "comparator=leveldb.BytewiseComparator;",
            Order::Reverse => "comparator=rocksdb.ReverseBytewiseComparator;",
            Order::Uint64 => "comparator=rocksdb.Uint64Comparator;",
            Order::NoCase => "",
            Order::Dated => "comparator=leveldb.BytewiseComparator.u64ts;",
            Order::ReverseDated => "comparator=rocksdb.ReverseBytewiseComparator.u64ts;",
        };
        let mut options = ColumnFamilyOptions::new();
        options
            .apply_str(&format!("{text}{comparator}"), &ConfigOptions::new())
            .map_err(|error| say(&error))?;
        if order == Order::NoCase {
            options.set_comparator(IgnoresCase);
        }
        let family = self.db.create_cf(name, &options);
        family
            .map(|family| family.id())
            .map_err(|error| say(&error))
    }

    pub(super) fn drop_family(&self, name: &str) -> Answer<()> {
        let family = self.family(name)?;
        self.db.drop_cf(&family).map_err(|error| say(&error))
    }

    pub(super) fn verify(&self) -> Answer<()> {
        self.db.verify_checksums().map_err(|error| say(&error))
    }

    pub(super) fn close(self) -> Answer<()> {
        drop(self.snapshots);
        self.db.close().map_err(|error| say(&error))
    }

    /// Raises the low mark of the timestamps of a column family.
    pub(super) fn raise(&self, name: &str, low: u64) -> Answer<()> {
        let raised = self
            .family(name)?
            .increase_full_history_ts_low(low.to_le_bytes());
        raised.map_err(|error| say(&error))
    }

    fn reads(&self, snapshot: Option<usize>, time: Option<u64>) -> ReadOptions {
        let mut options = match snapshot {
            Some(index) => ReadOptions::at(&self.snapshots[index]),
            None => ReadOptions::new(),
        };
        if let Some(time) = time {
            options.set_timestamp(time.to_le_bytes());
        }
        options
    }

    /// Returns the entries of a column family.
    ///
    /// The reverse scan, seeks, gets and multi-gets must agree with the forward scan. `time` is the
    /// timestamp of the reads, where keys have timestamps.
    pub(super) fn dump(
        &self,
        name: &str,
        snapshot: Option<usize>,
        time: Option<u64>,
    ) -> Answer<Scan> {
        let family = self.family(name)?;
        let options = self.reads(snapshot, time);
        let forward = collect(family.range_opt(.., &options))?;
        let mut backward = collect(family.range_opt(.., &options).rev())?;
        backward.reverse();
        agree(name, "the reverse scan", &forward, &backward)?;

        let keys: Vec<&[u8]> = forward.iter().map(|(key, _)| key.as_slice()).collect();
        for (key, value) in &forward {
            let found = family.get_opt(key, &options).map_err(|error| say(&error))?;
            if found.as_deref() != Some(value) {
                return Err(format!(
                    "KoelDB, {name}: get and the scan differ at {}",
                    key.escape_ascii()
                ));
            }
        }
        for (batch, expected) in keys.chunks(50).zip(forward.chunks(50)) {
            let found = family.multi_get_opt(batch, &options);
            for (found, (key, value)) in found.iter().zip(expected) {
                if found.map_err(|error| error.to_string())? != Some(value.as_slice()) {
                    return Err(format!(
                        "KoelDB, {name}: multi_get and the scan differ at {}",
                        key.escape_ascii()
                    ));
                }
            }
        }
        let mut cursor = family.cursor_opt(&options);
        for (index, (key, _)) in forward.iter().enumerate().step_by(7) {
            let seek = |error: koeldb::Error| say(&error);
            let mut found = vec![];
            cursor.seek(key).map_err(seek)?;
            found.push(cursor.key().map(<[u8]>::to_vec));
            cursor.prev().map_err(seek)?;
            found.push(cursor.key().map(<[u8]>::to_vec));
            cursor.seek_for_prev(key).map_err(seek)?;
            found.push(cursor.key().map(<[u8]>::to_vec));
            cursor.next().map_err(seek)?;
            found.push(cursor.key().map(<[u8]>::to_vec));
            let at = |index: Option<usize>| {
                let entry = index.and_then(|index| forward.get(index));
                entry.map(|(key, _)| key.clone())
            };
            let expected = [
                at(Some(index)),
                at(index.checked_sub(1)),
                at(Some(index)),
                at(Some(index + 1)),
            ];
            if found != expected {
                return Err(format!(
                    "KoelDB, {name}: seeks and the scan differ at {}",
                    key.escape_ascii()
                ));
            }
        }
        Ok(forward)
    }

    /// Compares the columns of a family, whose values agree with the model, by every kind of read.
    pub(super) fn check_columns(&self, model: &Family, snapshot: Option<usize>) -> Answer<()> {
        if model.are_columns_unknown {
            return Ok(());
        }
        let family = self.family(&model.name)?;
        let options = self.reads(snapshot, model.newest());
        let differ = |what: &str, key: &[u8], found: &Columns| {
            let (name, key) = (&model.name, key.escape_ascii());
            Err(format!(
                "KoelDB, {name}: the columns by {what} at {key}: {found:?}"
            ))
        };
        let none = Columns::new();
        let named_of = |columns: koeldb::Columns<'_>| {
            let mut columns = columns.to_vec();
            columns.retain(|(name, _)| !name.is_empty());
            columns
        };
        let mut cursor = family.cursor_opt(&options);
        for forward in [true, false] {
            let mut is_valid = match forward {
                true => cursor.seek_to_first(),
                false => cursor.seek_to_last(),
            };
            while is_valid.as_ref().map_err(say) == Ok(&true) {
                let (Some(key), Some(columns)) = (cursor.key(), cursor.columns()) else {
                    return Err("a valid cursor without an entry".to_owned());
                };
                let named = named_of(columns);
                let expected = model.named.get(&model.order.canonical(key));
                if named != *expected.unwrap_or(&none) {
                    return differ("a scan", key, &named);
                }
                is_valid = match forward {
                    true => cursor.next(),
                    false => cursor.prev(),
                };
            }
            is_valid.map_err(|error| say(&error))?;
        }
        let keys: Vec<&Vec<u8>> = model.named.keys().collect();
        let many = family.multi_get_entity_opt(&keys, &options);
        for ((key, expected), many) in model.named.iter().zip(many) {
            let one = family.get_entity_opt(key, &options);
            for (what, found) in [("get_entity", one), ("multi_get_entity", many)] {
                let Some(found) = found.map_err(|error| say(&error))? else {
                    return differ(what, key, &none);
                };
                let named = named_of(found.columns());
                if named != *expected || found.default_value() != model.entries[key] {
                    return differ(what, key, &named);
                }
            }
        }
        Ok(())
    }
}

fn collect<K: AsRef<[u8]>>(entries: impl Iterator<Item = koeldb::Result<(K, K)>>) -> Answer<Scan> {
    entries
        .map(|entry| match entry {
            Ok((key, value)) => Ok((key.as_ref().to_vec(), value.as_ref().to_vec())),
            Err(error) => Err(say(&error)),
        })
        .collect()
}

/// Restores the newest backup, after checking the checksums of all.
pub(super) fn restore(backups: &Path, path: &Path) -> Answer<()> {
    let restore = || {
        let engine = BackupEngine::open(backups, &BackupEngineOptions::new())?;
        let newest = engine.backups().last().map(|backup| backup.backup_id);
        let newest = newest.ok_or_else(|| koeldb::Error::corruption("no backup"))?;
        engine.verify_backup(newest, true)?;
        engine.restore(newest, path, path, &RestoreOptions::new())
    };
    restore().map(drop).map_err(|error| say(&error))
}

/// Fails with the first difference between a scan and the expected one.
pub(super) fn agree(family: &str, what: &str, expected: &Scan, found: &Scan) -> Result<(), String> {
    if expected == found {
        return Ok(());
    }
    let both = expected.len().min(found.len());
    let at = (0..both)
        .find(|&at| expected[at] != found[at])
        .unwrap_or(both);
    let show = |scan: &Scan| match scan.get(at) {
        Some((key, value)) => {
            let value = &value[..value.len().min(40)];
            format!("{} = {}", key.escape_ascii(), value.escape_ascii())
        }
        None => "the end".to_owned(),
    };
    Err(format!(
        "{what} of family {family} has {} entries, not {}; entry {at} is {}, not {}",
        found.len(),
        expected.len(),
        show(found),
        show(expected)
    ))
}
