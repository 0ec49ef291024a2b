//! Fills that produce a tree of known shape.
//!
//! Each phase fills level 0, whose files are then compacted together into a separate level. Later
//! phases are smaller and write keys of the earlier ones.

use std::path::PathBuf;

use koeldb::ColumnFamily;

use super::write::fill;
use crate::db_bench::database::Database;
use crate::db_bench::keys::FillOrder;
use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::worker::Worker;

/// Runs `fillseqdeterministic`: fills the levels, the bottommost with keys in order.
pub(crate) fn sequential(worker: &mut Worker<'_>) -> Outcome {
    fill_levels(worker, FillOrder::Sequential)
}

/// Runs `filluniquerandomdeterministic`: fills the levels with keys in random order.
pub(crate) fn unique_random(worker: &mut Worker<'_>) -> Outcome {
    fill_levels(worker, FillOrder::UniqueRandom)
}

/// The files of one phase, newest first, which become one sorted run.
type Run = Vec<PathBuf>;

/// The sorted runs that a deterministic fill has flushed to level 0 of one database.
#[derive(Debug, Default)]
struct Runs {
    runs: Vec<Run>,
    /// The number of files of level 0 that belong to a run.
    seen: usize,
}

/// Fills each level by a compaction of its own, automatic compactions off, and prints the levels.
fn fill_levels(worker: &mut Worker<'_>, order: FillOrder) -> Outcome {
    let flags = worker.flags();
    let databases = worker.databases().all();
    let triggers = [
        (
            "level0_slowdown_writes_trigger",
            flags.level0_slowdown_writes_trigger,
        ),
        (
            "level0_stop_writes_trigger",
            flags.level0_stop_writes_trigger,
        ),
    ];
    let is_fifo = flags.compaction_style == 2;
    for database in databases {
        let off = ("disable_auto_compactions", "true");
        let high = triggers.map(|(name, _)| (name, "400000000"));
        let options = [off].into_iter().chain(high);
        let count = if is_fifo { 1 } else { 3 };
        set_options(database.default_family(), options.take(count))?;
    }
    match flags.compaction_style {
        0 => fill_leveled(worker, order)?,
        1 => fill_universal(worker, order)?,
        2 => fill_fifo(worker, order)?,
        _ => {
            println!("filldeterministic : skipped (-compaction_stype=kCompactionStyleNone)");
            return Ok(());
        }
    }
    for (number, database) in databases.iter().enumerate() {
        print_tree(number, database);
        let restored = triggers.map(|(name, value)| (name, value.to_string()));
        let options = restored.iter().map(|(name, value)| (*name, value.as_str()));
        set_options(database.default_family(), options)?;
    }
    Ok(())
}

/// Changes mutable options of a column family (`SetOptions`).
fn set_options<'a>(
    family: &ColumnFamily,
    options: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Outcome {
    let result = family.set_options(options);
    result.map_err(|error| Failure::of("set options", &error))
}

/// Repeats a fill and a flush, each smaller, until one no longer creates several level 0 files.
///
/// `next` returns the smaller number of writes of the next phase. `full` is the number of runs
/// after which the last one is cut to two thirds and the fill ends.
fn fill_phases(
    worker: &mut Worker<'_>,
    first: FillOrder,
    full: Option<usize>,
    next: impl Fn(u64) -> u64,
) -> Outcome<Vec<Runs>> {
    let databases = worker.databases().all();
    let mut all: Vec<Runs> = databases.iter().map(|_| Runs::default()).collect();
    let mut writes = worker.plan().writes;
    let mut order = first;
    loop {
        fill(worker, order, writes)?;
        order = FillOrder::UniqueRandom;
        let mut stop = false;
        for (database, runs) in databases.iter().zip(&mut all) {
            stop |= add_run(database, runs, writes, full)?;
        }
        if stop {
            return Ok(all);
        }
        writes = next(writes);
    }
}

/// Flushes, and adds the new level 0 files as a sorted run; returns whether it was the last run.
fn add_run(
    database: &Database,
    runs: &mut Runs,
    writes: u64,
    full: Option<usize>,
) -> Outcome<bool> {
    let family = database.default_family();
    family
        .flush()
        .map_err(|error| Failure::of("flush error", &error))?;
    let files: Run = match database.tree().first() {
        Some(level) => level.iter().map(|file| PathBuf::from(&file.name)).collect(),
        None => Vec::new(),
    };
    if files.len() == runs.seen || writes == 0 {
        return Ok(true);
    }
    let mut run: Run = files[..files.len() - runs.seen].to_vec();
    runs.seen = files.len();
    let is_last = run.len() == 1;
    let is_full = !is_last && full == Some(runs.runs.len() + 1);
    if is_full {
        run.drain(..run.len() / 3);
    }
    runs.runs.push(run);
    Ok(is_last || is_full)
}

/// Fills the databases for leveled compaction: each flushed run goes to a level of its own.
fn fill_leveled(worker: &mut Worker<'_>, order: FillOrder) -> Outcome {
    let flags = worker.flags();
    let last_level = last_level(flags.num_levels)?;
    let divisor = whole_multiplier(flags.max_bytes_for_level_multiplier);
    let all = fill_phases(worker, order, Some(last_level), |writes| writes / divisor)?;
    if all.iter().any(|runs| runs.runs.len() < last_level) {
        return Err(too_small(flags.num_levels));
    }
    for (database, runs) in worker.databases().all().iter().zip(&all) {
        for (number, run) in runs.runs.iter().enumerate() {
            println!("{}", run.len());
            compact_files(database.default_family(), run, last_level - number)?;
        }
    }
    Ok(())
}

/// Converts a level size multiplier to an integer of at least 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the factor between phases is whole"
)]
fn whole_multiplier(multiplier: f64) -> u64 {
    (multiplier as u64).max(1)
}

/// Fills the databases for universal compaction: each flushed run goes to a level of its own.
///
/// Runs for which no level is left share level 0.
fn fill_universal(worker: &mut Worker<'_>, order: FillOrder) -> Outcome {
    let flags = worker.flags();
    let last_level = last_level(flags.num_levels)?;
    let ratio = match u64::try_from(flags.universal_size_ratio) {
        Ok(ratio) if ratio > 0 => ratio,
        _ => 1,
    };
    let all = fill_phases(worker, order, None, |writes| writes * 100 / (ratio + 200))?;
    if all.iter().any(|runs| runs.runs.len() < last_level + 1) {
        return Err(too_small(flags.num_levels));
    }
    for (database, runs) in worker.databases().all().iter().zip(&all) {
        for (number, run) in runs.runs.iter().enumerate() {
            let level = last_level.saturating_sub(number);
            compact_files(database.default_family(), run, level)?;
        }
    }
    Ok(())
}

/// Fills and flushes until the tables reach the FIFO size limit, then compacts them.
fn fill_fifo(worker: &mut Worker<'_>, first: FillOrder) -> Outcome {
    let flags = worker.flags();
    if flags.num_levels != 1 {
        return Err(Failure::new("num_levels should be 1 for FIFO compaction"));
    }
    if worker.databases().are_several() {
        return Err(Failure::new("Doesn't support multiDB"));
    }
    let database = &worker.databases().all()[0];
    let family = database.default_family();
    let wanted = flags
        .fifo_compaction_max_table_files_size_mb
        .saturating_mul(1 << 20);
    let mut order = first;
    loop {
        fill(worker, order, worker.plan().writes)?;
        order = FillOrder::UniqueRandom;
        family
            .flush()
            .map_err(|error| Failure::of("flush error", &error))?;
        let tree = database.tree();
        let bytes: u64 = tree.iter().flatten().map(|file| file.bytes).sum();
        if bytes >= wanted {
            break;
        }
    }
    let result = family.compact_range(..);
    result.map_err(|error| Failure::of("compaction error", &error))
}

/// Returns the index of the bottommost level; fails with fewer than two levels.
fn last_level(level_count: i32) -> Outcome<usize> {
    match usize::try_from(level_count) {
        Ok(count) if count > 1 => Ok(count - 1),
        _ => Err(Failure::new("num_levels should be larger than 1")),
    }
}

/// Creates the failure for a fill with too few keys to fill all levels.
fn too_small(level_count: i32) -> Failure {
    eprintln!("n is too small to fill {level_count} levels");
    Failure {
        message: "DoDeterministicCompact: n too small".to_owned(),
        after_result: true,
    }
}

/// Compacts the files of a sorted run into `level` (`CompactFiles`).
fn compact_files(family: &ColumnFamily, run: &[PathBuf], level: usize) -> Outcome {
    let level = u32::try_from(level).unwrap_or(0);
    // A single file that is to stay on level 0 is already there.
    if level == 0 && run.len() == 1 {
        return Ok(());
    }
    let result = family.compact_files(run, level);
    result.map_err(|error| Failure::of("CompactFiles failed", &error))?;
    Ok(())
}

/// Prints the files and total bytes of each level of a database.
fn print_tree(number: usize, database: &Database) {
    println!("---------------------- DB {number} LSM ---------------------");
    for (level, files) in database.tree().iter().enumerate() {
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        match (level, files.first(), files.last()) {
            (0, ..) => {
                for file in files {
                    println!("Level[0]: {}(size: {} bytes)", file.name, file.bytes);
                }
            }
            (_, Some(first), Some(last)) => println!(
                "Level[{level}]: {} - {}(total size: {bytes} bytes)",
                first.name, last.name
            ),
            _ => {}
        }
    }
}
