//! The text of `rocksdb.stats`, in RocksDB's format (`db/internal_stats.cc`).
//!
//! RocksDB's `tools/benchmark.sh` parses its rows, columns and words. Interval figures cover the
//! time since the previous text.

use std::fmt::Write as _;
use std::time::Duration;

use koeldb_lsm::Version;
use koeldb_lsm::pick::leveled;

use super::maps::{database_stall_map, stall_map, stall_text};
use crate::batch;
use crate::commit::protocol::CommitPipeline;
use crate::options::pick_settings;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::context::Context;
use crate::state::counters::{ColumnFamilyTotals, JobTotals, SinceLast, StallTotals};

const MIB: f64 = (1_u64 << 20) as f64;
const GIB: f64 = (1_u64 << 30) as f64;

const COLUMNS: &str = "    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) WPreComp(GB) Wnew(GB) Moved(GB) W-Amp \
                       Rd(MB/s) Wr(MB/s) Comp(sec) CompMergeCPU(sec) Comp(cnt) Avg(sec) KeyIn KeyDrop Rblob(GB) Wblob(GB)\n";

/// Converts bytes to GiB.
fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB
}

/// Returns the throughput in MiB a second.
fn mib_a_second(bytes: u64, time: Duration) -> f64 {
    // Avoids a division by zero for an empty interval.
    bytes as f64 / MIB / (time.as_secs_f64() + 1e-6)
}

/// Returns `part` divided by `whole`; 0 if `whole` is 0.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}

/// Formats a count briefly, with the suffix K, M or G from 10000 on.
fn count(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..10_000_000 => format!("{}K", number / 1_000),
        10_000_000..10_000_000_000 => format!("{}M", number / 1_000_000),
        _ => format!("{}G", number / 1_000_000_000),
    }
}

/// Formats a size in KB, MB, GB or TB.
pub(crate) fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    let (unit, name) = match bytes {
        bytes if bytes >= GIB * 1024.0 => (GIB * 1024.0, "TB"),
        bytes if bytes >= GIB => (GIB, "GB"),
        bytes if bytes >= MIB => (MIB, "MB"),
        _ => (1024.0, "KB"),
    };
    format!("{:.2} {name}", bytes / unit)
}

/// Formats a time as hours, minutes and seconds.
fn clock_time(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    let seconds = time.as_secs_f64() - (minutes * 60) as f64;
    format!("{:02}:{:02}:{seconds:.3}", minutes / 60, minutes % 60)
}

/// The names of the columns in maps.
pub(crate) const LEVEL_COLUMNS: [&str; 22] = [
    "NumFiles",
    "CompactedFiles",
    "SizeBytes",
    "Score",
    "ReadGB",
    "RnGB",
    "Rnp1GB",
    "WriteGB",
    "WPreCompGB",
    "WnewGB",
    "MovedGB",
    "WriteAmp",
    "ReadMBps",
    "WriteMBps",
    "CompSec",
    "CompMergeCPU",
    "CompCount",
    "AvgSec",
    "KeyIn",
    "KeyDrop",
    "RblobGB",
    "WblobGB",
];

/// One row of the compaction statistics table (`** Compaction Stats **`): a level or the sum.
struct Row {
    name: String,
    files: usize,
    busy: usize,
    bytes: u64,
    score: f64,
    write_amplification: f64,
    jobs: JobTotals,
}

impl Row {
    /// Returns the row's numbers in the order of [`LEVEL_COLUMNS`].
    fn figures(&self) -> [f64; 22] {
        let jobs = &self.jobs;
        let seconds = jobs.elapsed.as_secs_f64();
        [
            self.files as f64,
            self.busy as f64,
            self.bytes as f64,
            self.score,
            gib(jobs.read()),
            gib(jobs.read_above),
            gib(jobs.read_there),
            gib(jobs.written),
            gib(jobs.raw),
            gib(jobs.written) - gib(jobs.read_there),
            gib(jobs.moved),
            self.write_amplification,
            mib_a_second(jobs.read(), jobs.elapsed),
            mib_a_second(jobs.written, jobs.elapsed),
            seconds,
            jobs.cpu.as_secs_f64(),
            jobs.count as f64,
            seconds / jobs.count.max(1) as f64,
            jobs.keys_in as f64,
            jobs.keys_dropped as f64,
            0.0,
            0.0,
        ]
    }

    /// Appends this row, formatted, to the compaction statistics table in `text`.
    fn write(&self, text: &mut String) {
        let jobs = &self.jobs;
        let seconds = jobs.elapsed.as_secs_f64();
        let _ = writeln!(
            text,
            "{:>4} {:>6}/{:<3} {:>10} {:>5.1} {:>8.1} {:>7.1} {:>8.1} {:>9.1} {:>9.1} {:>8.1} {:>9.1} {:>5.1} {:>8.1} \
             {:>8.1} {:>9.2} {:>17.2} {:>9} {:>8.3} {:>7} {:>6} {:>9.1} {:>9.1}",
            self.name,
            self.files,
            self.busy,
            size(self.bytes),
            self.score,
            gib(jobs.read()),
            gib(jobs.read_above),
            gib(jobs.read_there),
            gib(jobs.written),
            gib(jobs.raw),
            gib(jobs.written) - gib(jobs.read_there),
            gib(jobs.moved),
            self.write_amplification,
            mib_a_second(jobs.read(), jobs.elapsed),
            mib_a_second(jobs.written, jobs.elapsed),
            seconds,
            jobs.cpu.as_secs_f64(),
            jobs.count,
            if jobs.count == 0 {
                0.0
            } else {
                seconds / jobs.count as f64
            },
            count(jobs.keys_in),
            count(jobs.keys_dropped),
            0.0,
            0.0,
        );
    }
}

/// Appends the title and the column names of a compaction statistics table.
fn header(text: &mut String, family: &str, first_column: &str) {
    let line = format!("{first_column}{COLUMNS}");
    let _ = writeln!(text, "\n** Compaction Stats [{family}] **");
    text.push_str(&line);
    let _ = writeln!(text, "{}", "-".repeat(line.len()));
}

/// Returns the number of files of a level that are in a running compaction.
fn busy(version: &Version, level: usize) -> usize {
    let files = &version.levels[level].files;
    files
        .iter()
        .filter(|file| file.is_being_compacted())
        .count()
}

/// Returns the compaction statistics rows of the levels in use, and the row of their sum.
fn level_rows(family: &ColumnFamilyData, now: &ColumnFamilyTotals) -> Vec<Row> {
    let version = family.version();
    let settings = pick_settings(&family.options());
    let targets = leveled::level_targets(&version, &settings);
    let scores = leveled::scores(&version, &settings, &targets);
    let flushed = now.flushes.written;
    let mut rows = Vec::new();
    for (number, level) in version.levels.iter().enumerate() {
        let jobs = now.levels.get(number).copied().unwrap_or_default();
        if level.files.is_empty() && jobs.count == 0 {
            continue;
        }
        let source = if number == 0 {
            flushed
        } else {
            jobs.read_above
        };
        rows.push(Row {
            name: format!("L{number}"),
            files: level.files.len(),
            busy: busy(&version, number),
            bytes: level.bytes(),
            score: scores.get(number).copied().unwrap_or(0.0),
            write_amplification: ratio(jobs.written, source),
            jobs,
        });
    }
    let sum = now.all_jobs();
    rows.push(Row {
        name: "Sum".to_owned(),
        files: rows.iter().map(|row| row.files).sum(),
        busy: rows.iter().map(|row| row.busy).sum(),
        bytes: version.bytes(),
        score: 0.0,
        write_amplification: ratio(sum.written, flushed),
        jobs: sum,
    });
    rows
}

/// Returns the names and numbers of the compaction statistics rows: levels in use, and their sum.
pub(crate) fn level_figures(
    family: &ColumnFamilyData,
    now: &ColumnFamilyTotals,
) -> Vec<(String, [f64; 22])> {
    let rows = level_rows(family, now);
    rows.into_iter()
        .map(|row| (row.name.clone(), row.figures()))
        .collect()
}

/// Appends the compaction statistics table of a column family: a row for each level, and sums.
fn levels(text: &mut String, family: &ColumnFamilyData, since: &SinceLast<ColumnFamilyTotals>) {
    let (now, then) = (&since.now, &since.then);
    header(text, &family.name, "Level");
    for row in level_rows(family, now) {
        row.write(text);
    }
    let interval = now.all_jobs() - then.all_jobs();
    Row {
        name: "Int".to_owned(),
        files: 0,
        busy: 0,
        bytes: 0,
        score: 0.0,
        write_amplification: ratio(
            interval.written,
            now.flushes.written - then.flushes.written + 1,
        ),
        jobs: interval,
    }
    .write(text);
}

/// Appends the compaction statistics table by priority: compactions in `Low`, flushes in `High`.
fn priorities(text: &mut String, family: &str, totals: &ColumnFamilyTotals) {
    header(text, family, "Priority");
    for (name, jobs) in [("Low", totals.compactions), ("High", totals.flushes)] {
        if jobs.count > 0 {
            let row = Row {
                name: name.to_owned(),
                files: 0,
                busy: 0,
                bytes: 0,
                score: 0.0,
                write_amplification: 0.0,
                jobs,
            };
            row.write(text);
        }
    }
}

/// Appends the line of the blob file statistics: count, size, garbage, space amplification.
fn blob_files(text: &mut String, version: &Version) {
    let files = version.blob_files.values();
    let bytes: u64 = files.clone().map(|file| file.bytes).sum();
    let garbage: u64 = files.map(|file| file.garbage_bytes).sum();
    let _ = writeln!(
        text,
        "\nBlob file count: {}, total size: {:.1} GB, garbage size: {:.1} GB, space amp: {:.1}\n",
        version.blob_files.len(),
        gib(bytes),
        gib(garbage),
        ratio(bytes, bytes.saturating_sub(garbage)),
    );
}

/// Appends the line `Uptime(secs)`: seconds since the open and since the last report.
fn uptime<T>(text: &mut String, since: &SinceLast<T>) {
    let _ = writeln!(
        text,
        "Uptime(secs): {:.1} total, {:.1} interval",
        since.uptime.as_secs_f64(),
        since.interval.as_secs_f64()
    );
}

/// Appends a line of compaction totals, headed `name`: bytes written and read, with rates.
fn compactions(text: &mut String, name: &str, jobs: &JobTotals, time: Duration) {
    let _ = writeln!(
        text,
        "{name} compaction: {:.2} GB write, {:.2} MB/s write, {:.2} GB read, {:.2} MB/s read, {:.1} seconds",
        gib(jobs.written),
        mib_a_second(jobs.written, time),
        gib(jobs.read()),
        mib_a_second(jobs.read(), time),
        jobs.elapsed.as_secs_f64()
    );
}

/// Appends the write stall counts by cause, and the total since the last report.
fn stall_counts(text: &mut String, since: &SinceLast<ColumnFamilyTotals>) {
    let all = |totals: &ColumnFamilyTotals| {
        let mut sum = StallTotals::default();
        for part in [
            totals.memtable_limit,
            totals.level0_limit,
            totals.pending_bytes,
        ] {
            sum.delays += part.delays;
            sum.stops += part.stops;
        }
        sum
    };
    let (sum, before) = (all(&since.now), all(&since.then));
    text.push_str(&stall_text(&stall_map(&since.now)));
    if sum.delays + sum.stops > 0 {
        let since_last = sum.delays + sum.stops - before.delays - before.stops;
        let _ = writeln!(text, "interval: {since_last} total count");
    }
}

/// Returns the statistics text of one column family (`rocksdb.cfstats`).
pub(crate) fn family_stats(context: &Context, family: &ColumnFamilyData) -> String {
    let since = family.counters.report(context.opened, context.clock.now());
    let mut text = String::new();
    levels(&mut text, family, &since);
    priorities(&mut text, &family.name, &since.now);
    blob_files(&mut text, &family.version());
    uptime(&mut text, &since);
    let (now, then) = (&since.now, &since.then);
    let flushed = now.flushes.written;
    let _ = writeln!(
        text,
        "Flush(GB): cumulative {:.3}, interval {:.3}",
        gib(flushed),
        gib(flushed - then.flushes.written)
    );
    let (added, before) = (&now.ingested, &then.ingested);
    let _ = writeln!(
        text,
        "AddFile(GB): cumulative {:.3}, interval {:.3}",
        gib(added.bytes),
        gib(added.bytes - before.bytes)
    );
    for (what, total, before) in [
        ("Total Files", added.files, before.files),
        ("L0 Files", added.level0_files, before.level0_files),
        ("Keys", added.keys, before.keys),
    ] {
        let _ = writeln!(
            text,
            "AddFile({what}): cumulative {total}, interval {}",
            total - before
        );
    }
    let sum = now.all_jobs();
    compactions(&mut text, "Cumulative", &sum, since.uptime);
    let interval = sum - then.all_jobs();
    compactions(&mut text, "Interval", &interval, since.interval);
    let pending = family.read(|state| state.pending_compaction_bytes);
    let _ = writeln!(text, "Estimated pending compaction bytes: {pending}");
    stall_counts(&mut text, &since);
    text
}

/// Returns the statistics text of the database (`rocksdb.dbstats`).
pub(crate) fn database_stats(commit: &CommitPipeline) -> String {
    let keys = commit
        .visibility
        .seqno()
        .saturating_sub(commit.context.seqno_at_open);
    let since = commit.counters.report(
        keys,
        batch::HEADER_BYTES as u64,
        commit.context.opened,
        commit.context.clock.now(),
    );
    let mut text = String::from("\n** DB Stats **\n");
    uptime(&mut text, &since);
    let parts = [
        ("Cumulative", since.now, since.uptime),
        ("Interval", since.now - since.then, since.interval),
    ];
    for (name, totals, time) in parts {
        let is_interval = name == "Interval";
        let ingest = if is_interval {
            format!("{:.2} MB", totals.bytes as f64 / MIB)
        } else {
            format!("{:.2} GB", gib(totals.bytes))
        };
        let _ = writeln!(
            text,
            "{name} writes: {} writes, {} keys, {} commit groups, {:.1} writes per commit group, ingest: {ingest}, \
             {:.2} MB/s",
            count(totals.writes),
            count(totals.keys),
            count(totals.groups),
            ratio(totals.writes, totals.groups),
            mib_a_second(totals.bytes, time),
        );
        let _ = writeln!(
            text,
            "{name} WAL: {} writes, {} syncs, {:.2} writes per sync, written: {:.2} GB, {:.2} MB/s",
            count(totals.logged_writes),
            count(totals.log_syncs),
            ratio(totals.logged_writes, totals.log_syncs.max(1)),
            gib(totals.logged_bytes),
            mib_a_second(totals.logged_bytes, time),
        );
        let _ = writeln!(
            text,
            "{name} stall: {} H:M:S, {:.1} percent",
            clock_time(totals.stalled),
            100.0 * totals.stalled.as_secs_f64() / (time.as_secs_f64() + 1e-6),
        );
    }
    text.push_str(&stall_text(&database_stall_map(commit)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(count(9_999), "9999");
        assert_eq!(count(10_000), "10K");
        assert_eq!(count(9_999_999), "9999K");
        assert_eq!(count(12_345_678_901), "12G");
        assert_eq!(size(0), "0.00 KB");
        assert_eq!(size(1536), "1.50 KB");
        assert_eq!(size(5 << 30), "5.00 GB");
        assert_eq!(clock_time(Duration::from_millis(3_723_045)), "01:02:3.045");
    }

    #[test]
    fn a_row_has_the_columns_of_its_header() {
        let mut text = String::new();
        header(&mut text, "default", "Level");
        Row {
            name: "Sum".to_owned(),
            files: 3,
            busy: 1,
            bytes: 1 << 20,
            score: 0.0,
            write_amplification: 1.0,
            jobs: JobTotals::default(),
        }
        .write(&mut text);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        // The unit of the size is a separate word.
        assert_eq!(lines[4].len(), lines[2].len() + 1);
        assert_eq!(lines[4][..4], ["Sum", "3/1", "1.00", "MB"]);
        assert_eq!(lines[3][0].len(), text.lines().nth(2).unwrap().len() + 1);
    }
}
