//! `top`: figures of a running database at an interval, seen through a secondary of it.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use koeldb::Db;

use super::Outcome;
use super::args::{Global, Top};
use super::database::{Database, open_to_read_beside};
use super::output::Output;
use crate::json::Json;

/// The temporary directory of the secondary, which is removed on drop.
struct Own(PathBuf);

impl Drop for Own {
    fn drop(&mut self) {
        // Leftovers are in the system's temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The statistics of one output line of `top`, read from the secondary.
struct Figures {
    sequence: u64,
    keys: u64,
    memtable_bytes: u64,
    table_bytes: u64,
    tables: usize,
    level0: usize,
    pending_bytes: u64,
}

impl Figures {
    /// Reads the statistics of the selected column family from properties and live files.
    fn of(database: &Database) -> Outcome<Self> {
        let family = &database.family;
        let number = |name| -> Outcome<u64> { Ok(family.property_int_value(name)?.unwrap_or(0)) };
        let files = database.db.live_files();
        let own = || {
            files
                .iter()
                .filter(|file| file.column_family == family.name())
        };
        Ok(Figures {
            sequence: database.db.latest_sequence_number(),
            keys: number("rocksdb.estimate-num-keys")?,
            memtable_bytes: number("rocksdb.cur-size-all-mem-tables")?,
            table_bytes: number("rocksdb.total-sst-files-size")?,
            tables: own().count(),
            level0: own().filter(|file| file.level == 0).count(),
            pending_bytes: number("rocksdb.estimate-pending-compaction-bytes")?,
        })
    }
}

/// Runs `top`: prints a line of statistics of a running database per interval.
#[expect(
    clippy::disallowed_methods,
    reason = "an interval of the clock on the wall, between lines on a screen"
)]
pub(super) fn run(global: &Global, flags: &Top, out: &mut Output) -> Outcome {
    let name = format!("koeldb-top-{}", std::process::id());
    let own = Own(std::env::temp_dir().join(name));
    let database = open_to_read_beside(global, &own.0)?;
    let interval = Duration::from_secs_f64(flags.interval_seconds.clamp(0.01, 86_400.0));
    let mut before: Option<(Instant, u64)> = None;
    let mut lines = 0;
    loop {
        if lines > 0 {
            thread::sleep(interval);
        }
        catch_up(&database.db)?;
        let (now, figures) = (Instant::now(), Figures::of(&database)?);
        let rate = before.map_or(0.0, |(moment, sequence)| {
            let seconds = now.duration_since(moment).as_secs_f64();
            figures.sequence.saturating_sub(sequence) as f64 / seconds.max(1e-9)
        });
        before = Some((now, figures.sequence));
        print(&figures, rate, lines, out)?;
        out.finish()?;
        lines += 1;
        if flags.count == Some(lines) {
            break;
        }
    }
    database.close()
}

/// Lets the secondary catch up with its primary (`TryCatchUpWithPrimary`).
fn catch_up(db: &Db) -> Outcome {
    db.try_catch_up_with_primary()?;
    Ok(())
}

/// Prints a line of statistics with `rate` writes per second; a heading before every 20th `line`.
fn print(figures: &Figures, rate: f64, line: u64, out: &mut Output) -> Outcome {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    if out.json {
        let mut json = Json::object();
        json.set("sequence", figures.sequence)
            .set("writes_per_second", rate.round())
            .set("keys_estimate", figures.keys)
            .set("memtable_bytes", figures.memtable_bytes)
            .set("tables", count(figures.tables))
            .set("level0_tables", count(figures.level0))
            .set("table_bytes", figures.table_bytes)
            .set("pending_compaction_bytes", figures.pending_bytes);
        return out.object(json);
    }
    if line.is_multiple_of(20) {
        out.line(&format!(
            "{:>14} {:>10} {:>14} {:>10} {:>7} {:>4} {:>10} {:>10}",
            "sequence", "writes/s", "keys (est.)", "memtables", "tables", "L0", "MiB", "pending"
        ))?;
    }
    let mib = |bytes: u64| bytes >> 20;
    out.line(&format!(
        "{:>14} {:>10.0} {:>14} {:>10} {:>7} {:>4} {:>10} {:>10}",
        figures.sequence,
        rate,
        figures.keys,
        mib(figures.memtable_bytes),
        figures.tables,
        figures.level0,
        mib(figures.table_bytes),
        mib(figures.pending_bytes)
    ))
}
