//! All benchmarks by name.

use super::flags::Flags;
use super::plan::{Failure, Outcome, Plan};
use super::values::ValueSizes;
use super::work::state::{self, StateFn};
use super::work::{
    background, codec, deterministic, entity, mixed, mixgraph, multi_scan, operands, read, remote,
    replace, scan, time_series, transaction, transfer, verify, write,
};
use super::worker::{ThreadedWork, WorkFn};

/// A benchmark that `--benchmarks` can name: name, description, code and prerequisites.
#[derive(Clone, Copy)]
pub(crate) struct Benchmark {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) work: Work,
    /// Destroys and reopens the database before the run.
    pub(crate) fresh: bool,
    /// If set, the benchmark always has one thread; the text is printed if more are requested.
    pub(crate) one_thread: Option<&'static str>,
    /// The condition under which the batch size is printed.
    pub(crate) tells_batch: TellsBatch,
    pub(crate) needs: Needs,
    pub(crate) change: fn(&mut Plan),
}

/// The code of a benchmark: run on benchmark threads, or once on the databases.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    Threads(ThreadedWork),
    State(StateFn),
}

/// The condition under which a benchmark prints the line `entries_per_batch = N`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TellsBatch {
    Never,
    Always,
    WithStride,
}

/// A prerequisite of a benchmark: a merge operator, or disabled automatic compactions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    MergeOperator,
    NoAutoCompactions,
}

impl Needs {
    /// Fails unless the flags meet the prerequisite of the benchmark `name`.
    ///
    /// If the merge operator is missing, prints a result line, like RocksDB's program, and fails.
    pub(crate) fn check(self, name: &str, flags: &Flags) -> Outcome {
        match self {
            Needs::MergeOperator if flags.merge_operator.is_empty() => {
                println!("{name:<12} : skipped (--merge_operator is unknown)");
                Err(Failure::new(format!("{name} needs --merge_operator")))
            }
            Needs::NoAutoCompactions if !flags.disable_auto_compactions => Err(Failure::new(
                "Please disable_auto_compactions in FillDeterministic benchmark",
            )),
            _ => Ok(()),
        }
    }
}

/// Declares a benchmark that runs `work` on every benchmark thread.
const fn threads(name: &'static str, about: &'static str, work: WorkFn) -> Benchmark {
    Benchmark {
        name,
        about,
        work: Work::Threads(ThreadedWork {
            work,
            background: None,
        }),
        fresh: false,
        one_thread: None,
        tells_batch: TellsBatch::Never,
        needs: Needs::Nothing,
        change: |_| {},
    }
}

/// Declares a threaded benchmark that destroys and recreates the databases before its run.
const fn fill(name: &'static str, about: &'static str, work: WorkFn) -> Benchmark {
    Benchmark {
        fresh: true,
        ..threads(name, about, work)
    }
}

/// Declares a threaded benchmark whose thread 0 runs `background` while the others run `work`.
const fn beside(
    name: &'static str,
    about: &'static str,
    work: WorkFn,
    background: WorkFn,
) -> Benchmark {
    Benchmark {
        work: Work::Threads(ThreadedWork {
            work,
            background: Some(background),
        }),
        ..threads(name, about, work)
    }
}

/// Declares a benchmark that calls `work` once on the databases, without benchmark threads.
const fn state(name: &'static str, about: &'static str, work: StateFn) -> Benchmark {
    Benchmark {
        work: Work::State(work),
        ..threads(name, about, write::random)
    }
}

const UNIQUE_REMARK: &str =
    "filluniquerandom and fillanddeleteuniquerandom multithreaded not supported, use 1 thread";
const DETERMINISTIC_REMARK: &str = "filldeterministic multithreaded not supported, use 1 thread";

/// The benchmarks in the order of the help.
pub(crate) const BENCHMARKS: &[Benchmark] = &[
    fill(
        "fillseq",
        "writes keys in order into a fresh database",
        write::sequential,
    ),
    Benchmark {
        change: |plan| plan.batch = 1000,
        ..fill(
            "fillbatch",
            "fillseq with batches of 1000 keys",
            write::sequential,
        )
    },
    fill(
        "fillrandom",
        "writes random keys into a fresh database",
        write::random,
    ),
    Benchmark {
        one_thread: Some(UNIQUE_REMARK),
        ..fill(
            "filluniquerandom",
            "writes every key once, in random order",
            write::unique_random,
        )
    },
    Benchmark {
        one_thread: Some(UNIQUE_REMARK),
        ..fill(
            "fillanddeleteuniquerandom",
            "filluniquerandom under another name",
            write::unique_random,
        )
    },
    Benchmark {
        change: |plan| {
            plan.fill_keys /= 1000;
            plan.write_options.set_sync(true);
        },
        ..fill(
            "fillsync",
            "writes num/1000 random keys, each synced",
            write::random,
        )
    },
    Benchmark {
        change: |plan| {
            plan.fill_keys /= 1000;
            plan.values.sizes = ValueSizes::Fixed(100_000);
        },
        ..fill(
            "fill100K",
            "writes num/1000 random keys with values of 100,000 bytes",
            write::random,
        )
    },
    Benchmark {
        one_thread: Some(DETERMINISTIC_REMARK),
        needs: Needs::NoAutoCompactions,
        ..fill(
            "fillseqdeterministic",
            "fills each level of the tree by a compaction of its own; the last one in order",
            deterministic::sequential,
        )
    },
    Benchmark {
        one_thread: Some(DETERMINISTIC_REMARK),
        needs: Needs::NoAutoCompactions,
        ..fill(
            "filluniquerandomdeterministic",
            "fills each level of the tree by a compaction of its own; the last one in random order",
            deterministic::unique_random,
        )
    },
    threads(
        "overwrite",
        "writes random keys into the existing database",
        write::random,
    ),
    threads(
        "fillseekseq",
        "fills in order, unmeasured; then seeks to every key",
        scan::seek_sequential,
    ),
    threads(
        "deleteseq",
        "deletes keys in order",
        write::delete_sequential,
    ),
    threads("deleterandom", "deletes random keys", write::delete_random),
    Benchmark {
        tells_batch: TellsBatch::WithStride,
        ..threads("readrandom", "reads random keys", read::random)
    },
    Benchmark {
        change: |plan| plan.layout.key_bytes += 1,
        ..threads(
            "readmissing",
            "reads random keys that do not exist",
            read::random,
        )
    },
    Benchmark {
        change: |plan| plan.reads /= 1000,
        ..threads(
            "readrandomsmall",
            "readrandom with reads/1000",
            read::random,
        )
    },
    threads(
        "readrandomfast",
        "reads random keys, some missing; copies values",
        read::random_fast,
    ),
    Benchmark {
        tells_batch: TellsBatch::Always,
        ..threads(
            "multireadrandom",
            "reads batches of random keys by MultiGet",
            read::multi_random,
        )
    },
    Benchmark {
        tells_batch: TellsBatch::WithStride,
        ..threads(
            "readrandomentity",
            "reads the columns of random keys",
            entity::read_random,
        )
    },
    Benchmark {
        tells_batch: TellsBatch::Always,
        ..threads(
            "multireadentity",
            "reads the columns of batches of random keys",
            entity::multi_random,
        )
    },
    threads("readseq", "scans from the first key", scan::forwards),
    threads(
        "readreverse",
        "scans from the last key backwards",
        scan::backwards,
    ),
    Benchmark {
        one_thread: Some(""),
        change: |plan| plan.reads = plan.key_count,
        ..threads(
            "readtocache",
            "readseq of everything, one thread",
            scan::forwards,
        )
    },
    threads(
        "multiscan",
        "scans multiscan_size ranges of seek_nexts keys, each by a cursor",
        multi_scan::strided,
    ),
    threads(
        "multiscanrandom",
        "scans up to 64 random ranges of up to 1 MiB, each by a cursor",
        multi_scan::random,
    ),
    threads(
        "newiterator",
        "creates and drops cursors",
        scan::new_iterator,
    ),
    threads(
        "seekrandom",
        "seeks to random keys and takes seek_nexts steps",
        scan::seek_random,
    ),
    Benchmark {
        tells_batch: TellsBatch::Always,
        ..threads(
            "approximatesizerandom",
            "estimates the sizes of random ranges",
            read::approximate_sizes,
        )
    },
    Benchmark {
        change: |plan| plan.varies_rates = plan.sine_mix_rate,
        ..threads(
            "mixgraph",
            "reads, writes and seeks with modelled skew and sizes (mix_*, key_dist_*, ...)",
            mixgraph::mix_graph,
        )
    },
    threads(
        "readrandomwriterandom",
        "readwritepercent reads, then writes, of random keys",
        mixed::read_random_write_random,
    ),
    threads(
        "updaterandom",
        "reads a random key and writes a new value",
        mixed::update_random,
    ),
    threads(
        "randomtransaction",
        "adds a number to a random key of each of transaction_sets sets in a transaction",
        transaction::random_transaction,
    ),
    threads(
        "randomwithverify",
        "reads, writes and deletes three copies of numdistinct keys, and compares them",
        verify::random_with_verify,
    ),
    fill(
        "randomreplacekeys",
        "deletes a key and writes its successor, in a fresh database",
        replace::random_keys,
    ),
    fill(
        "timeseries",
        "one thread writes ids with rising times, the others read or expire them",
        time_series::run,
    ),
    threads(
        "xorupdaterandom",
        "reads a random key and writes its value xored",
        mixed::xor_update_random,
    ),
    threads(
        "appendrandom",
        "reads a random key and writes its value lengthened",
        mixed::append_random,
    ),
    Benchmark {
        needs: Needs::MergeOperator,
        ..threads(
            "mergerandom",
            "merges into random keys; needs merge_operator",
            mixed::merge_random,
        )
    },
    Benchmark {
        needs: Needs::MergeOperator,
        ..threads(
            "readrandommergerandom",
            "reads of or merges into random keys",
            mixed::read_random_merge_random,
        )
    },
    Benchmark {
        needs: Needs::MergeOperator,
        ..threads(
            "readrandomoperands",
            "reads the merge operands of random keys, unmerged",
            operands::read_random,
        )
    },
    Benchmark {
        needs: Needs::MergeOperator,
        one_thread: Some(""),
        ..threads(
            "getmergeoperands",
            "searches a list by Get and by its merge operands; needs stringappend",
            operands::search_lists,
        )
    },
    beside(
        "readwhilewriting",
        "readrandom while another thread writes",
        read::random,
        background::writer,
    ),
    Benchmark {
        tells_batch: TellsBatch::Always,
        ..beside(
            "multireadwhilewriting",
            "multireadrandom while another thread writes",
            read::multi_random,
            background::writer,
        )
    },
    beside(
        "seekrandomwhilewriting",
        "seekrandom while another thread writes",
        scan::seek_random,
        background::writer,
    ),
    beside(
        "newiteratorwhilewriting",
        "newiterator while another thread writes",
        scan::new_iterator,
        background::writer,
    ),
    beside(
        "readwhilemerging",
        "readrandom while another thread merges",
        read::random,
        background::merger,
    ),
    beside(
        "seekrandomwhilemerging",
        "seekrandom while another thread merges",
        scan::seek_random,
        background::merger,
    ),
    beside(
        "readwhilescanning",
        "readrandom while another thread scans",
        read::random,
        background::scanner,
    ),
    threads(
        "compact",
        "compacts all keys to the last level in use",
        state::compact,
    ),
    state(
        "compactall",
        "compacts all keys to the last level in use, without a result line",
        state::compact_all,
    ),
    state(
        "compact0",
        "compacts level 0 into the next level that has files",
        state::compact_level_0,
    ),
    state(
        "compact1",
        "compacts the first level below 0 into the next one",
        state::compact_level_1,
    ),
    state("flush", "flushes the memtables", state::flush),
    state(
        "waitforcompaction",
        "waits until no compaction is due",
        state::wait_for_compaction,
    ),
    threads(
        "verifychecksum",
        "verifies every block of every file",
        state::verify_checksum,
    ),
    threads(
        "verifyfilechecksums",
        "verifies the checksum of every whole file (file_checksum)",
        state::verify_file_checksums,
    ),
    state(
        "verify",
        "compares the database with truth_db",
        verify::against_truth,
    ),
    Benchmark {
        one_thread: Some(""),
        ..threads(
            "ingestexternalfile",
            "writes table files of num keys, and ingests them",
            transfer::ingest,
        )
    },
    Benchmark {
        one_thread: Some(""),
        ..threads(
            "backup",
            "replaces the backups in backup_dir by one of the database",
            transfer::backup,
        )
    },
    Benchmark {
        one_thread: Some(""),
        ..threads(
            "restore",
            "restores the latest backup in backup_dir into restore_dir",
            transfer::restore,
        )
    },
    Benchmark {
        one_thread: Some(""),
        ..threads(
            "openandcompact",
            "compacts all tables as a remote worker does, into secondary_path",
            remote::open_and_compact,
        )
    },
    threads(
        "crc32c",
        "computes CRC-32C of blocks, 5000 MiB or duration",
        codec::checksum_crc32c,
    ),
    threads(
        "xxhash",
        "computes XXH32 of blocks, 5000 MiB or duration",
        codec::checksum_xxhash,
    ),
    threads(
        "xxhash64",
        "computes XXH64 of blocks, 5000 MiB or duration",
        codec::checksum_xxhash64,
    ),
    threads(
        "xxh3",
        "computes XXH3 of blocks, 5000 MiB or duration",
        codec::checksum_xxh3,
    ),
    threads(
        "compress",
        "compresses a block, 3 GiB or duration",
        codec::compress,
    ),
    threads(
        "compressreject",
        "compresses a block into too little space, 3 GiB or duration",
        codec::compress_reject,
    ),
    threads(
        "uncompress",
        "decompresses a block, 20 GiB or duration",
        codec::uncompress,
    ),
    state("stats", "prints the property rocksdb.stats", state::stats),
    state(
        "levelstats",
        "prints files and bytes per level",
        state::level_stats,
    ),
    state("sstables", "prints the table files", state::sstables),
    state(
        "stats_history",
        "prints the counters of each stats_persist_period_sec",
        state::stats_history,
    ),
    state(
        "memstats",
        "prints sizes and counts of memtables",
        state::memory_stats,
    ),
    state(
        "block_cache_entry_stats",
        "prints what the block cache holds",
        state::block_cache_entry_stats,
    ),
];

/// RocksDB's benchmarks that do not exist here, and why.
pub(crate) const ABSENT: &[(&str, &str)] = &[
    ("acquireload", "it measures the processor alone"),
    (
        "approximatememtablestats",
        "there is no estimate of the entries of a range in memtables",
    ),
    ("cache_report_problems", "caches keep no such report"),
    (
        "fillembeddedblob",
        "KoelDB writes no blobs into table files",
    ),
    (
        "fillembeddedentity",
        "KoelDB writes no blobs into table files",
    ),
    (
        "multireadrandomcoroutine",
        "multireadrandom with --async_io reads concurrently",
    ),
    (
        "readrandomcoroutine",
        "multireadrandom with --async_io reads concurrently",
    ),
    ("readtorowcache", "there is no row cache"),
    ("replay", "there are no traces of calls"),
    (
        "resetstats",
        "figures begin with the open and cannot be reset",
    ),
];

/// Returns why RocksDB's benchmark `name` does not exist here; `None` if it is not listed.
pub(crate) fn why_absent(name: &str) -> Option<&'static str> {
    let absent = ABSENT.iter().find(|absent| absent.0 == name);
    absent.map(|absent| absent.1)
}

/// Returns the benchmark called `name`; `None` if there is none.
pub(crate) fn find(name: &str) -> Option<&'static Benchmark> {
    BENCHMARKS.iter().find(|benchmark| benchmark.name == name)
}

/// One item of `--benchmarks`: a name, the number of runs and the number of warm-up runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    pub(crate) name: &'a str,
    pub(crate) repeats: u32,
    pub(crate) warm_ups: u32,
}

/// Parses an item of `--benchmarks`: `name` or `name[X3-W1]` (3 runs after 1 warm-up).
pub(crate) fn parse_request(word: &str) -> Result<Request<'_>, String> {
    let mut request = Request {
        name: word,
        repeats: 1,
        warm_ups: 0,
    };
    let Some(inner) = word.strip_suffix(']') else {
        return Ok(request);
    };
    let unknown = || format!("unknown benchmark arguments '{word}'");
    let (name, arguments) = inner.split_once('[').ok_or_else(unknown)?;
    request.name = name;
    for argument in arguments.split('-').filter(|argument| !argument.is_empty()) {
        let place = match argument.as_bytes()[0] {
            b'X' => &mut request.repeats,
            b'W' => &mut request.warm_ups,
            _ => continue,
        };
        *place = argument[1..].parse().map_err(|_| unknown())?;
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_default_list_has_only_known_ones() {
        let mut names: Vec<_> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        for name in crate::db_bench::flags::DEFAULT_BENCHMARKS.split(',') {
            assert!(find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn every_benchmark_of_rocksdb_exists_or_has_a_reason_not_to() {
        let names = include_str!("rocksdb_benchmarks.txt");
        for name in names.lines() {
            let (found, absent) = (find(name).is_some(), why_absent(name).is_some());
            assert!(found != absent, "{name}");
        }
        let mut absent = ABSENT.iter().map(|absent| absent.0);
        assert!(absent.all(|name| names.lines().any(|line| line == name)));
    }

    #[test]
    fn requests_carry_repeats_and_warm_ups() {
        let request = parse_request("fillseq[X3-W1]").expect("valid");
        assert_eq!(
            (request.name, request.repeats, request.warm_ups),
            ("fillseq", 3, 1)
        );
        let request = parse_request("fillseq").expect("valid");
        assert_eq!((request.repeats, request.warm_ups), (1, 0));
        assert!(parse_request("fillseq]").is_err());
        assert!(parse_request("fillseq[Xmany]").is_err());
    }
}
