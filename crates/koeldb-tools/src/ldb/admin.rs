//! Commands on column families, compactions, properties and consistency.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::HumanBytes;
use koeldb::listener::CompactionJobInfo;
use koeldb::{BottommostLevelCompaction, CompactRangeOptions, Db, Event, Options};
use koeldb_base::file_name;
use koeldb_fs::FileSystem;
use koeldb_fs::posix::PosixFileSystem;

use super::args::{Global, KeyRange};
use super::data::bounds;
use super::database::{Settings, directory, open_to_read, open_to_write, open_to_write_with};
use super::output::Output;
use super::{Failure, Outcome};
use crate::json::{Json, JsonValue};
use crate::progress;
use crate::text::hex;

/// Runs `list_column_families`: prints the names of the column families.
pub(super) fn list_families(global: &Global, out: &mut Output) -> Outcome {
    let path = directory(global)?;
    let names = Db::list_cf(&Options::new(), &path)?;
    if out.json {
        let mut list = Json::array();
        for name in &names {
            list.push(name);
        }
        let mut json = Json::object();
        json.set("column_families", list);
        return out.object(json);
    }
    out.line(&format!("Column families in {}: ", path.display()))?;
    out.line(&format!("{{{}}}", names.join(", ")))
}

pub(super) fn create_family(global: &Global, name: &str, out: &mut Output) -> Outcome {
    let database = open_to_write(global)?;
    let options = database.db.options();
    database.db.create_cf(name, options.cf_options())?;
    database.close()?;
    out.ok()
}

pub(super) fn drop_family(global: &Global, name: &str, out: &mut Output) -> Outcome {
    let database = open_to_write(global)?;
    let Some(family) = database.db.cf_handle(name) else {
        let message = format!("fail: {name} doesn't exist in db.");
        return Err(Failure::Message(message));
    };
    database.db.drop_cf(&family)?;
    drop(family);
    database.close()?;
    out.ok()
}

/// The number and the bytes of the compactions that ran during a `compact` command.
#[derive(Default)]
struct Compacted {
    compactions: AtomicU64,
    input_bytes: AtomicU64,
    output_bytes: AtomicU64,
}

impl Compacted {
    /// Adds the bytes of a finished compaction.
    fn add(&self, job: &CompactionJobInfo) {
        self.compactions.fetch_add(1, Ordering::Relaxed);
        self.input_bytes
            .fetch_add(job.input_bytes, Ordering::Relaxed);
        self.output_bytes
            .fetch_add(job.output_bytes, Ordering::Relaxed);
    }

    /// Returns the number of compactions, and their input and output bytes.
    fn read(&self) -> (u64, u64, u64) {
        (
            self.compactions.load(Ordering::Relaxed),
            self.input_bytes.load(Ordering::Relaxed),
            self.output_bytes.load(Ordering::Relaxed),
        )
    }
}

pub(super) fn compact(global: &Global, range: &KeyRange, out: &mut Output) -> Outcome {
    let bounds = bounds(range, out)?;
    let spinner = progress::idle_spinner("compact");
    let compacted = Arc::new(Compacted::default());
    let (counted, shown) = (Arc::clone(&compacted), spinner.clone());
    let listener = move |event: &Event<'_>| {
        if let Event::CompactionCompleted(job) = event
            && job.error.is_none()
        {
            counted.add(job);
            let (compactions, _, bytes) = counted.read();
            let written = HumanBytes(bytes);
            shown.set_message(format!("{compactions} compactions, {written} written"));
        }
    };
    let database = open_to_write_with(global, |options| {
        options.add_event_listener(listener);
    })?;
    progress::show(&spinner);
    let mut options = CompactRangeOptions::new();
    options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
    let done = database.family.compact_range_opt(bounds, &options);
    spinner.finish_and_clear();
    done?;
    database.close()?;
    if out.json {
        let (compactions, input_bytes, output_bytes) = compacted.read();
        let mut json = Json::object();
        json.set("ok", true)
            .set("compactions", compactions)
            .set("input_bytes", input_bytes)
            .set("output_bytes", output_bytes);
        return out.object(json);
    }
    Ok(())
}

/// Runs `get_property`: prints a property of the column family.
pub(super) fn property(global: &Global, name: &str, out: &mut Output) -> Outcome {
    let database = open_to_read(global)?;
    if let Some(map) = database.family.property_map(name)?
        && !out.json
    {
        for (key, value) in map {
            out.line(&format!("{name}.{key}: {value}"))?;
        }
        return Ok(());
    }
    let Some(value) = database.family.property_value(name)? else {
        let message = format!("failed to get property: {name}");
        return Err(Failure::Message(message));
    };
    if out.json {
        let mut json = Json::object();
        json.set("name", name).set("value", &value);
        return out.object(json);
    }
    out.line(&format!("{name}: {value}"))
}

/// Checks that every table of the MANIFEST exists with the recorded size.
pub(super) fn check_consistency(global: &Global, out: &mut Output) -> Outcome {
    let path = directory(global)?;
    let database = open_to_read(global)?;
    let fs = PosixFileSystem::new();
    let mut problems = Vec::new();
    for file in database.db.live_files() {
        let file_path = path.join(file.name.trim_start_matches('/'));
        match fs.metadata(&file_path) {
            Ok(metadata) if metadata.len == file.bytes => {}
            Ok(metadata) => problems.push(format!(
                "{} has {} bytes where {} are recorded",
                file_path.display(),
                metadata.len,
                file.bytes
            )),
            Err(error) => problems.push(error.to_string()),
        }
    }
    if problems.is_empty() {
        out.ok()
    } else {
        Err(Failure::Message(problems.join("\n")))
    }
}

/// Prints the live files, by column family and level or sorted by name.
pub(super) fn live_files(global: &Global, by_name: bool, out: &mut Output) -> Outcome {
    let path = directory(global)?;
    let database = open_to_read(global)?;
    let mut files = database.db.live_files();
    let blob_files = database.db.live_blob_files();
    if by_name {
        files.sort_by(|a, b| a.name.cmp(&b.name));
    }
    if out.json {
        for file in &files {
            let mut json = Json::object();
            json.set("column_family", &file.column_family)
                .set("name", &file.name)
                .set("level", u64::try_from(file.level).unwrap_or(u64::MAX))
                .set("bytes", file.bytes)
                .set("smallest_key", JsonValue::Hex(&file.smallest_key))
                .set("largest_key", JsonValue::Hex(&file.largest_key))
                .set("smallest_seqno", file.smallest_seqno)
                .set("largest_seqno", file.largest_seqno);
            out.object(json)?;
        }
        for file in &blob_files {
            let mut json = Json::object();
            json.set("column_family", &file.column_family)
                .set("name", &file.name)
                .set("bytes", file.bytes)
                .set("total_count", file.total_count)
                .set("total_bytes", file.total_bytes)
                .set("garbage_count", file.garbage_count)
                .set("garbage_bytes", file.garbage_bytes);
            out.object(json)?;
        }
        return Ok(());
    }
    if by_name {
        out.line("Live SST and Blob Files:")?;
        for file in &files {
            let (name, level, family) = (&file.name, file.level, &file.column_family);
            out.line(&format!(
                "{}{name} : level {level}, column family '{family}'",
                path.display()
            ))?;
        }
        for file in &blob_files {
            let (name, family) = (&file.name, &file.column_family);
            out.line(&format!(
                "{}{name}, column family '{family}'",
                file.directory.display()
            ))?;
        }
        return out.line("------------------------------");
    }
    for family in database.db.cf_handles() {
        out.line(&format!("===== Column Family: {} =====", family.name()))?;
        out.line("Live SST Files:")?;
        let own = || {
            files
                .iter()
                .filter(|file| file.column_family == family.name())
        };
        let levels = own().map(|file| file.level + 1).max().unwrap_or(0).max(7);
        for level in 0..levels {
            out.line(&format!("---------- level {level} ----------"))?;
            for file in own().filter(|file| file.level == level) {
                out.line(&format!("{}{}", path.display(), file.name))?;
            }
        }
        out.line("Live Blob Files:")?;
        for file in &blob_files {
            if file.column_family == family.name() {
                out.line(&format!("{}{}", file.directory.display(), file.name))?;
            }
        }
        out.line("------------------------------")?;
    }
    Ok(())
}

pub(super) fn repair(global: &Global, verbose: bool, out: &mut Output) -> Outcome {
    let path = directory(global)?;
    let current = file_name::current(&path);
    let settings = Settings::load(global, &path)?;
    let spinner = progress::spinner("repair");
    let repaired = Db::repair(&settings.options, &path);
    spinner.finish_and_clear();
    let report = repaired?;
    if out.json {
        let (mut tables, mut lost) = (Json::array(), Json::array());
        for &number in &report.tables {
            tables.push(number);
        }
        let mut blob_files = Json::array();
        for &number in &report.blob_files {
            blob_files.push(number);
        }
        for (name, reason) in &report.lost {
            let mut file = Json::object();
            file.set("name", name).set("reason", reason);
            lost.push(file);
        }
        let mut json = Json::object();
        json.set("ok", true)
            .set("current", &current.display().to_string())
            .set("entries", report.entries)
            .set("tables", tables)
            .set("blob_files", blob_files)
            .set("lost_values", report.lost_values.len() as u64)
            .set("lost", lost);
        return out.object(json);
    }
    if verbose {
        let (tables, entries) = (report.tables.len(), report.entries);
        out.line(&format!(
            "{tables} tables with {entries} entries are in use"
        ))?;
        if !report.blob_files.is_empty() {
            let files = report.blob_files.len();
            out.line(&format!("{files} blob files are in use"))?;
        }
    }
    for (name, reason) in &report.lost {
        eprintln!("{name} was set aside: {reason}");
    }
    for lost in &report.lost_values {
        eprintln!(
            "the value of key {} of column family '{}' is lost: {:06}.blob does not have it at {}",
            hex(&lost.key),
            lost.column_family,
            lost.blob_file,
            lost.offset
        );
    }
    out.ok()
}
