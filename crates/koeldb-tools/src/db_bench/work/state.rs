//! Benchmarks of the state of the databases: compactions, flushes and properties.

use std::path::PathBuf;
use std::time::Duration;

use koeldb::{BottommostLevelCompaction, CompactRangeOptions};
use koeldb_fs::clock::{Clock, SystemClock};

use crate::db_bench::database::{Database, Databases};
use crate::db_bench::flags::Flags;
use crate::db_bench::header::date_time;
use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::worker::Worker;

/// The code of a benchmark without threads.
pub(crate) type StateFn = fn(&Flags, &Databases) -> Outcome;

/// Returns `--subcompactions`; a negative value becomes the maximum.
fn subcompactions(flags: &Flags) -> u32 {
    u32::try_from(flags.subcompactions).unwrap_or(u32::MAX)
}

/// Runs `compact`: compacts all keys of a database, in a benchmark thread.
pub(crate) fn compact(worker: &mut Worker<'_>) -> Outcome {
    let mut options = CompactRangeOptions::new();
    options
        .set_max_subcompactions(subcompactions(worker.flags()))
        .set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
    let family = worker.select().default_family();
    let result = family.compact_range_opt(.., &options);
    result.map_err(|error| Failure::of("compaction error", &error))
}

/// Runs `verifychecksum`: verifies every block of every file, in a benchmark thread.
pub(crate) fn verify_checksum(worker: &mut Worker<'_>) -> Outcome {
    let result = worker.select().db.verify_checksums();
    result.map_err(|error| Failure::of("VerifyChecksum() failed", &error))
}

/// Runs `verifyfilechecksums`: verifies whole-file checksums, in a benchmark thread.
pub(crate) fn verify_file_checksums(worker: &mut Worker<'_>) -> Outcome {
    let verified = worker.select().db.verify_file_checksums();
    let verified = verified.map_err(|error| Failure::of("VerifyFileChecksums() failed", &error))?;
    let message = match verified {
        0 => "(0 files: --file_checksum keeps their checksums)".to_owned(),
        files => format!("({files} files)"),
    };
    worker.tally.add_message(&message);
    Ok(())
}

/// Runs `compactall`: compacts all keys of each database, without a result line.
pub(crate) fn compact_all(flags: &Flags, databases: &Databases) -> Outcome {
    let mut options = CompactRangeOptions::new();
    options.set_max_subcompactions(subcompactions(flags));
    for database in databases.all() {
        let result = database.default_family().compact_range_opt(.., &options);
        result.map_err(|error| Failure::of("compaction error", &error))?;
    }
    Ok(())
}

/// Runs `compact0`: compacts level 0 into the next level that has files.
pub(crate) fn compact_level_0(_: &Flags, databases: &Databases) -> Outcome {
    compact_level(databases, 0)
}

/// Runs `compact1`: compacts the first nonempty level below 0 into the next one.
pub(crate) fn compact_level_1(_: &Flags, databases: &Databases) -> Outcome {
    compact_level(databases, 1)
}

/// Compacts all files of one level into the next nonempty level; retries until it succeeds.
///
/// The level is 0, or the first nonempty level below it.
fn compact_level(databases: &Databases, from: usize) -> Outcome {
    for database in databases.all() {
        while !try_compact_level(database, from)? {
            wait_for_database(database)?;
        }
    }
    Ok(())
}

/// Compacts the level's files once; `false` if `CompactFiles` fails, as when a file is in use.
fn try_compact_level(database: &Database, from: usize) -> Outcome<bool> {
    let tree = database.tree();
    let filled = tree
        .iter()
        .enumerate()
        .filter(|(_, files)| !files.is_empty());
    let mut filled = filled
        .map(|(level, _)| level)
        .filter(|&level| level >= from);
    let source = match filled.next() {
        Some(level) if from == 1 || level == 0 => level,
        _ => {
            println!("compact{from} found 0 files to compact");
            return Ok(true);
        }
    };
    let Some(target) = filled.next() else {
        println!("compact{from} found no data beyond L{source}");
        return Ok(true);
    };
    let files: Vec<PathBuf> = tree[source]
        .iter()
        .map(|file| file.name.clone().into())
        .collect();
    println!(
        "compact{from} found {} files to compact from L{source} to L{target}",
        files.len()
    );
    let target = u32::try_from(target).unwrap_or(u32::MAX);
    match database.default_family().compact_files(&files, target) {
        Ok(_) => Ok(true),
        Err(error) => {
            eprintln!("compact{from} CompactFiles failed: {error}");
            Ok(false)
        }
    }
}

/// Runs `waitforcompaction`: waits in each database until no compaction is due.
pub(crate) fn wait_for_compaction(_: &Flags, databases: &Databases) -> Outcome {
    databases.all().iter().try_for_each(wait_for_database)
}

/// Waits until no flush or compaction of a database is due, and prints the status.
fn wait_for_database(database: &Database) -> Outcome {
    // Gives recently requested background work the time to start.
    SystemClock.sleep(Duration::from_secs(5));
    let path = database.path.display();
    println!("waitforcompaction({path}): started");
    let status = match database.db.wait_for_compact(None) {
        Ok(()) => "OK".to_owned(),
        Err(error) => error.to_string(),
    };
    println!("waitforcompaction({path}): finished with status ({status})");
    Ok(())
}

/// Runs `flush`: flushes the memtables of each database.
pub(crate) fn flush(_: &Flags, databases: &Databases) -> Outcome {
    for database in databases.all() {
        let result = database.db.flush();
        result.map_err(|error| Failure::of("Flush failed", &error))?;
    }
    println!("flush memtable");
    Ok(())
}

/// Runs `stats`: prints the property `rocksdb.stats`.
pub(crate) fn stats(_: &Flags, databases: &Databases) -> Outcome {
    print_property(databases, "rocksdb.stats")
}

/// Runs `levelstats`: prints the files and bytes of each level.
pub(crate) fn level_stats(_: &Flags, databases: &Databases) -> Outcome {
    print_property(databases, "rocksdb.levelstats")
}

/// Runs `sstables`: prints the table files.
pub(crate) fn sstables(_: &Flags, databases: &Databases) -> Outcome {
    print_property(databases, "rocksdb.sstables")
}

/// Runs `block_cache_entry_stats`: prints what the block cache holds.
pub(crate) fn block_cache_entry_stats(_: &Flags, databases: &Databases) -> Outcome {
    print_property(databases, "rocksdb.block-cache-entry-stats")
}

/// Runs `stats_history`: prints the tickers that changed in each `stats_persist_period_sec`.
pub(crate) fn stats_history(_: &Flags, databases: &Databases) -> Outcome {
    for database in databases.all() {
        print_title(databases, database);
        let history = database.db.stats_history(..);
        if history.is_empty() {
            println!("no history: it needs --statistics and a full --stats_persist_period_sec");
        }
        for entry in history {
            println!("------ {} ------", date_time(entry.unix_secs));
            for (ticker, change) in entry.changes {
                println!(" {}   {}  {change}", entry.unix_secs, ticker.name());
            }
        }
    }
    Ok(())
}

/// Prints a property of each database.
fn print_property(databases: &Databases, name: &str) -> Outcome {
    for database in databases.all() {
        print_title(databases, database);
        println!("\n{}", property(database, name)?);
    }
    Ok(())
}

/// Runs `memstats`: prints sizes and counts of the memtables.
pub(crate) fn memory_stats(_: &Flags, databases: &Databases) -> Outcome {
    const NAMES: [&str; 6] = [
        "rocksdb.num-immutable-mem-table",
        "rocksdb.cur-size-active-mem-table",
        "rocksdb.cur-size-all-mem-tables",
        "rocksdb.size-all-mem-tables",
        "rocksdb.num-entries-active-mem-table",
        "rocksdb.num-entries-imm-mem-tables",
    ];
    for database in databases.all() {
        print_title(databases, database);
        for name in NAMES {
            println!("{name}: {}", property(database, name)?);
        }
    }
    Ok(())
}

/// Prints the database's path as a heading, if there are several databases.
fn print_title(databases: &Databases, database: &Database) {
    if databases.are_several() {
        println!("\n==== DB: {} ===", database.path.display());
    }
}

/// Returns a property of the default column family as text; `(failed)` if it is unknown.
fn property(database: &Database, name: &str) -> Outcome<String> {
    let text = database.default_family().property_value(name);
    let text = text.map_err(|error| Failure::of(name, &error))?;
    Ok(text.unwrap_or_else(|| "(failed)".to_owned()))
}
