//! Exported column families, and their import.

use std::ffi::CStr;

use koeldb::{ColumnFamily, Db, ExportedColumnFamily, ImportColumnFamilyOptions};

use crate::boundary::Failure;
use crate::copies::fields::plain_options;
use crate::copies::live_files::{LiveFile, LiveFiles};
use crate::memory::name;
use crate::settings::options::Options;

/// The description of an exported column family (`rocksdb_export_import_files_metadata_t`).
#[derive(Default)]
pub(crate) struct ExportMetadata {
    comparator: String,
    files: LiveFiles,
}

plain_options! {
    /// Options of an import (`rocksdb_import_column_family_options_t`).
    ImportOptions {
        move_files: bool = false, set_move_files;
    }
}

impl ExportMetadata {
    /// Returns the description of an export.
    pub(crate) fn of(export: ExportedColumnFamily) -> Self {
        let files = export.files.into_iter();
        ExportMetadata {
            comparator: export.comparator,
            files: LiveFiles(files.map(LiveFile::of_export).collect()),
        }
    }

    pub(crate) fn comparator_name(&self) -> &str {
        &self.comparator
    }

    pub(crate) fn set_comparator_name(&mut self, name: &CStr) {
        self.comparator = name.to_string_lossy().into_owned();
    }

    /// Returns a copy of the list of tables.
    pub(crate) fn files(&self) -> LiveFiles {
        self.files.clone()
    }

    pub(crate) fn set_files(&mut self, files: LiveFiles) {
        self.files = files;
    }
}

/// Creates a column family with the tables of an export.
pub(crate) fn import(
    db: &Db,
    options: &Options,
    family: &CStr,
    how: &ImportOptions,
    metadata: &ExportMetadata,
) -> Result<ColumnFamily, Failure> {
    let files: Option<Vec<_>> = metadata.files.0.iter().map(LiveFile::to_export).collect();
    let files = files.ok_or_else(|| Failure::argument("a file has a level below 0"))?;
    let export = ExportedColumnFamily::new(metadata.comparator.as_str(), files);
    let options = options.checked()?.cf_options();
    let mut engine_how = ImportColumnFamilyOptions::new();
    engine_how.set_move_files(how.move_files());
    let created =
        db.create_column_family_with_import(name(family)?, options, &[export], &engine_how)?;
    Ok(created)
}
