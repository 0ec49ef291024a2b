//! Opens and writes the tables of a column family according to its options.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use koeldb_base::file_name::FileNumber;
use koeldb_base::key::user_key;
use koeldb_base::merge_operator::{MergeCounts, Merger};
use koeldb_base::range_del::{FragmentedTombstones, union_of};
use koeldb_base::stats::{Statistics, Ticker};
use koeldb_base::{Cursor, KeyOrder, Result};
use koeldb_fs::rate_limit::{IoCharge, IoKind, IoPriority, RateLimiter};
use koeldb_fs::{AccessHint, Clock, FileSystem, OpenOptions, Purpose};
use koeldb_lsm::job::{BlobSpec, FlushJob, FlushResult, HiddenTables, LiveSnapshots, OutputSpec};
use koeldb_lsm::version::{BlobFileMeta, FileNumbers};
use koeldb_lsm::{DataPaths, FileMeta, OpenTables, TableOpener, Version};
use koeldb_memtable::Memtable;
use koeldb_table::builder::{TableBuildContext, TableReason};
use koeldb_table::reader::TableReadContext;

use crate::options::sanitize::DEFAULT_CACHE_BYTES;
use crate::options::{
    Cache, ColumnFamilyOptions, CompactionStyle, Compression, DbOptions, HashLinkListOptions,
    MemtableFactory, limits,
};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::counters::JobTotals;
use crate::state::info_log::{InfoLog, JobId};
use crate::state::listeners::Listeners;
use crate::state::memtables::MemtableMaker;
use crate::state::prepopulate::{prepopulate, prepopulate_blobs};
use crate::state::ttl::TtlOptions;

mod inlined;
mod output_checks;
mod reporter;
mod without;

pub(crate) use output_checks::OutputChecks;
pub(crate) use reporter::TableReporter;
pub(crate) use without::Entries;

/// The index of the directory of new tables of level 0 and of tables from outside.
pub(crate) const FLUSH_PATH: u8 = 0;

/// The shared settings of the table files that a database session writes and opens.
#[derive(Clone)]
pub(crate) struct TableFiles {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The directory of the tables of families without paths, or of all tables.
    pub(crate) directory: PathBuf,
    /// Whether all tables are in `directory`, whatever the options say.
    pub(crate) in_one_directory: bool,
    pub(crate) identity: String,
    pub(crate) session_id: String,
    /// The name of this host, or that in its place.
    pub(crate) host_id: String,
    pub(crate) numbers: FileNumbers,
    pub(crate) statistics: Option<Statistics>,
    /// The current options of the database.
    pub(crate) db_options: Arc<RwLock<DbOptions>>,
    pub(crate) open_options: OpenOptions,
    /// Whether the whole-file checksum of each table is computed and recorded in the MANIFEST.
    pub(crate) file_checksums: bool,
    pub(crate) memtables: MemtableMaker,
    /// Whether the directory is from an untrusted source.
    pub(crate) untrusted: bool,
    /// The times to live of a TTL database.
    pub(crate) ttl: Option<TtlOptions>,
    pub(crate) info_log: Arc<InfoLog>,
    pub(crate) listeners: Arc<Listeners>,
    /// The limit of open tables over all column families.
    pub(crate) open_tables: Arc<OpenTables>,
    /// Limits flushes, compactions, and reads and writes that ask for it.
    pub(crate) rate_limiter: Option<RateLimiter>,
    /// Whether writes are stalled, so that flushes and compactions take precedence.
    pub(crate) urgent: Arc<AtomicBool>,
}

impl TableFiles {
    /// Returns the options for opening tables for reads.
    pub(crate) fn open_options(db: &DbOptions) -> OpenOptions {
        OpenOptions {
            purpose: Purpose::Read,
            direct: db.use_direct_reads,
            mmap: db.allow_mmap_reads,
            hint: if db.advise_random_on_open {
                AccessHint::Random
            } else {
                AccessHint::Normal
            },
            temperature: 0,
        }
    }

    /// Creates the table opener of a column family.
    pub(crate) fn table_opener(
        &self,
        order: &KeyOrder,
        options: &ColumnFamilyOptions,
    ) -> Arc<TableOpener> {
        let context = TableReadContext {
            order: order.clone(),
            prefix_extractor: options.prefix_extractor.clone(),
            block_based: options.block_based_read_options(),
            plain: options.plain_read_options(),
            cuckoo: options.cuckoo_residency(),
            cache: match options.table_factory.block_based() {
                Some(table) => (table.block_cache.as_ref())
                    .filter(|_| !table.no_block_cache)
                    .map(|cache| cache.blocks().clone()),
                // For the block-based fallback tables of entries that the format cannot hold, and
                // for pieces of cuckoo and plain tables.
                None => Some(Cache::new_clock_cache(DEFAULT_CACHE_BYTES).blocks().clone()),
            },
            blob_cache: (options.blob_cache.as_ref()).map(|cache| cache.blocks().clone()),
            statistics: self.statistics.clone(),
            limits: limits(self.untrusted),
            last_level: u32::try_from(options.num_levels.saturating_sub(1)).ok(),
            ..TableReadContext::default()
        };
        let fs = Arc::clone(&self.fs);
        let open_options = OpenOptions {
            temperature: options.default_temperature.to_byte(),
            ..self.open_options
        };
        let paths = self.paths_of(options);
        let mut tables = TableOpener::new(fs, paths, open_options, context);
        tables.set_examines(self.untrusted);
        tables.set_verifies_unique_ids(self.options().verify_sst_unique_id_in_manifest);
        tables.set_open_tables(Arc::clone(&self.open_tables));
        Arc::new(tables)
    }

    /// Returns the directories of the tables of a column family with these sanitized options.
    pub(crate) fn paths_of(&self, options: &ColumnFamilyOptions) -> DataPaths {
        match self.in_one_directory {
            true => DataPaths::single(&self.directory),
            false => options.data_paths(&*self.fs, &self.directory),
        }
    }

    /// Returns the current time in seconds since the epoch.
    pub(crate) fn unix_secs(&self) -> u64 {
        self.clock.unix_micros() / 1_000_000
    }

    /// Returns the settings of a new table; `bytes_expected` is 0 if its size is unknown.
    pub(crate) fn write_options(
        &self,
        purpose: Purpose,
        bytes_expected: u64,
    ) -> koeldb_fs::WriteOptions {
        self.options().table_file(purpose, bytes_expected)
    }

    /// Returns the current options of the database.
    pub(crate) fn options(&self) -> RwLockReadGuard<'_, DbOptions> {
        let options = self.db_options.read();
        options.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the rate limiter charge of a flush or compaction; `None` if it is not limited.
    pub(crate) fn charge(&self, priority: IoPriority, kind: IoKind) -> Option<Arc<IoCharge>> {
        let limiter = self.rate_limiter.as_ref()?;
        let charge = IoCharge::new(limiter, priority, kind, self.statistics.as_ref())?;
        Some(Arc::new(charge.raised_by(&self.urgent)))
    }

    /// Returns the rate limiter charge of a user's read or write; `None` if it is not limited.
    #[cold]
    pub(crate) fn user_charge(&self, priority: IoPriority, kind: IoKind) -> Option<Arc<IoCharge>> {
        let limiter = self.rate_limiter.as_ref()?;
        IoCharge::new(limiter, priority, kind, self.statistics.as_ref()).map(Arc::new)
    }

    /// Returns the table builder settings of a table of `family` for this destination.
    pub(crate) fn build_context(
        &self,
        family: &ColumnFamilyData,
        options: &ColumnFamilyOptions,
        place: TableDestination,
    ) -> TableBuildContext {
        let (compression, compression_options) =
            options.compression_at(place.level, place.base_level, place.bottommost);
        let now = self.unix_secs();
        TableBuildContext {
            order: family.order.clone(),
            undated: options.has_undated_tables(),
            write_as: options.write_format(),
            format: options.block_based_write_options(place.bottommost && place.level > 0),
            compression,
            compression_options,
            prefix_extractor: options.prefix_extractor.clone(),
            merge_operator_name: options
                .merge_operator
                .as_ref()
                .map(|operator| operator.name().to_owned()),
            column_family_id: u64::from(family.id),
            column_family_name: family.name.to_string(),
            db_id: self.identity.clone(),
            session_id: self.session_id.clone(),
            property_collector_names: options.property_collector_names(),
            host_id: self.host_id.clone(),
            oldest_ancestor_time: now,
            file_creation_time: now,
            oldest_key_time: now,
            newest_key_time: now,
            level: Some(place.level),
            reason: place.reason,
            target_file_bytes: place.target_file_bytes,
            statistics: self.statistics.clone(),
            ..TableBuildContext::default()
        }
    }

    /// Writes memtables, oldest first, into one table of level 0.
    pub(crate) fn flush(
        &self,
        job_id: JobId,
        family: &ColumnFamilyData,
        memtables: &[Arc<Memtable>],
        snapshots: &LiveSnapshots,
        epoch: u64,
        reason: TableReason,
    ) -> Result<FlushResult> {
        let options = family.options();
        let tombstones = self.prepare_memtables(family, &options, memtables, reason);
        let version = family.version();
        let mut context = self.flush_context(family, &options, memtables, reason);
        context.keeps_filter = keeps_filter(&options, &version, memtables)?;
        let checks = OutputChecks::of_flush(&options);
        let reporter = TableReporter::new(self, job_id, family, (FLUSH_PATH, reason));
        // A copy has its tables in a directory of its own.
        let tables = match self.in_one_directory {
            true => self.table_opener(&family.order, &options),
            false => Arc::clone(&family.tables),
        };
        let paths = tables.paths();
        let next_file_number = || -> FileNumber { reporter.begin() };
        let verifies_count = self.options().flush_verify_memtable_count;
        let job = FlushJob {
            order: family.order.clone(),
            memtables: memtables.iter().map(Memtable::cursor).collect(),
            tombstones: union_of(&family.order, &tombstones),
            snapshots: snapshots.clone(),
            merger: Merger::new(options.merge_operator.as_deref(), &family.name).with_counts(
                MergeCounts::of_jobs(family.tables.context().statistics.as_ref()),
            ),
            entry_count: verifies_count.then(|| memtables.iter().map(|m| m.point_count()).sum()),
            output: OutputSpec {
                fs: &*self.fs,
                directory: paths.directory(FLUSH_PATH),
                path_id: FLUSH_PATH,
                write_options: koeldb_fs::WriteOptions {
                    temperature: options.default_write_temperature.to_byte(),
                    ..self.write_options(Purpose::Flush, 0)
                },
                charge: self.charge(IoPriority::High, IoKind::Write),
                context,
                next_file_number: &next_file_number,
                target_file_bytes: u64::MAX,
                file_bytes_max: u64::MAX,
                target_is_upper_bound: false,
                grandparents: &[],
                max_grandparent_bytes: u64::MAX,
                snapshots: &snapshots.all,
                bottommost: false,
                history_low: version.history_low(),
                hidden: Some(HiddenTables {
                    version: &version,
                    tables: &family.tables,
                    first_level: 0,
                }),
                epoch,
                file_checksums: self.file_checksums,
                partition_bytes: None,
                deletion_triggers: &options.deletion_triggers(),
                hash_entries: checks.entries,
                blobs: self.blob_spec(&options, family.id, 0, paths),
            },
        };
        let (begun, cpu) = (self.clock.now(), self.clock.thread_cpu());
        let run = || {
            let flush = job.run()?;
            if let Some(file) = &flush.file {
                let written = (std::slice::from_ref(file), &[flush.entry_hash][..]);
                checks
                    .verify(written, 0, &tables, self)
                    .inspect_err(|_| self.remove_blob_files(&tables, &flush.blob_files))?;
                prepopulate(written.0, reason, &options, 0, &tables);
                prepopulate_blobs(&flush.blob_files, reason, &options, &tables);
            }
            Ok(flush)
        };
        let flush = reporter.check(run())?;
        self.count_blob_files(&flush.blob_files);
        reporter.kept_unmerged(flush.merge_failures);
        if let (Some(file), Some(properties)) = (&flush.file, &flush.properties) {
            reporter.created(file, properties);
        }
        family.counters.flushed(JobTotals {
            elapsed: self.clock.now().saturating_sub(begun),
            cpu: self.clock.thread_cpu().saturating_sub(cpu),
            keys_in: memtables.iter().map(|table| table.entry_count()).sum(),
            ..flush_totals(&flush)
        });
        Ok(flush)
    }

    /// Returns the settings of the blob files of a job that writes tables of `level`.
    ///
    /// The files go to the first of `paths`, the directories of the column family with id `family`.
    pub(crate) fn blob_spec<'p>(
        &self,
        options: &ColumnFamilyOptions,
        family: u32,
        level: usize,
        paths: &'p DataPaths,
    ) -> BlobSpec<'p> {
        let starts = usize::try_from(options.blob_file_starting_level).unwrap_or(0);
        let is_separated = options.enable_blob_files && level >= starts;
        BlobSpec {
            column_family_id: family,
            directory: Some(paths.directory(0)),
            numbers: Some(self.numbers.clone()),
            min_bytes: is_separated.then_some(options.min_blob_size),
            file_bytes: options.blob_file_size,
            compression: options.blob_compression_type,
            compression_options: options.blob_compression_opts.codec_options(),
            ..BlobSpec::unchanged()
        }
    }

    /// Counts the blob files that a job has written.
    pub(crate) fn count_blob_files(&self, files: &[BlobFileMeta]) {
        if let Some(statistics) = &self.statistics
            && !files.is_empty()
        {
            let bytes = files.iter().map(BlobFileMeta::file_bytes).sum();
            statistics.add(Ticker::BlobDbBlobFileBytesWritten, bytes);
            statistics.add(Ticker::BlobDbBlobFileSynced, files.len() as u64);
        }
    }

    /// Removes the blob files of a job whose tables do not become part of a version.
    pub(crate) fn remove_blob_files(&self, tables: &TableOpener, files: &[BlobFileMeta]) {
        for file in files {
            // One that cannot be removed is an orphan, which the next open removes.
            let _ = self.fs.remove_file(&tables.paths().blob(file.number));
        }
    }

    /// Returns the table builder settings of a flush.
    fn flush_context(
        &self,
        family: &ColumnFamilyData,
        options: &ColumnFamilyOptions,
        memtables: &[Arc<Memtable>],
        reason: TableReason,
    ) -> TableBuildContext {
        let place = TableDestination {
            level: 0,
            base_level: 0,
            bottommost: false,
            reason,
            target_file_bytes: 0,
        };
        let mut context = self.build_context(family, options, place);
        if options.compressed_percent().is_some() {
            context.compression = Compression::None;
        }
        let flushed = memtables.iter().map(|memtable| memtable.largest_seqno());
        context.set_flushed_seqno(flushed.max().unwrap_or(0));
        context
    }

    /// Sorts memtables before a flush and logs hash bucket sizes; returns their range tombstones.
    fn prepare_memtables(
        &self,
        family: &ColumnFamilyData,
        options: &ColumnFamilyOptions,
        memtables: &[Arc<Memtable>],
        reason: TableReason,
    ) -> Vec<Arc<FragmentedTombstones>> {
        let mut tombstones = Vec::new();
        for memtable in memtables {
            if let MemtableFactory::HashLinkList(list) = &options.memtable_factory {
                self.log_buckets(&family.name, memtable, list);
            }
            if reason == TableReason::Flush {
                // A sealed memtable is sorted here, not by its first reader.
                memtable.finalise();
            }
            tombstones.extend(memtable.tombstones());
        }
        tombstones
    }

    /// Logs the bucket sizes of a hash-linked-list memtable before its flush.
    fn log_buckets(&self, family: &str, memtable: &Memtable, options: &HashLinkListOptions) {
        let threshold = usize::try_from(options.logging_threshold).unwrap_or(0);
        if !options.log_when_flash && threshold == 0 {
            return;
        }
        let Some(sizes) = memtable.bucket_sizes() else {
            return;
        };
        let (entries, largest) = (sizes.iter().sum::<usize>(), sizes.iter().max());
        let largest = largest.copied().unwrap_or(0);
        if options.log_when_flash {
            self.info_log.info(format_args!(
                "[{family}] hash_linkedlist: {entries} entries in {} buckets, {largest} in the largest",
                sizes.len()
            ));
        }
        if threshold > 0 && largest > threshold {
            self.info_log.warn(format_args!(
                "[{family}] hash_linkedlist: a bucket has {largest} entries, more than logging_threshold={threshold}"
            ));
        }
    }
}

/// Returns the totals of a flush, except for its times and the number of entries read.
fn flush_totals(flush: &FlushResult) -> JobTotals {
    JobTotals {
        count: 1,
        written: flush.file.as_ref().map_or(0, |file| file.bytes),
        raw: flush.raw_bytes,
        keys_dropped: flush.drops.total(),
        ..JobTotals::default()
    }
}

/// Whether a flush keeps a filter of its table in memory if the file itself has none.
///
/// It pays while lookups search other tables too, and lasts until the compaction of the table: a
/// table that overlaps none would only be moved, and one that is not compacted soon keep its filter.
fn keeps_filter(
    options: &ColumnFamilyOptions,
    version: &Version,
    memtables: &[Arc<Memtable>],
) -> Result<bool> {
    let is_compacted = match options.compaction_style {
        CompactionStyle::Level | CompactionStyle::Universal => !options.disable_auto_compactions,
        CompactionStyle::Fifo | CompactionStyle::None => false,
    };
    let level0_max = options.level0_slowdown_writes_trigger;
    let is_short = usize::try_from(level0_max).is_ok_and(|max| version.levels[0].files.len() < max);
    if !is_compacted || !is_short {
        return Ok(false);
    }
    for memtable in memtables {
        let mut cursor = memtable.cursor();
        cursor.seek_to_first()?;
        if !cursor.valid() {
            continue;
        }
        let first = user_key(cursor.key()).to_vec();
        cursor.seek_to_last()?;
        let last = user_key(cursor.key());
        let overlaps = |file: &FileMeta| version.overlaps(file, Some(&first), Some(last));
        if version.files().any(|(_, file)| overlaps(file)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The level of a table to be written, and the reason for writing it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableDestination {
    pub(crate) level: u32,
    pub(crate) base_level: u32,
    pub(crate) bottommost: bool,
    pub(crate) reason: TableReason,
    pub(crate) target_file_bytes: u64,
}
