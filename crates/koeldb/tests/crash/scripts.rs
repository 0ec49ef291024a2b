//! The scripts: small, so that each of their operations can be a crash, and each with a unique
//! feature.

use koeldb::fs::{Failure, Operation};
use koeldb::{
    BlockBasedOptions, BytewiseComparatorWithU64Ts, CompactionStyle, ConfigOptions,
    FifoCompactionOptions, Options, RecoveryMode, StringAppend,
};

use crate::script::Mix::{Deletions, Everything, Puts, Unique};
use crate::script::Step::{
    Break, Compact, Create, Drop, Flush, FlushFamily, FlushWal, Kill, ReadOnly, Reopen, Repair,
    Resume, SetDbOption, SetOption, Wait, Write,
};
use crate::script::{Load, Script, Step};

/// The options of every script: the smallest possible memtables and files.
pub(crate) fn base(options: &mut Options) {
    options
        .create_if_missing(true)
        .set_write_buffer_size(64 << 10)
        .set_target_file_size_base(8 << 10)
        .set_max_bytes_for_level_base(32 << 10)
        .set_level_zero_file_num_compaction_trigger(3)
        .set_merge_operator(StringAppend::default());
}

fn plain(_: &mut Options) {}

fn manual(options: &mut Options) {
    options.set_disable_auto_compactions(true);
}

fn universal(options: &mut Options) {
    options.set_compaction_style(CompactionStyle::Universal);
}

fn fifo(options: &mut Options) {
    let mut fifo = FifoCompactionOptions::default();
    fifo.set_max_table_files_size(60 << 10);
    options
        .set_compaction_style(CompactionStyle::Fifo)
        .set_fifo_compaction_options(&fifo);
}

fn fifo_merging(options: &mut Options) {
    let mut fifo = FifoCompactionOptions::default();
    fifo.set_allow_compaction(true);
    options
        .set_compaction_style(CompactionStyle::Fifo)
        .set_fifo_compaction_options(&fifo);
}

fn static_levels(options: &mut Options) {
    options.set_level_compaction_dynamic_level_bytes(false);
}

fn tiny_manifest(options: &mut Options) {
    options
        .set_max_manifest_file_size(1)
        .set_max_manifest_space_amp_pct(0);
}

fn manual_wal_flush(options: &mut Options) {
    options.set_manual_wal_flush(true);
}

fn own_wal_directory(options: &mut Options) {
    options.set_wal_dir("/logs");
}

fn own_wal_directory_tiny_manifest(options: &mut Options) {
    options
        .set_wal_dir("/logs")
        .set_max_manifest_file_size(1)
        .set_max_manifest_space_amp_pct(0);
}

fn tolerant(options: &mut Options) {
    options.set_wal_recovery_mode(RecoveryMode::TolerateCorruptedTailRecords);
}

fn absolute(options: &mut Options) {
    options.set_wal_recovery_mode(RecoveryMode::AbsoluteConsistency);
}

fn skipping(options: &mut Options) {
    options.set_wal_recovery_mode(RecoveryMode::SkipAnyCorruptedRecords);
}

/// Most values go to blob files, which are small.
fn blob_files(options: &mut Options) {
    let text = "enable_blob_files=true;min_blob_size=40;blob_file_size=5000;\
                enable_blob_garbage_collection=true;";
    options
        .apply_str(text, &ConfigOptions::new())
        .expect("options of blob files");
}

fn unflushed_blob_files(options: &mut Options) {
    blob_files(options);
    keep_unflushed(options);
}

fn blob_files_of_kept_logs(options: &mut Options) {
    unflushed_blob_files(options);
    options.set_avoid_flush_during_recovery(true);
}

fn blob_files_of_later_levels(options: &mut Options) {
    blob_files(options);
    options.set_blob_file_starting_level(1);
}

fn keep_unflushed(options: &mut Options) {
    options.set_avoid_flush_during_shutdown(true);
}

fn small_total_wal(options: &mut Options) {
    options.set_max_total_wal_size(40 << 10);
}

fn merged_flushes(options: &mut Options) {
    options
        .set_max_write_buffer_number(4)
        .set_min_write_buffer_number_to_merge(2);
}

fn write_back(options: &mut Options) {
    options
        .set_bytes_per_sync(4 << 10)
        .set_wal_bytes_per_sync(4 << 10)
        .set_writable_file_max_buffer_size(16 << 10);
}

fn old_tables(options: &mut Options) {
    let mut table = BlockBasedOptions::new();
    table
        .set_format_version(2)
        .set_block_size(512)
        .set_bloom_filter(10.0);
    options.set_block_based_table_factory(&table);
}

#[cfg(feature = "zstd")]
fn compressed_wal(options: &mut Options) {
    options.set_wal_compression(koeldb::Compression::Zstd);
}

fn dated(options: &mut Options) {
    options.set_comparator(BytewiseComparatorWithU64Ts);
}

fn pipelined(options: &mut Options) {
    options.set_enable_pipelined_write(true);
}

fn atomic(options: &mut Options) {
    options.set_atomic_flush(true);
}

fn unordered(options: &mut Options) {
    options.set_unordered_write(true);
}

fn sorted_hash(options: &mut Options) {
    memtable(
        options,
        "{id=speedb.HashSpdRepFactory;hash_bucket_count=0;sorted_vector_limit=8;}",
    );
}

fn prefix_hash(options: &mut Options) {
    memtable(options, "prefix_hash:9");
}

fn memtable(options: &mut Options, factory: &str) {
    let text = format!("memtable_factory={factory};prefix_extractor=capped:2");
    options
        .apply_str(&text, &ConfigOptions::new())
        .expect("a memtable");
}

/// Memtables, from the plain one to the cleverest.
pub(crate) const MEMTABLES: [Mode; 3] = [
    ("skip list", plain),
    ("sorted hash", sorted_hash),
    ("hashed by prefix", prefix_hash),
];

/// A name and its options.
pub(crate) type Mode = (&'static str, fn(&mut Options));

/// The ways of groups of writes from the log to the readers.
pub(crate) const WRITE_MODES: [Mode; 3] = [
    ("by their leaders", plain),
    ("pipelined", pipelined),
    ("unordered", unordered),
];

const SYNCS: &[Operation] = &[Operation::SyncData, Operation::SyncAll];
const APPENDS: &[Operation] = &[Operation::Append, Operation::Flush];

const fn script(name: &'static str, options: fn(&mut Options), steps: &'static [Step]) -> Script {
    Script {
        name,
        options,
        drawn: None,
        steps,
        drops_oldest: false,
    }
}

/// A script with drawn options, and families that differ.
const fn drawn(name: &'static str, number: u64) -> Script {
    const STEPS: &[Step] = &[
        Create("a"),
        Write(Load::of(15).changes(5).long(1500).mix(Everything).synced(4)),
        Create("b"),
        FlushFamily("a"),
        Write(Load::of(15).changes(5).long(1500).mix(Everything).synced(4)),
        Compact,
        Drop("a"),
        Write(Load::of(8).mix(Everything)),
        Create("a"),
        Reopen,
        Write(Load::of(15).changes(5).long(1500).mix(Everything).synced(4)),
        Kill,
        Flush,
        Write(Load::of(8).mix(Everything).synced(3)),
    ];
    Script {
        drawn: Some(number),
        ..script(name, plain, STEPS)
    }
}

pub(crate) const SCRIPTS: &[Script] = &[
    script("create", plain, &[]),
    script(
        "plain writes",
        plain,
        &[Write(Load::of(25).mix(Everything))],
    ),
    script("synced writes", plain, &[Write(Load::of(12).synced(1))]),
    script(
        "pipelined writes",
        pipelined,
        &[
            Create("a"),
            Write(Load::of(30).changes(4).long(1500).mix(Everything).synced(9)),
            FlushFamily("a"),
            Write(Load::of(10).mix(Everything)),
        ],
    ),
    script(
        "sorted hash memtables",
        sorted_hash,
        &[
            Create("a"),
            Write(Load::of(30).changes(4).long(1500).mix(Everything).synced(9)),
            FlushFamily("a"),
            Write(Load::of(20).mix(Everything)),
            Kill,
            Write(Load::of(10).mix(Everything)),
        ],
    ),
    script(
        "unordered writes",
        unordered,
        &[
            Create("a"),
            Write(Load::of(30).changes(4).long(1500).mix(Everything).synced(9)),
            FlushFamily("a"),
            Write(Load::of(10).mix(Everything)),
        ],
    ),
    script(
        "some synced",
        plain,
        &[Write(Load::of(40).mix(Everything).synced(5))],
    ),
    script(
        "long batches",
        plain,
        &[Write(
            Load::of(6).changes(40).long(1200).mix(Deletions).synced(3),
        )],
    ),
    script(
        "families",
        plain,
        &[
            Create("a"),
            Create("b"),
            Write(Load::of(40).changes(6).mix(Everything).synced(7)),
        ],
    ),
    script(
        "log rotation",
        plain,
        &[Write(Load::of(60).changes(2).long(2500).mix(Deletions))],
    ),
    script(
        "log rotation, some synced",
        plain,
        &[Write(
            Load::of(60).changes(2).long(2500).mix(Everything).synced(9),
        )],
    ),
    script(
        "log rotation in families",
        plain,
        &[
            Create("a"),
            Create("b"),
            Write(
                Load::of(50)
                    .changes(5)
                    .long(1800)
                    .mix(Everything)
                    .synced(11),
            ),
        ],
    ),
    script(
        "families of unequal size",
        small_total_wal,
        &[
            Create("rare"),
            Write(Load::of(3)),
            FlushFamily("default"),
            Write(Load::of(40).changes(3).long(1500).mix(Deletions).synced(13)),
            FlushFamily("default"),
            Write(Load::of(10).changes(4).long(1500)),
        ],
    ),
    script(
        "flush",
        manual,
        &[
            Write(Load::of(10).mix(Everything)),
            Flush,
            Write(Load::of(10).mix(Everything)),
            Flush,
            Write(Load::of(5)),
        ],
    ),
    script(
        "flush in turn",
        manual,
        &[
            Create("a"),
            Create("b"),
            Write(Load::of(8).changes(5).mix(Everything)),
            FlushFamily("a"),
            Write(Load::of(8).changes(5).mix(Everything)),
            FlushFamily("b"),
            Write(Load::of(8).changes(5).mix(Everything)),
            FlushFamily("default"),
            Write(Load::of(4).changes(5)),
            Flush,
        ],
    ),
    script(
        "leveled",
        plain,
        &[
            Write(Load::of(70).changes(3).long(2500).mix(Deletions).synced(20)),
            Wait,
            Write(Load::of(40).changes(3).long(2500).mix(Deletions)),
            Compact,
        ],
    ),
    script(
        "static levels",
        static_levels,
        &[
            Write(Load::of(90).changes(3).long(2500).mix(Unique)),
            Wait,
            Write(Load::of(30).changes(3).long(2500).mix(Deletions)),
            Compact,
        ],
    ),
    script(
        "universal",
        universal,
        &[
            Write(
                Load::of(90)
                    .changes(3)
                    .long(2500)
                    .mix(Everything)
                    .synced(20),
            ),
            Wait,
            Compact,
            Write(Load::of(5)),
        ],
    ),
    Script {
        drops_oldest: true,
        ..script(
            "fifo",
            fifo,
            &[
                Write(Load::of(120).changes(2).long(2500).mix(Unique).synced(17)),
                Wait,
            ],
        )
    },
    script(
        "fifo that merges",
        fifo_merging,
        &[
            Write(Load::of(110).changes(2).long(2500).mix(Unique)),
            Wait,
            Write(Load::of(3).mix(Unique)),
        ],
    ),
    script(
        "range deletions",
        plain,
        &[
            Write(Load::of(20).mix(Deletions)),
            Flush,
            Write(Load::of(20).mix(Deletions)),
            Flush,
            Write(Load::of(20).mix(Deletions)),
            Compact,
            Write(Load::of(10).mix(Deletions)),
        ],
    ),
    script(
        "merges",
        plain,
        &[
            Write(Load::of(20).mix(Everything)),
            Flush,
            Write(Load::of(20).mix(Everything).synced(4)),
            Flush,
            Write(Load::of(10).mix(Everything)),
            Compact,
        ],
    ),
    script(
        "manifest roll",
        tiny_manifest,
        &[
            Create("a"),
            Write(Load::of(6).changes(4)),
            Flush,
            Write(Load::of(6).changes(4)),
            Flush,
            Compact,
            Create("b"),
            Write(Load::of(6).changes(4)),
            Drop("a"),
            Flush,
        ],
    ),
    script(
        "families come and go",
        plain,
        &[
            Create("a"),
            Write(Load::of(6).changes(4)),
            Drop("a"),
            Write(Load::of(4)),
            Create("a"),
            Write(Load::of(6).changes(4).synced(3)),
            Create("b"),
            Flush,
            Drop("b"),
            Write(Load::of(4).changes(4)),
            Reopen,
            Write(Load::of(4).changes(4)),
        ],
    ),
    script(
        "dropped with data",
        manual,
        &[
            Create("a"),
            Create("b"),
            Write(Load::of(10).changes(5)),
            FlushFamily("a"),
            Write(Load::of(10).changes(5)),
            Drop("a"),
            Write(Load::of(5).changes(5)),
            FlushFamily("b"),
            Drop("b"),
            Reopen,
        ],
    ),
    script(
        "option change",
        plain,
        &[
            Write(Load::of(6)),
            SetOption("write_buffer_size", "131072"),
            Write(Load::of(6)),
            SetDbOption("max_background_jobs", "3"),
            SetOption("disable_auto_compactions", "true"),
            Write(Load::of(6).synced(3)),
            Reopen,
            SetOption("level0_file_num_compaction_trigger", "2"),
        ],
    ),
    script(
        "without the log",
        manual,
        &[
            Write(Load::of(20).unlogged(1)),
            Flush,
            Write(Load::of(10).unlogged(1)),
            Reopen,
            Write(Load::of(10).unlogged(1)),
        ],
    ),
    script(
        "with and without the log",
        plain,
        &[
            Create("a"),
            Write(Load::of(30).changes(4).unlogged(3).synced(7)),
            FlushFamily("a"),
            Write(Load::of(60).changes(3).long(1500).unlogged(2)),
            Flush,
            Write(Load::of(10).unlogged(4)),
        ],
    ),
    script(
        "atomic flushes",
        atomic,
        &[
            Create("a"),
            Create("b"),
            Write(Load::of(90).changes(4).long(2000).synced(9)),
            FlushFamily("a"),
            Write(Load::of(30).changes(4).long(1500)),
            Drop("b"),
            Write(Load::of(30).changes(4).long(1500)),
            Compact,
            Kill,
            Create("b"),
            Write(Load::of(40).changes(4).long(1500)),
            Flush,
        ],
    ),
    script(
        "atomic flushes with and without the log",
        atomic,
        &[
            Create("a"),
            Write(Load::of(30).changes(4).unlogged(3).synced(7)),
            FlushFamily("a"),
            Write(Load::of(60).changes(3).long(1500).unlogged(2)),
            Flush,
            Write(Load::of(10).unlogged(4)),
        ],
    ),
    script(
        "rotation with and without the log",
        plain,
        &[Write(
            Load::of(90).changes(3).long(2000).unlogged(5).synced(14),
        )],
    ),
    script(
        "log flushed by hand",
        manual_wal_flush,
        &[
            Write(Load::of(12)),
            FlushWal { sync: false },
            Write(Load::of(12)),
            FlushWal { sync: true },
            Write(Load::of(60).changes(2).long(2500)),
        ],
    ),
    script(
        "log synced by hand",
        plain,
        &[
            Write(Load::of(10)),
            FlushWal { sync: true },
            Write(Load::of(10)),
            FlushWal { sync: false },
            Write(Load::of(10)),
            FlushWal { sync: true },
        ],
    ),
    script(
        "reopen",
        plain,
        &[
            Write(Load::of(10).mix(Everything)),
            Reopen,
            Write(Load::of(10).mix(Everything).synced(4)),
            Reopen,
            Reopen,
            Write(Load::of(10).mix(Everything)),
        ],
    ),
    script(
        "reopen unflushed",
        keep_unflushed,
        &[
            Create("a"),
            Write(Load::of(30).changes(4).long(1500).mix(Everything)),
            Reopen,
            Write(Load::of(30).changes(4).long(1500).mix(Everything)),
            Reopen,
        ],
    ),
    script(
        "killed",
        plain,
        &[
            Create("a"),
            Write(Load::of(20).changes(4).mix(Everything).synced(6)),
            Kill,
            Write(Load::of(40).changes(4).long(1500).mix(Everything).synced(9)),
            Kill,
            Flush,
            Write(Load::of(10).mix(Everything)),
            Kill,
            Kill,
        ],
    ),
    script(
        "blob files",
        unflushed_blob_files,
        &[
            Create("a"),
            Write(Load::of(20).changes(4).long(1500).mix(Everything).synced(6)),
            FlushFamily("a"),
            Write(Load::of(20).changes(4).mix(Everything)),
            Reopen,
            Write(Load::of(20).changes(4).long(1500).mix(Everything)),
            Compact,
            Write(Load::of(10).mix(Everything)),
            Reopen,
        ],
    ),
    script(
        "killed with blob files",
        blob_files,
        &[
            Create("a"),
            Write(Load::of(20).changes(4).mix(Everything).synced(6)),
            Kill,
            Write(Load::of(50).changes(4).long(1500).mix(Everything).synced(9)),
            Kill,
            Compact,
            Write(Load::of(10).mix(Everything).synced(4)),
            Kill,
            Kill,
            Drop("a"),
            Write(Load::of(10).mix(Everything)),
        ],
    ),
    script(
        "blob files of kept logs",
        blob_files_of_kept_logs,
        &[
            Create("a"),
            Write(Load::of(10).changes(4).mix(Everything).synced(6)),
            Kill,
            Write(Load::of(30).changes(4).long(1500).mix(Everything)),
            Reopen,
            Flush,
            Write(Load::of(30).changes(4).mix(Everything).synced(5)),
            Kill,
        ],
    ),
    script(
        "blob files of later levels",
        blob_files_of_later_levels,
        &[
            Write(Load::of(20).mix(Everything).synced(6)),
            Kill,
            Compact,
            Write(Load::of(20).mix(Everything).synced(6)),
        ],
    ),
    script(
        "repair of blob files",
        blob_files,
        &[
            Create("a"),
            Write(Load::of(10).changes(4)),
            Flush,
            Write(Load::of(10).changes(4)),
            Kill,
            Write(Load::of(10).changes(4)),
            Repair,
            Write(Load::of(5).changes(4).synced(2)),
        ],
    ),
    script(
        "killed with many logs",
        merged_flushes,
        &[
            Create("a"),
            Write(Load::of(40).changes(4).long(1800).mix(Everything)),
            Kill,
            Write(Load::of(40).changes(4).long(1800).mix(Everything)),
        ],
    ),
    script(
        "logs elsewhere",
        own_wal_directory,
        &[
            Write(Load::of(60).changes(2).long(2500).mix(Deletions).synced(8)),
            Create("a"),
            Write(Load::of(20).changes(4).long(1500)),
            Reopen,
            Write(Load::of(5).synced(2)),
        ],
    ),
    script(
        "logs elsewhere, manifest roll",
        own_wal_directory_tiny_manifest,
        &[
            Create("a"),
            Write(Load::of(30).changes(4).long(2500).synced(10)),
            Kill,
            Write(Load::of(30).changes(4).long(2500)),
        ],
    ),
    script(
        "tolerating a torn tail",
        tolerant,
        &[
            Create("a"),
            Write(Load::of(60).changes(4).long(1500).mix(Unique).synced(8)),
        ],
    ),
    script(
        "absolute consistency",
        absolute,
        &[
            Create("a"),
            Write(Load::of(60).changes(4).long(1500).mix(Unique).synced(8)),
        ],
    ),
    script(
        "skipping damage",
        skipping,
        &[
            Create("a"),
            Write(Load::of(60).changes(4).long(1500).mix(Unique).synced(8)),
        ],
    ),
    script(
        "repair",
        plain,
        &[
            Write(Load::of(10)),
            Flush,
            Write(Load::of(10)),
            Repair,
            Write(Load::of(5).synced(2)),
            Repair,
        ],
    ),
    script(
        "repair of families",
        plain,
        &[
            Create("gone"),
            Create("a"),
            Create("b"),
            Write(Load::of(10).changes(4)),
            FlushFamily("b"),
            FlushFamily("gone"),
            Drop("gone"),
            Write(Load::of(10).changes(4)),
            Create("gone"),
            Flush,
            Write(Load::of(10).changes(4)),
            FlushFamily("gone"),
            FlushFamily("a"),
            Write(Load::of(5).changes(4)),
            Repair,
            Write(Load::of(5).changes(4).synced(2)),
        ],
    ),
    script(
        "resume with nothing written",
        plain,
        &[
            Create("a"),
            Break(Failure::Device, SYNCS),
            Write(Load::of(1).synced(1).changes(1)),
            Resume,
            Write(Load::of(5).changes(4).synced(2)),
        ],
    ),
    script(
        "resume after a failed sync",
        plain,
        &[
            Create("a"),
            Write(Load::of(10).changes(4).synced(4)),
            Break(Failure::Device, SYNCS),
            Write(Load::of(4).changes(4).synced(2)),
            Resume,
            Write(Load::of(10).changes(4).synced(4)),
        ],
    ),
    script(
        "resume after a failed append",
        plain,
        &[
            Create("a"),
            Write(Load::of(30).changes(4).long(1500).synced(9)),
            Break(Failure::NoSpace, APPENDS),
            Write(Load::of(3).changes(4)),
            Resume,
            Write(Load::of(30).changes(4).long(1500).synced(9)),
        ],
    ),
    script(
        "read-only beside",
        plain,
        &[
            Create("a"),
            Write(Load::of(10).changes(4)),
            ReadOnly,
            Flush,
            Write(Load::of(10).changes(4)),
            ReadOnly,
        ],
    ),
    script(
        "write-back",
        write_back,
        &[Write(Load::of(60).changes(3).long(2500).mix(Puts)), Compact],
    ),
    script(
        "old tables",
        old_tables,
        &[
            Write(Load::of(20).mix(Everything)),
            Flush,
            Write(Load::of(20).mix(Everything)),
            Compact,
        ],
    ),
    script(
        "timestamps",
        dated,
        &[
            Create("a"),
            Write(Load::of(30).changes(4).long(1500).mix(Everything).synced(9)),
            FlushFamily("a"),
            Write(Load::of(20).mix(Deletions)),
            Kill,
            Write(Load::of(20).mix(Everything).synced(3)),
            Compact,
            Reopen,
            Write(Load::of(20).mix(Everything).unlogged(6)),
        ],
    ),
    script(
        "repair of timestamps",
        dated,
        &[
            Create("a"),
            Write(Load::of(10).changes(4).mix(Everything)),
            Flush,
            Write(Load::of(10).changes(4).mix(Everything)),
            Repair,
            Write(Load::of(5).changes(4).synced(2)),
        ],
    ),
    drawn("drawn options 1", 1),
    drawn("drawn options 2", 2),
    drawn("drawn options 3", 3),
    drawn("drawn options 4", 4),
    drawn("drawn options 5", 5),
    drawn("drawn options 6", 6),
    #[cfg(feature = "zstd")]
    script(
        "compressed log",
        compressed_wal,
        &[
            Create("a"),
            Write(Load::of(40).changes(5).long(1200).mix(Everything).synced(6)),
        ],
    ),
];
