//! Prints a MANIFEST: its edits, and the resulting tree.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{KeyOrder, SeqNo};
use koeldb_fs::FileSystem;
use koeldb_fs::posix::PosixFileSystem;
use koeldb_lsm::current::read_current;
use koeldb_lsm::manifest::ManifestReader;
use koeldb_lsm::text::Quoted;
use koeldb_lsm::version::builder::{MissingEpochs, VersionBuilder};
use koeldb_lsm::version::edit::ColumnFamilyChange;
use koeldb_lsm::version::{FileMeta, Version, VersionEdit};

use super::args::Global;
use super::database::directory;
use super::output::Output;
use super::{Failure, Outcome};
use crate::json::Json;

/// An upper bound of the number of levels of any column family.
const LEVELS_MAX: usize = 64;

/// A column family as the MANIFEST describes it: name, comparator, WAL number and version edits.
#[derive(Debug)]
pub(super) struct ColumnFamilyState {
    pub(super) name: String,
    pub(super) comparator: String,
    /// Whether tables have the timestamps of keys.
    pub(super) persists_timestamps: bool,
    pub(super) log_number: FileNumber,
    edits: Vec<VersionEdit>,
}

impl ColumnFamilyState {
    fn new(name: &str) -> Self {
        ColumnFamilyState {
            name: name.to_owned(),
            comparator: "leveldb.BytewiseComparator".to_owned(),
            persists_timestamps: true,
            log_number: 0,
            edits: Vec::new(),
        }
    }

    /// Returns the key order of the comparator; an error if the comparator is not built in.
    pub(super) fn order(&self) -> Outcome<KeyOrder> {
        let order = KeyOrder::from_name(&self.comparator);
        order.ok_or_else(|| {
            Failure::Message(format!("comparator {} is not built in", self.comparator))
        })
    }

    /// Builds the version (the files by level) from all version edits.
    pub(super) fn version(&self) -> Outcome<Version> {
        // Tables are only listed: bytewise order suffices if the comparator is unknown.
        let order = self.order().unwrap_or(KeyOrder::Bytewise);
        let has_timestamps = order.has_timestamps();
        let mut builder = VersionBuilder::new(Arc::new(Version::empty(order, LEVELS_MAX)));
        for edit in &self.edits {
            let mut edit = edit.clone();
            if has_timestamps {
                edit.date_bounds(false);
            }
            builder.apply(&edit)?;
        }
        Ok(builder.finish(MissingEpochs::Assign)?)
    }
}

/// The state of a database after all version edits of a MANIFEST.
#[derive(Debug, Default)]
pub(super) struct ManifestState {
    pub(super) families: BTreeMap<u32, ColumnFamilyState>,
    next_file_number: FileNumber,
    last_seqno: SeqNo,
    prev_log_number: FileNumber,
    max_column_family: u32,
    pub(super) min_log_number_to_keep: FileNumber,
}

impl ManifestState {
    /// Applies a version edit: counters, column family changes and file changes.
    fn apply(&mut self, edit: &VersionEdit) {
        let take = |place: &mut u64, value: Option<u64>| *place = value.unwrap_or(*place);
        take(&mut self.next_file_number, edit.next_file_number);
        take(&mut self.last_seqno, edit.last_seqno);
        take(&mut self.prev_log_number, edit.prev_log_number);
        take(
            &mut self.min_log_number_to_keep,
            edit.min_log_number_to_keep,
        );
        self.max_column_family = edit.max_column_family.unwrap_or(self.max_column_family);
        match &edit.family_change {
            Some(ColumnFamilyChange::Add(name)) => {
                self.families
                    .insert(edit.family, ColumnFamilyState::new(name));
            }
            Some(ColumnFamilyChange::Drop) => {
                self.families.remove(&edit.family);
                return;
            }
            None => {}
        }
        if edit.family == 0 {
            self.families
                .entry(0)
                .or_insert_with(|| ColumnFamilyState::new("default"));
        }
        if let Some(family) = self.families.get_mut(&edit.family) {
            take(&mut family.log_number, edit.log_number);
            if let Some(comparator) = &edit.comparator {
                family.comparator.clone_from(comparator);
                family.persists_timestamps = edit.persist_timestamps != Some(false);
            }
            if edit.changes_files() {
                family.edits.push(edit.clone());
            }
        }
    }
}

/// Reads the MANIFEST that CURRENT names, and returns the state after all version edits.
pub(super) fn current_state(directory: &Path) -> Outcome<ManifestState> {
    state_in(directory, read_current(&PosixFileSystem::new(), directory)?)
}

/// Reads the only MANIFEST of a directory, ignoring CURRENT; `None` unless there is just one.
///
/// With several, `None`: the newest may be of a change that was interrupted.
pub(super) fn only_state(directory: &Path) -> Outcome<Option<ManifestState>> {
    let entries = PosixFileSystem::new().list(directory)?.into_iter();
    let mut numbers = entries.filter_map(|entry| match file_name::parse(&entry.name) {
        Some(FileKind::Manifest(number)) => Some(number),
        _ => None,
    });
    match (numbers.next(), numbers.next()) {
        (Some(number), None) => state_in(directory, number).map(Some),
        _ => Ok(None),
    }
}

/// Reads the MANIFEST with this number, and returns the state after all version edits.
fn state_in(directory: &Path, number: FileNumber) -> Outcome<ManifestState> {
    let mut state = ManifestState::default();
    visit_edits(&file_name::manifest(directory, number), |edit| {
        state.apply(edit);
        Ok(())
    })?;
    Ok(state)
}

/// Passes each version edit of a MANIFEST to `visit`, in file order.
fn visit_edits(path: &Path, mut visit: impl FnMut(&VersionEdit) -> Outcome) -> Outcome {
    let mut reader = ManifestReader::open_file(&PosixFileSystem::new(), path)?;
    while let Some(edits) = reader.next_edits()? {
        edits.iter().try_for_each(&mut visit)?;
    }
    Ok(())
}

/// Returns the MANIFEST to dump: `path`, or the one that CURRENT names.
pub(super) fn locate(global: &Global, path: Option<&Path>) -> Outcome<PathBuf> {
    let Some(path) = path else {
        let directory = directory(global)?;
        let number = read_current(&PosixFileSystem::new(), &directory)?;
        return Ok(file_name::manifest(&directory, number));
    };
    let name = path.file_name().and_then(|name| name.to_str());
    match name.and_then(file_name::parse) {
        Some(FileKind::Manifest(_)) => Ok(path.to_owned()),
        _ => Err(Failure::Message(format!(
            "{}: a MANIFEST is called MANIFEST-NUMBER",
            path.display()
        ))),
    }
}

/// Prints the edits, if verbose or JSON, and the resulting state (`manifest_dump`).
pub(super) fn dump(
    global: &Global,
    path: Option<&Path>,
    verbose: bool,
    out: &mut Output,
) -> Outcome {
    let manifest = locate(global, path)?;
    if verbose && !out.json {
        out.line(&format!("Processing Manifest file {}", manifest.display()))?;
    }
    let mut state = ManifestState::default();
    let mut edit_number = 0;
    visit_edits(&manifest, |edit| {
        state.apply(edit);
        if out.json {
            out.object(edit_json(edit, edit_number, out.key_hex))?;
        } else if verbose {
            let text = if out.key_hex {
                format!("{edit:#}")
            } else {
                edit.to_string()
            };
            out.line(&text)?;
        }
        edit_number += 1;
        Ok(())
    })?;
    if out.json {
        return out.object(state_json(&state));
    }
    print_state(&state, out)
}

/// Prints the files of each column family by level, and the counters of the MANIFEST.
fn print_state(state: &ManifestState, out: &mut Output) -> Outcome {
    for (id, family) in &state.families {
        let name = &family.name;
        let rule = "-".repeat(14);
        out.line(&format!(
            "-{rule} Column family \"{name}\"  (ID {id}) {rule}"
        ))?;
        out.line(&format!("log number: {}", family.log_number))?;
        out.line(&format!("comparator: {}", family.comparator))?;
        let version = family.version()?;
        let levels = version.deepest_level().max(6) + 1;
        for level in 0..levels {
            out.line(&format!("--- level {level} --- version# 1 ---"))?;
            for (_, file) in version.files().filter(|(l, _)| *l == level) {
                out.line(&format!(" {}", file_text(file, out.key_hex)))?;
            }
        }
        if !version.blob_files.is_empty() {
            out.line("--- blob files --- version# 1 ---")?;
            for number in version.blob_files.keys() {
                out.line(&format!(" {number}"))?;
            }
        }
    }
    out.line(&format!(
        "next_file_number {} last_sequence {}  prev_log_number {} max_column_family {} min_log_number_to_keep {}",
        state.next_file_number,
        state.last_seqno,
        state.prev_log_number,
        state.max_column_family,
        state.min_log_number_to_keep
    ))
}

/// Formats a table file: number, bytes, sequence number range and internal key range.
fn file_text(file: &FileMeta, in_hex: bool) -> String {
    format!(
        "{}:{}[{} .. {}][{} .. {}]",
        file.number,
        file.bytes,
        file.smallest_seqno,
        file.largest_seqno,
        key_text(&file.smallest, in_hex),
        key_text(&file.largest, in_hex)
    )
}

/// Formats `'KEY' seq:N, type:T`; unprintable keys, and all with `in_hex`, are hexadecimal.
fn key_text(internal: &[u8], in_hex: bool) -> String {
    let key = Quoted(internal);
    if in_hex {
        format!("{key:#}")
    } else {
        key.to_string()
    }
}

/// Returns a version edit as JSON, with RocksDB's member names.
fn edit_json(edit: &VersionEdit, number: u64, in_hex: bool) -> Json {
    let mut json = Json::object();
    json.set("EditNumber", number);
    if let Some(id) = &edit.db_id {
        json.set("DB ID", String::from_utf8_lossy(id).as_ref());
    }
    if let Some(comparator) = &edit.comparator {
        json.set("Comparator", comparator);
    }
    let numbers = [
        ("LogNumber", edit.log_number),
        ("PrevLogNumber", edit.prev_log_number),
        ("NextFileNumber", edit.next_file_number),
        ("MaxColumnFamily", edit.max_column_family.map(u64::from)),
        ("MinLogNumberToKeep", edit.min_log_number_to_keep),
        ("LastSeq", edit.last_seqno),
        ("WalDeletion", edit.wal_deletion),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            json.set(name, number);
        }
    }
    let level_number = |level: usize| u64::try_from(level).unwrap_or(u64::MAX);
    if !edit.deleted_files.is_empty() {
        let mut files = Json::array();
        for (level, number) in &edit.deleted_files {
            let mut file = Json::object();
            file.set("Level", level_number(*level))
                .set("FileNumber", *number);
            files.push(file);
        }
        json.set("DeletedFiles", files);
    }
    if !edit.added_files.is_empty() {
        let mut files = Json::array();
        for (level, file) in &edit.added_files {
            files.push(file_json(level_number(*level), file, in_hex));
        }
        json.set("AddedFiles", files);
    }
    json.set("ColumnFamily", edit.family);
    match &edit.family_change {
        Some(ColumnFamilyChange::Add(name)) => json.set("ColumnFamilyAdd", name),
        Some(ColumnFamilyChange::Drop) => json.set("ColumnFamilyDrop", true),
        None => &mut json,
    };
    json
}

/// Returns an added table file as JSON, with RocksDB's member names.
fn file_json(level: u64, file: &FileMeta, in_hex: bool) -> Json {
    let mut json = Json::object();
    json.set("Level", level)
        .set("FileNumber", file.number)
        .set("FileSize", file.bytes)
        .set("SmallestIKey", &key_text(&file.smallest, in_hex))
        .set("LargestIKey", &key_text(&file.largest, in_hex))
        .set("SmallestSeqno", file.smallest_seqno)
        .set("LargestSeqno", file.largest_seqno)
        .set("OldestAncesterTime", file.oldest_ancestor_time)
        .set("FileCreationTime", file.creation_time)
        .set("EpochNumber", file.epoch)
        .set("TailSize", file.tail_bytes);
    if file.is_recorded_undated() {
        json.set("UserDefinedTimestampsPersisted", false);
    }
    json
}

/// Returns the counters and the column families after all edits as JSON.
fn state_json(state: &ManifestState) -> Json {
    let mut families = Json::array();
    for (id, family) in &state.families {
        let mut json = Json::object();
        json.set("ID", *id)
            .set("Name", &family.name)
            .set("Comparator", &family.comparator)
            .set("LogNumber", family.log_number);
        families.push(json);
    }
    let mut json = Json::object();
    json.set("NextFileNumber", state.next_file_number)
        .set("LastSeq", state.last_seqno)
        .set("MaxColumnFamily", state.max_column_family)
        .set("MinLogNumberToKeep", state.min_log_number_to_keep)
        .set("ColumnFamilies", families);
    json
}
